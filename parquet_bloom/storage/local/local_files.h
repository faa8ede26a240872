/* System calls on local files that report doubts by their results: nothing here raises, or needs the interpreter. */

#ifndef PB_LOCAL_FILES_H
#define PB_LOCAL_FILES_H

#include <stdint.h>

#ifdef _WIN32 /* no file can be read: opening one raises the reason (libc.py) */

static inline int pb_is_same(int descriptor, const char* path, const int64_t* identity) {
    (void)descriptor; (void)path; (void)identity;
    return 0;
}

static inline int pb_identify(int descriptor, int64_t* identity) {
    (void)descriptor; (void)identity;
    return 0;
}

static inline int pb_is_unwritten(int descriptor, const int64_t* identity) {
    (void)descriptor; (void)identity;
    return 0;
}

static inline int pb_describe_path(const char* path, int64_t* state) {
    (void)path; (void)state;
    return 0;
}

static inline int pb_open(const char* path) {
    (void)path;
    return -1;
}

static inline int pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    (void)descriptor; (void)to; (void)length; (void)offset;
    return 0;
}

static inline int pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    return pb_read_range(descriptor, to, length, offset);
}

static inline void pb_close(int descriptor) {
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

static inline int64_t pb_nanoseconds(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Return whether a file is the regular file of an identity: device, inode, size, modification time and change time.
   The file is given by its descriptor, or by its path if that is -1. */
static inline int pb_is_same(int descriptor, const char* path, const int64_t* identity) {
    struct stat status;
    if ((descriptor >= 0 ? fstat(descriptor, &status) : stat(path, &status)) != 0) return 0;
    return S_ISREG(status.st_mode)
        && (int64_t)status.st_dev == identity[0]
        && (int64_t)status.st_ino == identity[1]
        && (int64_t)status.st_size == identity[2]
        && pb_nanoseconds(pb_time(status, m)) == identity[3]
        && pb_nanoseconds(pb_time(status, c)) == identity[4];
}

/* Return whether an open file has the bytes of an identity: one that was replaced or deleted since still has them, though
   that changes its change time. */
static inline int pb_is_unwritten(int descriptor, const int64_t* identity) {
    struct stat status;
    return fstat(descriptor, &status) == 0
        && (int64_t)status.st_dev == identity[0]
        && (int64_t)status.st_ino == identity[1]
        && (int64_t)status.st_size == identity[2]
        && pb_nanoseconds(pb_time(status, m)) == identity[3]
        && (status.st_nlink == 0 || pb_nanoseconds(pb_time(status, c)) == identity[4]);
}

/* Store the identity of a regular file; return 0 if it is not one. */
static inline int pb_identify(int descriptor, int64_t* identity) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    identity[0] = (int64_t)status.st_dev;
    identity[1] = (int64_t)status.st_ino;
    identity[2] = (int64_t)status.st_size;
    identity[3] = pb_nanoseconds(pb_time(status, m));
    identity[4] = pb_nanoseconds(pb_time(status, c));
    return 1;
}

/* Store the state of whatever is at a path: its identity, and its mode; return 0 if there is nothing. */
static inline int pb_describe_path(const char* path, int64_t* state) {
    struct stat status;
    if (stat(path, &status) != 0) return 0;
    state[0] = (int64_t)status.st_dev;
    state[1] = (int64_t)status.st_ino;
    state[2] = (int64_t)status.st_size;
    state[3] = pb_nanoseconds(pb_time(status, m));
    state[4] = pb_nanoseconds(pb_time(status, c));
    state[5] = (int64_t)status.st_mode;
    return 1;
}

/* O_NONBLOCK: opening a pipe without a writer would block for ever. */
static inline int pb_open(const char* path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static inline int pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
    ssize_t came;
    do came = pread(descriptor, to, (size_t)length, (off_t)offset); while (came < 0 && errno == EINTR);
    return came == length;
}

/* Read a range if it is in the page cache, and return 1; else ask the kernel to fetch it. */
static inline int pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) {
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

static inline void pb_close(int descriptor) {
    (void)close(descriptor);
}

#endif

#endif
