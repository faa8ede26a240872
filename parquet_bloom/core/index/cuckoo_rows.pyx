# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Convert rows of fingerprints (see cuckoo.pyx) to bytes, and search them for fingerprints."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np

from .. import dispatch

from .cuckoo cimport Layout, body_bytes, front_bytes
from ..hash.xxh64 cimport hash_bytes

cdef extern from "row_scan.h" nogil:
    enum:
        STRIPE_BYTES "PB_STRIPE_BYTES"
    ctypedef struct RowSum "pb_row_sum":
        uint64_t words[8]
        uint64_t sums[8]
    void add_stripes "pb_sum"(int wide, RowSum* state, const uint8_t* data, size_t num_stripes)
    size_t next16 "pb_next16"(int wide, const uint8_t* data, size_t start, size_t count, uint16_t target)
    size_t next8 "pb_next8"(int wide, const uint8_t* data, size_t start, size_t count, uint8_t target)

cdef enum:
    CHECKSUM_BYTES = 4
    FEW = 4  # fingerprints searched for one by one; more are searched for by a table of all values

cdef int WIDE = dispatch.SIMD in ("avx2", "avx512")


cdef uint32_t checksum(RowSum* state, uint64_t length, uint64_t row) noexcept nogil:
    """Return the checksum of a row; it includes the row's number, to detect a row in the place of another."""
    cdef uint64_t all_of_it[18]
    memcpy(all_of_it, state, 128)
    all_of_it[16], all_of_it[17] = length, row
    return <uint32_t>hash_bytes(<const uint8_t*>all_of_it, 144)


cdef void add_bytes(RowSum* state, const uint8_t* data, size_t num_bytes) noexcept nogil:
    """Add bytes to the sums: complete stripes, and the rest padded with zeros."""
    cdef uint8_t last[STRIPE_BYTES]
    cdef size_t num_stripes = num_bytes // STRIPE_BYTES
    add_stripes(WIDE, state, data, num_stripes)
    if num_bytes % STRIPE_BYTES:
        memset(last, 0, STRIPE_BYTES)
        memcpy(last, data + num_stripes * STRIPE_BYTES, num_bytes % STRIPE_BYTES)
        add_stripes(WIDE, state, last, 1)


cdef uint32_t compute_checksum(const uint8_t* data, size_t length, uint64_t row) noexcept nogil:
    cdef RowSum state
    memset(&state, 0, sizeof(state))
    add_bytes(&state, data, length)
    return checksum(&state, length, row)


cdef inline uint32_t item_at(const uint8_t* items, int item_bytes, size_t i) noexcept nogil:
    return items[i] if item_bytes == 1 else (<const uint16_t*>items)[i] if item_bytes == 2 else (<const uint32_t*>items)[i]


def pack(Layout layout not None, fingerprints not None, Py_ssize_t first_row):
    """Convert rows to bytes.

    Parameters
    ----------
    fingerprints : array of shape (rows, slots), of the layout's dtype.
    first_row : the number of the first of them.

    Returns
    -------
    uint8 array of shape (rows, bytes of a row).
    """
    items = np.ascontiguousarray(fingerprints, layout.dtype)
    cdef Py_ssize_t num_rows = items.shape[0], num_slots = items.shape[1], r, i
    cdef int bits = layout.fingerprint_bits, item_bytes = items.dtype.itemsize
    cdef size_t body = body_bytes(bits, num_slots), front = front_bytes(bits, num_slots)
    cdef uint32_t item, checked
    out = np.zeros((num_rows, body + CHECKSUM_BYTES), np.uint8)
    cdef uint8_t[:, ::1] rows = out
    cdef const uint8_t[::1] flat = items.reshape(-1).view(np.uint8)
    cdef const uint8_t* source
    cdef uint8_t* row
    with nogil:
        for r in range(num_rows):
            row = &rows[r, 0]
            if num_slots:
                source = &flat[r * num_slots * item_bytes]
                if bits == 8 or bits == 16:
                    memcpy(row, source, front)
                else:
                    for i in range(num_slots):
                        item = item_at(source, item_bytes, i)
                        if bits == 12:
                            row[i] = <uint8_t>item
                            row[front + <size_t>(i >> 1)] |= <uint8_t>((item >> 8) << (4 * (i & 1)))
                        else:
                            row[2 * i] = <uint8_t>item
                            row[2 * i + 1] = <uint8_t>(item >> 8)
                            row[front + i] = <uint8_t>(item >> 16)
            checked = compute_checksum(row, body, first_row + r)
            memcpy(row + body, &checked, CHECKSUM_BYTES)
    return out


def unpack(Layout layout not None, data not None, Py_ssize_t num_slots, Py_ssize_t first_row):
    """Convert bytes of `pack` back to fingerprints, and report damaged rows.

    Parameters
    ----------
    data : uint8 array, complete rows.
    num_slots : of a row.

    Returns
    -------
    Array of shape (rows, slots); bool array of shape (rows): True for a damaged one.
    """
    cdef int bits = layout.fingerprint_bits, item_bytes = layout.dtype.itemsize
    cdef size_t body = body_bytes(bits, num_slots), front = front_bytes(bits, num_slots)
    cdef size_t row_bytes = body + CHECKSUM_BYTES
    cdef const uint8_t[::1] view = data
    if num_slots < 0 or view.shape[0] % row_bytes:
        raise ValueError("the bytes are not complete rows")
    cdef Py_ssize_t num_rows = view.shape[0] // row_bytes, r, i
    out = np.zeros((num_rows, num_slots), layout.dtype)
    damaged = np.zeros(num_rows, np.bool_)
    cdef uint8_t[::1] flat = out.reshape(-1).view(np.uint8)
    cdef uint8_t[::1] bad = damaged.view(np.uint8)
    cdef const uint8_t* row
    cdef uint8_t* items
    cdef uint32_t checked
    with nogil:
        for r in range(num_rows):
            row = &view[r * row_bytes]
            memcpy(&checked, row + body, CHECKSUM_BYTES)
            bad[r] = checked != compute_checksum(row, body, first_row + r)
            if not num_slots:
                continue
            items = &flat[r * num_slots * item_bytes]
            if bits == 8 or bits == 16:
                memcpy(items, row, front)
            elif bits == 12:
                for i in range(num_slots):
                    (<uint16_t*>items)[i] = row[i] | (<uint16_t>((row[front + <size_t>(i >> 1)] >> (4 * (i & 1))) & 15) << 8)
            else:
                for i in range(num_slots):
                    (<uint32_t*>items)[i] = row[2 * i] | (<uint32_t>row[2 * i + 1] << 8) | (<uint32_t>row[front + i] << 16)
    return out, damaged


cdef struct Search:
    int bits
    size_t num_slots, front, body   # front: bytes of the first plane
    const uint32_t* fingerprints    # ascending, each once
    Py_ssize_t num_fingerprints
    uint16_t* lows                  # the values to search for in the first plane
    Py_ssize_t num_lows
    uint8_t* is_low                 # for each value of the first plane whether to search for it; NULL for few values
    size_t position                 # bytes processed
    RowSum sum
    uint32_t stored                 # the checksum at the row's end
    int64_t* slots                  # matches in the first plane
    uint32_t* values                # the bits of their fingerprints that were read
    size_t count, room


cdef void end_search(Search* search) noexcept nogil:
    free(search.lows)
    free(search.is_low)
    free(search.slots)
    free(search.values)
    memset(search, 0, sizeof(Search))


cdef bint begin_search(
    Search* search, int bits, size_t num_slots, const uint32_t* fingerprints, Py_ssize_t num_fingerprints
) noexcept nogil:
    """Begin a search, reusing memory of earlier ones; return False if there is no memory."""
    cdef uint32_t mask = 0xFF if bits <= 12 else 0xFFFF
    cdef Py_ssize_t i, k
    search.bits, search.num_slots = bits, num_slots
    search.front, search.body = front_bytes(bits, num_slots), body_bytes(bits, num_slots)
    search.fingerprints, search.num_fingerprints = fingerprints, num_fingerprints
    search.position = search.count = search.stored = 0
    search.num_lows = 0
    memset(&search.sum, 0, sizeof(RowSum))
    free(search.is_low)
    search.is_low = NULL
    if num_fingerprints > FEW:
        search.is_low = <uint8_t*>calloc(<size_t>mask + 1, 1)
        if search.is_low == NULL:
            return False
        for i in range(num_fingerprints):
            search.is_low[fingerprints[i] & mask] = 1
        return True
    if search.lows == NULL:
        search.lows = <uint16_t*>malloc(2 * FEW)
        if search.lows == NULL:
            return False
    for i in range(num_fingerprints):
        for k in range(search.num_lows):
            if search.lows[k] == fingerprints[i] & mask:
                break
        else:
            search.lows[search.num_lows] = <uint16_t>(fingerprints[i] & mask)
            search.num_lows += 1
    return True


cdef bint add_match(Search* search, size_t slot, uint32_t value) noexcept nogil:
    """Record a match; return False if there is no memory."""
    cdef size_t room
    cdef void* memory
    if search.count == search.room:
        room = max(<size_t>256, 2 * search.room)
        memory = realloc(search.slots, 8 * room)
        if memory == NULL:
            return False
        search.slots = <int64_t*>memory
        memory = realloc(search.values, 4 * room)
        if memory == NULL:
            return False
        search.values, search.room = <uint32_t*>memory, room
    search.slots[search.count], search.values[search.count] = <int64_t>slot, value
    search.count += 1
    return True


cdef bint search_front(Search* search, const uint8_t* data, size_t first, size_t count) noexcept nogil:
    """Search items of the first plane, from number `first` on; return False if there is no memory."""
    cdef bint short_items = search.bits <= 12
    cdef Py_ssize_t k
    cdef size_t i
    cdef uint16_t item
    if search.is_low != NULL:
        for i in range(count):
            if short_items:
                item = data[i]
            else:
                memcpy(&item, data + 2 * i, 2)
            if search.is_low[item] and not add_match(search, first + i, item):
                return False
        return True
    for k in range(search.num_lows):
        item = search.lows[k]
        i = 0
        while True:
            i = next8(WIDE, data, i, count, <uint8_t>item) if short_items else next16(WIDE, data, i, count, item)
            if i >= count:
                break
            if not add_match(search, first + i, item):
                return False
            i += 1
    return True


cdef void search_back(Search* search, const uint8_t* data, size_t start, size_t end) noexcept nogil:
    """Complete the matches by the bytes start..end of the second plane, the first of which is at `data`."""
    cdef size_t i, item
    for i in range(search.count):
        item = <size_t>search.slots[i] >> 1 if search.bits == 12 else <size_t>search.slots[i]
        if start <= item < end:
            if search.bits == 12:
                search.values[i] |= <uint32_t>((data[item - start] >> (4 * (search.slots[i] & 1))) & 15) << 8
            else:
                search.values[i] |= <uint32_t>data[item - start] << 16


cdef bint feed(Search* search, const uint8_t* data, size_t num_bytes) noexcept nogil:
    """Process the next bytes of the row: complete stripes, unless they are the last; return False without memory."""
    cdef size_t start = search.position, end = search.position + num_bytes, front, i
    cdef size_t item_bytes = 1 if search.bits <= 12 else 2
    if start < search.body:
        add_bytes(&search.sum, data, min(end, search.body) - start)
        if start < search.front:
            front = min(end, search.front)
            if not search_front(search, data, start // item_bytes, (front - start) // item_bytes):
                return False
        front = max(start, search.front)
        if front < min(end, search.body):
            search_back(search, data + (front - start), front - search.front, min(end, search.body) - search.front)
    for i in range(max(start, search.body), min(end, search.body + CHECKSUM_BYTES)):
        search.stored |= <uint32_t>data[i - start] << (8 * (i - search.body))
    search.position = end
    return True


cdef bint is_intact(Search* search, uint64_t row) noexcept nogil:
    if search.position != search.body + CHECKSUM_BYTES:
        return False
    return search.stored == checksum(&search.sum, search.body, row)


cdef Py_ssize_t find_index(const Search* search, uint32_t value) noexcept nogil:
    """Return the index of a value among the requested fingerprints; -1 if it is not among them."""
    cdef Py_ssize_t low = 0, high = search.num_fingerprints, middle
    while low < high:
        middle = (low + high) // 2
        if search.fingerprints[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < search.num_fingerprints and search.fingerprints[low] == value else -1


cdef size_t keep_matches(Search* search) noexcept nogil:
    """Keep the matches among the requested fingerprints, and replace their values by indices."""
    cdef size_t i, num_kept = 0
    cdef Py_ssize_t number
    for i in range(search.count):
        number = find_index(search, search.values[i])
        if number >= 0:
            search.slots[num_kept], search.values[num_kept] = search.slots[i], <uint32_t>number
            num_kept += 1
    search.count = num_kept
    return num_kept


cdef tuple take_matches(Search* search):
    slots, numbers = np.empty(search.count, np.int64), np.empty(search.count, np.uint32)
    cdef int64_t[::1] slots_view = slots
    cdef uint32_t[::1] numbers_view = numbers
    if search.count:
        memcpy(&slots_view[0], search.slots, 8 * search.count)
        memcpy(&numbers_view[0], search.values, 4 * search.count)
    return slots, numbers


cdef class RowScan:
    """Search of one row, given in pieces, for fingerprints.

    Parameters
    ----------
    num_slots : slots of the row.
    fingerprints : uint32, ascending, distinct.
    """

    cdef Search search
    cdef const uint32_t[::1] fingerprints

    def __init__(self, Layout layout not None, Py_ssize_t num_slots, const uint32_t[::1] fingerprints not None):
        if num_slots < 0:
            raise ValueError(f"num_slots must be at least 0, got {num_slots}")
        self.fingerprints = fingerprints
        cdef const uint32_t* first = &fingerprints[0] if fingerprints.shape[0] else NULL
        if not begin_search(&self.search, layout.fingerprint_bits, num_slots, first, fingerprints.shape[0]):
            raise MemoryError

    def __dealloc__(self):
        end_search(&self.search)

    def feed(self, const uint8_t[::1] data not None):
        """Process the next bytes of the row: a multiple of 64, unless they are the last."""
        cdef Py_ssize_t n = data.shape[0]
        cdef bint enough = True
        if self.search.position % STRIPE_BYTES:
            raise ValueError("only the last piece may have a length that is not a multiple of 64 bytes")
        if n:
            with nogil:
                enough = feed(&self.search, &data[0], n)
        if not enough:
            raise MemoryError

    def finish(self, uint64_t row):
        """Return slots (int64) and the index of the fingerprint in each (uint32); None if row `row` is damaged."""
        if not is_intact(&self.search, row):
            return None
        with nogil:
            keep_matches(&self.search)
        return take_matches(&self.search)


def scan_rows(
    Layout layout not None,
    Py_ssize_t num_slots,
    const uint8_t[::1] data not None,
    const int64_t[::1] rows not None,
    const int64_t[::1] first_fingerprint not None,
    const uint32_t[::1] fingerprints not None,
):
    """Search many consecutive rows for fingerprints.

    Parameters
    ----------
    num_slots : slots of a row.
    data : the rows' bytes.
    rows : the number of each row.
    first_fingerprint : row i is searched for fingerprints first_fingerprint[i] to first_fingerprint[i + 1].
    fingerprints : ascending within a row, distinct.

    Returns
    -------
    slots (int64), the index in `fingerprints` of each (uint32), and which rows are damaged (bool, one per row); damaged
    rows give no slots.
    """
    cdef Py_ssize_t n = rows.shape[0], i
    cdef size_t row_bytes, k
    cdef Search search
    cdef bint enough = True
    if num_slots < 0 or first_fingerprint.shape[0] != n + 1 or (n and first_fingerprint[0] < 0):
        raise ValueError("each row needs its fingerprints")
    for i in range(n):
        if first_fingerprint[i] > first_fingerprint[i + 1]:
            raise ValueError("each row needs its fingerprints")
    row_bytes = layout.row_bytes(num_slots)
    if <size_t>data.shape[0] != row_bytes * n or (n and first_fingerprint[n] > fingerprints.shape[0]):
        raise ValueError("each row needs its bytes and fingerprints")
    damaged = np.zeros(n, np.bool_)
    cdef uint8_t[::1] bad = damaged.view(np.uint8)
    pieces = []
    memset(&search, 0, sizeof(search))
    try:
        for i in range(n):
            with nogil:
                enough = begin_search(
                    &search, layout.fingerprint_bits, num_slots, &fingerprints[0] + first_fingerprint[i],
                    first_fingerprint[i + 1] - first_fingerprint[i],
                ) and feed(&search, &data[i * row_bytes], row_bytes)
                bad[i] = not is_intact(&search, rows[i])
                if bad[i]:
                    search.count = 0
                keep_matches(&search)
            if not enough:
                raise MemoryError
            if search.count:
                slots, numbers = take_matches(&search)
                numbers += <uint32_t>first_fingerprint[i]
                pieces.append((slots, numbers))
    finally:
        end_search(&search)
    if not pieces:
        return np.empty(0, np.int64), np.empty(0, np.uint32), damaged
    return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces]), damaged
