# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""`ChunkScan`: which values occur in a column chunk, by passes over all levels, dictionary indices or lengths of its
pages, without the interpreter lock.

Nothing here trusts the bytes: whatever a page lacks ends in UnusualPageError.

Source: Encodings.md of the format: "RLE / bit-packing hybrid", "PLAIN".
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ..core.decode.snappy import unpack_pair
from ..errors import UnusualPageError

from .page_decode cimport (
    COMPRESSED, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, ENCODING, FIELDS, HEADER_BYTES, KIND, LEVEL_ENCODING,
    NUM_NULLS, NUM_ROWS, NUM_VALUES, PLAIN, REPEAT_ENCODING, SNAPPY, START, PageBody, Runs, StoredColumn,
    close_page, count_levels, cut_page, is_dictionary, needs_dictionary, next_entries, number_at, refuse, require_pages,
    split_page, start_indices
)
from .page_encodings cimport make_plain

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


cdef int mark_used(const PageBody* body, Py_ssize_t count, uint8_t[::1] used) except -1 nogil:
    """Set the flags of the dictionary entries that the `count` numbers of a page are of."""
    cdef uint8_t* flags = &used[0] if used.shape[0] else NULL
    cdef uint64_t num_entries = used.shape[0]
    cdef Py_ssize_t done = 0, length, i
    cdef uint32_t number
    cdef Runs runs, run
    if count == 0 and body.value_bytes == 0:
        return 0
    start_indices(&runs, body)
    while done < count:
        length = next_entries(&runs, count - done, num_entries)
        run = runs  # whose address nobody else knows, so that it stays in registers
        if run.cut:  # readers disagree about such runs
            refuse("a run is cut off")
        if run.packed:
            for i in range(length):
                number = number_at(&run, i)
                if rarely(number >= num_entries):
                    refuse("a number is not in the dictionary")
                flags[number] = 1
        else:
            flags[run.value] = 1
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
    UnusualPageError
        There are more or fewer than `count`, or the buffer has more bytes than int32 can count.
    """
    cdef uint64_t end = <uint64_t>data.shape[0], pos = 0
    cdef uint32_t length = 0, usual = 0
    cdef Py_ssize_t i
    cdef const uint8_t* start = &data[0] if end else NULL
    cdef int32_t[::1] out
    if count < 0 or end > INT32_MAX or <uint64_t>count > end // 4:
        refuse("its values are of another size")
    offsets = np.empty(count + 1, np.int32)
    out = offsets
    with nogil:
        for i in range(count):
            out[i] = <int32_t>pos
            if end - pos < 4:
                refuse("values are missing")
            memcpy(&length, start + pos, 4)  # little-endian, as the processor is
            # The next position must not wait for this load: most lengths are that of the value before.
            if rarely(length != usual):
                usual = length
            if rarely(usual > end - pos - 4):
                refuse("a value is cut off")
            pos += 4 + <uint64_t>usual
        out[count] = <int32_t>pos
        if pos != end:
            refuse("bytes of no value follow the values")
    return offsets


cdef class ChunkScan:
    """Finds the values that occur in a column chunk, whose pages are given from the first to the last.

    Parameters
    ----------
    column : its column.
    codec : number of the chunk's codec; -1 for none that is known.
    denies_compression : as of its file's `Footer`.
    num_values, num_rows : numbers of its values, nulls included, and of its row group's rows.
    decompress : called with (bytes, codec, size) to decompress what is not decompressed here.
    scratch : memory for decompressed pages, or None.
    flags_only : leave the dictionary as it is, of which then only `used` is told.

    Attributes
    ----------
    dictionary, used : the plain-encoded entries of the dictionary, and one byte for each, which is 1 if a page uses it;
        None without a dictionary.
    """

    cdef readonly object dictionary, used
    cdef object decompress, scratch
    cdef StoredColumn column
    cdef uint8_t[::1] flags
    cdef int64_t missing, missing_rows
    cdef uint8_t last_level
    cdef int codec
    cdef bint denies_compression, begun, flags_only
    cdef object held_part                 # of the page that waits for another
    cdef object held_window
    cdef int64_t[FIELDS] held_page
    cdef PageBody held

    def __init__(
        self, StoredColumn column not None, int codec, bint denies_compression, int64_t num_values, int64_t num_rows,
        decompress, scratch=None, bint flags_only=False
    ):
        self.column, self.codec, self.denies_compression = column, codec, denies_compression
        self.missing, self.missing_rows, self.last_level = num_values, num_rows, 0
        self.decompress, self.scratch, self.flags_only = decompress, scratch, flags_only

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
        UnusualPageError
            A page is of another kind, contradicts its header or its column chunk, or is damaged.
        """
        cdef const uint8_t[::1] window = data
        cdef int64_t[FIELDS] page
        cdef PageBody body
        cdef Py_ssize_t start
        cdef list found = []
        require_pages(window, pages)
        while first < pages.shape[0] and not found:
            memcpy(page, &pages[first, 0], FIELDS * sizeof(int64_t))
            first += 1
            self._cut(&window[0], page, &body)
            if self.flags_only and page[KIND] == DICTIONARY_PAGE:
                if page[NUM_VALUES] > self.missing:
                    raise UnusualPageError(f"a dictionary of {page[NUM_VALUES]} entries for {self.missing} values")
                self.flags = self.used = np.zeros(page[NUM_VALUES], np.uint8)
                continue
            start = body.packed - &window[0]
            part = data[start : start + body.packed_bytes]
            if body.codec != SNAPPY or not 0 < body.unpacked <= MOST_PAIRED:
                self._pass_held(found)
                self._pass(&body, self.decompress(part, body.codec, body.unpacked), found)
            elif self.held_part is None:
                self.held_part, self.held_window, self.held = part, data, body
                memcpy(self.held_page, page, FIELDS * sizeof(int64_t))
                self.held.page = self.held_page
            else:
                one, other = unpack_pair(self.held_part, self.held.unpacked, part, body.unpacked, self.scratch)
                self.held_part = None
                self._pass(&self.held, one, found)
                self._pass(&body, other, found)
        return first, found

    def finish(self):
        """Pass over a page that waits for another; return its values as `scan` does.

        Raises
        ------
        UnusualPageError
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
            self._pass(&self.held, self.decompress(part, SNAPPY, self.held.unpacked), found)
        return 0

    cdef int _cut(self, const uint8_t* data, int64_t* page, PageBody* body) except -1:
        """Check a page's header and its place in the chunk, and find what of it is compressed."""
        cdef bint has_entries = page[KIND] == DICTIONARY_PAGE
        if has_entries:
            if self.begun or not is_dictionary(page):
                raise UnusualPageError("a dictionary page behind other pages, or of another encoding")
        elif not 0 < page[NUM_VALUES] <= self.missing:
            raise UnusualPageError(f"a page of {page[NUM_VALUES]} values where {self.missing} are left")
        else:
            self.missing -= page[NUM_VALUES]
        if page[KIND] == DATA_PAGE and min(page[ENCODING], page[LEVEL_ENCODING], page[REPEAT_ENCODING]) < 0:
            raise UnusualPageError("a header without encodings")
        self.begun = True
        if self.denies_compression:
            page[COMPRESSED] = 1
        cut_page(
            body, data + page[START] + page[HEADER_BYTES], page, self.codec, NULL if has_entries else &self.column.shape
        )
        return 0

    cdef int _pass(self, PageBody* body, unpacked, list found) except -1:
        """Count the levels of a page, and mark its values or add them to those that were found."""
        cdef const uint8_t[::1] data = unpacked
        cdef const uint8_t* start = &data[0] if data.shape[0] else <const uint8_t*>b""
        cdef const int64_t* page = body.page
        cdef Py_ssize_t num_begun = 0, num_present
        split_page(body, start, data.shape[0])
        if page[KIND] == DICTIONARY_PAGE:
            if page[NUM_VALUES] * (self.column.width or 4) > data.shape[0]:
                raise UnusualPageError("entries of the dictionary are missing")
            self.dictionary, self.used = unpacked, np.zeros(page[NUM_VALUES], np.uint8)
            self.flags = self.used
            return 0
        with nogil:
            num_present = count_levels(body, &self.last_level, &num_begun)
        if page[KIND] == DATA_PAGE_V2 and (page[NUM_ROWS] != num_begun or not 0 <= page[NUM_NULLS] <= page[NUM_VALUES]):
            raise UnusualPageError(f"{page[NUM_ROWS]} rows, {page[NUM_NULLS]} nulls")
        if num_begun > self.missing_rows:  # before any of its values is taken: pyarrow stops at the last row
            raise UnusualPageError(f"a page of {num_begun} rows where {self.missing_rows} are left")
        self.missing_rows -= num_begun
        if body.encoding == PLAIN:
            found.append((unpacked[body.values - start :], num_present))
        elif not needs_dictionary(body.encoding):
            try:
                with nogil:
                    make_plain(body, self.column.width)
                plain = PyBytes_FromStringAndSize(<const char*>body.values, body.value_bytes)
            finally:
                close_page(body)
            found.append((memoryview(plain), num_present))
        elif self.used is None:
            raise UnusualPageError("a page of dictionary indices without a dictionary")
        else:
            with nogil:
                mark_used(body, num_present, self.flags)
        return 0
