# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Many local files that are open at once, each of them the version that is expected."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

import os

from .batch_read cimport make_path_strings, require_paths
from .batch_read import pack_identities
from .local_files cimport pb_close, pb_is_same, pb_is_unwritten, pb_open, pb_read_range


cdef class RangeReader:
    """What reads ranges of some files, given by their numbers.

    Attributes
    ----------
    is_remote : whether each read that was not prepared is a request.
    counts_reads : whether reads are counted by the reader itself.
    """

    def __len__(self) -> int:
        return 0

    def are_unchanged(self):
        """Return whether what was read is of the expected versions, where reads themselves do not tell."""
        return True

    cdef int read(self, Py_ssize_t file, int64_t offset, int64_t length, uint8_t* to) except -1 nogil:
        """Read a range of a file; return whether that was possible, or raise what says why not."""
        return False


cdef class OpenFiles(RangeReader):
    """Local files that are opened together, read without the interpreter lock, and closed together.

    Parameters
    ----------
    paths : the files.
    identities : the `FileIdentity` of each.
    """

    def __cinit__(self, paths not None, identities not None):
        cdef Py_ssize_t i
        cdef list encoded = [os.fsencode(path) for path in paths]
        require_paths(encoded)
        if len(identities) != len(encoded):
            raise ValueError("there must be an identity for each path")
        self._paths, self._identities, self._count = encoded, pack_identities(identities), len(encoded)
        self._descriptors = <int*>malloc(max(1, self._count) * sizeof(int))
        if self._descriptors == NULL:
            self._count = 0
            raise MemoryError()
        for i in range(self._count):
            self._descriptors[i] = -1

    def __dealloc__(self):
        self._close()
        free(self._descriptors)

    def __len__(self) -> int:
        return self._count

    cdef void _close(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self._count):
            if self._descriptors[i] >= 0:
                pb_close(self._descriptors[i])
                self._descriptors[i] = -1

    def open(self):
        """Open all files; return whether each is there, and the expected version."""
        cdef const char** names = make_path_strings(self._paths)
        cdef bint same = True
        cdef Py_ssize_t i
        try:
            with nogil:
                self._close()
                for i in range(self._count):
                    self._descriptors[i] = pb_open(names[i])
                    if self._descriptors[i] < 0 or not pb_is_same(self._descriptors[i], names[i], &self._identities[i, 0]):
                        same = False
                        break
        finally:
            free(names)
        return same

    def are_unchanged(self):
        """Return whether nothing was written to the open files, so that what was read is of the expected version.

        Files that were replaced or deleted are unchanged.
        """
        cdef Py_ssize_t i
        cdef bint same = True
        with nogil:
            for i in range(self._count):
                if self._descriptors[i] < 0 or not pb_is_unwritten(self._descriptors[i], &self._identities[i, 0]):
                    same = False
                    break
        return same

    def descriptor(self, Py_ssize_t file):
        """Return the descriptor of an open file, given by its number; -1 if it is not open."""
        return self._descriptors[file] if 0 <= file < self._count else -1

    def close(self):
        """Close all files."""
        self._close()

    cdef int read(self, Py_ssize_t file, int64_t offset, int64_t length, uint8_t* to) except -1 nogil:
        if not 0 <= file < self._count or self._descriptors[file] < 0 or offset < 0 or length < 0:
            return False
        return pb_read_range(self._descriptors[file], to, length, offset)
