/* Calls that change what is on disk, counted, noted and cut; loaded before the C library (LD_PRELOAD).
 *
 * Nothing happens until `faults_start`. From then on each call that changes a file or folder whose path is one of those
 * given, and after `faults_reads` also each that opens one to read it ("read"), gets a number, from 1; a line in the log says which call it was and what came of it; and rules say what happens
 * at which numbers, in place of the call or around it:
 *
 *   before it, after it, or in the middle (half of a write's bytes are written) the process kills itself, or asks
 *   somebody (a byte to one pipe, until a byte comes from another), or the call fails or writes less.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef FICLONE
#define FICLONE 0x40049409
#endif
#ifndef FICLONERANGE
#define FICLONERANGE 0x4020940d
#endif

enum { BEFORE, HALF, AFTER };
enum { KILL = -1, ASK = -2, SHORT = -3, INTERRUPT = -4 }; /* an action above 0 is an errno */

typedef struct {
    long first, last;
    char calls[128]; /* ",write,pwrite," or "" for all */
    int when, action;
} Rule;

static Rule rules[16];
static int num_rules, active, counts_reads, log_file = -1, asking = -1, answer = -1;
static long count;
static char roots[4][PATH_MAX];
static int num_roots;

#define GENUINE(type, name, ...)                            \
    static type (*genuine)(__VA_ARGS__);                    \
    if (!genuine) *(void **)&genuine = dlsym(RTLD_NEXT, #name)

/* ------------------------------------------------------------------------------------------------ to be set up */

void faults_start(const char *under, int log_descriptor, int ask_descriptor, int answer_descriptor) {
    const char *from = under;
    num_roots = 0;
    while (*from && num_roots < 4) {
        const char *end = strchrnul(from, ':');
        snprintf(roots[num_roots++], PATH_MAX, "%.*s", (int)(end - from), from);
        from = *end ? end + 1 : end;
    }
    log_file = log_descriptor;
    asking = ask_descriptor;
    answer = answer_descriptor;
    count = 0;
    active = 1;
}

void faults_rule(long first, long last, const char *calls, int when, int action) {
    Rule *rule = &rules[num_rules++];
    rule->first = first;
    rule->last = last;
    snprintf(rule->calls, sizeof rule->calls, "%s", calls);
    rule->when = when;
    rule->action = action;
}

void faults_reads(void) { counts_reads = 1; }

long faults_stop(void) {
    active = 0;
    return count;
}

/* -------------------------------------------------------------------------------------------------- what it is of */

static int inside(const char *path) {
    for (int i = 0; i < num_roots; i++) {
        size_t length = strlen(roots[i]);
        if (!strncmp(path, roots[i], length) && (path[length] == '/' || !path[length])) return 1;
    }
    return 0;
}

static int path_of_file(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

static int path_of_name(int folder, const char *name, char *path) {
    if (!name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return inside(path);
    }
    char above[PATH_MAX];
    if (folder == AT_FDCWD) {
        if (!getcwd(above, sizeof above)) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, above, sizeof above - 1);
        if (length < 0) return 0;
        above[length] = 0;
    }
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s", above, name) >= PATH_MAX) return 0;
    return inside(path);
}

/* --------------------------------------------------------------------------------------------------- what happens */

static void put(int file, const char *data, size_t length) { syscall(SYS_write, file, data, length); }

static void act(int action) {
    if (action == KILL) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    if (action == INTERRUPT) {
        syscall(SYS_kill, getpid(), SIGINT);
        return;
    }
    char byte = '?';
    put(asking, &byte, 1);
    while (read(answer, &byte, 1) < 0 && errno == EINTR) continue;
}

typedef struct {
    long number;
    const char *call;
    char path[PATH_MAX], other[PATH_MAX];
    long long offset, length;
    int half, file;
} Call;

/* Take a number, and do what is to be done before. Not 0: the errno with which the call is to fail. */
static int begin(Call *call) {
    int saved = errno, failing = 0;
    call->number = __sync_add_and_fetch(&count, 1);
    call->half = 0;
    char name[64];
    snprintf(name, sizeof name, ",%s,", call->call);
    for (int i = 0; i < num_rules; i++) {
        Rule *rule = &rules[i];
        if (call->number < rule->first || call->number > rule->last) continue;
        if (rule->calls[0] && !strstr(rule->calls, name)) continue;
        if (rule->when == BEFORE && rule->action > 0) failing = rule->action;
        else if (rule->when == BEFORE) act(rule->action);
        else if (rule->when == HALF) call->half = 1;
    }
    errno = saved;
    return failing;
}

/* Note what came of it, and do what is to be done after. Returns the result, which may be another one by now. */
static long long end(Call *call, long long result) {
    int error = result < 0 ? errno : 0, failing = 0;
    struct stat status = {0};
    if (call->file >= 0) fstat(call->file, &status);
    else if (call->other[0]) lstat(call->other, &status);
    char line[2 * PATH_MAX + 200];
    int length = snprintf(line, sizeof line, "%ld\t%s\t%lld\t%d\t%lld\t%lld\t%llu\t%s\t%s\n", call->number, call->call,
                          result, error, call->offset, call->length, (unsigned long long)status.st_ino, call->path,
                          call->other);
    if (log_file >= 0) put(log_file, line, length);
    char name[64];
    snprintf(name, sizeof name, ",%s,", call->call);
    for (int i = 0; i < num_rules; i++) {
        Rule *rule = &rules[i];
        if (call->number < rule->first || call->number > rule->last) continue;
        if (rule->calls[0] && !strstr(rule->calls, name)) continue;
        if (rule->when == AFTER && rule->action > 0) failing = rule->action;
        else if (rule->when == AFTER || (rule->when == HALF && rule->action == KILL)) act(rule->action);
    }
    if (failing) {
        errno = failing;
        return -1;
    }
    errno = error;
    return result;
}

#define ON_FILE(descriptor, named) \
    Call call = {.call = named, .file = descriptor}; \
    if (!active || !path_of_file(descriptor, call.path))
#define ON_NAME(folder, name, named) \
    Call call = {.call = named, .file = -1}; \
    if (!active || !path_of_name(folder, name, call.path))
#define ON_NAMES(folder, old, other_folder, new, named) \
    Call call = {.call = named, .file = -1}; \
    int both = active ? path_of_name(folder, old, call.path) | path_of_name(other_folder, new, call.other) : 0; \
    if (!both)
#define TRY(expression) \
    do { \
        int failing = begin(&call); \
        if (failing) { errno = failing; return end(&call, -1); } \
        return end(&call, expression); \
    } while (0)
#define LESS(length) (call.half && (length) > 1 ? (length) / 2 : (length))

/* --------------------------------------------------------------------------------------------------------- opening */

static int changes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC); }

static int opening(int folder, const char *name, int flags, mode_t mode, const char *named) {
    GENUINE(int, openat, int, const char *, int, ...);
    if (!changes(flags)) {
        if (!counts_reads) return genuine(folder, name, flags, mode);
        named = "read";
    }
    ON_NAME(folder, name, named) return genuine(folder, name, flags, mode);
    call.length = flags;
    int failing = begin(&call);
    if (failing) { errno = failing; return end(&call, -1); }
    int opened = genuine(folder, name, flags, mode);
    call.file = opened;
    return end(&call, opened);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *name, int flags, ...) { MODE(flags) return opening(AT_FDCWD, name, flags, mode, "open"); }
int open64(const char *name, int flags, ...) { MODE(flags) return opening(AT_FDCWD, name, flags, mode, "open"); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return opening(folder, name, flags, mode, "open"); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return opening(folder, name, flags, mode, "open"); }
int creat(const char *name, mode_t mode) { return opening(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode, "open"); }
int creat64(const char *name, mode_t mode) { return opening(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode, "open"); }
int __open_2(const char *name, int flags) { return opening(AT_FDCWD, name, flags, 0, "open"); }
int __open64_2(const char *name, int flags) { return opening(AT_FDCWD, name, flags, 0, "open"); }
int __openat_2(int folder, const char *name, int flags) { return opening(folder, name, flags, 0, "open"); }
int __openat64_2(int folder, const char *name, int flags) { return opening(folder, name, flags, 0, "open"); }

/* --------------------------------------------------------------------------------------------------------- writing */

ssize_t write(int file, const void *data, size_t length) {
    GENUINE(ssize_t, write, int, const void *, size_t);
    ON_FILE(file, "write") return genuine(file, data, length);
    call.offset = lseek(file, 0, SEEK_CUR);
    call.length = length;
    TRY(genuine(file, data, LESS(length)));
}

static ssize_t pwriting(int file, const void *data, size_t length, off_t offset) {
    GENUINE(ssize_t, pwrite64, int, const void *, size_t, off_t);
    ON_FILE(file, "pwrite") return genuine(file, data, length, offset);
    call.offset = offset;
    call.length = length;
    TRY(genuine(file, data, LESS(length), offset));
}
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) { return pwriting(file, data, length, offset); }
ssize_t pwrite64(int file, const void *data, size_t length, off_t offset) { return pwriting(file, data, length, offset); }

ssize_t writev(int file, const struct iovec *parts, int number) {
    GENUINE(ssize_t, writev, int, const struct iovec *, int);
    ON_FILE(file, "writev") return genuine(file, parts, number);
    for (int i = 0; i < number; i++) call.length += parts[i].iov_len;
    call.offset = lseek(file, 0, SEEK_CUR);
    TRY(genuine(file, parts, LESS(number)));
}

static ssize_t pwritingv(int file, const struct iovec *parts, int number, off_t offset) {
    GENUINE(ssize_t, pwritev64, int, const struct iovec *, int, off_t);
    ON_FILE(file, "pwritev") return genuine(file, parts, number, offset);
    for (int i = 0; i < number; i++) call.length += parts[i].iov_len;
    call.offset = offset;
    TRY(genuine(file, parts, LESS(number), offset));
}
ssize_t pwritev(int file, const struct iovec *parts, int number, off_t offset) { return pwritingv(file, parts, number, offset); }
ssize_t pwritev64(int file, const struct iovec *parts, int number, off_t offset) { return pwritingv(file, parts, number, offset); }

ssize_t copy_file_range(int from, off64_t *offset, int to, off64_t *into, size_t length, unsigned flags) {
    GENUINE(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    ON_FILE(to, "copy_file_range") return genuine(from, offset, to, into, length, flags);
    call.offset = into ? *into : -1;
    call.length = length;
    struct stat status;
    size_t there = fstat(from, &status) || !offset || status.st_size < *offset ? length : (size_t)(status.st_size - *offset);
    if (length > there) length = there;
    TRY(genuine(from, offset, to, into, LESS(length), flags));
}

static ssize_t sending(int to, int from, off_t *offset, size_t length) {
    GENUINE(ssize_t, sendfile64, int, int, off_t *, size_t);
    ON_FILE(to, "sendfile") return genuine(to, from, offset, length);
    call.length = length;
    TRY(genuine(to, from, offset, LESS(length)));
}
ssize_t sendfile(int to, int from, off_t *offset, size_t length) { return sending(to, from, offset, length); }
ssize_t sendfile64(int to, int from, off_t *offset, size_t length) { return sending(to, from, offset, length); }

static int truncating(int file, off_t length) {
    GENUINE(int, ftruncate64, int, off_t);
    ON_FILE(file, "ftruncate") return genuine(file, length);
    call.length = length;
    TRY(genuine(file, length));
}
int ftruncate(int file, off_t length) { return truncating(file, length); }
int ftruncate64(int file, off_t length) { return truncating(file, length); }

static int truncating_name(const char *name, off_t length) {
    GENUINE(int, truncate64, const char *, off_t);
    ON_NAME(AT_FDCWD, name, "truncate") return genuine(name, length);
    call.length = length;
    TRY(genuine(name, length));
}
int truncate(const char *name, off_t length) { return truncating_name(name, length); }
int truncate64(const char *name, off_t length) { return truncating_name(name, length); }

static int allocating(int file, int mode, off_t offset, off_t length) {
    GENUINE(int, fallocate64, int, int, off_t, off_t);
    ON_FILE(file, "fallocate") return genuine(file, mode, offset, length);
    call.offset = offset;
    call.length = length;
    TRY(genuine(file, mode, offset, length));
}
int fallocate(int file, int mode, off_t offset, off_t length) { return allocating(file, mode, offset, length); }
int fallocate64(int file, int mode, off_t offset, off_t length) { return allocating(file, mode, offset, length); }

static int allocating_posix(int file, off_t offset, off_t length) {
    GENUINE(int, posix_fallocate64, int, off_t, off_t);
    ON_FILE(file, "fallocate") return genuine(file, offset, length);
    call.offset = offset;
    call.length = length;
    int failing = begin(&call);
    if (failing) return failing;
    int result = genuine(file, offset, length);
    return end(&call, result) < 0 ? errno : result;
}
int posix_fallocate(int file, off_t offset, off_t length) { return allocating_posix(file, offset, length); }
int posix_fallocate64(int file, off_t offset, off_t length) { return allocating_posix(file, offset, length); }

int ioctl(int file, unsigned long request, ...) {
    GENUINE(int, ioctl, int, unsigned long, ...);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (request != FICLONE && request != FICLONERANGE) return genuine(file, request, argument);
    ON_FILE(file, "clone") return genuine(file, request, argument);
    TRY(genuine(file, request, argument));
}

/* -------------------------------------------------------------------------------------------------------- flushing */

int fsync(int file) {
    GENUINE(int, fsync, int);
    ON_FILE(file, "fsync") return genuine(file);
    TRY(genuine(file));
}

int fdatasync(int file) {
    GENUINE(int, fdatasync, int);
    ON_FILE(file, "fdatasync") return genuine(file);
    TRY(genuine(file));
}

int sync_file_range(int file, off64_t offset, off64_t length, unsigned flags) {
    GENUINE(int, sync_file_range, int, off64_t, off64_t, unsigned);
    ON_FILE(file, "sync_file_range") return genuine(file, offset, length, flags);
    call.offset = offset;
    call.length = length;
    TRY(genuine(file, offset, length, flags));
}

/* ----------------------------------------------------------------------------------------------------------- names */

static int renaming(int folder, const char *old, int other, const char *new, unsigned flags, const char *named) {
    GENUINE(int, renameat2, int, const char *, int, const char *, unsigned);
    ON_NAMES(folder, old, other, new, named) return genuine(folder, old, other, new, flags);
    call.length = flags;
    TRY(genuine(folder, old, other, new, flags));
}
int rename(const char *old, const char *new) { return renaming(AT_FDCWD, old, AT_FDCWD, new, 0, "rename"); }
int renameat(int folder, const char *old, int other, const char *new) { return renaming(folder, old, other, new, 0, "rename"); }
int renameat2(int folder, const char *old, int other, const char *new, unsigned flags) {
    return renaming(folder, old, other, new, flags, flags & 2 ? "exchange" : flags & 1 ? "rename_new" : "rename");
}

static int linking(int folder, const char *old, int other, const char *new, int flags) {
    GENUINE(int, linkat, int, const char *, int, const char *, int);
    ON_NAMES(folder, old, other, new, "link") return genuine(folder, old, other, new, flags);
    TRY(genuine(folder, old, other, new, flags));
}
int link(const char *old, const char *new) { return linking(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int folder, const char *old, int other, const char *new, int flags) { return linking(folder, old, other, new, flags); }

static int unlinking(int folder, const char *name, int flags) {
    GENUINE(int, unlinkat, int, const char *, int);
    ON_NAME(folder, name, flags & AT_REMOVEDIR ? "rmdir" : "unlink") return genuine(folder, name, flags);
    TRY(genuine(folder, name, flags));
}
int unlink(const char *name) { return unlinking(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return unlinking(folder, name, flags); }
int rmdir(const char *name) { return unlinking(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    struct stat status;
    return unlinking(AT_FDCWD, name, !lstat(name, &status) && S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
}

static int making(int folder, const char *name, mode_t mode) {
    GENUINE(int, mkdirat, int, const char *, mode_t);
    ON_NAME(folder, name, "mkdir") return genuine(folder, name, mode);
    TRY(genuine(folder, name, mode));
}
int mkdir(const char *name, mode_t mode) { return making(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) { return making(folder, name, mode); }

static int symlinking(const char *to, int folder, const char *name) {
    GENUINE(int, symlinkat, const char *, int, const char *);
    ON_NAME(folder, name, "symlink") return genuine(to, folder, name);
    TRY(genuine(to, folder, name));
}
int symlink(const char *to, const char *name) { return symlinking(to, AT_FDCWD, name); }
int symlinkat(const char *to, int folder, const char *name) { return symlinking(to, folder, name); }

/* ------------------------------------------------------------------------------------------------------ attributes */

int fchmod(int file, mode_t mode) {
    GENUINE(int, fchmod, int, mode_t);
    ON_FILE(file, "fchmod") return genuine(file, mode);
    TRY(genuine(file, mode));
}

int chmod(const char *name, mode_t mode) {
    GENUINE(int, chmod, const char *, mode_t);
    ON_NAME(AT_FDCWD, name, "chmod") return genuine(name, mode);
    TRY(genuine(name, mode));
}

int fchown(int file, uid_t owner, gid_t group) {
    GENUINE(int, fchown, int, uid_t, gid_t);
    ON_FILE(file, "fchown") return genuine(file, owner, group);
    TRY(genuine(file, owner, group));
}

int fsetxattr(int file, const char *name, const void *value, size_t size, int flags) {
    GENUINE(int, fsetxattr, int, const char *, const void *, size_t, int);
    ON_FILE(file, "fsetxattr") return genuine(file, name, value, size, flags);
    TRY(genuine(file, name, value, size, flags));
}

int futimens(int file, const struct timespec times[2]) {
    GENUINE(int, futimens, int, const struct timespec *);
    ON_FILE(file, "futimens") return genuine(file, times);
    TRY(genuine(file, times));
}

/* Raw calls of the few kinds that somebody might make so. */
long syscall(long number, ...) {
    GENUINE(long, syscall, long, ...);
    va_list rest;
    long a[6];
    va_start(rest, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
    va_end(rest);
    if (active && number == SYS_renameat2)
        return renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], (unsigned)a[4]);
    if (active && number == SYS_copy_file_range)
        return copy_file_range((int)a[0], (off64_t *)a[1], (int)a[2], (off64_t *)a[3], (size_t)a[4], (unsigned)a[5]);
    return genuine(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
