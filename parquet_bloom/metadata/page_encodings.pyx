# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Values of a page in other encodings than PLAIN, made plain without the interpreter lock. Nothing here trusts the bytes.

A value of one bit becomes a byte.

Source: Encodings.md of the format: "PLAIN", "RLE / bit-packing hybrid", "Delta Encoding", "Byte Stream Split".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ..errors import UnusualPageError

from .page_decode cimport (
    BROKEN, ENCODING, MOST_BYTES, NO_MEMORY, NUM_VALUES, UNSUPPORTED, VALUE_CUT_OFF, VALUES_MISSING, PageBody,
    describe_page_problem
)
from .runs cimport ENDS_EARLY, Runs, describe_problem, next_run, packed_number, start_runs

cdef enum:
    MOST_DELTAS = MOST_BYTES // 8  # of a page
    MOST_IN_BLOCK = 1 << 20


cdef bint has_other_encoding(const int64_t* page) noexcept nogil:
    """Return whether `make_plain` knows the encoding of a data page."""
    return (
        DELTA_BINARY_PACKED <= page[ENCODING] <= DELTA_BYTE_ARRAY or page[ENCODING] == BYTE_STREAM_SPLIT
        or page[ENCODING] == PLAIN_BITS or page[ENCODING] == RLE_BITS
    )


cdef int make_plain(PageBody* body, const int64_t* page, Py_ssize_t width) noexcept nogil:
    """Replace the values of an open data page by the same values in PLAIN; return 0, or a problem.

    Parameters
    ----------
    page : its header, of which `has_other_encoding` is true.
    width : bytes per value; 0 for byte arrays.
    """
    cdef int64_t encoding = page[ENCODING]
    cdef uint8_t* plain = NULL
    cdef Py_ssize_t size = 0
    cdef int problem = UNSUPPORTED
    if encoding == PLAIN_BITS or encoding == RLE_BITS:
        if width == 1:
            problem = make_bytes(body, encoding, page[NUM_VALUES], &plain, &size)
    elif encoding == BYTE_STREAM_SPLIT:
        if width > 0:
            problem = join_streams(body, width, &plain, &size)
    elif encoding == DELTA_BINARY_PACKED:
        if width == 4 or width == 8:
            problem = make_integers(body, width, page[NUM_VALUES], &plain, &size)
    elif width == 0 or encoding == DELTA_BYTE_ARRAY:
        problem = make_byte_arrays(body, width, page[NUM_VALUES], encoding == DELTA_BYTE_ARRAY, &plain, &size)
    if problem:
        free(plain)
        return problem
    free(body.plain)
    body.plain, body.values, body.value_bytes = plain, plain, size
    return 0


cdef int reserve(uint8_t** plain, Py_ssize_t size) noexcept nogil:
    """Make room for some bytes; return 0, or a problem."""
    if size > MOST_BYTES:
        return UNSUPPORTED
    plain[0] = <uint8_t*>malloc(max(1, size))
    return 0 if plain[0] != NULL else <int>NO_MEMORY


cdef int make_bytes(
    const PageBody* body, int64_t encoding, int64_t most, uint8_t** plain, Py_ssize_t* size
) noexcept nogil:
    """Make bytes of at most so many bits."""
    cdef Runs runs
    cdef uint32_t length = 0
    cdef Py_ssize_t count, i
    cdef int problem = reserve(plain, most)
    if problem:
        return problem
    if encoding == PLAIN_BITS:
        size[0] = min(most, 8 * body.value_bytes)
        for i in range(size[0]):
            plain[0][i] = body.values[i >> 3] >> (i & 7) & 1
        return 0
    if body.value_bytes < 4:
        return 0 if body.value_bytes == 0 else <int>VALUES_MISSING
    memcpy(&length, body.values, 4)  # little-endian, as the processor is
    if length > <size_t>(body.value_bytes - 4):
        return BROKEN
    start_runs(&runs, body.values + 4, length, 1)
    while size[0] < most:
        problem = next_run(&runs)
        if problem:  # nulls have no bits
            return 0 if problem == ENDS_EARLY and runs.pos >= runs.end else problem
        count = min(runs.length, most - size[0])
        if runs.packed:
            for i in range(count):
                plain[0][size[0] + i] = packed_number(&runs, i)
        else:
            memset(plain[0] + size[0], runs.value != 0, count)
        size[0] += count
    return 0


cdef int join_streams(const PageBody* body, Py_ssize_t width, uint8_t** plain, Py_ssize_t* size) noexcept nogil:
    """Put together values of which each byte is in a stream of its own."""
    cdef Py_ssize_t count = body.value_bytes // width, i, byte
    cdef int problem = reserve(plain, body.value_bytes)
    if problem:
        return problem
    if count * width != body.value_bytes:
        return BROKEN
    for byte in range(width):
        for i in range(count):
            plain[0][i * width + byte] = body.values[byte * count + i]
    size[0] = body.value_bytes
    return 0


cdef struct Deltas:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end


cdef inline bint read_varint(Deltas* deltas, uint64_t* value) noexcept nogil:
    cdef int shift = 0
    value[0] = 0
    while deltas.pos < deltas.end and shift < 70:
        value[0] |= <uint64_t>(deltas.data[deltas.pos] & 0x7F) << shift if shift < 64 else 0
        shift += 7
        deltas.pos += 1
        if deltas.data[deltas.pos - 1] < 0x80:
            return True
    return False


cdef inline uint64_t read_bits(const Deltas* deltas, Py_ssize_t start, Py_ssize_t bit, int width) noexcept nogil:
    """Return `width` bits, 1 to 64, which are known to be there."""
    cdef Py_ssize_t at = start + (bit >> 3), last = start + ((bit + width - 1) >> 3)
    cdef int shift = bit & 7
    cdef uint64_t value = 0
    memcpy(&value, deltas.data + at, min(8, last - at + 1))
    value >>= shift
    if last - at == 8:
        value |= <uint64_t>deltas.data[last] << (64 - shift)
    return value if width == 64 else value & ((<uint64_t>1 << width) - 1)


cdef Py_ssize_t unpack_deltas(Deltas* deltas, int64_t most, uint64_t** out) noexcept nogil:
    """Unpack numbers given by their differences; return how many, or a problem. `out` is set to what is to be freed."""
    cdef uint64_t block = 0, miniblocks = 0, count = 0, number = 0, least = 0
    cdef Py_ssize_t done = 0, widths, i, in_mini, num_bytes, mini, here
    cdef uint64_t* numbers
    cdef int width
    if not (read_varint(deltas, &block) and read_varint(deltas, &miniblocks) and read_varint(deltas, &count)):
        return BROKEN
    if not (read_varint(deltas, &number) and 0 < block <= MOST_IN_BLOCK and 0 < miniblocks <= block):
        return BROKEN
    in_mini = block // miniblocks
    if block % miniblocks or in_mini % 8 or <int64_t>count > most or <int64_t>count < 0:
        return BROKEN
    if <int64_t>count > MOST_DELTAS:
        return UNSUPPORTED
    numbers = out[0] = <uint64_t*>malloc(max(1, count) * sizeof(uint64_t))
    if numbers == NULL:
        return NO_MEMORY
    number = (number >> 1) ^ (0 - (number & 1))
    if count:
        numbers[0] = number
        done = 1
    while done < <Py_ssize_t>count:
        if not read_varint(deltas, &least) or deltas.end - deltas.pos < <Py_ssize_t>miniblocks:
            return BROKEN
        least = (least >> 1) ^ (0 - (least & 1))
        widths = deltas.pos
        deltas.pos += miniblocks
        for mini in range(<Py_ssize_t>miniblocks):
            if done == <Py_ssize_t>count:
                break
            width = deltas.data[widths + mini]
            num_bytes = in_mini // 8 * width
            if width > 64 or num_bytes > deltas.end - deltas.pos:
                return BROKEN
            here = min(in_mini, <Py_ssize_t>count - done)
            for i in range(here):
                number += least + (read_bits(deltas, deltas.pos, i * width, width) if width else 0)
                numbers[done + i] = number
            done += here
            deltas.pos += num_bytes
    return count


cdef int make_integers(
    const PageBody* body, Py_ssize_t width, int64_t most, uint8_t** plain, Py_ssize_t* size
) noexcept nogil:
    """Make integers of 4 or 8 bytes of their differences."""
    cdef Deltas deltas
    cdef uint64_t* numbers = NULL
    cdef Py_ssize_t count, i
    cdef int problem
    deltas.data, deltas.pos, deltas.end = body.values, 0, body.value_bytes
    if body.value_bytes == 0:  # of nothing but nulls
        return reserve(plain, 0)
    count = unpack_deltas(&deltas, most, &numbers)
    problem = <int>count if count < 0 else reserve(plain, count * width)
    if not problem:
        for i in range(count):  # little-endian, as the processor is
            memcpy(plain[0] + i * width, &numbers[i], width)
        size[0] = count * width
    free(numbers)
    return problem


cdef int make_byte_arrays(
    const PageBody* body, Py_ssize_t width, int64_t most, bint prefixed, uint8_t** plain, Py_ssize_t* size
) noexcept nogil:
    """Make values, with their lengths unless they have a width, of lengths, and perhaps of what they share with the last."""
    cdef Deltas deltas
    cdef uint64_t* prefixes = NULL
    cdef uint64_t* lengths = NULL
    cdef Py_ssize_t count, others = 0
    cdef int problem
    deltas.data, deltas.pos, deltas.end = body.values, 0, body.value_bytes
    if body.value_bytes == 0:  # of nothing but nulls
        return reserve(plain, 0)
    if prefixed:
        others = unpack_deltas(&deltas, most, &prefixes)
    count = others if others < 0 else unpack_deltas(&deltas, most, &lengths)
    if count < 0:
        problem = <int>count
    elif prefixed and others != count:
        problem = BROKEN
    else:
        problem = join_bytes(&deltas, width, count, prefixes, lengths, plain, size)
    free(prefixes)
    free(lengths)
    return problem


cdef int join_bytes(
    const Deltas* deltas, Py_ssize_t width, Py_ssize_t count, const uint64_t* prefixes, const uint64_t* lengths,
    uint8_t** plain, Py_ssize_t* size
) noexcept nogil:
    cdef uint64_t last = 0, shared = 0, total = 0, left = deltas.end - deltas.pos
    cdef uint32_t length
    cdef Py_ssize_t i
    cdef const uint8_t* data = deltas.data + deltas.pos
    cdef uint8_t* value = NULL
    cdef uint8_t* out
    cdef int problem
    for i in range(count):
        shared = prefixes[i] if prefixes != NULL else 0
        if shared > last or lengths[i] > left or width and shared + lengths[i] != <uint64_t>width:
            return VALUE_CUT_OFF
        left -= lengths[i]
        last = shared + lengths[i]
        total += last + (0 if width else 4)
        if total > MOST_BYTES:
            return UNSUPPORTED
    problem = reserve(plain, total)
    if problem:
        return problem
    out = plain[0]
    for i in range(count):
        shared = prefixes[i] if prefixes != NULL else 0
        length = <uint32_t>(shared + lengths[i])
        if not width:
            memcpy(out, &length, 4)
            out += 4
        if shared:
            memcpy(out, value, shared)
        memcpy(out + shared, data, lengths[i])
        value = out
        out += length
        data += lengths[i]
    size[0] = total
    return 0


cdef int fail_page(Py_ssize_t problem) except -1:
    """Raise the error of a `PageProblem`, or of a `RunError`."""
    raise UnusualPageError("page: " + (
        describe_page_problem(problem) if problem <= UNSUPPORTED else describe_problem(<int>problem, 32)
    ))
