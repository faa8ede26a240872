"""The parts of a page, for the compiled modules that match, take or mark its values; see `page_decode.pyx`."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # Columns of the table of `thrift_compact.index_pages`.
    START = 0
    HEADER_BYTES = 1
    SIZE = 2
    KIND = 3
    NUM_VALUES = 4
    ENCODING = 5
    UNPACKED = 6
    LEVEL_ENCODING = 7
    REPEAT_BYTES = 8
    LEVEL_BYTES = 9
    COMPRESSED = 10
    REPEAT_ENCODING = 11
    NUM_NULLS = 12
    NUM_ROWS = 13
    FIELDS = 14

cdef enum:
    # Kinds of pages, encodings and codecs, by the format's numbers; and others for PLAIN and RLE where a value is one bit.
    DATA_PAGE = 0
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9
    PLAIN_BITS = 64
    RLE_BITS = 65
    UNCOMPRESSED = 0
    SNAPPY = 1

cdef enum:
    MOST_BYTES = 64 << 20   # of a decompressed page: larger ones are left to pyarrow
    MOST_VALUES = 1 << 24   # of a page: runs of a few bytes could claim any amount of memory
    BLOCK = 1024            # levels that are unpacked at a time
    LEVEL_SLACK = 8         # bytes behind them that may be written


cdef int refuse(const char* problem) except -1 nogil


cdef struct Buffer:
    uint8_t* data
    int64_t size


cdef int reserve(Buffer* buffer, int64_t size) except -1 nogil


# ------------------------------------------------------------------------------------------------------------- pages

cdef struct Shape:
    # The levels of a column.
    int max_repetition
    int max_definition
    uint8_t[16] least  # by repetition level, the least definition level of an element of its lists; 0 for level 0


cdef class StoredColumn:
    cdef readonly Py_ssize_t width
    cdef Shape shape


cdef struct PageBody:
    const int64_t* page     # its header; NULL if there is no page
    const Shape* shape      # NULL for a dictionary
    const uint8_t* repeats  # repetition levels; those of definition follow
    Py_ssize_t repeat_bytes
    const uint8_t* levels
    Py_ssize_t level_bytes
    const uint8_t* values
    Py_ssize_t value_bytes
    int64_t encoding        # of the values: PLAIN once they were made so
    bint partial            # whether only the first bytes were decompressed
    int codec               # of what is compressed of it:
    const uint8_t* packed
    Py_ssize_t packed_bytes
    int64_t unpacked
    Buffer scratch          # what was decompressed
    Buffer plain            # values that were made plain
    PyObject* owner


cdef int cut_page(
    PageBody* body, const uint8_t* content, const int64_t* page, int codec, const Shape* shape
) except -1 nogil
cdef bint split_page(PageBody* body, const uint8_t* unpacked, Py_ssize_t length) except -1 nogil
cdef int unpack_page(PageBody* body, object decompress, int64_t needed) except -1 nogil
cdef bint fall_short(const PageBody* body, const char* problem) except -1 nogil
cdef void close_page(PageBody* body) noexcept nogil
cdef bint is_dictionary(const int64_t* page) noexcept nogil
cdef int require_pages(const uint8_t[::1] data, const int64_t[:, ::1] pages) except -1


cdef inline bint needs_dictionary(int64_t encoding) noexcept nogil:
    """Return whether values are numbers of a dictionary's entries."""
    return encoding == PLAIN_DICTIONARY or encoding == RLE_DICTIONARY


cdef class PageVisitor:
    cdef readonly StoredColumn column
    cdef object decompress
    cdef int codec
    cdef int open_dictionary(self, const uint8_t* content, const int64_t* page) except -1 nogil
    cdef int64_t find_needed(self, const int64_t* page, int64_t before) noexcept nogil
    cdef int visit(self, PageBody* body, int64_t before) except -1 nogil
    cdef int end(self) except -1 nogil


# -------------------------------------------------------------------------------------------------------------- runs

cdef struct Runs:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end
    int width
    # The run whose header ends at `pos`:
    bint packed
    bint cut             # packed, with fewer numbers than its header says
    Py_ssize_t start     # of its bytes
    Py_ssize_t length    # numbers in the run
    uint32_t value       # that it repeats


cdef void start_runs(Runs* runs, const uint8_t* data, Py_ssize_t size, int width) noexcept nogil
cdef int start_indices(Runs* runs, const PageBody* body) except -1 nogil
cdef int next_run(Runs* runs) except -1 nogil
cdef Py_ssize_t next_entries(Runs* runs, Py_ssize_t left, uint64_t num_entries) except -1 nogil


cdef inline bint read_varint(Runs* runs, int most, uint64_t* value) noexcept nogil:
    """Read a number at `pos`, in bytes that have at most so many bits; return False if there is none."""
    cdef int shift = 0
    value[0] = 0
    while runs.pos < runs.end and shift < most:
        value[0] |= <uint64_t>(runs.data[runs.pos] & 0x7F) << shift if shift < 64 else 0
        shift += 7
        runs.pos += 1
        if runs.data[runs.pos - 1] < 0x80:
            return True
    return False


cdef uint32_t cut_number(const uint8_t* data, Py_ssize_t size, int shift, int width) noexcept nogil


cdef inline uint32_t number_at(const Runs* runs, Py_ssize_t number) noexcept nogil:
    """Return a number of a bit-packed run, counted from 0: less than `length`."""
    cdef Py_ssize_t bit = number * runs.width
    cdef Py_ssize_t at = runs.start + (bit >> 3)
    cdef uint64_t bits
    if runs.end - at < 8:
        return cut_number(runs.data + at, runs.end - at, bit & 7, runs.width)
    memcpy(&bits, runs.data + at, 8)  # little-endian, as the processor is
    return <uint32_t>(bits >> (bit & 7) & ((<uint64_t>1 << runs.width) - 1))


# ------------------------------------------------------------------------------------------------------------ levels

cdef struct Levels:
    const Shape* shape
    Runs repeats
    Runs definitions
    Py_ssize_t repeat_at      # numbers of the runs that were read
    Py_ssize_t definition_at
    Py_ssize_t left
    # The block that was read last:
    Py_ssize_t length
    Py_ssize_t num_rows       # that begin in it
    Py_ssize_t num_values     # that are stored
    bint is_run               # all of its values are stored, or none, and each is a row: its levels are not unpacked
    bint is_packed            # they are to be unpacked
    # Definition level i is at i + 1, behind the last one before.
    uint8_t[BLOCK + LEVEL_SLACK] repeat
    uint8_t[BLOCK + LEVEL_SLACK + 1] definition


cdef void start_levels(Levels* levels, const PageBody* body, uint8_t last) noexcept nogil
cdef bint next_block(Levels* levels) except -1 nogil
cdef void unpack_block(Levels* levels) noexcept nogil
cdef Py_ssize_t count_levels(const PageBody* body, uint8_t* last, Py_ssize_t* num_rows) except -1 nogil
