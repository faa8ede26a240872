# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reading or copying of many small ranges of one local file in one call, without a loop in Python."""

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import os

import numpy as np

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #ifndef _WIN32
    #include <fcntl.h>
    #include <sys/mman.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #endif

    /* Read a range from the page cache; return less than its length, or -1, if a part is not or may not be cached. */
    static int64_t pb_read_cached(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    #ifdef RWF_NOWAIT
        struct iovec part;
        part.iov_base = to;
        part.iov_len = (size_t)length;
        return (int64_t)preadv2(descriptor, &part, 1, (off_t)offset, RWF_NOWAIT);
    #else
        (void)descriptor; (void)to; (void)length; (void)offset;
        return -1;
    #endif
    }

    static void pb_will_need(int descriptor, int64_t offset, int64_t length) {
    #ifdef POSIX_FADV_WILLNEED
        (void)posix_fadvise(descriptor, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
    #else
        (void)descriptor; (void)offset; (void)length;
    #endif
    }

    /* Read a range; return 0, or -1 if the file ends before its end, or an errno. */
    static int pb_read_all(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    #ifdef _WIN32 /* there is no pread; libc.py raises an error before */
        (void)descriptor; (void)to; (void)offset;
        return length > 0 ? ENOSYS : 0;
    #else
        while (length > 0) {
            ssize_t came = pread(descriptor, to, (size_t)length, (off_t)offset);
            if (came == 0) return -1;
            if (came < 0) {
                if (errno == EINTR) continue;
                return errno;
            }
            to += came;
            offset += came;
            length -= came;
        }
        return 0;
    #endif
    }

    /* Return whether the page of an address of a mapping is in memory; 1 if the system cannot tell. */
    static int pb_resident(const uint8_t* address) {
    #ifdef __linux__
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        unsigned char state = 1;
        (void)mincore((void*)((uintptr_t)address / page * page), 1, &state);
        return state & 1;
    #else
        (void)address;
        return 1;
    #endif
    }

    #if defined(__GNUC__) || defined(__clang__)
    #define pb_fetch_range(address) __builtin_prefetch((address), 0, 2)
    #else
    #define pb_fetch_range(address) ((void)(address))
    #endif
    """
    int64_t pb_read_cached(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    void pb_will_need(int descriptor, int64_t offset, int64_t length) nogil
    int pb_read_all(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    int pb_resident(const uint8_t* address) nogil
    void pb_fetch_range(const uint8_t* address) nogil

cdef enum:
    AHEAD = 1024       # ranges hinted to the kernel before reads wait for them; it fetches them concurrently
    COPIES_AHEAD = 16  # the same for a mapping's cache lines
    TURN = 4096        # ranges between two checks for signals


cdef struct Progress:
    Py_ssize_t hinted   # ranges hinted to the kernel
    Py_ssize_t done    # ranges that are complete
    int64_t hinted_at   # positions in `out` of the next of either
    int64_t done_at


cdef int advance(
    int descriptor, const int64_t[::1] offsets, const int64_t[::1] lengths, uint8_t* out, uint8_t* cached,
    Progress* progress, Py_ssize_t until
) noexcept nogil:
    """Read until `until` ranges are complete; return 0, or the result of `pb_read_all` for the next one."""
    cdef Py_ssize_t i
    cdef int status
    while progress.done < until:
        while progress.hinted < min(offsets.shape[0], progress.done + AHEAD):
            i = progress.hinted
            cached[i % AHEAD] = (
                pb_read_cached(descriptor, out + progress.hinted_at, lengths[i], offsets[i]) == lengths[i]
            )
            if not cached[i % AHEAD]:
                pb_will_need(descriptor, offsets[i], lengths[i])
            progress.hinted_at += lengths[i]
            progress.hinted += 1
        i = progress.done
        if not cached[i % AHEAD]:
            status = pb_read_all(descriptor, out + progress.done_at, lengths[i], offsets[i])
            if status:
                return status
        progress.done_at += lengths[i]
        progress.done += 1
    return 0


cdef int require_room(const int64_t[::1] offsets, const int64_t[::1] lengths, Py_ssize_t room) except -1:
    cdef int64_t total = 0
    cdef Py_ssize_t i
    if lengths.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and lengths must be of one length")
    for i in range(lengths.shape[0]):
        if not (0 <= lengths[i] <= room - total):
            raise ValueError(f"the ranges do not fill the {room} bytes of the buffer")
        total += lengths[i]
    if total != room:
        raise ValueError(f"the ranges do not fill the {room} bytes of the buffer")
    return 0


def read_scattered(
    int descriptor, const int64_t[::1] offsets not None, const int64_t[::1] lengths not None, uint8_t[::1] out not None
):
    """Read ranges of a file into `out`, one after the other.

    Ranges in the page cache are read at once. The others are hinted to the kernel, up to 1,024 at a time, before any
    read waits, so that a disk can work on all of them.

    Returns
    -------
    The number of complete ranges: fewer than all if the file ends before the end of the next one.

    Raises
    ------
    OSError
        If a read fails, with its errno.
    ValueError
        The ranges do not fill `out`.
    """
    cdef Progress progress = Progress(0, 0, 0, 0)
    cdef uint8_t cached[AHEAD]
    cdef Py_ssize_t num_ranges = offsets.shape[0]
    cdef int status = 0
    require_room(offsets, lengths, out.shape[0])
    if out.shape[0] == 0:
        return num_ranges
    while status == 0 and progress.done < num_ranges:
        with nogil:
            status = advance(
                descriptor, offsets, lengths, &out[0], cached, &progress, min(num_ranges, progress.done + TURN)
            )
        PyErr_CheckSignals()
    if status > 0:
        raise OSError(status, os.strerror(status))
    return progress.done


def will_need(int descriptor, const int64_t[::1] offsets not None, const int64_t[::1] lengths not None):
    """Tell the kernel about ranges of a file that will be read, so that it starts to fetch them."""
    cdef Py_ssize_t i
    if lengths.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and lengths must be of one length")
    with nogil:
        for i in range(offsets.shape[0]):
            pb_will_need(descriptor, offsets[i], lengths[i])


def copy_scattered(
    const uint8_t[::1] data not None, const int64_t[::1] offsets not None, const int64_t[::1] lengths not None,
    uint8_t[::1] out not None
):
    """Copy ranges of a mapped file into `out`, one after the other.

    Raises
    ------
    ValueError
        If the ranges do not fill `out`, or one is not inside `data`.
    """
    cdef Py_ssize_t i
    cdef int64_t at = 0
    require_room(offsets, lengths, out.shape[0])
    require_inside(data, offsets, lengths)
    if out.shape[0] == 0:
        return
    with nogil:
        for i in range(offsets.shape[0]):
            if i + COPIES_AHEAD < offsets.shape[0] and lengths[i + COPIES_AHEAD]:
                pb_fetch_range(&data[offsets[i + COPIES_AHEAD]])
            memcpy(&out[0] + at, &data[0] + offsets[i], lengths[i])
            at += lengths[i]


cdef int require_inside(const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] lengths) except -1:
    cdef Py_ssize_t i
    for i in range(offsets.shape[0]):
        if not (0 <= offsets[i] <= data.shape[0] and lengths[i] <= data.shape[0] - offsets[i]):
            raise ValueError(f"range {i} is outside the mapping")
    return 0


def count_resident(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """Return how many of the bytes at `offsets` of a mapped file are in memory."""
    cdef Py_ssize_t i
    cdef Py_ssize_t count = 0
    require_inside(data, offsets, np.ones(offsets.shape[0], dtype=np.int64))
    for i in range(offsets.shape[0]):
        count += pb_resident(&data[offsets[i]])
    return count
