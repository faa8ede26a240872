# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The split-block Bloom filter: blocks of 256 bits in eight words of 32 bits, in each of which a key sets one bit.

Source: the Parquet format's BloomFilter.md. A hash's upper half chooses the block by multiply-shift, its lower half
the eight bits. A *bitset* is a buffer of bytes; an incomplete block at its end, which some writers leave, is ignored.
"""

cimport cython
from cpython.buffer cimport Py_buffer, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from threading import Lock

from ..block cimport check_hash, count_blocks
from .scalar cimport ANY, NEVER, NO_FORM, UNSURE, ZERO, Answer, ScalarHasher, Scalars, hash_scalar
from ..hash.xxh64 cimport hash_bytes

from ..dispatch import kernels
from ..keys import Keys
from .memory import zeros

BLOCK_BYTES = 32

insert_keys = kernels.insert_keys
insert_new = kernels.insert_new
check_keys = kernels.check_keys
probe_filters = kernels.probe_filters

cdef extern from "popcount.h" nogil:
    void count_bits "pb_count_bits"(const uint8_t* words, size_t num_words, uint32_t* counts)

cdef enum:
    BLOCKS_AT_ONCE = 32  # measured at a time: enough for vector instructions, and the counts stay in the L1 cache


@cython.no_gc_clear  # an array and a lock, which form no cycle: `blocks` stays valid as long as the object is reachable
cdef class Bitset:
    """Base class of filters: exports the bitset by the buffer protocol, and probes single values.

    A subclass sets `_bitset`, then declares by `_expect` how values are stored (until then every value is
    passed to `_contains_slowly`), and holds `_lock` while it changes the bits: kernels release the GIL, and two threads
    that change the same block would lose bits.
    """

    cdef object array
    cdef const uint8_t* blocks
    cdef uint64_t num_blocks
    cdef Scalars expected
    cdef readonly object _lock

    def __cinit__(self):
        self.expected.form = NO_FORM
        self._lock = Lock()

    @property
    def _bitset(self):
        """Return the bits as a uint8 array."""
        return self.array

    @_bitset.setter
    def _bitset(self, bitset):
        cdef const uint8_t[::1] view = bitset
        self.num_blocks = count_blocks(view.shape[0])
        self.expected.form = NO_FORM
        self.blocks = &view[0]  # the array keeps the memory alive, and it does not move
        self.array = bitset  # last, as releasing the former array may run code that probes this filter

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyObject_GetBuffer(self.array, buffer, flags)  # the array becomes the view's owner and releases it

    def _expect(self, ScalarHasher hasher not None):
        """Declare how values are stored."""
        self.expected = hasher.expected

    def __contains__(self, value):
        """Probe one value; return False only if it is certainly absent."""
        cdef uint64_t* hashes = [0, 0]
        cdef Answer answer = hash_scalar(&self.expected, value, hashes)
        if answer == UNSURE or self.blocks == NULL:
            return self._contains_slowly(value)
        if answer == NEVER or answer == ANY:
            return answer == ANY
        if check_hash(self.blocks, self.num_blocks, hashes[0]):
            return True
        return answer == ZERO and check_hash(self.blocks, self.num_blocks, hashes[1])

    def _contains_slowly(self, value):
        """Probe a value of any type."""
        raise TypeError(f"a bitset alone knows no values of type {type(value).__name__}")

    def _contains_any(self, keys):
        """Probe keys given by their stored bytes; return whether any of them may be present."""
        cdef const uint8_t[::1] key
        if self.blocks == NULL:
            raise ValueError("there is no bitset yet")
        for key in keys:
            if check_hash(self.blocks, self.num_blocks, hash_bytes(&key[0] if key.shape[0] else NULL, key.shape[0])):
                return True
        return False


def insert_hashes(bitset not None, hashes not None):
    """Insert keys given by their hashes (a uint64 array)."""
    insert_keys(bitset, Keys.hashed(hashes))


def check_hashes(bitset not None, hashes not None):
    """Probe keys given by their hashes (a uint64 array); return a bool array, False where a key is certainly absent."""
    return check_keys(bitset, Keys.hashed(hashes))


def merge(uint8_t[::1] bitset not None, const uint8_t[::1] other not None):
    """OR `other` into `bitset`; both must have the same size, so that every key has the same block in both."""
    cdef Py_ssize_t num_bytes = bitset.shape[0]
    cdef uint8_t* into
    cdef const uint8_t* source
    cdef Py_ssize_t i
    if num_bytes != other.shape[0]:
        raise ValueError(f"bitsets of {num_bytes} and {other.shape[0]} bytes cannot be merged")
    if num_bytes == 0:
        return
    into, source = &bitset[0], &other[0]
    with nogil:
        for i in range(num_bytes):
            into[i] |= source[i]


def fold(const uint8_t[::1] bitset not None):
    """Halve a bitset: OR blocks 2i and 2i + 1 into block i, which multiply-shift selects for their keys at half size."""
    cdef uint64_t num_blocks = count_blocks(bitset.shape[0])
    cdef const uint8_t* pair = &bitset[0]
    cdef uint8_t* half
    cdef uint64_t words[8]
    cdef Py_ssize_t i, j
    if num_blocks % 2:
        raise ValueError(f"an odd number of blocks ({num_blocks}) cannot be folded")
    out = zeros(16 * num_blocks)
    cdef uint8_t[::1] view = out
    half = &view[0]
    with nogil:
        for i in range(<Py_ssize_t>(num_blocks // 2)):
            memcpy(words, pair + 64 * i, 64)
            for j in range(4):
                words[j] |= words[j + 4]
            memcpy(half + 32 * i, words, 32)
    return out


def measure(const uint8_t[::1] bitset not None):
    """Return the number of set bits, and the false-positive probability for a random absent key.

    A random key tests one random bit in each of a random block's eight words, so the probability is the mean over the
    blocks of the product of the words' shares of set bits.
    """
    cdef uint64_t num_blocks = count_blocks(bitset.shape[0])
    cdef const uint8_t* blocks = &bitset[0]
    cdef uint64_t bits = 0
    cdef uint64_t done = 0
    cdef double total = 0.0
    cdef uint32_t counts[8 * BLOCKS_AT_ONCE]
    cdef const uint32_t* block
    cdef uint32_t some_bits
    cdef uint64_t count, i
    with nogil:
        while done < num_blocks:
            count = min(num_blocks - done, <uint64_t>BLOCKS_AT_ONCE)
            count_bits(blocks + 32 * done, 8 * count, counts)
            some_bits = 0
            for i in range(8 * count):
                some_bits += counts[i]
            bits += some_bits
            for i in range(count):
                block = counts + 8 * i
                # At most 32^8 = 2^40, so that products do not overflow, and are exact as doubles.
                total += <double><int64_t>(
                    <uint64_t>(block[0] * block[1] * block[2] * block[3])
                    * (block[4] * block[5] * block[6] * block[7])
                )
            done += count
    return bits, total / (<double>(<int64_t>1 << 40) * num_blocks)
