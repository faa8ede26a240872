# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Search of the elements of lists for the values that are equal to one of some targets, without the interpreter lock.

A column with lists has several values a row: its repetition levels say where a row begins, its definition levels which of
the values are stored. Both are unpacked to bytes, a block at a time, and counted by loops that compilers turn into vector
instructions; only blocks with a match are gone through level by level.

Nothing here trusts the bytes: levels that contradict each other, or the schema, end in MalformedFooterError.

Source: README.md of the format, "Nested Encoding"; Encodings.md, "RLE / bit-packing hybrid".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from ..errors import MalformedFooterError

from .page_decode cimport (
    BAD_LEVEL, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, ENCODING, FIELDS, KIND, MOST_BYTES, MOST_VALUES, NO_ELEMENTS, NO_MEMORY,
    NUM_VALUES, OTHER_ROWS, OTHER_VALUES, PLAIN, UNSUPPORTED, PageBody, close_page, needs_dictionary, open_nested_page, require_pages
)
from .page_encodings cimport fail_page, has_other_encoding
from .page_match cimport Targets, match_values, search_dictionary
from .page_rows cimport RowTaker
from .runs cimport CUT_OFF, Runs, next_run, start_runs

cdef enum:
    BLOCK = 1024  # levels that are unpacked at a time
    SLACK = 8     # bytes behind them that may be written
    MOST_IN_CHUNK = 1 << 28  # values: runs of a few bytes could claim any amount of time



cdef struct Levels:
    Runs runs
    Py_ssize_t at  # numbers of the run that were read


cdef struct Block:
    # The levels of some values; definition level i of them is at i + 1, behind the last one before.
    uint8_t[BLOCK + SLACK] repeats
    uint8_t[BLOCK + SLACK + 1] definitions
    Py_ssize_t num_rows    # that begin in it
    Py_ssize_t num_values  # that are stored


cdef inline void unpack_run(const Runs* runs, Py_ssize_t first, Py_ssize_t count, uint8_t* out) noexcept nogil:
    """Unpack numbers of at most 8 bits of a packed run, eight at a time: up to 7 more may be written."""
    cdef int width = runs.width
    cdef uint64_t half = (<uint64_t>1 << 4 * width) - 1
    cdef uint64_t quarter = ((<uint64_t>1 << 2 * width) - 1) * <uint64_t>0x0000000100000001
    cdef uint64_t one = ((<uint64_t>1 << width) - 1) * <uint64_t>0x0001000100010001
    cdef uint64_t word
    cdef Py_ssize_t i, bit, byte
    for i in range(0, count, 8):
        bit = (first + i) * width
        byte = runs.start + (bit >> 3)
        if runs.end - byte >= 8:
            memcpy(&word, runs.data + byte, 8)  # little-endian, as the processor is
        else:
            word = 0
            memcpy(&word, runs.data + byte, runs.end - byte)
        word >>= bit & 7
        word = (word & half) | ((word >> 4 * width) & half) << 32
        word = (word & quarter) | ((word >> 2 * width) & quarter) << 16
        word = (word & one) | ((word >> width) & one) << 8
        memcpy(out + i, &word, 8)


cdef inline int unpack_levels(Levels* levels, Py_ssize_t count, uint8_t* out) noexcept nogil:
    """Unpack the next levels; return 0, or a `RunError`. Up to `SLACK` bytes more may be written."""
    cdef Py_ssize_t done = 0, taken
    cdef int problem
    while done < count:
        if levels.at == levels.runs.length:
            problem = next_run(&levels.runs)
            if problem:
                return problem
            if levels.runs.cut:  # readers disagree about such runs
                return CUT_OFF
            levels.at = 0
        taken = min(levels.runs.length - levels.at, count - done)
        if levels.runs.packed:
            unpack_run(&levels.runs, levels.at, taken, out + done)
        else:
            memset(out + done, <int>levels.runs.value, taken)
        levels.at += taken
        done += taken
    return 0


cdef inline void start_levels(Levels* levels, const uint8_t* data, Py_ssize_t size, int most) noexcept nogil:
    cdef int width = 0
    while most >> width:
        width += 1
    start_runs(&levels.runs, data, size, width)
    levels.at = 0


cdef int read_block(
    Levels* repeats, Levels* definitions, Py_ssize_t count, const ListShape* shape, Block* block
) noexcept nogil:
    """Unpack and count at most `BLOCK` levels of each kind; return 0, or a problem."""
    cdef Py_ssize_t i
    cdef int problem = unpack_levels(repeats, count, &block.repeats[0])
    cdef const uint8_t* repeat = &block.repeats[0]
    cdef const uint8_t* definition = &block.definitions[1]
    cdef uint16_t num_rows = 0, num_values = 0  # as narrow as BLOCK allows, for the vectors' sake
    cdef uint8_t above = 0, empty = 0, most_repeats = <uint8_t>shape.max_repetition
    cdef uint8_t most = <uint8_t>shape.max_definition, least, depth
    if not problem:
        problem = unpack_levels(definitions, count, &block.definitions[1])
    if problem:
        return problem
    for i in range(count):
        num_rows += repeat[i] == 0
        num_values += definition[i] == most
        above |= (repeat[i] > most_repeats) | (definition[i] > most)
    if above:
        return BAD_LEVEL
    for depth in range(1, most_repeats + 1):  # what goes on has an element, and so has what it goes on from
        least = shape.least[depth]
        for i in range(count):
            empty |= (repeat[i] == depth) & ((definition[i] < least) | (definition[i - 1] < least))
    if empty:
        return NO_ELEMENTS
    block.num_rows, block.num_values = num_rows, num_values
    return 0


cdef Py_ssize_t count_levels(
    const PageBody* body, Py_ssize_t count, const ListShape* shape, uint8_t* last, Py_ssize_t* num_rows
) noexcept nogil:
    """Return how many values of a page are stored, or a problem; set how many rows begin, and the last definition level."""
    cdef Levels repeats, definitions
    cdef Block block
    cdef Py_ssize_t total = 0, done = 0, length
    cdef int problem
    start_levels(&repeats, body.repeats, body.repeat_bytes, shape.max_repetition)
    start_levels(&definitions, body.levels, body.level_bytes, shape.max_definition)
    num_rows[0] = 0
    while done < count:
        length = min(<Py_ssize_t>BLOCK, count - done)
        block.definitions[0] = last[0]
        problem = read_block(&repeats, &definitions, length, shape, &block)
        if problem:
            return problem
        last[0] = block.definitions[length]
        num_rows[0] += block.num_rows
        total += block.num_values
        done += length
    return total


cdef Py_ssize_t find_rows(
    const PageBody* body, Py_ssize_t count, const ListShape* shape, const int64_t* matches, Py_ssize_t num_matches,
    Py_ssize_t begun, int64_t last_row, int64_t* rows
) noexcept nogil:
    """Return in how many rows some stored values are, or a problem. `count_levels` must have returned none.

    Parameters
    ----------
    matches : numbers of values of the page that are stored, ascending.
    begun : rows that begin in the pages before.
    last_row : is left out: it is known to match.
    rows : take the rows, ascending, each once.
    """
    cdef Levels repeats, definitions
    cdef Block block
    cdef Py_ssize_t done = 0, value = 0, match = 0, num_found = 0, length, i
    cdef int64_t row = begun - 1
    cdef int problem
    start_levels(&repeats, body.repeats, body.repeat_bytes, shape.max_repetition)
    start_levels(&definitions, body.levels, body.level_bytes, shape.max_definition)
    while match < num_matches and done < count:
        length = min(<Py_ssize_t>BLOCK, count - done)
        block.definitions[0] = <uint8_t>shape.max_definition  # what goes on was checked before
        problem = read_block(&repeats, &definitions, length, shape, &block)
        if problem:
            return problem
        done += length
        if matches[match] >= value + block.num_values:
            value += block.num_values
            row += block.num_rows
            continue
        for i in range(length):
            row += block.repeats[i] == 0
            if block.definitions[i + 1] == shape.max_definition:
                if match < num_matches and matches[match] == value:
                    match += 1
                    if row != last_row:
                        rows[num_found] = last_row = row
                        num_found += 1
                value += 1
    return num_found


cdef Py_ssize_t search_page(
    const uint8_t* data, const int64_t* page, Py_ssize_t width, int codec, const ListShape* shape, Targets targets,
    const int32_t* by_entry, Py_ssize_t num_entries, int64_t* positions, int32_t* which, Py_ssize_t num_rows,
    uint8_t* last, Py_ssize_t* begun, int64_t last_row, int64_t* rows, PageBody* body
) noexcept nogil:
    """Search a data page; return how many rows match that did not before, or a problem. `close_page` must be called."""
    cdef Py_ssize_t count, matches, in_page = 0, before = begun[0]
    cdef int problem = open_nested_page(data, page, codec, True, False, MOST_BYTES, body)
    if problem:
        return problem
    count = count_levels(body, page[NUM_VALUES], shape, last, &in_page)
    if count < 0:
        return count
    begun[0] += in_page
    if begun[0] > num_rows:  # before any row is stored
        return OTHER_ROWS
    if count == 0:
        return 0
    matches = match_values(body, page, count, width, targets, by_entry, num_entries, positions, which)
    if matches <= 0:
        return matches
    return find_rows(body, page[NUM_VALUES], shape, positions, matches, before, last_row, rows)


cdef Py_ssize_t search_data_pages(
    const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, Py_ssize_t width, int codec, const ListShape* shape,
    Py_ssize_t num_rows, Targets targets, const int32_t* by_entry, Py_ssize_t num_entries, int64_t* positions,
    int32_t* which, int64_t* rows
) noexcept nogil:
    """Search data pages; return the number of matching rows, or a problem."""
    cdef PageBody body
    cdef Py_ssize_t i, matches = 0, in_page, begun = 0
    cdef uint8_t last = 0  # definition level: none that a list could go on from
    cdef const int64_t* page
    for i in range(num_pages):
        page = pages + i * FIELDS
        if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2:
            return UNSUPPORTED
        if page[NUM_VALUES] == 0:  # pyarrow writes such pages, without levels
            continue
        if not (page[ENCODING] == PLAIN or has_other_encoding(page) or needs_dictionary(page) and by_entry != NULL):
            return UNSUPPORTED
        in_page = search_page(
            data, page, width, codec, shape, targets, by_entry, num_entries, positions, which, num_rows, &last, &begun,
            rows[matches - 1] if matches else -1, rows + matches, &body
        )
        close_page(&body)
        if in_page < 0:
            return in_page
        matches += in_page
    return matches if begun == num_rows else <Py_ssize_t>OTHER_ROWS


cdef Py_ssize_t search_list_pages(
    const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, Py_ssize_t width, int codec,
    const ListShape* shape, Py_ssize_t num_rows, int64_t num_values, Targets targets, int64_t* rows
) noexcept nogil:
    """Search all pages of a column chunk; return the number of matching rows, or a problem.

    Parameters
    ----------
    data, pages, num_pages : the bytes of pages, which are known to be inside of them, and their table.
    width, codec, shape, num_rows, num_values : as `search_lists` takes them.
    rows : of length `num_rows`; take the matching rows, ascending.
    """
    cdef Py_ssize_t i, first = 0, num_entries = 0, matches = 0, largest = 0
    cdef int64_t missing = num_values
    cdef int32_t* by_entry = NULL
    cdef int64_t* positions
    cdef int32_t* which
    if targets.count == 0 or width and not targets.shortest <= width <= targets.longest:
        return 0
    if not 0 <= num_rows <= MOST_VALUES or not 0 <= num_values <= MOST_IN_CHUNK:
        return UNSUPPORTED
    if num_pages and pages[KIND] == DICTIONARY_PAGE:
        first, num_entries = 1, pages[NUM_VALUES]
    for i in range(first, num_pages):
        if pages[i * FIELDS + NUM_VALUES] > MOST_VALUES:
            return UNSUPPORTED
        largest = max(largest, pages[i * FIELDS + NUM_VALUES])
        missing -= pages[i * FIELDS + NUM_VALUES]
    if missing:
        return OTHER_VALUES
    if first:
        matches = min(search_dictionary(data, pages, width, codec, targets, &by_entry), 0)
    positions = <int64_t*>malloc(max(1, largest) * sizeof(int64_t))
    which = <int32_t*>malloc(max(1, largest) * sizeof(int32_t))
    if positions == NULL or which == NULL:
        matches = NO_MEMORY
    if matches == 0:
        matches = search_data_pages(
            data, pages + first * FIELDS, num_pages - first, width, codec, shape, num_rows, targets, by_entry, num_entries,
            positions, which, rows
        )
    free(positions)
    free(which)
    free(by_entry)
    return matches


cdef struct Place:
    # How far the rows of a chunk are gone through.
    int64_t row         # that began last
    Py_ssize_t wanted   # number of the first one that is wanted and not passed
    uint8_t last        # definition level


cdef Py_ssize_t locate_elements(
    const PageBody* body, Py_ssize_t count, const ListShape* shape, const int64_t* rows, Py_ssize_t num_wanted,
    Place* place, uint8_t* valid, int32_t* lengths, uint8_t* stored, int64_t* numbers, Py_ssize_t* num_stored
) noexcept nogil:
    """Find the elements of the lists of some rows in a page of lists of one level.

    Parameters
    ----------
    rows, num_wanted : the rows, ascending, each once.
    place : is moved behind the page.
    valid, lengths : take for each of the rows whether it has a list, and of how many elements; longer lists are extended.
    stored, numbers, num_stored : take for each element whether it is stored, and the numbers of those among the values.

    Returns
    -------
    The number of elements, or a problem.
    """
    cdef Levels repeats, definitions
    cdef Block block
    cdef Py_ssize_t done = 0, value = 0, found = 0, length, i
    cdef uint8_t definition, least = shape.least[1], most = <uint8_t>shape.max_definition
    cdef int problem
    num_stored[0] = 0
    start_levels(&repeats, body.repeats, body.repeat_bytes, shape.max_repetition)
    start_levels(&definitions, body.levels, body.level_bytes, shape.max_definition)
    while done < count and place.wanted < num_wanted:
        length = min(<Py_ssize_t>BLOCK, count - done)
        block.definitions[0] = place.last
        problem = read_block(&repeats, &definitions, length, shape, &block)
        if problem:
            return problem
        place.last = block.definitions[length]
        done += length
        if rows[place.wanted] > place.row + block.num_rows:
            place.row += block.num_rows
            value += block.num_values
            continue
        for i in range(length):
            definition = block.definitions[i + 1]
            if block.repeats[i] == 0:
                if place.row == rows[place.wanted]:
                    place.wanted += 1
                    if place.wanted == num_wanted:
                        break
                place.row += 1
                if place.row == rows[place.wanted]:
                    valid[place.wanted] = definition + 1 >= least
                    lengths[place.wanted] = 0
            if place.row == rows[place.wanted] and definition >= least:
                lengths[place.wanted] += 1
                stored[found] = definition == most
                if definition == most:
                    numbers[num_stored[0]] = value
                    num_stored[0] += 1
                found += 1
            value += definition == most
    return found


cdef int take_lists_of_page(
    RowTaker taker, const uint8_t* data, const int64_t* page, int codec, const ListShape* shape, const int64_t* rows,
    Py_ssize_t num_wanted, Place* place, uint8_t* valid, int32_t* lengths, uint8_t* stored, int64_t* numbers,
    PageBody* body
) except 1 nogil:
    """Append the elements of lists of some rows in a page; return 0, or a problem. `close_page` must be called."""
    cdef Py_ssize_t num_stored = 0, found
    cdef int problem = open_nested_page(data, page, codec, True, False, MOST_BYTES, body)
    if problem:
        return problem
    found = locate_elements(
        body, page[NUM_VALUES], shape, rows, num_wanted, place, valid, lengths, stored, numbers, &num_stored
    )
    if found <= 0:
        return <int>found
    with gil:
        taker.grow(found)
    memcpy(&taker.valid[taker.taken], stored, found)
    return taker.copy_values(body, page, numbers, num_stored, found)


cdef int take_lists(
    RowTaker taker, const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, int codec, const ListShape* shape,
    int64_t num_values, const int64_t* rows, Py_ssize_t count, uint8_t* valid, int32_t* lengths
) except -1 nogil:
    """Append the elements of lists of some rows of a column chunk, whose lists have one level.

    Parameters
    ----------
    taker : takes the elements.
    data, pages, num_pages, codec, num_values : as `search_list_pages` takes them.
    rows, count : at least one row, ascending, each once.
    valid, lengths : take for each of them whether it has a list, and of how many elements.

    Raises
    ------
    MalformedFooterError
        The pages have fewer rows, contradict themselves, or are of a kind that is not supported.
    """
    cdef Place place
    cdef PageBody body
    cdef Py_ssize_t i, first = 0, largest = 0
    cdef int64_t missing = num_values
    cdef int64_t* numbers = NULL
    cdef uint8_t* stored = NULL
    cdef int problem = 0
    cdef const int64_t* page
    if shape.max_repetition != 1 or shape.max_definition > shape.least[1] + 1 or not 0 <= num_values <= MOST_IN_CHUNK:
        problem = UNSUPPORTED
    taker.begin(codec)
    if problem == 0 and num_pages and pages[KIND] == DICTIONARY_PAGE:
        first = 1
        problem = taker.open_dictionary(data, pages)
    for i in range(first, num_pages):
        page = pages + i * FIELDS
        if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2 or page[NUM_VALUES] > MOST_VALUES:
            problem = UNSUPPORTED
        largest = max(largest, page[NUM_VALUES])
        missing -= page[NUM_VALUES]
    if problem == 0 and missing:
        problem = OTHER_VALUES
    if problem == 0:
        numbers = <int64_t*>malloc(max(1, largest) * sizeof(int64_t))
        stored = <uint8_t*>malloc(max(1, largest))
        if numbers == NULL or stored == NULL:
            problem = NO_MEMORY
    place.row, place.wanted, place.last = -1, 0, 0
    try:
        for i in range(first, num_pages):
            page = pages + i * FIELDS
            if problem or place.wanted == count:
                break
            if page[NUM_VALUES]:
                try:
                    problem = take_lists_of_page(
                        taker, data, page, codec, shape, rows, count, &place, valid, lengths, stored, numbers, &body
                    )
                finally:
                    close_page(&body)
    finally:
        free(numbers)
        free(stored)
    if problem == 0 and (place.wanted < count - 1 or place.wanted == count - 1 and place.row != rows[count - 1]):
        problem = OTHER_ROWS
    if problem:
        with gil:
            fail_page(problem)
    return 0



cdef ListShape make_shape(const int64_t[::1] least, int max_definition) except *:
    """Return the levels of a column; for the parameters see `search_lists`."""
    cdef ListShape shape
    cdef Py_ssize_t i
    if not 1 < least.shape[0] <= MOST_DEPTH + 1 or not 0 < max_definition <= MOST_LEVEL:
        raise MalformedFooterError(f"page: lists of {least.shape[0] - 1} levels, with {max_definition} of definition")
    shape.max_repetition, shape.max_definition = <int>least.shape[0] - 1, max_definition
    for i in range(least.shape[0]):
        if not 0 <= least[i] <= max_definition or (least[i] == 0) != (i == 0):
            raise ValueError("a least definition level that the column does not have")
        shape.least[i] = <uint8_t>least[i]
    return shape


def search_lists(
    const uint8_t[::1] data not None, const int64_t[:, ::1] pages not None, Py_ssize_t width, int codec,
    const int64_t[::1] least not None, int max_definition, Py_ssize_t num_rows, int64_t num_values, Targets targets not None
):
    """Search all pages of a column chunk of a column with lists for some targets.

    Parameters
    ----------
    data : the bytes of the pages.
    pages : their headers, as `thrift_compact.index_pages` gives them for the same bytes.
    width : bytes per value; 0 for length-prefixed byte arrays.
    codec : number of the codec that compresses the pages.
    least : for each repetition level, the least definition level of an element of its lists; 0 for level 0.
    max_definition : the highest definition level, that of values.
    num_rows : of the row group.
    num_values : of the column chunk, nulls and empty lists included.

    Returns
    -------
    The rows that have at least one value that is equal to a target, whatever its depth: int64, ascending.

    Raises
    ------
    MalformedFooterError
        The pages have other numbers of rows or values, contradict themselves, or are of a kind that is not supported.
    """
    cdef ListShape shape = make_shape(least, max_definition)
    cdef Py_ssize_t matches = 0
    cdef int64_t[::1] rows
    require_pages(data, pages)
    if not 0 <= num_rows <= MOST_VALUES or width < 0:
        raise MalformedFooterError(f"page: a row group of {num_rows} rows")
    all_rows = np.empty(max(1, num_rows), np.int64)
    rows = all_rows
    with nogil:
        matches = search_list_pages(
            &data[0] if data.shape[0] else NULL, &pages[0, 0] if pages.shape[0] else NULL, pages.shape[0], width, codec,
            &shape, num_rows, num_values, targets, &rows[0]
        )
    if matches < 0:
        fail_page(matches)
    return all_rows[:matches].copy()
