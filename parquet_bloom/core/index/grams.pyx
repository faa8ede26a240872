# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Sparse grams of texts: substrings of 3 to 8 bytes that begin and end with pairs of bytes heavier than those inside.

The first pair outweighs every pair between it and the last one, and none of these outweighs the last one.

Which of a text's substrings are grams depends on the bytes of each alone. So the grams of a piece of a text are grams
of the text, and an index of grams finds the text by them. Every substring of three bytes is one; the longer ones say
more, and there are few of them. The idea is that of GitHub's code search ("sparse n-grams"), over bytes instead of
characters.

A gram is packed into a uint64, its first byte lowest, zeros above it; it is hashed as eight bytes. A gram and the same
with NUL bytes after it are one.
"""

from libc.stdint cimport int16_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from ..hash.xxh64 cimport hash8
from ..keys cimport (
    FIXED, HASHES, INLINE_BYTES, INLINE_START, KeySpan, Keys, OFFSETS32, OFFSETS64, VIEWS, View, is_valid, key_offset,
    key_view
)

cdef extern from "memory.h" nogil:
    void* allocate "pb_allocate"(size_t num_bytes)
    void release "pb_release"(void* memory, size_t num_bytes)

LEAST_BYTES = 3
MOST_BYTES = 8
NUM_PAIRS = 1 << 16

cdef enum:
    LONGEST = 8
    RECENT_BITS = 15  # log2 of the number of grams that are remembered: 256 KiB
    PIECE = 1 << 13   # hashes that are returned at once, at least
    BEFORE = LONGEST - 2  # pairs of a gram before its last one
    STRIDE = 1 << 10  # pairs that are compared at once

cdef uint64_t SCATTER = <uint64_t>0x9E3779B97F4A7C15


cdef inline Py_ssize_t locate_key(const KeySpan* keys, Py_ssize_t i, const uint8_t** start) noexcept nogil:
    """Set where a key begins, and return its length."""
    cdef int64_t first
    cdef View view
    if keys.layout == VIEWS:
        view = key_view(keys, i)
        if view.length <= INLINE_BYTES:
            start[0] = keys.data + sizeof(View) * i + INLINE_START
        else:
            start[0] = keys.buffers[view.buffer] + view.offset
        return view.length
    if keys.layout == OFFSETS32 or keys.layout == OFFSETS64:
        first = key_offset(keys, i) + keys.lead
        start[0] = keys.data + first
        return key_offset(keys, i + 1) - first
    start[0] = keys.data + keys.width * i + keys.lead
    return keys.width - keys.lead


cdef class GramExtractor:
    """Extracts grams; of those of the last texts it returns each but once, as far as it remembers them.

    Parameters
    ----------
    weights : of each pair of bytes, the first one in the upper half of its number (65,536 uint16).

    Raises
    ------
    ValueError
        There are not so many weights.
    """

    cdef const uint16_t[::1] weights
    cdef uint64_t* recent

    def __cinit__(self, const uint16_t[::1] weights not None):
        if weights.shape[0] != NUM_PAIRS:
            raise ValueError(f"there are {NUM_PAIRS} weights, not {weights.shape[0]}")
        self.weights = weights
        self.recent = <uint64_t*>allocate(<size_t>8 << RECENT_BITS)
        if self.recent == NULL:
            raise MemoryError
        self.forget()

    def __dealloc__(self):
        if self.recent != NULL:
            release(self.recent, <size_t>8 << RECENT_BITS)

    cpdef forget(self):
        """Forget the grams that were returned, so that each is returned again."""
        memset(self.recent, 0xFF, <size_t>8 << RECENT_BITS)  # which is no gram: its pairs are alike

    def extract(self, Keys texts not None, Py_ssize_t first=0):
        """Return the hashes of the grams of texts, from number `first` on, and the number of the first one left.

        Hashes (uint64) may be repeated. Nulls have no grams. Call it until no text is left; a call takes some tens of
        thousands of hashes' worth of texts.

        Raises
        ------
        ValueError
            The keys are hashes, not texts.
        """
        cdef const KeySpan* span = &texts.span
        cdef Py_ssize_t room, count = 0, length = 0, i = first
        cdef const uint8_t* start = NULL
        cdef uint64_t[::1] out
        if span.layout == HASHES:
            raise ValueError("hashes have no grams")
        if first < 0:
            raise ValueError(f"there is no text {first}")
        room = PIECE
        if i < span.length:
            with nogil:
                while i < span.length:  # a long text has to find room
                    if is_valid(span, i):
                        length = locate_key(span, i, &start)
                        break
                    i += 1
            room = max(room, most_grams(length))
        hashes = np.empty(room + 1, np.uint64)
        out = hashes
        with nogil:
            while i < span.length:
                if is_valid(span, i):
                    length = locate_key(span, i, &start)
                    if length >= 3:
                        if most_grams(length) > room - count:
                            break
                        count += self.take(start, length, &out[count])
                i += 1
        return hashes[:count], i

    cdef Py_ssize_t take(self, const uint8_t* text, Py_ssize_t length, uint64_t* out) noexcept nogil:
        """Write the hashes of a text's grams that are not remembered; return their number.

        There are at most `most_grams`; the place behind so many is written to as well.
        """
        cdef int16_t[BEFORE + STRIDE] weights
        cdef int16_t[STRIDE] found
        cdef Py_ssize_t count = 0, first, end, before, i
        first = 1
        while first < length - 1:  # pairs are numbered by their first byte
            end, before = min(first + STRIDE, length - 1), min(first, <Py_ssize_t>BEFORE)
            memset(weights, 0, sizeof(int16_t) * BEFORE)
            for i in range(first - before, end):
                weights[BEFORE + i - first] = <int16_t>(self.weights[(<uint32_t>text[i] << 8) | text[i + 1]] ^ 0x8000)
            find_starts(weights, end - first, found)
            count += self.keep(out + count, pack_grams(text, first, end, found, out + count))
            first = end
        return count

    cdef inline Py_ssize_t keep(self, uint64_t* grams, Py_ssize_t count) noexcept nogil:
        """Replace grams by the hashes of those that are not remembered; return their number."""
        cdef Py_ssize_t kept = 0, slot, i
        cdef uint64_t gram
        for i in range(count):  # without branches, none of which could be foreseen
            gram = grams[i]
            slot = (gram * SCATTER) >> (64 - RECENT_BITS)
            grams[kept] = gram
            kept += self.recent[slot] != gram
            self.recent[slot] = gram
        for i in range(kept):
            grams[i] = hash8(<const uint8_t*>&grams[i])
        return kept


cdef void find_starts(const int16_t* weights, Py_ssize_t count, int16_t* found) noexcept nogil:
    """Find the grams that end with each of some pairs, in a loop that compilers turn into vector instructions.

    Parameters
    ----------
    weights : of the pairs, `BEFORE` others in front; signed, so that every processor has instructions for them.
    found : takes a bit for each place of a gram's first pair, the lowest one for the nearest.
    """
    cdef Py_ssize_t i
    cdef int16_t weight, most, other, starts
    for i in range(count):
        weight, most = weights[i + 6], weights[i + 5]
        other = weights[i + 4]
        starts = 1 | (<int16_t>((other > most) & (most <= weight)) << 1)
        most = max(most, other)
        other = weights[i + 3]
        starts |= <int16_t>((other > most) & (most <= weight)) << 2
        most = max(most, other)
        other = weights[i + 2]
        starts |= <int16_t>((other > most) & (most <= weight)) << 3
        most = max(most, other)
        other = weights[i + 1]
        starts |= <int16_t>((other > most) & (most <= weight)) << 4
        most = max(most, other)
        other = weights[i]
        starts |= <int16_t>((other > most) & (most <= weight)) << 5
        found[i] = starts


cdef Py_ssize_t pack_grams(
    const uint8_t* text, Py_ssize_t first, Py_ssize_t end, const int16_t* found, uint64_t* out
) noexcept nogil:
    """Write the grams that end with pairs [first, end) of a text, packed; return their number.

    Parameters
    ----------
    found : by `find_starts`, of these pairs.
    """
    cdef Py_ssize_t count = 0, i
    cdef uint64_t window
    cdef int starts, k
    for i in range(first, end):
        starts = found[i - first]
        window = 0
        if i < BEFORE:
            starts &= (1 << i) - 1
            memcpy(<uint8_t*>&window + BEFORE - i, text, i + 2)  # little-endian, as the processor is
        else:
            memcpy(&window, text + i - BEFORE, LONGEST)
        for k in range(BEFORE):
            out[count] = window >> (8 * (BEFORE - 1 - k))
            count += starts >> k & 1
    return count


cdef inline Py_ssize_t most_grams(Py_ssize_t length) noexcept nogil:
    """Return a number that the grams of a text of so many bytes do not exceed."""
    return 2 * length


def list_grams(const uint8_t[::1] text not None, const uint16_t[::1] weights not None):
    """Return the grams of one text as (start, end) of each, by their ends, the shortest first.

    Raises
    ------
    ValueError
        There are not 65,536 weights.
    """
    cdef Py_ssize_t i, back
    cdef uint32_t weight, most, other
    if weights.shape[0] != NUM_PAIRS:
        raise ValueError(f"there are {NUM_PAIRS} weights, not {weights.shape[0]}")
    found = []
    for i in range(text.shape[0] - 1):
        weight = <uint32_t>weights[(<uint32_t>text[i] << 8) | text[i + 1]] + 1
        most = 0
        for back in range(1, min(i, LONGEST - 2) + 1):
            if most > weight:
                break
            other = <uint32_t>weights[(<uint32_t>text[i - back] << 8) | text[i - back + 1]] + 1
            if other > most:
                found.append((i - back, i + 2))
                most = other
    return found


def count_pairs(Keys texts not None, uint32_t[::1] counts not None):
    """Count the pairs of bytes in texts; return how many bytes the texts have.

    Parameters
    ----------
    counts : of each pair so far (65,536 uint32); added to, up to the largest number.

    Raises
    ------
    ValueError
        The keys are hashes, not texts, or there are not so many counts.
    """
    cdef const KeySpan* span = &texts.span
    cdef const uint8_t* start = NULL
    cdef Py_ssize_t i, k, length, total = 0
    cdef uint32_t* count
    if span.layout == HASHES or counts.shape[0] != NUM_PAIRS:
        raise ValueError(f"pairs are counted of texts, into {NUM_PAIRS} counts")
    with nogil:
        for i in range(span.length):
            if not is_valid(span, i):
                continue
            length = locate_key(span, i, &start)
            total += length
            for k in range(length - 1):
                count = &counts[(<uint32_t>start[k] << 8) | start[k + 1]]
                count[0] += count[0] != <uint32_t>0xFFFFFFFF
    return total
