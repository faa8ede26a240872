"""Values to search for, and searches of a page's values for them, without the interpreter lock."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from .page_decode cimport PageBody

cdef enum:
    NO_TARGET = -1


cdef class Targets:
    cdef uint8_t[::1] data
    cdef int64_t[::1] starts          # of each value in `data`, and the end of the last one
    cdef uint64_t[::1] sieve          # two bits of one word for each hash by `mix`; 1 << `sieve_bits` bits
    cdef int32_t[::1] table           # value, or NO_TARGET, by `mix_all`; collisions go to the next entry
    cdef Py_ssize_t count, shortest, sieve_bits
    cdef readonly Py_ssize_t longest
    cdef prepare(self, data, starts)
    cdef void fill(self, Py_ssize_t size) noexcept nogil


cdef Py_ssize_t match_values(
    PageBody* body, const int64_t* page, Py_ssize_t count, Py_ssize_t width, Targets targets,
    const int32_t* by_entry, Py_ssize_t num_entries, int64_t* positions, int32_t* which
) noexcept nogil

cdef Py_ssize_t search_dictionary(
    const uint8_t* data, const int64_t* page, Py_ssize_t width, int codec, Targets targets, int32_t** by_entry
) noexcept nogil

cdef Py_ssize_t search_chunk(
    const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, Py_ssize_t width, int codec, bint required,
    int64_t num_rows, Targets targets, int64_t* positions, int32_t* which
) noexcept nogil
