# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""`ChunkScan`: which values occur in a column chunk, by passes over all levels, dictionary indices or lengths of its
pages, without the interpreter lock.

Nothing here trusts the bytes: whatever a page lacks ends in MalformedFooterError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ..core.decode.snappy import unpack_pair
from ..errors import MalformedFooterError, UnusualPageError

from .page_decode cimport (
    COMPRESSED, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, ENCODING, FIELDS, HEADER_BYTES, KIND, LEVEL_ENCODING, NUM_NULLS,
    NUM_ROWS, NUM_VALUES, PLAIN, PLAIN_DICTIONARY, REPEAT_ENCODING, RLE_DICTIONARY, SIZE, SNAPPY, START, UNCOMPRESSED,
    UNPACKED, PageBody, describe_page_problem, is_dictionary, open_nested_page, require_pages
)
from .runs cimport Runs, describe_problem, next_run, packed_number, start_runs

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pb_rarely(condition) __builtin_expect(!!(condition), 0)
    #else
    #define pb_rarely(condition) (condition)
    #endif
    """
    bint rarely "pb_rarely"(bint condition) noexcept nogil


cdef enum:
    MOST_PAIRED = 4 << 20  # decompressed bytes of each of two pages that are decompressed together
    MOST_BITS = 32         # of a dictionary index


cdef int fail(const char* problem) except -1 nogil:
    with gil:
        raise MalformedFooterError(f"page: {problem.decode()}")


cdef inline int take_run(Runs* runs, Py_ssize_t missing, Py_ssize_t* length) except -1 nogil:
    """Go to the next run, and set how many of its numbers are among the missing ones."""
    cdef int problem = next_run(runs)
    if problem:
        with gil:
            raise MalformedFooterError(f"page: {describe_problem(problem, runs.width)}")
    if runs.cut:  # readers disagree about such runs
        fail("a run is cut off")
    length[0] = min(runs.length, missing)
    return 0


cdef inline uint64_t load(const uint8_t* start) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, start, 8)  # little-endian, as the processor is
    return word


cdef Py_ssize_t count_bits(const uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """Count those of the first `count` bits that are set."""
    cdef Py_ssize_t i = 0, total = 0
    cdef uint64_t x
    while i + 64 <= count:
        x = load(bits + i // 8)
        x -= (x >> 1) & <uint64_t>0x5555555555555555
        x = (x & <uint64_t>0x3333333333333333) + ((x >> 2) & <uint64_t>0x3333333333333333)
        x = (x + (x >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
        total += <Py_ssize_t>((x * <uint64_t>0x0101010101010101) >> 56)
        i += 64
    while i < count:
        total += (bits[i // 8] >> (i % 8)) & 1
        i += 1
    return total


cdef inline uint32_t number_at(const Runs* runs, Py_ssize_t number) noexcept nogil:
    """Return a number of a bit-packed run: as `packed_number`, in one load wherever eight bytes remain."""
    cdef Py_ssize_t bit = number * runs.width
    cdef Py_ssize_t at = runs.start + bit // 8
    if runs.end - at < 8:
        return packed_number(runs, number)
    return <uint32_t>((load(runs.data + at) >> (bit & 7)) & ((<uint64_t>1 << runs.width) - 1))


cdef int count_in_run(const Runs* runs, Py_ssize_t length, uint32_t most, uint32_t level, Py_ssize_t* total) noexcept nogil:
    """Add the number of levels of a run that are `level`; return whether one is above `most`."""
    cdef Py_ssize_t i, equal = 0
    cdef uint32_t value
    cdef bint above = False
    if not runs.packed:
        total[0] += length if runs.value == level else 0
        return runs.value > most
    if runs.width == 1:
        equal = count_bits(runs.data + runs.start, length)
        total[0] += equal if level else length - equal
        return False
    for i in range(length):
        value = number_at(runs, i)
        equal += value == level
        above |= value > most
    total[0] += equal
    return above


cdef Runs open_runs(const uint8_t[::1] data, int width) except *:
    cdef Runs runs
    if not 0 <= width <= 32:
        raise MalformedFooterError(f"page: numbers of {width} bits")
    start_runs(&runs, &data[0] if data.shape[0] else NULL, data.shape[0], width)
    return runs


cdef Runs open_levels(const uint8_t[::1] data, int64_t most) except *:
    cdef int width = 0
    if not 0 < most <= INT32_MAX:
        raise ValueError(f"levels up to {most}")
    while most >> width:
        width += 1
    return open_runs(data, width)


cpdef Py_ssize_t count_present(const uint8_t[::1] definition, int64_t most, Py_ssize_t count) except -1:
    """Count the values of a page that are not null, of a column without lists.

    Parameters
    ----------
    definition : the definition levels, in runs, without their length in front.
    most : the highest level of the column, which its values have; at least 1.
    count : number of levels.

    Raises
    ------
    MalformedFooterError
        There are fewer levels, or one is higher than `most`.
    """
    cdef Runs runs = open_levels(definition, most)
    cdef Py_ssize_t done = 0, length = 0, total = 0
    with nogil:
        while done < count:
            take_run(&runs, count - done, &length)
            if count_in_run(&runs, length, <uint32_t>most, <uint32_t>most, &total):
                fail("a level is higher than the schema has any")
            done += length
    return total


cpdef tuple count_nested(
    const uint8_t[::1] repetition, const uint8_t[::1] definition, const int64_t[::1] least, int64_t most,
    Py_ssize_t count, int64_t before
):
    """Count the rows that begin in a page of a column with lists, and its values that are not null.

    Parameters
    ----------
    repetition, definition : the levels, in runs, without their lengths in front.
    least : for each repetition level, the least definition level of an element of its lists; 0 for level 0.
    most : the highest definition level of the column, which its values have; at least 1.
    count : number of levels of each kind.
    before : the last definition level of the page before; -1 for the first page.

    Returns
    -------
    (rows, values, last definition level)

    Raises
    ------
    MalformedFooterError
        There are fewer levels, one is higher than the schema has any, or a list goes on that has no elements.
    """
    cdef Runs repeats = open_levels(repetition, least.shape[0] - 1), definitions = open_levels(definition, most)
    cdef Py_ssize_t done = 0, i, num_rows = 0, num_values = 0
    cdef Py_ssize_t repeat_at = 0, repeat_length = 0, level_at = 0, level_length = 0  # in the current runs
    cdef uint32_t depth, num_depths = <uint32_t>least.shape[0]
    cdef int64_t level, last = before
    with nogil:
        while done < count:
            if repeat_at == repeat_length:
                take_run(&repeats, count - done, &repeat_length)
                repeat_at = 0
            if level_at == level_length:
                take_run(&definitions, count - done, &level_length)
                level_at = 0
            for i in range(min(repeat_length - repeat_at, level_length - level_at)):
                depth = number_at(&repeats, repeat_at + i) if repeats.packed else repeats.value
                level = number_at(&definitions, level_at + i) if definitions.packed else definitions.value
                if rarely(depth >= num_depths or level > most):
                    fail("a level is higher than the schema has any")
                if rarely(depth and (level < least[depth] or last < least[depth])):
                    fail("a list without elements goes on")
                num_rows += depth == 0
                num_values += level == most
                last = level
            i = min(repeat_length - repeat_at, level_length - level_at)
            repeat_at += i
            level_at += i
            done += i
    return num_rows, num_values, last


cpdef int mark_used(const uint8_t[::1] data, int width, Py_ssize_t count, uint8_t[::1] used) except -1:
    """Set the flags of the dictionary entries that a page uses.

    Parameters
    ----------
    data : the entries' numbers, of `width` bits each, in runs.
    count : how many numbers.
    used : one byte for each entry.

    Raises
    ------
    MalformedFooterError
        There are fewer numbers, or one is not of an entry.
    """
    cdef Runs runs = open_runs(data, width)
    cdef Py_ssize_t done = 0, length = 0, i
    cdef uint32_t number
    cdef uint64_t num_entries = <uint64_t>used.shape[0]
    with nogil:
        while done < count:
            if width == 0 and runs.pos < runs.end and runs.data[runs.pos] & 1:
                fail("a packed run of numbers without bits")
            take_run(&runs, count - done, &length)
            if not runs.packed:
                if runs.value >= num_entries:
                    fail("a number is not in the dictionary")
                used[runs.value] = 1
            else:
                for i in range(length):
                    number = number_at(&runs, i)
                    if rarely(number >= num_entries):
                        fail("a number is not in the dictionary")
                    used[number] = 1
            done += length
    return 0


def measure_byte_arrays(const uint8_t[::1] data not None, Py_ssize_t count):
    """Return the bytes that each of some length-prefixed byte arrays takes, if all are of one length and fill a buffer.

    Returns
    -------
    Number of bytes, prefix included; 0 if there is no such number.
    """
    cdef Py_ssize_t size = data.shape[0], i
    cdef uint64_t width
    cdef uint32_t first = 0, length = 0, other = 0
    cdef const uint8_t* start
    if count < 1 or size < 4:
        return 0
    start = &data[0]
    memcpy(&first, start, 4)  # little-endian, as the processor is
    width = 4 + <uint64_t>first
    if <uint64_t>size % width or <uint64_t>size // width != <uint64_t>count:
        return 0
    with nogil:
        for i in range(count):
            memcpy(&length, start + i * <Py_ssize_t>width, 4)
            other |= length ^ first
    return 0 if other else width


def locate_byte_arrays(const uint8_t[::1] data not None, Py_ssize_t count):
    """Return the offsets of length-prefixed byte arrays that fill a buffer, and its size: int32, `count` + 1 numbers.

    Raises
    ------
    MalformedFooterError
        There are more or fewer than `count`, or the buffer has more bytes than int32 can count.
    """
    cdef uint64_t end = <uint64_t>data.shape[0], pos = 0
    cdef uint32_t length = 0, usual = 0
    cdef Py_ssize_t i
    cdef const uint8_t* start = &data[0] if end else NULL
    cdef int32_t[::1] out
    if count < 0 or end > INT32_MAX or <uint64_t>count > end // 4:
        fail("its values are of another size")
    offsets = np.empty(count + 1, np.int32)
    out = offsets
    with nogil:
        for i in range(count):
            out[i] = <int32_t>pos
            if end - pos < 4:
                fail("values are missing")
            memcpy(&length, start + pos, 4)  # little-endian, as the processor is
            # The next position must not wait for this load: most lengths are that of the value before.
            if rarely(length != usual):
                usual = length
            if rarely(usual > end - pos - 4):
                fail("a value is cut off")
            pos += 4 + <uint64_t>usual
        out[count] = <int32_t>pos
        if pos != end:
            fail("bytes of no value follow the values")
    return offsets


cdef struct Block:
    int64_t page[FIELDS]       # its header
    PageBody body
    int codec                  # of what of it is compressed
    int64_t unpacked           # bytes that are compressed in that


cdef class ChunkScan:
    """Finds the values that occur in a column chunk, whose pages are given from the first to the last.

    Parameters
    ----------
    codec : number of the chunk's codec; -1 for none that is known.
    denies_compression : as of its file's `Footer`.
    width : bytes of a value; 0 for byte arrays.
    max_definition : its highest definition level, that of its values.
    list_levels : for each repetition level that it has, the least definition level of an element of its lists, as
        `count_nested` takes them; for a column without lists only that of level 0.
    num_values, num_rows : numbers of its values, nulls included, and of its row group's rows.
    decompress : called with (bytes, codec, size) to decompress what is not decompressed here.
    scratch : memory for decompressed pages, or None.

    Attributes
    ----------
    dictionary, used : the plain-encoded entries of the dictionary, and one byte for each, which is 1 if a page uses it;
        None without a dictionary.
    """

    cdef readonly object dictionary, used
    cdef object decompress, scratch
    cdef const int64_t[::1] list_levels
    cdef uint8_t[::1] flags
    cdef Py_ssize_t width
    cdef int64_t max_definition, missing, missing_rows, last_level
    cdef int codec
    cdef bint denies_compression, begun
    cdef object held_part                 # of the page that waits for another
    cdef const uint8_t[::1] held_window
    cdef Block held

    def __init__(
        self, int codec, bint denies_compression, Py_ssize_t width, int64_t max_definition,
        const int64_t[::1] list_levels not None, int64_t num_values, int64_t num_rows, decompress, scratch=None
    ):
        self.codec, self.denies_compression, self.width = codec, denies_compression, width
        self.max_definition, self.list_levels = max_definition, list_levels
        self.missing, self.missing_rows, self.last_level = num_values, num_rows, -1
        self.decompress, self.scratch = decompress, scratch

    def scan(self, data not None, const int64_t[:, ::1] pages not None, Py_ssize_t first):
        """Pass over pages up to one with plain-encoded values, or two: Snappy's are decompressed in pairs, one may wait.

        Parameters
        ----------
        data, pages : a memoryview of the next pages of the chunk, and their headers by `index_window`, without one that is
            cut off.
        first : number of the page to begin with.

        Returns
        -------
        (number of the next page, [(plain-encoded values, how many they should be)])

        Raises
        ------
        MalformedFooterError
            A page is of another kind, contradicts its header or its column chunk, or is damaged.
        """
        cdef const uint8_t[::1] window = data
        cdef Block block
        cdef list found = []
        require_pages(window, pages)
        while first < pages.shape[0] and not found:
            part = self._open(data, window, &pages[first, 0], &block)
            first += 1
            if block.codec != SNAPPY or not 0 < block.unpacked <= MOST_PAIRED:
                self._pass_held(found)
                self._pass(window, &block, self.decompress(part, block.codec, block.unpacked), found)
            elif self.held_part is None:
                self.held_part, self.held_window, self.held = part, window, block
            else:
                one, other = unpack_pair(self.held_part, self.held.unpacked, part, block.unpacked, self.scratch)
                self.held_part = None
                self._pass(self.held_window, &self.held, one, found)
                self._pass(window, &block, other, found)
        return first, found

    def finish(self):
        """Pass over a page that waits for another; return its values as `scan` does.

        Raises
        ------
        MalformedFooterError
            As `scan` does; or values of the chunk, or rows of its row group, are missing.
        """
        cdef list found = []
        self._pass_held(found)
        if self.missing or self.missing_rows:
            raise UnusualPageError(f"{self.missing} values and {self.missing_rows} rows are missing")
        return found

    cdef int _pass_held(self, list found) except -1:
        if self.held_part is not None:
            part, self.held_part = self.held_part, None
            self._pass(self.held_window, &self.held, self.decompress(part, SNAPPY, self.held.unpacked), found)
        return 0

    cdef object _open(self, data, const uint8_t[::1] window, const int64_t* page, Block* block):
        """Check a page's header and its place in the chunk; return what of it is compressed."""
        cdef const uint8_t* content = &window[0] + page[START] + page[HEADER_BYTES]
        cdef Py_ssize_t start = page[START] + page[HEADER_BYTES], size = page[SIZE]
        memcpy(block.page, page, FIELDS * sizeof(int64_t))
        if page[KIND] == DICTIONARY_PAGE:
            if self.begun or not is_dictionary(page):
                raise UnusualPageError("a dictionary page behind other pages, or of another encoding")
        elif not 0 < page[NUM_VALUES] <= self.missing:
            raise UnusualPageError(f"a page of {page[NUM_VALUES]} values where {self.missing} are left")
        else:
            self.missing -= page[NUM_VALUES]
        self.begun = True
        block.codec, block.unpacked = self.codec, page[UNPACKED]
        if page[KIND] == DATA_PAGE_V2:
            if not page[COMPRESSED] and not self.denies_compression:
                block.codec = UNCOMPRESSED
            block.page[START] = block.page[HEADER_BYTES] = 0
            block.page[UNPACKED] = page[SIZE]  # so that only the levels are cut off
            self._split(content, block)
            start, size = block.body.values - &window[0], block.body.value_bytes
            block.unpacked -= page[SIZE] - size
        elif page[KIND] == DATA_PAGE and min(page[ENCODING], page[LEVEL_ENCODING], page[REPEAT_ENCODING]) < 0:
            raise UnusualPageError("a header without encodings")
        return data[start : start + size]

    cdef int _split(self, const uint8_t* content, Block* block) except -1:
        """Split a page that is not compressed into its levels and its values."""
        cdef int problem = open_nested_page(
            content, block.page, UNCOMPRESSED, self.list_levels.shape[0] > 1, self.max_definition == 0, block.page[SIZE],
            &block.body
        )
        if problem:
            raise UnusualPageError(f"page: {describe_page_problem(problem)}")
        return 0

    cdef int _pass(self, const uint8_t[::1] data, Block* block, unpacked, list found) except -1:
        """Count the levels of a page, and mark its values or add them to those that were found."""
        cdef const uint8_t[::1] body = unpacked
        cdef const uint8_t[::1] values = body
        cdef const uint8_t[::1] repetition = data[:0], definition = data[:0]
        cdef const int64_t* page = block.page
        cdef Py_ssize_t at = 0
        cdef int64_t num_begun = page[NUM_VALUES], num_present = page[NUM_VALUES]
        if page[KIND] == DATA_PAGE_V2:
            repetition = span(data, block.body.repeats, block.body.repeat_bytes)
            definition = span(data, block.body.levels, block.body.level_bytes)
        elif body.shape[0]:
            block.page[START] = block.page[HEADER_BYTES] = 0
            block.page[SIZE] = block.page[UNPACKED] = body.shape[0]
            self._split(&body[0], block)
            repetition = span(body, block.body.repeats, block.body.repeat_bytes)
            definition = span(body, block.body.levels, block.body.level_bytes)
            at = block.body.values - &body[0]
            values = body[at:]
        if page[KIND] == DICTIONARY_PAGE:
            if page[NUM_VALUES] * (self.width or 4) > values.shape[0]:
                raise UnusualPageError("entries of the dictionary are missing")
            self.dictionary, self.used = unpacked, np.zeros(page[NUM_VALUES], np.uint8)
            self.flags = self.used
            return 0
        if self.list_levels.shape[0] > 1:
            num_begun, num_present, self.last_level = count_nested(
                repetition, definition, self.list_levels, self.max_definition, page[NUM_VALUES], self.last_level
            )
        elif self.max_definition:
            num_present = count_present(definition, self.max_definition, page[NUM_VALUES])
        if page[KIND] == DATA_PAGE_V2 and (page[NUM_ROWS] != num_begun or not 0 <= page[NUM_NULLS] <= page[NUM_VALUES]):
            raise UnusualPageError(f"{page[NUM_ROWS]} rows, {page[NUM_NULLS]} nulls")
        if num_begun > self.missing_rows:  # before any of its values is taken: pyarrow stops at the last row
            raise UnusualPageError(f"a page of {num_begun} rows where {self.missing_rows} are left")
        self.missing_rows -= num_begun
        if page[ENCODING] == PLAIN:
            found.append((unpacked[at:], num_present))
        elif page[ENCODING] != PLAIN_DICTIONARY and page[ENCODING] != RLE_DICTIONARY:
            raise UnusualPageError(f"encoding {page[ENCODING]}")
        elif self.used is None:
            raise UnusualPageError("a page of dictionary indices without a dictionary")
        elif num_present:
            if not values.shape[0]:
                raise UnusualPageError("a page without dictionary indices")
            mark_used(values[1:], values[0], num_present, self.flags)
        elif values.shape[0] and values[0] > MOST_BITS:
            raise UnusualPageError(f"indices of {values[0]} bits")
        return 0


cdef const uint8_t[::1] span(const uint8_t[::1] data, const uint8_t* start, Py_ssize_t size):
    """Return some bytes of a buffer."""
    cdef Py_ssize_t first = start - &data[0] if size else 0
    return data[first : first + size]
