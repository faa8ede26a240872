# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The one decoder of a page's parts: what is compressed of it, its levels, and the runs of its dictionary's numbers.

What is done with the values is up to a `PageVisitor`: `page_match` compares them, `page_rows` takes some of them, and
`page_scan` marks those that occur. Nothing here trusts the bytes: what is not a page of its kind, contradicts itself, or
is damaged ends in UnusualPageError.

A column with lists has several values a row: its repetition levels say where a row begins, its definition levels which of
the values are stored. They are unpacked to bytes, a block at a time, and counted by loops that compilers turn into vector
instructions; only blocks in which something is sought are gone through level by level. Without lists each value is a row.

Source: parquet.thrift, PageHeader; README.md of the format, "Data Pages", "Nested Encoding"; Encodings.md,
"RLE / bit-packing hybrid".
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from ..core.decode.snappy cimport SLACK, read_size, unpack

from ..errors import UnusualPageError

cdef enum:
    MOST_LEVEL = 255  # higher levels are left to pyarrow
    MOST_DEPTH = 15   # and so are deeper lists
    MOST_HEADER_BITS = 42  # of a run, in six bytes


cdef int refuse(const char* problem) except -1 nogil:
    """Raise UnusualPageError."""
    with gil:
        raise UnusualPageError(f"page: {problem.decode()}")


cdef int reserve(Buffer* buffer, int64_t size) except -1 nogil:
    """Make room for some bytes, beside those that are there; its data, which is not NULL then, has to be freed."""
    cdef uint8_t* data
    if size > buffer.size or buffer.data == NULL:
        size = max(max(1, size), buffer.size + buffer.size // 2)
        data = <uint8_t*>realloc(buffer.data, size)
        if data == NULL:
            with gil:
                raise MemoryError(f"no memory for {size} bytes")
        buffer.data, buffer.size = data, size
    return 0


# ------------------------------------------------------------------------------------------------------------- pages

cdef class StoredColumn:
    """How the values of a column are stored.

    Parameters
    ----------
    width : bytes per value; 0 for length-prefixed byte arrays.
    least : for each repetition level, the least definition level of an element of its lists, 0 for level 0: of length 1
        for a column without lists.
    max_definition : the highest definition level, that of values; 0 if each row has one.
    """

    def __init__(self, Py_ssize_t width, least not None, int max_definition):
        cdef Py_ssize_t depth = len(least) - 1, i
        if width < 0 or not 0 <= depth <= MOST_DEPTH or not 0 <= max_definition <= MOST_LEVEL:
            raise UnusualPageError(f"page: lists of {depth} levels, with {max_definition} of definition")
        self.width, self.shape.max_repetition, self.shape.max_definition = width, <int>depth, max_definition
        for i in range(depth + 1):
            if not 0 <= least[i] <= max_definition or (least[i] == 0) != (i == 0):
                raise ValueError("a least definition level that the column does not have")
            self.shape.least[i] = <uint8_t>least[i]


cdef int cut_page(
    PageBody* body, const uint8_t* content, const int64_t* page, int codec, const Shape* shape
) except -1 nogil:
    """Find what of a page is compressed; `close_page` must be called, whatever this ends in.

    Parameters
    ----------
    body : takes the parts that are not compressed; `unpack_page` or `split_page` adds the others.
    content, page : what follows its header, and this, as a row of the table of `index_pages`; both have to stay.
    codec : of its column chunk.
    shape : of the column; NULL for a dictionary.
    """
    cdef int64_t first = page[REPEAT_BYTES], end = page[LEVEL_BYTES]
    memset(body, 0, sizeof(PageBody))
    body.page, body.shape, body.encoding = page, shape, page[ENCODING]
    body.repeats = body.levels = body.packed = content
    body.packed_bytes, body.unpacked, body.codec = page[SIZE], page[UNPACKED], codec
    if not 0 <= page[NUM_VALUES] <= MOST_VALUES:
        refuse("it has too many values")
    if page[KIND] == DATA_PAGE_V2 and shape != NULL:
        if first < 0 or (first > 0) != (shape.max_repetition > 0) or not 0 <= end <= page[SIZE] - first:
            refuse("its levels are not in it")
        if (end > 0) != (shape.max_definition > 0):
            refuse("its levels are not those of its column")
        body.repeat_bytes, body.level_bytes = first, end
        body.levels += first
        body.packed += first + end
        body.packed_bytes -= first + end
        body.unpacked -= first + end
        if not page[COMPRESSED]:
            body.codec = UNCOMPRESSED
    elif page[KIND] != (DICTIONARY_PAGE if shape == NULL else DATA_PAGE):
        refuse("it is of another kind")
    return 0


cdef int unpack_page(PageBody* body, object decompress, int64_t needed) except -1 nogil:
    """Decompress a page that was cut, or decompressed in part, and split it.

    Parameters
    ----------
    decompress : called with (compressed bytes, number of the codec, size) for codecs other than Snappy.
    needed : bytes that are needed from the beginning; more may be available.
    """
    cdef int64_t announced = 0, done
    cdef Py_ssize_t start
    if body.codec == UNCOMPRESSED or body.packed_bytes == body.unpacked == 0:
        if body.packed_bytes != body.unpacked:  # some writers compress pages that they say are not
            refuse("it is of another size than its header says")
        split_page(body, body.packed, body.packed_bytes)
        return 0
    if not 0 < body.unpacked <= MOST_BYTES:
        refuse("it is of a size that is not supported")
    if body.codec != SNAPPY:
        with gil:
            unpack_with(body, decompress)
        return 0
    start = read_size(body.packed, body.packed_bytes, &announced)
    if start < 0 or announced != body.unpacked:
        refuse("it cannot be decompressed")
    while True:
        needed = min(max(needed, 1), body.unpacked)
        reserve(&body.scratch, body.unpacked + SLACK)
        done = unpack(body.packed, start, body.packed_bytes, body.scratch.data, body.unpacked, needed)
        if done < needed:
            refuse("it cannot be decompressed")
        body.partial = done < body.unpacked
        if split_page(body, body.scratch.data, done):
            return 0
        needed = body.unpacked


cdef int unpack_with(PageBody* body, object decompress) except -1:
    part = PyMemoryView_FromMemory(<char*>body.packed, body.packed_bytes, PyBUF_READ)
    unpacked = memoryview(decompress(part, body.codec, body.unpacked))
    cdef const uint8_t[::1] data = unpacked
    Py_INCREF(unpacked)
    body.owner = <PyObject*>unpacked
    split_page(body, &data[0] if data.shape[0] else NULL, data.shape[0])
    return 0


cdef bint split_page(PageBody* body, const uint8_t* unpacked, Py_ssize_t length) except -1 nogil:
    """Set the values of a page, which in version 1 follow its levels, given what was decompressed of it.

    Returns False if that is too little, and only a part.
    """
    body.values, body.value_bytes = unpacked, length
    if body.page[KIND] != DATA_PAGE:
        return True
    if body.shape.max_repetition > 0:
        if body.page[REPEAT_ENCODING] != RLE:
            refuse("its levels are of another encoding")
        if not cut_levels(body, &body.repeats, &body.repeat_bytes):
            return False
    if body.shape.max_definition > 0:
        if body.page[LEVEL_ENCODING] != RLE:
            refuse("its levels are of another encoding")
        return cut_levels(body, &body.levels, &body.level_bytes)
    return True


cdef bint cut_levels(PageBody* body, const uint8_t** levels, Py_ssize_t* level_bytes) except -1 nogil:
    """Take levels, after their length, from the front of the values; return False if there is only a part of them."""
    cdef uint32_t size = 0
    if body.value_bytes >= 4:
        memcpy(&size, body.values, 4)  # little-endian, as the processor is
    if body.value_bytes < 4 or size > <size_t>(body.value_bytes - 4):
        return fall_short(body, "its levels are cut off")
    levels[0], level_bytes[0] = body.values + 4, size
    body.values += 4 + size
    body.value_bytes -= 4 + <Py_ssize_t>size
    return True


cdef bint fall_short(const PageBody* body, const char* problem) except -1 nogil:
    """Return False if only a part of a page was decompressed, which may be the reason of a problem; else raise this."""
    return False if body.partial else <bint>refuse(problem)


cdef void close_page(PageBody* body) noexcept nogil:
    free(body.scratch.data)
    free(body.plain.data)
    if body.owner != NULL:
        with gil:
            Py_DECREF(<object>body.owner)
    memset(body, 0, sizeof(PageBody))


cdef bint is_dictionary(const int64_t* page) noexcept nogil:
    """Return whether a page is a dictionary of a kind that is known here."""
    return (
        page[KIND] == DICTIONARY_PAGE and 0 <= page[NUM_VALUES] <= MOST_VALUES
        and (page[ENCODING] == PLAIN or page[ENCODING] == PLAIN_DICTIONARY)
    )


cdef int require_pages(const uint8_t[::1] data, const int64_t[:, ::1] pages) except -1:
    """Raise ValueError unless pages are inside of their data."""
    cdef Py_ssize_t i
    if pages.shape[1] != FIELDS:
        raise ValueError("pages must be as index_pages returns them")
    for i in range(pages.shape[0]):
        if not (
            0 <= pages[i, START] and 0 <= pages[i, HEADER_BYTES] and 0 <= pages[i, SIZE] and 0 <= pages[i, NUM_VALUES]
            and pages[i, SIZE] <= data.shape[0] - pages[i, START] - pages[i, HEADER_BYTES]
        ):
            raise ValueError("the pages are not in the data")
    return 0


cdef class PageVisitor:
    """Does something with the values of the pages of a column's chunks, given one after the other.

    Parameters
    ----------
    column : the column.
    decompress : as `unpack_page` takes it.
    """

    def __cinit__(self, StoredColumn column not None, decompress, *_):
        self.column, self.decompress = column, decompress

    cdef int open_dictionary(self, const uint8_t* content, const int64_t* page) except -1 nogil:
        """Take the dictionary of the chunk, compressed with `codec`; called before the first page that needs it."""
        raise NotImplementedError

    cdef int64_t find_needed(self, const int64_t* page, int64_t before) noexcept nogil:
        """Return how many bytes of a page are needed from its beginning, as a first try; 0 if nothing is done with it."""
        return MOST_BYTES

    cdef int visit(self, PageBody* body, int64_t before) except -1 nogil:
        """Do it with the values of a page; `before`: rows in front of it, of a column without lists."""
        raise NotImplementedError

    cdef int end(self) except -1 nogil:
        """Raise an error unless the pages of the chunk had all rows."""
        raise NotImplementedError


# -------------------------------------------------------------------------------------------------------------- runs

cdef void start_runs(Runs* runs, const uint8_t* data, Py_ssize_t size, int width) noexcept nogil:
    """Prepare to read numbers of `width` bits: 0 to 32."""
    memset(runs, 0, sizeof(Runs))
    runs.data, runs.end, runs.width = data, size, width


cdef int start_indices(Runs* runs, const PageBody* body) except -1 nogil:
    """Prepare to read the numbers of a dictionary's entries; a dictionary of one entry has numbers of no bits."""
    if body.value_bytes == 0:
        refuse("it has no numbers of dictionary entries")
    if body.values[0] > 32:
        refuse("its numbers have more than 32 bits")
    start_runs(runs, body.values + 1, body.value_bytes - 1, body.values[0])
    return 0


cdef int next_run(Runs* runs) except -1 nogil:
    """Go to the next run."""
    cdef uint64_t header = 0, value = 0
    cdef int value_bytes = (runs.width + 7) // 8, i
    if not read_varint(runs, MOST_HEADER_BITS, &header):
        refuse("it ends before its numbers do")
    if header >> 1 == 0:
        refuse("a run of no numbers")
    runs.packed, runs.cut = header & 1, False
    runs.start = runs.pos
    runs.length = header >> 1
    if runs.packed:
        if runs.width == 0:
            refuse("a packed run of numbers without bits")
        runs.length *= 8
        if runs.length * runs.width > (runs.end - runs.pos) * 8:  # some writers leave out what pads the last run
            runs.length = (runs.end - runs.pos) * 8 // runs.width
            runs.pos, runs.cut = runs.end, True
        else:
            runs.pos += runs.length // 8 * runs.width
        return 0
    if value_bytes > runs.end - runs.pos:
        refuse("a run is cut off")
    for i in range(value_bytes):
        value |= <uint64_t>runs.data[runs.pos + i] << (8 * i)
    runs.pos += value_bytes
    if value >> runs.width:
        refuse("a number has more bits than its page says")
    runs.value = <uint32_t>value
    return 0


cdef Py_ssize_t next_entries(Runs* runs, Py_ssize_t left, uint64_t num_entries) except -1 nogil:
    """Go to the next run of numbers of a dictionary's entries; return how many of these are among the `left` next ones."""
    next_run(runs)
    if not runs.packed and runs.value >= num_entries:
        refuse("a number is not in the dictionary")
    return min(left, runs.length)


cdef uint32_t cut_number(const uint8_t* data, Py_ssize_t size, int shift, int width) noexcept nogil:
    """Return a number with which the runs end, in fewer than eight bytes."""
    cdef uint64_t bits = 0
    memcpy(&bits, data, size)
    return <uint32_t>(bits >> shift & ((<uint64_t>1 << width) - 1))


# ------------------------------------------------------------------------------------------------------------ levels

cdef inline void unpack_run(const Runs* runs, Py_ssize_t first, Py_ssize_t count, uint8_t* out) noexcept nogil:
    """Unpack numbers of at most 8 bits of a packed run, eight at a time: up to 7 more may be written."""
    cdef int width = runs.width
    cdef uint64_t half = (<uint64_t>1 << 4 * width) - 1
    cdef uint64_t quarter = ((<uint64_t>1 << 2 * width) - 1) * <uint64_t>0x0000000100000001
    cdef uint64_t one = ((<uint64_t>1 << width) - 1) * <uint64_t>0x0001000100010001
    cdef uint64_t word
    cdef const uint8_t* data = runs.data + runs.start
    cdef Py_ssize_t size = runs.end - runs.start, i, bit, byte
    for i in range(0, count, 8):
        bit = (first + i) * width
        byte = bit >> 3
        if size - byte >= 8:
            memcpy(&word, data + byte, 8)  # little-endian, as the processor is
        else:
            word = 0
            memcpy(&word, data + byte, size - byte)
        word >>= bit & 7
        word = (word & half) | ((word >> 4 * width) & half) << 32
        word = (word & quarter) | ((word >> 2 * width) & quarter) << 16
        word = (word & one) | ((word >> width) & one) << 8
        memcpy(out + i, &word, 8)


cdef inline Py_ssize_t count_bits(const uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """Count those of the first `count` bits that are set."""
    cdef Py_ssize_t i = 0, total = 0
    cdef uint64_t x
    while i + 64 <= count:
        memcpy(&x, bits + i // 8, 8)
        x -= (x >> 1) & <uint64_t>0x5555555555555555
        x = (x & <uint64_t>0x3333333333333333) + ((x >> 2) & <uint64_t>0x3333333333333333)
        x = (x + (x >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
        total += <Py_ssize_t>((x * <uint64_t>0x0101010101010101) >> 56)
        i += 64
    while i < count:
        total += (bits[i // 8] >> (i % 8)) & 1
        i += 1
    return total


cdef inline int next_levels(Runs* runs) except -1 nogil:
    next_run(runs)
    if runs.cut:  # readers disagree about such runs
        refuse("a run is cut off")
    return 0


cdef inline int unpack_levels(Runs* runs, Py_ssize_t* at, Py_ssize_t count, uint8_t* out) except -1 nogil:
    """Unpack the next levels, given how many numbers of the run were read. Up to `LEVEL_SLACK` bytes more may be written."""
    cdef Py_ssize_t done = 0, taken
    while done < count:
        if at[0] == runs.length:
            next_levels(runs)
            at[0] = 0
        taken = min(runs.length - at[0], count - done)
        if runs.packed:
            unpack_run(runs, at[0], taken, out + done)
        else:
            memset(out + done, <int>runs.value, taken)
        at[0] += taken
        done += taken
    return 0


cdef inline int find_bits(int most) noexcept nogil:
    cdef int width = 0
    while most >> width:
        width += 1
    return width


cdef void start_levels(Levels* levels, const PageBody* body, uint8_t last) noexcept nogil:
    """Prepare to read the levels of a page of a column that has some; `last`: the last definition level before."""
    levels.shape, levels.left = body.shape, body.page[NUM_VALUES]
    start_runs(&levels.definitions, body.levels, body.level_bytes, find_bits(body.shape.max_definition))
    start_runs(&levels.repeats, body.repeats, body.repeat_bytes, find_bits(body.shape.max_repetition))
    levels.repeat_at = levels.definition_at = levels.length = 0
    levels.definition[0] = last
    if body.shape.max_repetition == 0:
        memset(levels.repeat, 0, BLOCK)


cdef bint next_block(Levels* levels) except -1 nogil:
    """Read and count the next levels; return False if there are no more."""
    cdef Runs* runs = &levels.definitions
    cdef uint8_t most = <uint8_t>levels.shape.max_definition
    if levels.left == 0:
        return False
    if levels.shape.max_repetition > 0:
        return next_nested_block(levels)
    if levels.definition_at == runs.length:
        next_levels(runs)
        levels.definition_at = 0
    levels.length = min(levels.left, runs.length - levels.definition_at)
    levels.is_run = not runs.packed
    levels.is_packed = runs.packed and most == 1
    if levels.is_run:
        if runs.value > most:
            refuse("a level is higher than the schema has any")
        levels.num_values = levels.length if runs.value == most else 0
        levels.definition_at += levels.length
    else:
        levels.length = min(levels.length, <Py_ssize_t>BLOCK)
        if levels.is_packed:
            levels.num_values = count_bits(runs.data + runs.start + (levels.definition_at >> 3), levels.length)
            levels.definition_at += levels.length
        else:
            unpack_levels(runs, &levels.definition_at, levels.length, &levels.definition[1])
            count_block(levels)
    levels.num_rows = levels.length
    levels.left -= levels.length
    return True


cdef bint next_nested_block(Levels* levels) except -1 nogil:
    cdef Py_ssize_t count = min(levels.left, <Py_ssize_t>BLOCK), i
    cdef const uint8_t* repeat = &levels.repeat[0]
    cdef const uint8_t* definition = &levels.definition[1]
    cdef uint8_t empty = 0, least, depth
    levels.definition[0] = levels.definition[levels.length]
    levels.length = count
    levels.is_run = levels.is_packed = False
    unpack_levels(&levels.repeats, &levels.repeat_at, count, &levels.repeat[0])
    unpack_levels(&levels.definitions, &levels.definition_at, count, &levels.definition[1])
    count_block(levels)
    for depth in range(1, <uint8_t>(levels.shape.max_repetition + 1)):  # what goes on has an element, as what it goes on from
        least = levels.shape.least[depth]
        for i in range(count):
            empty |= (repeat[i] == depth) & ((definition[i] < least) | (definition[i - 1] < least))
    if empty:
        refuse("a list without elements goes on")
    levels.left -= count
    return True


cdef int count_block(Levels* levels) except -1 nogil:
    """Count the rows and values of unpacked levels."""
    cdef const uint8_t* repeat = &levels.repeat[0]
    cdef const uint8_t* definition = &levels.definition[1]
    cdef uint16_t num_rows = 0, num_values = 0  # as narrow as BLOCK allows, for the vectors' sake
    cdef uint8_t above = 0, most_repeats = <uint8_t>levels.shape.max_repetition
    cdef uint8_t most = <uint8_t>levels.shape.max_definition
    cdef Py_ssize_t i
    for i in range(levels.length):
        num_rows += repeat[i] == 0
        num_values += definition[i] == most
        above |= (repeat[i] > most_repeats) | (definition[i] > most)
    if above:
        refuse("a level is higher than the schema has any")
    levels.num_rows, levels.num_values = num_rows, num_values
    return 0


cdef void unpack_block(Levels* levels) noexcept nogil:
    """Unpack the levels of the block, unless it is a run, or they are unpacked."""
    if levels.is_packed:
        unpack_run(&levels.definitions, levels.definition_at - levels.length, levels.length, &levels.definition[1])
        levels.is_packed = False


cdef Py_ssize_t count_levels(const PageBody* body, uint8_t* last, Py_ssize_t* num_rows) except -1 nogil:
    """Return how many values of a page are stored; set how many rows begin, and the last definition level of lists."""
    cdef Levels levels
    cdef Py_ssize_t total = 0
    num_rows[0] = body.page[NUM_VALUES]
    if body.shape.max_definition == 0:
        return num_rows[0]
    start_levels(&levels, body, last[0])
    num_rows[0] = 0
    while next_block(&levels):
        num_rows[0] += levels.num_rows
        total += levels.num_values
    if body.shape.max_repetition > 0:
        last[0] = levels.definition[levels.length]
    return total
