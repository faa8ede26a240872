# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Many local files in one call: their last bytes with their identities, and whether they have changed."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

import os

import numpy as np

from .local_files cimport pb_close, pb_describe_path, pb_identify, pb_is_same, pb_open, pb_read_at_once, pb_read_range
from .local_source import FileIdentity

cdef enum:
    TOGETHER = 64  # files that are open at a time, so that the disk can work on all of them at once
    CHECKED_AT_ONCE = 64
    FIELDS = 6     # of a state: the fields of `FileIdentity`, and the mode


cdef int require_paths(list paths) except -1:
    for path in paths:
        if not isinstance(path, bytes) or b"\0" in path:
            raise ValueError("paths are bytes without null characters")
    return 0


cdef const char** make_path_strings(list paths) except NULL:
    """Return the paths as C strings, which live as long as the list; the caller frees the array."""
    cdef Py_ssize_t i
    cdef const char** names = <const char**>malloc(max(1, len(paths)) * sizeof(char*))
    if names == NULL:
        raise MemoryError()
    for i in range(len(paths)):
        names[i] = PyBytes_AS_STRING(paths[i])
    return names


def pack_identities(identities not None):
    """Return the fields of many `FileIdentity` as signed numbers: int64 of shape (files, 5)."""
    packed = np.empty((len(identities), 5), dtype=np.int64)
    cdef int64_t[:, ::1] rows = packed
    cdef Py_ssize_t i
    for i, (device, inode, size, modified_ns, changed_ns) in enumerate(identities):
        rows[i, 0], rows[i, 1] = <int64_t><uint64_t>device, <int64_t><uint64_t>inode
        rows[i, 2], rows[i, 3], rows[i, 4] = size, modified_ns, changed_ns
    return packed


cdef void read_some_ends(
    const char** paths, Py_ssize_t length, int64_t* identities, uint8_t* out, uint8_t* is_valid, Py_ssize_t count
) noexcept nogil:
    """Read the last bytes of `count` files, at most TOGETHER, and their identities."""
    cdef int descriptors[TOGETHER]
    cdef uint8_t is_read[TOGETHER]
    cdef int64_t size
    cdef Py_ssize_t i
    for i in range(count):
        descriptors[i] = pb_open(paths[i])
        is_valid[i] = descriptors[i] >= 0 and pb_identify(descriptors[i], identities + 5 * i)
        if is_valid[i]:
            size = identities[5 * i + 2]
            is_read[i] = pb_read_at_once(descriptors[i], out + i * length, min(size, length), max(0, size - length))
    for i in range(count):
        if is_valid[i] and not is_read[i]:
            size = identities[5 * i + 2]
            is_valid[i] = pb_read_range(descriptors[i], out + i * length, min(size, length), max(0, size - length))
        # A file that was written to meanwhile has no consistent state.
        if is_valid[i]:
            is_valid[i] = pb_is_same(descriptors[i], paths[i], identities + 5 * i)
        if descriptors[i] >= 0:
            pb_close(descriptors[i])


def read_ends(paths not None, Py_ssize_t length):
    """Read the last bytes and the identities of many files.

    Parameters
    ----------
    paths : the files.
    length : number of bytes to read from each.

    Returns
    -------
    For each path a pair of its `FileIdentity` and the bytes, fewer if the file is shorter; None if it is missing, not a
    regular file, cannot be read, or was written to meanwhile.

    Raises
    ------
    ValueError
        If a path or the length is invalid.
    """
    cdef Py_ssize_t count = len(paths), i, start, stop
    if length <= 0:
        raise ValueError(f"length must be at least 1, got {length}")
    cdef list encoded = [os.fsencode(path) for path in paths]
    require_paths(encoded)
    ends = []
    if count == 0:
        return ends
    cdef int64_t[:, ::1] identities = np.zeros((min(count, TOGETHER), 5), dtype=np.int64)
    cdef uint8_t[:, ::1] out = np.empty((min(count, TOGETHER), length), dtype=np.uint8)
    cdef uint8_t is_valid[TOGETHER]
    cdef const char** names = make_path_strings(encoded)
    try:
        for start in range(0, count, TOGETHER):
            stop = min(count, start + TOGETHER)
            with nogil:
                read_some_ends(names + start, length, &identities[0, 0], &out[0, 0], is_valid, stop - start)
            for i in range(stop - start):
                if not is_valid[i]:
                    ends.append(None)
                    continue
                ends.append((
                    FileIdentity(
                        <uint64_t>identities[i, 0], <uint64_t>identities[i, 1], identities[i, 2], identities[i, 3],
                        identities[i, 4]
                    ),
                    PyBytes_FromStringAndSize(<const char*>&out[i, 0], min(length, identities[i, 2])),
                ))
            PyErr_CheckSignals()
    finally:
        free(names)
    return ends


cdef class PathStates:
    """The states of files and folders when this was made, to find out later whether any has changed.

    A folder has changed if an entry was added to it, removed or renamed, but not if a file in it was written to.

    Parameters
    ----------
    paths : of files and folders, as bytes. Links are followed.

    Attributes
    ----------
    states : int64, of shape (paths, 6): device, inode, size, times of modification and of change, mode; all of them -1
        where there is nothing.
    """

    cdef list paths
    cdef const char** names
    cdef readonly object states
    cdef const int64_t[:, ::1] before

    def __cinit__(self, list paths not None):
        require_paths(paths)
        self.paths = list(paths)
        self.names = make_path_strings(self.paths)
        cdef Py_ssize_t count = len(self.paths), i, j
        self.states = np.full((count, FIELDS), -1, np.int64)
        cdef int64_t[:, ::1] states = self.states
        with nogil:
            for i in range(count):
                if not pb_describe_path(self.names[i], &states[i, 0]):
                    for j in range(FIELDS):
                        states[i, j] = -1
        self.before = self.states

    def __dealloc__(self):
        free(self.names)

    def __len__(self) -> int:
        return len(self.paths)

    def begin_check(self) -> PathCheck:
        """Return a comparison with how everything is now; see `PathCheck`."""
        return PathCheck(self)


cdef class PathCheck:
    """A comparison of paths with their states, which several threads can share."""

    cdef PathStates states
    cdef Py_ssize_t begun
    cdef bint same

    def __cinit__(self, PathStates states not None):
        self.states, self.same = states, True

    def run(self) -> bool:
        """Compare what no other thread has begun to compare; return whether nothing of all that was compared differs."""
        cdef int64_t state[FIELDS]
        cdef Py_ssize_t i, start, count = self.states.before.shape[0]
        cdef bint same = True
        while self.same and self.begun < count:
            start = self.begun
            self.begun += CHECKED_AT_ONCE
            with nogil:
                for i in range(start, min(start + CHECKED_AT_ONCE, count)):
                    if (
                        not pb_describe_path(self.states.names[i], state)
                        or memcmp(state, &self.states.before[i, 0], sizeof(state))
                    ):
                        same = False
                        break
            if not same:
                self.same = False
        return self.same
