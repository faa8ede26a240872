# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Validate the lengths of strings and lists in ORC files, before another library relies on them.

Source: ORC specification v1, "Run Length Encoding", both versions of unsigned integers.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum Fault:
    NONE = 0
    CUT_OFF
    TOO_LONG
    NO_PATCHES
    WIDE_PATCH


cdef enum:
    MOST_IN_RUN = 512


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t end
    int num_bits        # unread bits of `current`
    uint64_t current


cdef inline Fault take_byte(Cursor* cursor, uint64_t* out) noexcept nogil:
    if cursor.at >= cursor.end:
        return CUT_OFF
    out[0] = cursor.data[cursor.at]
    cursor.at += 1
    return NONE


cdef inline Fault take_bytes(Cursor* cursor, int count, uint64_t* out) noexcept nogil:
    """Read a big-endian number of `width` bytes."""
    cdef int i
    cdef uint64_t value = 0
    if cursor.end - cursor.at < count:
        return CUT_OFF
    for i in range(count):
        value = value << 8 | cursor.data[cursor.at + i]
    cursor.at += count
    out[0] = value
    return NONE


cdef inline Fault take_varint(Cursor* cursor, uint64_t* out) noexcept nogil:
    cdef uint64_t value = 0, byte = 0x80
    cdef int shift = 0
    while byte >= 0x80:
        if take_byte(cursor, &byte):
            return CUT_OFF
        if shift < 64:
            value |= (byte & 0x7F) << shift
        shift += 7
    out[0] = value
    return NONE


cdef inline Fault take_bits(Cursor* cursor, int width, uint64_t* out) noexcept nogil:
    """Read the next number of `width` bits (1 to 64), the highest bit first."""
    cdef uint64_t value = 0
    while width > cursor.num_bits:
        if cursor.num_bits:
            value = value << cursor.num_bits | cursor.current & ((<uint64_t>1 << cursor.num_bits) - 1)
            width -= cursor.num_bits
        if take_byte(cursor, &cursor.current):
            return CUT_OFF
        cursor.num_bits = 8
    cursor.num_bits -= width
    # At most the last 8 of 64 bits are taken here, so that no shift is by the full width.
    value = value << width | cursor.current >> cursor.num_bits & ((<uint64_t>1 << width) - 1)
    out[0] = value
    return NONE


cdef inline int decode_width(uint64_t code) noexcept nogil:
    """Return the width in bits encoded by a code of 5 bits."""
    if code <= 23:
        return <int>code + 1
    if code <= 27:
        return 26 + 2 * (<int>code - 24)
    return 40 + 8 * (<int>code - 28)


cdef inline int closest_width(int bits) noexcept nogil:
    """Return the smallest width of packed numbers with at least as many bits."""
    if bits <= 24:
        return bits if bits else 1
    if bits <= 32:
        return bits + (bits & 1)
    return (bits + 7) // 8 * 8


cdef inline Fault add(uint64_t value, uint64_t most, uint64_t* total) noexcept nogil:
    if value > most or value > most - total[0]:
        return TOO_LONG
    total[0] += value
    return NONE


cdef Fault add_run_of_first(Cursor* cursor, uint64_t most, uint64_t* total) noexcept nogil:
    """Read a run of version 1."""
    cdef uint64_t head = 0, base = 0, step = 0
    cdef int i
    if take_byte(cursor, &head):
        return CUT_OFF
    if head >= 0x80:  # literal numbers
        for i in range(0x100 - <int>head):
            if take_varint(cursor, &base):
                return CUT_OFF
            if add(base, most, total):
                return TOO_LONG
        return NONE
    if take_byte(cursor, &step) or take_varint(cursor, &base):
        return CUT_OFF
    if step >= 0x80:
        step -= 0x100
    for i in range(<int>head + 3):
        if add(base + step * <uint64_t>i, most, total):
            return TOO_LONG
    return NONE


cdef Fault add_patched_run(Cursor* cursor, int width, int count, uint64_t most, uint64_t* total) noexcept nogil:
    """Read a run with patches, the high bits of its largest numbers."""
    cdef uint64_t[MOST_IN_RUN] values
    cdef uint64_t[32] patches
    cdef uint64_t third = 0, fourth = 0, base = 0, sign, gap, patch, mask
    cdef int i, num_patches, base_bytes, patch_width, gap_width, used = 0
    cdef uint64_t position = 0
    if take_byte(cursor, &third) or take_byte(cursor, &fourth):
        return CUT_OFF
    base_bytes, patch_width = <int>(third >> 5) + 1, decode_width(third & 31)
    gap_width, num_patches = <int>(fourth >> 5) + 1, <int>(fourth & 31)
    if num_patches == 0:
        return NO_PATCHES
    if gap_width + patch_width > 64:  # a gap has at least one bit, so patches have at most 63
        return WIDE_PATCH
    if take_bytes(cursor, base_bytes, &base):
        return CUT_OFF
    sign = <uint64_t>1 << (8 * base_bytes - 1)
    if base & sign:
        base = <uint64_t>0 - (base & ~sign)
    cursor.num_bits = 0
    for i in range(count):
        if take_bits(cursor, width, &values[i]):
            return CUT_OFF
    cursor.num_bits = 0
    for i in range(num_patches):
        if take_bits(cursor, closest_width(gap_width + patch_width), &patches[i]):
            return CUT_OFF
    mask = (<uint64_t>1 << patch_width) - 1
    while used < num_patches:
        gap = patches[used] >> patch_width
        patch = patches[used] & mask
        used += 1
        position += gap
        if gap == 255 and patch == 0:  # continues a gap that is too large for one entry
            continue
        if position < <uint64_t>count and width < 64:
            values[position] |= patch << width
    for i in range(count):
        if add(values[i] + base, most, total):
            return TOO_LONG
    return NONE


cdef Fault add_run_of_second(Cursor* cursor, uint64_t most, uint64_t* total) noexcept nogil:
    """Read a run of version 2."""
    cdef uint64_t head = 0, low = 0, value = 0, step = 0, change
    cdef int i, kind, width, count
    if take_byte(cursor, &head):
        return CUT_OFF
    kind = <int>(head >> 6)
    if kind == 0:  # one number, repeated
        if take_bytes(cursor, <int>(head >> 3 & 7) + 1, &value):
            return CUT_OFF
        for i in range(<int>(head & 7) + 3):
            if add(value, most, total):
                return TOO_LONG
        return NONE
    if take_byte(cursor, &low):
        return CUT_OFF
    count = <int>((head & 1) << 8 | low) + 1
    width = decode_width(head >> 1 & 31)
    cursor.num_bits = 0
    if kind == 1:
        for i in range(count):
            if take_bits(cursor, width, &value):
                return CUT_OFF
            if add(value, most, total):
                return TOO_LONG
        return NONE
    if kind == 2:
        return add_patched_run(cursor, width, count, most, total)
    if take_varint(cursor, &value) or take_varint(cursor, &step):
        return CUT_OFF
    step = step >> 1 ^ (<uint64_t>0 - (step & 1))
    if add(value, most, total):
        return TOO_LONG
    for i in range(1, count):
        change = step
        if i > 1 and head >> 1 & 31:  # the first difference gives the sign of all
            if take_bits(cursor, width, &change):
                return CUT_OFF
            if <int64_t>step < 0:
                change = <uint64_t>0 - change
        value += change
        if add(value, most, total):
            return TOO_LONG
    return NONE


def sum_lengths(const uint8_t[::1] data not None, bint second, uint64_t most):
    """Return the sum of all lengths in a stream.

    Parameters
    ----------
    data : the uncompressed stream.
    second : whether it has version 2 of the encoding.
    most : maximum of the sum; below 2^63.

    Raises
    ------
    ValueError
        A length is negative, the sum exceeds `most`, or the stream is invalid.
    """
    cdef Cursor cursor
    cdef Fault fault = NONE
    cdef uint64_t total = 0
    cursor.data = &data[0] if data.shape[0] else NULL
    cursor.at, cursor.end, cursor.num_bits, cursor.current = 0, data.shape[0], 0, 0
    with nogil:
        while cursor.at < cursor.end and not fault:
            fault = add_run_of_second(&cursor, most, &total) if second else add_run_of_first(&cursor, most, &total)
    if fault == CUT_OFF:
        raise ValueError("a run of lengths is cut off")
    if fault == TOO_LONG:
        raise ValueError(f"a length is negative, or they are more than {most} together")
    if fault:
        raise ValueError("a run of lengths is patched in no way that there is")
    return total
