# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The first 64 bits of MurmurHash3 x64_128 of arrays of keys: the hash of the format's first drafts.

Source: Appleby, MurmurHash3.cpp of SMHasher, MurmurHash3_x64_128; the drafts take the first of its two words.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

import numpy as np

from ..keys cimport (
    FIXED, HASHES, INLINE_BYTES, INLINE_START, VIEWS, KeySpan, Keys, View, is_valid, key_offset, key_view,
)
from .xxh64 cimport load64, rotate_left

cdef enum:
    BODY = 16  # bytes mixed in at a time

cdef uint64_t FACTOR_1 = <uint64_t>0x87C37B91114253D5
cdef uint64_t FACTOR_2 = <uint64_t>0x4CF5AD432745937F


cdef inline uint64_t mixed_1(uint64_t word) noexcept nogil:
    return rotate_left(word * FACTOR_1, 31) * FACTOR_2


cdef inline uint64_t mixed_2(uint64_t word) noexcept nogil:
    return rotate_left(word * FACTOR_2, 33) * FACTOR_1


cdef inline uint64_t avalanche(uint64_t h) noexcept nogil:
    h ^= h >> 33
    h *= <uint64_t>0xFF51AFD7ED558CCD
    h ^= h >> 33
    h *= <uint64_t>0xC4CEB9FE1A85EC53
    return h ^ (h >> 33)


cdef inline uint64_t load_part(const uint8_t* p, uint64_t length) noexcept nogil:
    """Read up to 8 bytes as a little-endian number."""
    cdef uint64_t word = 0
    cdef uint64_t i
    for i in range(length):
        word |= <uint64_t>p[i] << (8 * i)
    return word


cdef uint64_t hash_bytes(const uint8_t* p, uint64_t length, uint32_t seed) noexcept nogil:
    cdef uint64_t a = seed
    cdef uint64_t b = seed
    cdef uint64_t remaining = length
    while remaining >= BODY:
        a = (rotate_left(a ^ mixed_1(load64(p)), 27) + b) * 5 + 0x52DCE729
        b = (rotate_left(b ^ mixed_2(load64(p + 8)), 31) + a) * 5 + 0x38495AB5
        p += BODY
        remaining -= BODY
    if remaining > 8:
        b ^= mixed_2(load_part(p + 8, remaining - 8))
    if remaining:
        a ^= mixed_1(load_part(p, min(remaining, <uint64_t>8)))
    a ^= length
    b ^= length
    a += b
    b += a
    return avalanche(a) + avalanche(b)


cdef Py_ssize_t hash_span(const KeySpan* span, uint32_t seed, uint64_t* out) noexcept nogil:
    """Hash the valid keys; return their number."""
    cdef const uint8_t* start
    cdef uint64_t length
    cdef View view
    cdef Py_ssize_t i
    cdef Py_ssize_t written = 0
    for i in range(span.length):
        if not is_valid(span, i):  # the view of a null is undefined
            continue
        if span.layout == FIXED or span.layout == HASHES:
            start, length = span.data + span.width * i + span.lead, <uint64_t>(span.width - span.lead)
        elif span.layout == VIEWS:
            view = key_view(span, i)
            length = <uint64_t>view.length
            if view.length <= INLINE_BYTES:
                start = span.data + sizeof(View) * i + INLINE_START
            else:
                start = span.buffers[view.buffer] + view.offset
        else:
            start = span.data + key_offset(span, i) + span.lead
            length = <uint64_t>(key_offset(span, i + 1) - key_offset(span, i) - span.lead)
        out[written] = load64(start) if span.layout == HASHES else hash_bytes(start, length, seed)
        written += 1
    return written


def hash_keys(Keys keys not None, uint32_t seed=0):
    """Return the hashes of the valid keys, in order, as a uint64 array; nulls are omitted."""
    cdef Py_ssize_t written = 0
    out = np.empty(keys.span.length, dtype=np.uint64)
    cdef uint64_t[::1] view = out
    if keys.span.length:
        with nogil:
            written = hash_span(&keys.span, seed, &view[0])
    return out[:written]


def hash_one(const uint8_t[::1] value not None, uint32_t seed=0):
    """Return the hash of one byte string."""
    return hash_bytes(&value[0] if value.shape[0] else NULL, value.shape[0], seed)
