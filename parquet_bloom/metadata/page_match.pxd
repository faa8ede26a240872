"""Values to search for, and the search of pages for them, without the interpreter lock."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from .page_decode cimport Buffer, PageBody, PageVisitor

cdef enum:
    NO_TARGET = -1  # all of its bits are set
    OUTSIDE = -2    # what would be the number of an entry, were the dictionary longer
    FEW_BITS = 8    # of numbers that are looked up eight at a time, in one word


cdef class Targets:
    cdef uint8_t[::1] data
    cdef int64_t[::1] starts          # of each value in `data`, and the end of the last one
    cdef uint64_t[::1] sieve          # two bits of one word for each hash by `mix`; 1 << `sieve_bits` bits
    cdef int32_t[::1] table           # value, or NO_TARGET, by `mix_all`; collisions go to the next entry
    cdef Py_ssize_t count, shortest, sieve_bits
    cdef readonly Py_ssize_t longest
    cdef readonly bint is_piece
    cdef prepare(self, data, starts)
    cdef void fill(self, Py_ssize_t size) noexcept nogil


cdef class PageSearch(PageVisitor):
    cdef Targets targets
    cdef Buffer by_entry         # of the dictionary: the target that each entry is, int32
    cdef Py_ssize_t num_entries
    cdef Buffer positions        # of matches among the values of a page, int64, and their targets, int32
    cdef Buffer numbers
    cdef int64_t num_rows, begun
    cdef uint8_t last            # definition level
    cdef int64_t* rows
    cdef int32_t* which
    cdef Py_ssize_t num_found
    cdef bint begin(self, int codec, int64_t num_rows, int64_t* rows, int32_t* which) noexcept nogil
    cdef Py_ssize_t match(self, const PageBody* body, Py_ssize_t count, bint by_entry) except -1 nogil
