# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads of many local files in one call.

They read blocks of files with an expected identity, which is checked, or the last bytes of new files with their
identities.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from *:
    """
    #include <stdint.h>

    #ifdef _WIN32 /* no file can be read: opening one raises the reason (libc.py) */

    static int pb_is_same(int descriptor, const char* path, const int64_t* identity) {
        (void)descriptor; (void)path; (void)identity;
        return 0;
    }

    static int pb_identify(int descriptor, int64_t* identity) {
        (void)descriptor; (void)identity;
        return 0;
    }

    static int pb_open(const char* path) {
        (void)path;
        return -1;
    }

    static int pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
        (void)descriptor; (void)to; (void)length; (void)offset;
        return 0;
    }

    static int pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
        return pb_read_range(descriptor, to, length, offset);
    }

    static void pb_close(int descriptor) {
        (void)descriptor;
    }

    #else

    #include <errno.h>
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #ifdef __APPLE__
    #define pb_time(status, which) ((status).st_##which##timespec)
    #else
    #define pb_time(status, which) ((status).st_##which##tim)
    #endif

    static int64_t pb_nanoseconds(struct timespec time) {
        return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    }

    /* Return whether a file is the regular file of an identity: device, inode, size, modification time and change time.
       The file is given by its descriptor, or by its path if that is -1. */
    static int pb_is_same(int descriptor, const char* path, const int64_t* identity) {
        struct stat status;
        if ((descriptor >= 0 ? fstat(descriptor, &status) : stat(path, &status)) != 0) return 0;
        return S_ISREG(status.st_mode)
            && (int64_t)status.st_dev == identity[0]
            && (int64_t)status.st_ino == identity[1]
            && (int64_t)status.st_size == identity[2]
            && pb_nanoseconds(pb_time(status, m)) == identity[3]
            && pb_nanoseconds(pb_time(status, c)) == identity[4];
    }

    /* Store the identity of a regular file; return 0 if it is not one. */
    static int pb_identify(int descriptor, int64_t* identity) {
        struct stat status;
        if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
        identity[0] = (int64_t)status.st_dev;
        identity[1] = (int64_t)status.st_ino;
        identity[2] = (int64_t)status.st_size;
        identity[3] = pb_nanoseconds(pb_time(status, m));
        identity[4] = pb_nanoseconds(pb_time(status, c));
        return 1;
    }

    /* O_NONBLOCK: opening a pipe without a writer would block for ever. */
    static int pb_open(const char* path) {
        return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }

    static int pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
        ssize_t came;
        do came = pread(descriptor, to, (size_t)length, (off_t)offset); while (came < 0 && errno == EINTR);
        return came == length;
    }

    /* Read a range if it is in the page cache, and return 1; else ask the kernel to fetch it. */
    static int pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    #ifdef RWF_NOWAIT
        struct iovec part;
        if (offset < 0) return 0; /* for this call -1 means the position of the file */
        part.iov_base = to;
        part.iov_len = (size_t)length;
        if (preadv2(descriptor, &part, 1, (off_t)offset, RWF_NOWAIT) == length) return 1;
    #endif
    #ifdef POSIX_FADV_WILLNEED
        (void)posix_fadvise(descriptor, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
    #endif
        return 0;
    }

    static void pb_close(int descriptor) {
        (void)close(descriptor);
    }

    #endif
    """
    bint pb_is_same(int descriptor, const char* path, const int64_t* identity) nogil
    bint pb_identify(int descriptor, int64_t* identity) nogil
    int pb_open(const char* path) nogil
    bint pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    bint pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    void pb_close(int descriptor) nogil

cdef enum:
    TOGETHER = 64  # files that are open at a time, so that the disk can work on all their blocks at once


cdef void read_some_ranges(
    const char** paths, const int64_t* identities, const int64_t* first, const int64_t* offsets, Py_ssize_t length,
    uint8_t* out, uint8_t* is_read, uint8_t* same, Py_ssize_t count
) noexcept nogil:
    """Read ranges of `count` files, at most TOGETHER. `first` has indices into `offsets`, `out` and `is_read`."""
    cdef int descriptors[TOGETHER]
    cdef Py_ssize_t i
    cdef int64_t j
    for i in range(count):
        descriptors[i] = pb_open(paths[i]) if first[i + 1] > first[i] else -1
        same[i] = descriptors[i] >= 0 or first[i + 1] == first[i]
        if descriptors[i] >= 0:
            for j in range(first[i], first[i + 1]):
                is_read[j] = pb_read_at_once(descriptors[i], out + j * length, length, offsets[j])
    for i in range(count):
        if descriptors[i] >= 0:
            for j in range(first[i], first[i + 1]):
                if not is_read[j] and not pb_read_range(descriptors[i], out + j * length, length, offsets[j]):
                    same[i] = 0
        # Checked last, so that the bytes are those of the unchanged file.
        if same[i]:
            same[i] = pb_is_same(descriptors[i], paths[i], identities + 5 * i)
        if descriptors[i] >= 0:
            pb_close(descriptors[i])


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


def visit(
    list paths not None, const int64_t[:, ::1] identities not None, const int64_t[::1] first not None,
    const int64_t[::1] offsets not None, Py_ssize_t length
):
    """Read ranges of one length from many files, and report which files have not changed.

    Parameters
    ----------
    paths : the files, as bytes.
    identities : of shape (files, 5): the fields of `FileIdentity` as signed 64-bit numbers.
    first : file i has the ranges from first[i] to first[i + 1].
    offsets : offset of each range in its file, for one file after the other.
    length : length of each range, in bytes.

    Returns
    -------
    uint8 array of shape (ranges, length), and a bool array of shape (files): False for a file that is missing, cannot
    be opened or read, ends before a range does, or has changed. The bytes of such a file are meaningless.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    cdef Py_ssize_t count = len(paths), i, start, stop
    if identities.shape[0] != count or identities.shape[1] != 5 or first.shape[0] != count + 1 or length <= 0:
        raise ValueError("identities and first ranges do not fit the number of files, or length is not positive")
    if first[0] != 0 or first[count] != offsets.shape[0]:
        raise ValueError("first ranges must start at 0 and end at the number of offsets")
    for i in range(count):
        if first[i] > first[i + 1]:
            raise ValueError("first ranges must not decrease")
    require_paths(paths)
    data = np.zeros((offsets.shape[0], length), dtype=np.uint8)
    same = np.zeros(count, dtype=np.bool_)
    if count == 0:
        return data, same
    cdef uint8_t[:, ::1] out = data
    cdef uint8_t[::1] is_same = same.view(np.uint8)
    cdef uint8_t[::1] is_read = np.zeros(max(1, offsets.shape[0]), dtype=np.uint8)
    cdef uint8_t nothing = 0
    cdef int64_t no_offset = 0
    cdef uint8_t* to = &out[0, 0] if offsets.shape[0] else &nothing
    cdef const int64_t* at = &offsets[0] if offsets.shape[0] else &no_offset
    cdef const char** names = make_path_strings(paths)
    try:
        for start in range(0, count, TOGETHER):
            stop = min(count, start + TOGETHER)
            with nogil:
                read_some_ranges(
                    names + start, &identities[start, 0], &first[start], at, length, to, &is_read[0],
                    &is_same[start], stop - start
                )
            PyErr_CheckSignals()
    finally:
        free(names)
    return data, same


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


def read_ends(list paths not None, Py_ssize_t length):
    """Read the last bytes and the identities of many files.

    Parameters
    ----------
    paths : the files, as bytes.
    length : number of bytes to read from each.

    Returns
    -------
    For each path a pair of its identity (the fields of `FileIdentity` as a tuple) and the bytes, fewer if the file is
    shorter; None if it is missing, not a regular file, cannot be read, or was written to meanwhile.

    Raises
    ------
    ValueError
        If a path or the length is invalid.
    """
    cdef Py_ssize_t count = len(paths), i, start, stop
    if length <= 0:
        raise ValueError(f"length must be at least 1, got {length}")
    require_paths(paths)
    ends = []
    if count == 0:
        return ends
    cdef int64_t[:, ::1] identities = np.zeros((min(count, TOGETHER), 5), dtype=np.int64)
    cdef uint8_t[:, ::1] out = np.empty((min(count, TOGETHER), length), dtype=np.uint8)
    cdef uint8_t is_valid[TOGETHER]
    cdef const char** names = make_path_strings(paths)
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
                    (
                        <uint64_t>identities[i, 0], <uint64_t>identities[i, 1], identities[i, 2], identities[i, 3],
                        identities[i, 4]
                    ),
                    PyBytes_FromStringAndSize(<const char*>&out[i, 0], min(length, identities[i, 2])),
                ))
            PyErr_CheckSignals()
    finally:
        free(names)
    return ends
