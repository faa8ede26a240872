"""The levels and values of a data page, decompressed without the interpreter lock. Nothing here trusts the bytes.

Source: parquet.thrift, PageHeader; README.md of the format, "Data Pages".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ..core.decode.snappy cimport SLACK, read_size, unpack

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
    # Kinds of pages, encodings and codecs, by the format's numbers.
    DATA_PAGE = 0
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    RLE_DICTIONARY = 8
    UNCOMPRESSED = 0
    SNAPPY = 1

cdef enum:
    MOST_BYTES = 64 << 20   # of a decompressed page: larger ones are left to pyarrow
    MOST_VALUES = 1 << 24   # of a page: runs of a few bytes could claim any amount of memory

cdef enum PageProblem:
    UNSUPPORTED = -20
    NO_MEMORY = -21
    BROKEN = -22
    VALUES_MISSING = -23
    VALUE_CUT_OFF = -24
    NOT_IN_DICTIONARY = -25
    OTHER_ROWS = -26
    OTHER_VALUES = -27
    BAD_LEVEL = -28
    NO_ELEMENTS = -29


cdef struct PageBody:
    const uint8_t* repeats  # repetition levels; those of definition follow
    Py_ssize_t repeat_bytes
    const uint8_t* levels
    Py_ssize_t level_bytes
    const uint8_t* values
    Py_ssize_t value_bytes
    uint8_t* scratch       # to be freed: what was decompressed, and values that were made plain
    uint8_t* plain


cdef inline void close_page(PageBody* body) noexcept nogil:
    free(body.scratch)
    free(body.plain)
    body.scratch = body.plain = NULL


cdef inline int unpack_block(
    const uint8_t* data, Py_ssize_t size, int codec, int64_t unpacked, int64_t needed, PageBody* body,
    const uint8_t** out, Py_ssize_t* length
) noexcept nogil:
    """Decompress at least the first `needed` bytes of a block; return 0, or a `PageProblem`."""
    cdef int64_t announced = 0, done
    cdef Py_ssize_t start
    if codec == UNCOMPRESSED or size == unpacked == 0:
        if size != unpacked:  # some writers compress pages that they say are not
            return UNSUPPORTED
        out[0], length[0] = data, size
        return 0
    if codec != SNAPPY or not 0 < unpacked <= MOST_BYTES:
        return UNSUPPORTED
    start = read_size(data, size, &announced)
    if start < 0 or announced != unpacked:
        return BROKEN
    needed = min(max(needed, 1), unpacked)
    body.scratch = <uint8_t*>malloc(unpacked + SLACK)
    if body.scratch == NULL:
        return NO_MEMORY
    done = unpack(data, start, size, body.scratch, unpacked, needed)
    if done < needed:
        return BROKEN
    out[0], length[0] = body.scratch, done
    return 0


cdef inline int cut_levels(
    const uint8_t** unpacked, Py_ssize_t* length, const uint8_t** levels, Py_ssize_t* level_bytes
) noexcept nogil:
    """Take levels, after their length, from the front of a page of version 1; return 0, or a `PageProblem`."""
    cdef uint32_t size = 0
    if length[0] < 4:
        return UNSUPPORTED
    memcpy(&size, unpacked[0], 4)  # little-endian, as the processor is
    if size > <size_t>(length[0] - 4):
        return BROKEN
    levels[0], level_bytes[0] = unpacked[0] + 4, size
    unpacked[0] += 4 + size
    length[0] -= 4 + <Py_ssize_t>size
    return 0


cdef inline int open_nested_page(
    const uint8_t* data, const int64_t* page, int codec, bint repeated, bint required, int64_t needed, PageBody* body
) noexcept nogil:
    """Split a data page, or a dictionary page, into its levels and values.

    Parameters
    ----------
    data, page : bytes of the pages, and a row of the table that `index_pages` made of them.
    repeated, required : whether the column has repetition levels, and whether it has no definition levels.
    needed : bytes of levels and values that are needed from the beginning; more may be available.
    body : `close_page` must be called for it, whatever is returned.

    Returns
    -------
    0, or a `PageProblem`.
    """
    cdef const uint8_t* content = data + page[START] + page[HEADER_BYTES]
    cdef const uint8_t* unpacked
    cdef Py_ssize_t size = page[SIZE], length, end, first
    cdef int problem
    body.scratch = body.plain = NULL
    body.repeats, body.repeat_bytes = content, 0
    body.levels, body.level_bytes = content, 0
    if page[NUM_VALUES] > MOST_VALUES:
        return UNSUPPORTED
    if page[KIND] == DATA_PAGE_V2:
        first, end = page[REPEAT_BYTES], page[LEVEL_BYTES]
        if first < 0 or (first > 0) != repeated or not 0 <= end <= size - first or (end == 0) != required:
            return UNSUPPORTED
        body.repeat_bytes = first
        body.levels, body.level_bytes = content + first, end
        end += first
        return unpack_block(
            content + end, size - end, codec if page[COMPRESSED] else UNCOMPRESSED, page[UNPACKED] - end, needed - end,
            body, &body.values, &body.value_bytes
        )
    problem = unpack_block(content, size, codec, page[UNPACKED], needed, body, &unpacked, &length)
    if repeated and problem == 0:
        problem = UNSUPPORTED
        if page[REPEAT_ENCODING] == RLE:
            problem = cut_levels(&unpacked, &length, &body.repeats, &body.repeat_bytes)
    if not required and page[KIND] == DATA_PAGE and problem == 0:
        problem = UNSUPPORTED
        if page[LEVEL_ENCODING] == RLE:
            problem = cut_levels(&unpacked, &length, &body.levels, &body.level_bytes)
    if problem:
        return problem
    body.values, body.value_bytes = unpacked, length
    return 0


cdef inline int open_page(
    const uint8_t* data, const int64_t* page, int codec, bint required, int64_t needed, PageBody* body
) noexcept nogil:
    """Split a page of a column without lists: as `open_nested_page`."""
    return open_nested_page(data, page, codec, False, required, needed, body)


cdef inline bint is_dictionary(const int64_t* page) noexcept nogil:
    """Return whether a page is a dictionary of a kind that is known here."""
    return (
        page[KIND] == DICTIONARY_PAGE and 0 <= page[NUM_VALUES] <= MOST_VALUES
        and (page[ENCODING] == PLAIN or page[ENCODING] == PLAIN_DICTIONARY)
    )


cdef inline bint needs_dictionary(const int64_t* page) noexcept nogil:
    """Return whether the values of a data page are numbers of a dictionary's entries."""
    return page[ENCODING] == PLAIN_DICTIONARY or page[ENCODING] == RLE_DICTIONARY


cdef inline str describe_page_problem(Py_ssize_t problem):
    """Describe a `PageProblem`."""
    if problem == UNSUPPORTED:
        return "it is of another kind"
    if problem == VALUES_MISSING:
        return "it has fewer values than its header says"
    if problem == VALUE_CUT_OFF:
        return "a value is cut off"
    if problem == NOT_IN_DICTIONARY:
        return "a number is not in the dictionary"
    if problem == OTHER_ROWS:
        return "its column chunk has not as many rows as the row group"
    if problem == OTHER_VALUES:
        return "its values are not those of the column chunk"
    if problem == BAD_LEVEL:
        return "a level is higher than the schema has any"
    if problem == NO_ELEMENTS:
        return "a list without elements goes on"
    return "there is no memory for it" if problem == NO_MEMORY else "it cannot be decompressed"


cdef inline int require_pages(const uint8_t[::1] data, const int64_t[:, ::1] pages) except -1:
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
