# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Values of a page in other encodings than PLAIN, made plain without the interpreter lock. Nothing here trusts the bytes.

A value of one bit becomes a byte.

Source: Encodings.md of the format: "PLAIN", "RLE / bit-packing hybrid", "Delta Encoding", "Byte Stream Split".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from .page_decode cimport (
    BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, MOST_BYTES, NUM_VALUES, PLAIN,
    PLAIN_BITS, RLE_BITS, Buffer, PageBody, Runs, next_run, number_at, read_varint, refuse, reserve, start_runs
)

cdef enum:
    MOST_DELTAS = MOST_BYTES // 8  # of a page
    MOST_IN_BLOCK = 1 << 20
    MOST_VARINT_BITS = 70  # of numbers of 64 bits, in ten bytes


cdef int make_plain(PageBody* body, Py_ssize_t width) except -1 nogil:
    """Replace the values of a page, which are no numbers of a dictionary's entries, by the same values in PLAIN.

    Parameters
    ----------
    width : bytes per value; 0 for byte arrays.
    """
    if body.encoding == PLAIN:
        return 0
    if (body.encoding == PLAIN_BITS or body.encoding == RLE_BITS) and width == 1:
        make_bytes(body)
    elif body.encoding == BYTE_STREAM_SPLIT and width > 0:
        join_streams(body, width)
    elif body.encoding == DELTA_BINARY_PACKED and (width == 4 or width == 8):
        make_integers(body, width)
    elif body.encoding == DELTA_BYTE_ARRAY or body.encoding == DELTA_LENGTH_BYTE_ARRAY and width == 0:
        make_byte_arrays(body, width, body.encoding == DELTA_BYTE_ARRAY)
    else:
        refuse("its values are of another encoding")
    body.values, body.encoding = body.plain.data, PLAIN
    return 0


cdef int make_room(PageBody* body, Py_ssize_t size) except -1 nogil:
    """Make room for some bytes of plain values."""
    if size > MOST_BYTES:
        refuse("it is of a size that is not supported")
    return reserve(&body.plain, size)


cdef int make_bytes(PageBody* body) except -1 nogil:
    """Make bytes of bits."""
    cdef Runs runs
    cdef uint32_t length = 0
    cdef Py_ssize_t size = 0, most = body.page[NUM_VALUES], count, i
    make_room(body, most)
    if body.encoding == PLAIN_BITS:
        size = min(most, 8 * body.value_bytes)
        for i in range(size):
            body.plain.data[i] = body.values[i >> 3] >> (i & 7) & 1
    elif body.value_bytes:
        if body.value_bytes >= 4:
            memcpy(&length, body.values, 4)  # little-endian, as the processor is
        if body.value_bytes < 4 or length > <size_t>(body.value_bytes - 4):
            refuse("its values are cut off")
        start_runs(&runs, body.values + 4, length, 1)
        while size < most and runs.pos < runs.end:  # nulls have no bits
            next_run(&runs)
            count = min(runs.length, most - size)
            if runs.packed:
                for i in range(count):
                    body.plain.data[size + i] = number_at(&runs, i)
            else:
                memset(body.plain.data + size, runs.value != 0, count)
            size += count
    body.value_bytes = size
    return 0


cdef int join_streams(PageBody* body, Py_ssize_t width) except -1 nogil:
    """Put together values of which each byte is in a stream of its own."""
    cdef Py_ssize_t count = body.value_bytes // width, i, byte
    if count * width != body.value_bytes:
        refuse("a value is cut off")
    make_room(body, body.value_bytes)
    for byte in range(width):
        for i in range(count):
            body.plain.data[i * width + byte] = body.values[byte * count + i]
    return 0


cdef inline uint64_t read_bits(const Runs* deltas, Py_ssize_t start, Py_ssize_t bit, int width) noexcept nogil:
    """Return `width` bits, 1 to 64, which are known to be there."""
    cdef Py_ssize_t at = start + (bit >> 3), last = start + ((bit + width - 1) >> 3)
    cdef int shift = bit & 7
    cdef uint64_t value = 0
    memcpy(&value, deltas.data + at, min(8, last - at + 1))
    value >>= shift
    if last - at == 8:
        value |= <uint64_t>deltas.data[last] << (64 - shift)
    return value if width == 64 else value & ((<uint64_t>1 << width) - 1)


cdef Py_ssize_t unpack_deltas(Runs* deltas, int64_t most, Buffer* out) except -1 nogil:
    """Unpack numbers given by their differences into 64 bits each; return how many."""
    cdef uint64_t block = 0, miniblocks = 0, count = 0, number = 0, least = 0
    cdef Py_ssize_t done = 0, widths, i, in_mini, num_bytes, mini, here
    cdef uint64_t* numbers
    cdef int width
    if not (
        read_varint(deltas, MOST_VARINT_BITS, &block) and read_varint(deltas, MOST_VARINT_BITS, &miniblocks)
        and read_varint(deltas, MOST_VARINT_BITS, &count) and read_varint(deltas, MOST_VARINT_BITS, &number) and 0 < block <= MOST_IN_BLOCK and 0 < miniblocks <= block
    ):
        refuse("its differences are malformed")
    in_mini = block // miniblocks
    if block % miniblocks or in_mini % 8 or not 0 <= <int64_t>count <= min(most, <int64_t>MOST_DELTAS):
        refuse("its differences are malformed, or too many")
    reserve(out, count * sizeof(uint64_t))
    numbers = <uint64_t*>out.data
    number = (number >> 1) ^ (0 - (number & 1))
    if count:
        numbers[0] = number
        done = 1
    while done < <Py_ssize_t>count:
        if not read_varint(deltas, MOST_VARINT_BITS, &least) or deltas.end - deltas.pos < <Py_ssize_t>miniblocks:
            refuse("its differences are cut off")
        least = (least >> 1) ^ (0 - (least & 1))
        widths = deltas.pos
        deltas.pos += miniblocks
        for mini in range(<Py_ssize_t>miniblocks):
            if done == <Py_ssize_t>count:
                break
            width = deltas.data[widths + mini]
            num_bytes = in_mini // 8 * width
            if width > 64 or num_bytes > deltas.end - deltas.pos:
                refuse("its differences are cut off")
            here = min(in_mini, <Py_ssize_t>count - done)
            for i in range(here):
                number += least + (read_bits(deltas, deltas.pos, i * width, width) if width else 0)
                numbers[done + i] = number
            done += here
            deltas.pos += num_bytes
    return count


cdef int make_integers(PageBody* body, Py_ssize_t width) except -1 nogil:
    """Make integers of 4 or 8 bytes of their differences."""
    cdef Runs deltas
    cdef Buffer numbers = Buffer(NULL, 0)
    cdef Py_ssize_t count = 0, i
    start_runs(&deltas, body.values, body.value_bytes, 0)
    try:
        if body.value_bytes:  # else of nothing but nulls
            count = unpack_deltas(&deltas, body.page[NUM_VALUES], &numbers)
        make_room(body, count * width)
        for i in range(count):  # little-endian, as the processor is
            memcpy(body.plain.data + i * width, numbers.data + i * sizeof(uint64_t), width)
    finally:
        free(numbers.data)
    body.value_bytes = count * width
    return 0


cdef int make_byte_arrays(PageBody* body, Py_ssize_t width, bint prefixed) except -1 nogil:
    """Make values, with their lengths unless they have a width, of lengths, and perhaps of what they share with the last."""
    cdef Runs deltas
    cdef Buffer prefixes = Buffer(NULL, 0), lengths = Buffer(NULL, 0)
    cdef Py_ssize_t count = 0, others = 0
    start_runs(&deltas, body.values, body.value_bytes, 0)
    try:
        if body.value_bytes:  # else of nothing but nulls
            if prefixed:
                others = unpack_deltas(&deltas, body.page[NUM_VALUES], &prefixes)
            count = unpack_deltas(&deltas, body.page[NUM_VALUES], &lengths)
            if prefixed and others != count:
                refuse("its values have other numbers of lengths")
        join_bytes(body, &deltas, width, count, <uint64_t*>prefixes.data, <uint64_t*>lengths.data)
    finally:
        free(prefixes.data)
        free(lengths.data)
    return 0


cdef int join_bytes(
    PageBody* body, const Runs* deltas, Py_ssize_t width, Py_ssize_t count, const uint64_t* prefixes,
    const uint64_t* lengths
) except -1 nogil:
    cdef uint64_t last = 0, shared = 0, total = 0, left = deltas.end - deltas.pos
    cdef uint32_t length
    cdef Py_ssize_t i
    cdef const uint8_t* data = deltas.data + deltas.pos
    cdef uint8_t* value = NULL
    cdef uint8_t* out
    for i in range(count):
        shared = prefixes[i] if prefixes != NULL else 0
        if shared > last or lengths[i] > left or width and shared + lengths[i] != <uint64_t>width:
            refuse("a value is cut off")
        left -= lengths[i]
        last = shared + lengths[i]
        total += last + (0 if width else 4)
        if total > MOST_BYTES:
            refuse("it is of a size that is not supported")
    make_room(body, total)
    out = body.plain.data
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
    body.value_bytes = total
    return 0
