# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""XXH64, seed 0, over whole arrays of keys.

Source: the xxHash specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), XXH64, which is
what the Parquet format names as the hash of its Bloom filters.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

cdef extern from *:
    """
    #define PB_PRIME_1 0x9E3779B185EBCA87ULL
    #define PB_PRIME_2 0xC2B2AE3D27D4EB4FULL
    #define PB_PRIME_3 0x165667B19E3779F9ULL
    #define PB_PRIME_4 0x85EBCA77C2B2AE63ULL
    #define PB_PRIME_5 0x27D4EB2F165667C5ULL
    """
    const uint64_t PRIME_1 "PB_PRIME_1"
    const uint64_t PRIME_2 "PB_PRIME_2"
    const uint64_t PRIME_3 "PB_PRIME_3"
    const uint64_t PRIME_4 "PB_PRIME_4"
    const uint64_t PRIME_5 "PB_PRIME_5"


cdef inline uint64_t rotate_left(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    cdef uint64_t x
    memcpy(&x, p, 8)  # keys stand at any address
    return x


cdef inline uint64_t load32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return x


cdef inline uint64_t mix_lane(uint64_t lane, uint64_t word) noexcept nogil:
    return rotate_left(lane + word * PRIME_2, 31) * PRIME_1


cdef inline uint64_t mix8(uint64_t h, uint64_t word) noexcept nogil:
    return rotate_left(h ^ mix_lane(0, word), 27) * PRIME_1 + PRIME_4


cdef inline uint64_t mix4(uint64_t h, uint64_t word) noexcept nogil:
    return rotate_left(h ^ (word * PRIME_1), 23) * PRIME_2 + PRIME_3


cdef inline uint64_t avalanche(uint64_t h) noexcept nogil:
    h ^= h >> 33
    h *= PRIME_2
    h ^= h >> 29
    h *= PRIME_3
    return h ^ (h >> 32)


cdef inline uint64_t hash4(const uint8_t* p) noexcept nogil:
    return avalanche(mix4(PRIME_5 + 4, load32(p)))


cdef inline uint64_t hash8(const uint8_t* p) noexcept nogil:
    return avalanche(mix8(PRIME_5 + 8, load64(p)))


cdef inline uint64_t hash12(const uint8_t* p) noexcept nogil:
    return avalanche(mix4(mix8(PRIME_5 + 12, load64(p)), load32(p + 8)))


cdef inline uint64_t hash16(const uint8_t* p) noexcept nogil:
    return avalanche(mix8(mix8(PRIME_5 + 16, load64(p)), load64(p + 8)))


cdef uint64_t hash_bytes(const uint8_t* p, uint64_t length) noexcept nogil:
    cdef uint64_t h, a, b, c, d
    cdef uint64_t left = length
    if length >= 32:
        a = PRIME_1 + PRIME_2
        b = PRIME_2
        c = 0
        d = 0 - PRIME_1
        while left >= 32:
            a = mix_lane(a, load64(p))
            b = mix_lane(b, load64(p + 8))
            c = mix_lane(c, load64(p + 16))
            d = mix_lane(d, load64(p + 24))
            p += 32
            left -= 32
        h = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18)
        h = (h ^ mix_lane(0, a)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, b)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, c)) * PRIME_1 + PRIME_4
        h = (h ^ mix_lane(0, d)) * PRIME_1 + PRIME_4
    else:
        h = PRIME_5
    h += length
    while left >= 8:
        h = mix8(h, load64(p))
        p += 8
        left -= 8
    if left >= 4:
        h = mix4(h, load32(p))
        p += 4
        left -= 4
    while left:
        h = rotate_left(h ^ (p[0] * PRIME_5), 11) * PRIME_1
        p += 1
        left -= 1
    return avalanche(h)


cdef void hash_chunk(const KeySpan* keys, Py_ssize_t start, Py_ssize_t count, uint64_t* out) noexcept nogil:
    """Hash `count` keys from `start` on, those under a null included (their bytes exist, their hash means nothing)."""
    cdef Py_ssize_t i
    cdef const uint8_t* p
    cdef const int32_t* offsets32
    cdef const int64_t* offsets64
    if keys.layout == FIXED:
        p = keys.data + start * keys.width
        if keys.width == 4:
            for i in range(count):
                out[i] = hash4(p + 4 * i)
        elif keys.width == 8:
            for i in range(count):
                out[i] = hash8(p + 8 * i)
        elif keys.width == 12:
            for i in range(count):
                out[i] = hash12(p + 12 * i)
        elif keys.width == 16:
            for i in range(count):
                out[i] = hash16(p + 16 * i)
        else:
            for i in range(count):
                out[i] = hash_bytes(p + keys.width * i, keys.width)
    elif keys.layout == OFFSETS32:
        offsets32 = <const int32_t*>keys.offsets + start
        for i in range(count):
            out[i] = hash_bytes(keys.data + offsets32[i], offsets32[i + 1] - offsets32[i])
    else:
        offsets64 = <const int64_t*>keys.offsets + start
        for i in range(count):
            out[i] = hash_bytes(keys.data + offsets64[i], offsets64[i + 1] - offsets64[i])


cdef const uint8_t* _address(object buffer, Py_ssize_t* num_bytes) except? NULL:
    """The start of a buffer. The caller keeps the object alive; Arrow buffers and arrays do not move."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef const uint8_t* start = <const uint8_t*>view.buf
    num_bytes[0] = view.len
    PyBuffer_Release(&view)
    return start


cdef inline bint _fits(Py_ssize_t offset, Py_ssize_t length, Py_ssize_t count) noexcept:
    """Whether `length` items from `offset` on are among `count`; none of the three sums can overflow."""
    return offset <= count and length <= count - offset


cdef class Keys:
    """A run of keys in memory, not copied: what the hash and filter kernels take.

    Build one with `Keys.fixed` or `Keys.variable`; both check that all keys lie inside their buffers.
    """

    def __init__(self):
        raise TypeError("use Keys.fixed or Keys.variable")

    def __len__(self):
        return self.span.length

    @staticmethod
    def fixed(values, Py_ssize_t width, Py_ssize_t length, Py_ssize_t offset=0, validity=None):
        """Keys of `width` bytes each, the first at key number `offset` of the buffer `values`.

        `validity` is an Arrow bitmap whose bit `offset` belongs to the first key; None when all are valid.
        """
        cdef Keys keys = Keys.__new__(Keys)
        cdef Py_ssize_t num_bytes = 0
        if width < 1 or length < 0 or offset < 0:
            raise ValueError("width must be positive, length and offset not negative")
        keys.owners = (values, validity)
        keys.span.layout = FIXED
        keys.span.offsets = NULL
        keys.span.width = width
        keys.span.length = length
        keys.span.data = NULL
        if length:
            keys.span.data = _address(values, &num_bytes)
            if not _fits(offset, length, num_bytes // width):
                raise ValueError("the keys do not fit in their buffer")
            keys.span.data += offset * width
        keys._set_validity(validity, offset)
        return keys

    @staticmethod
    def variable(offsets, data, Py_ssize_t length, Py_ssize_t offset=0, validity=None, bint wide=False):
        """Keys of any length: key i is `data[offsets[i]:offsets[i + 1]]`, the first is number `offset`.

        Offsets are int64 if `wide`, else int32; they must not fall (Arrow's rule), and their ends are checked.
        """
        cdef Keys keys = Keys.__new__(Keys)
        cdef Py_ssize_t num_bytes = 0
        cdef Py_ssize_t offset_bytes = 0
        cdef int width = 8 if wide else 4
        cdef const uint8_t* first
        cdef int64_t low, high
        if length < 0 or offset < 0:
            raise ValueError("length and offset must not be negative")
        keys.owners = (offsets, data, validity)
        keys.span.layout = OFFSETS64 if wide else OFFSETS32
        keys.span.width = 0
        keys.span.length = length
        keys.span.data = NULL
        keys.span.offsets = NULL
        if length:
            first = _address(offsets, &offset_bytes)
            if not _fits(offset, length, offset_bytes // width - 1):
                raise ValueError("the offsets do not fit in their buffer")
            first += offset * width
            keys.span.offsets = first
            if data is not None:
                keys.span.data = _address(data, &num_bytes)
            if wide:
                low = (<const int64_t*>first)[0]
                high = (<const int64_t*>first)[length]
            else:
                low = (<const int32_t*>first)[0]
                high = (<const int32_t*>first)[length]
            if low < 0 or high < low or high > num_bytes:
                raise ValueError("the offsets point outside the data")
        keys._set_validity(validity, offset)
        return keys

    cdef _set_validity(self, validity, Py_ssize_t offset):
        cdef Py_ssize_t num_bytes = 0
        self.span.validity = NULL
        self.span.validity_offset = offset
        if validity is not None and self.span.length:
            self.span.validity = _address(validity, &num_bytes)
            if not _fits(offset, self.span.length, num_bytes * 8):
                raise ValueError("the validity bitmap is shorter than the keys")


cdef enum:
    CHUNK = 256


def hash_keys(Keys keys not None):
    """The hashes of the valid keys, in order, as a uint64 array; nulls are left out."""
    cdef Py_ssize_t n = keys.span.length
    cdef Py_ssize_t start, count, i
    cdef Py_ssize_t written = 0
    cdef uint64_t chunk[CHUNK]
    out = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] view = out
    with nogil:
        if keys.span.validity == NULL:
            start = 0
            while start < n:
                count = min(n - start, <Py_ssize_t>65536)
                hash_chunk(&keys.span, start, count, &view[start])
                start += count
            written = n
        else:
            start = 0
            while start < n:
                count = min(n - start, <Py_ssize_t>CHUNK)
                hash_chunk(&keys.span, start, count, chunk)
                for i in range(count):
                    view[written] = chunk[i]
                    written += is_valid(&keys.span, start + i)
                start += count
    return out if written == n else out[:written].copy()


def hash_one(const uint8_t[::1] value not None):
    """XXH64, seed 0, of one byte string."""
    return hash_bytes(&value[0] if value.shape[0] else NULL, value.shape[0])
