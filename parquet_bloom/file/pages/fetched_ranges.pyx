# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Ranges of files of any kind, fetched before they are read, for `chunk_batch`."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

from ...storage.local.open_files cimport RangeReader


cdef class FetchedRanges(RangeReader):
    """Reads a file of which some ranges were fetched, all at once; others are read when they are needed.

    Parameters
    ----------
    source : the file, of any kind; its reads are counted there.
    """

    cdef object source
    cdef list parts                 # (offsets, lengths, positions in the data, data) of each fetch, by offset

    def __cinit__(self, source not None):
        self.source, self.parts = source, []
        self.is_remote, self.counts_reads = source.path is None, True

    def __len__(self) -> int:
        return 1

    def fetch(self, offsets not None, lengths not None):
        """Fetch ranges besides those that were fetched before.

        Raises
        ------
        TruncatedFileError, StorageError
        """
        order = np.argsort(offsets, kind="stable")
        offsets, lengths = np.asarray(offsets, np.int64)[order], np.asarray(lengths, np.int64)[order]
        starts = np.cumsum(lengths) - lengths
        self.parts.append((offsets, lengths, starts, self.source.gather(offsets, lengths)))

    def forget(self):
        """Drop all ranges."""
        self.parts.clear()

    def has(self, int64_t offset, int64_t length):
        """Return whether a range was fetched."""
        return self._find(offset, length) is not None

    def view(self, int64_t offset, int64_t length):
        """Return the bytes of a range."""
        found = self._find(offset, length)
        return memoryview(self.source.read_at(offset, length)) if found is None else found

    def _find(self, int64_t offset, int64_t length):
        for offsets, lengths, starts, data in self.parts:
            number = int(np.searchsorted(offsets, offset, "right")) - 1
            if number >= 0 and offset + length <= offsets[number] + lengths[number]:
                start = int(starts[number]) + offset - int(offsets[number])
                return memoryview(data)[start : start + length]
        return None

    cdef int read(self, Py_ssize_t file, int64_t offset, int64_t length, uint8_t* to) except -1 nogil:
        cdef const uint8_t[::1] data
        if file != 0:
            return False
        with gil:
            data = self.view(offset, length)
            if data.shape[0] != length:
                return False
            if length:
                memcpy(to, &data[0], length)
        return True


cdef class FetchedFiles(RangeReader):
    """Reads ranges of many files, all of which were fetched.

    Parameters
    ----------
    ranges : of each file, its ranges: position and bytes (uint8 array) of each, as in `Extents.items`.
    """

    cdef list ranges

    def __cinit__(self, list ranges not None):
        self.ranges = ranges
        self.is_remote, self.counts_reads = True, True

    def __len__(self) -> int:
        return len(self.ranges)

    cdef int read(self, Py_ssize_t file, int64_t offset, int64_t length, uint8_t* to) except -1 nogil:
        cdef const uint8_t[::1] data
        cdef int64_t start
        if not 0 <= file or length < 0:
            return False
        with gil:
            if file >= len(self.ranges):
                return False
            for start, data in self.ranges[file]:
                if start <= offset and offset + length <= start + data.shape[0]:
                    if length:
                        memcpy(to, &data[offset - start], length)
                    return True
        return False
