/* SPDX-License-Identifier: MIT
 *
 * The functions that the linker puts in the place of the system's: see faults.h. Each asks whether its
 * turn has come, and else hands on. The names that begin with two underscores and end in _chk are what
 * _FORTIFY_SOURCE makes of the others. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include "faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/wrap.h"

// The linker's own names: nothing else could be called like that. NOLINTBEGIN(bugprone-reserved-identifier)
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
int __real_posix_memalign(void **block, size_t align, size_t bytes);
int __real_open(const char *path, int flags, ...);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __real_write(int fd, const void *from, size_t bytes);
ssize_t __real_writev(int fd, const struct iovec *parts, int count);
ssize_t __real_pwrite(int fd, const void *from, size_t bytes, off_t at);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_mkdir(const char *path, mode_t mode);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
DIR *__real_opendir(const char *path);
struct dirent *__real_readdir(DIR *open);
int __real_scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
int __real_stat(const char *path, struct stat *about);
int __real_fstat(int fd, struct stat *about);
int __real_access(const char *path, int mode);
int __real_close(int fd);

/* ------------------------------------------------------------------------------------------------- the turn */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fault_kind armed;
static fault_mode armed_mode;
static uint64_t armed_n, calls, hits;

static const char *const names[FAULT_KINDS] = {"none",  "memory",     "short write", "ENOSPC", "EIO",
                                               "EINTR", "fsync",      "rename",      "exists", "open",
                                               "read",  "short read", "mmap",        "stat",   "close"};

const char *fault_name(fault_kind kind) { return names[kind]; }

void faults_arm(fault_kind kind, fault_mode mode, uint64_t n) {
    pthread_mutex_lock(&lock);
    armed = kind;
    armed_mode = mode;
    armed_n = n;
    calls = hits = 0;
    pthread_mutex_unlock(&lock);
}

void faults_disarm(void) {
    pthread_mutex_lock(&lock);
    armed = FAULT_NONE;
    pthread_mutex_unlock(&lock);
}

uint64_t faults_hit(void) { return hits; }
uint64_t faults_calls(void) { return calls; }

/* Whether this call is to fail. */
static bool turn(fault_kind kind) {
    if (armed != kind) return false;
    pthread_mutex_lock(&lock);
    calls++;
    bool now = armed_mode == FAULT_ONCE     ? calls == armed_n
               : armed_mode == FAULT_ONWARD ? calls >= armed_n
                                            : calls % armed_n == 0;
    hits += now;
    pthread_mutex_unlock(&lock);
    return now;
}

static bool fails(fault_kind kind, int cause) {
    if (!turn(kind)) return false;
    errno = cause;
    return true;
}

/* --------------------------------------------------------------------------------------------------- memory */

/* Which blocks there are, by their addresses: open addressing, linear steps. */
enum { SLOTS = 1 << 18 };
static struct {
    void *block;
    size_t bytes;
} table[SLOTS];
static size_t live, live_bytes, peak_bytes, largest;
static char gone; /* the address that marks a slot whose block was freed */

SIA_WRAPS static size_t slot_of(const void *block) {
    return ((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 46;
}

static void remember(void *block, size_t bytes) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    size_t at = slot_of(block);
    while (table[at].block && table[at].block != &gone) at = (at + 1) % SLOTS;
    table[at].block = block;
    table[at].bytes = bytes;
    if (++live > SLOTS / 2) abort();
    live_bytes += bytes;
    if (live_bytes > peak_bytes) peak_bytes = live_bytes;
    pthread_mutex_unlock(&lock);
}

/* A block that libc made (the names of scandir) is not known, and not counted. */
static void forget(const void *block) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    size_t at = slot_of(block), steps = 0;
    while (table[at].block && table[at].block != block && steps++ < SLOTS) at = (at + 1) % SLOTS;
    if (table[at].block == block) {
        live--;
        live_bytes -= table[at].bytes;
        /* A slot at the end of its row can be empty again, which keeps the rows short. */
        table[at].block = table[(at + 1) % SLOTS].block ? (void *)&gone : NULL;
    }
    pthread_mutex_unlock(&lock);
}

size_t faults_live(void) { return live; }
size_t faults_live_bytes(void) { return live_bytes; }
size_t faults_peak_bytes(void) { return peak_bytes; }
size_t faults_largest(void) { return largest; }
void faults_peak_reset(void) { peak_bytes = live_bytes, largest = 0; }

static bool no_memory(size_t bytes) {
    pthread_mutex_lock(&lock);
    if (bytes > largest) largest = bytes;
    pthread_mutex_unlock(&lock);
    return fails(FAULT_MEMORY, ENOMEM);
}

static void *kept(void *block, size_t bytes) {
    remember(block, bytes);
    return block;
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return no_memory(bytes) ? NULL : kept(__real_malloc(bytes), bytes); }

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    return no_memory(bytes) ? NULL : kept(__real_calloc(count, size), bytes);
}

void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes) {
    if (no_memory(bytes)) return NULL;
    void *larger = __real_realloc(block, bytes);
    if (!larger) return NULL;
    forget(block);
    return kept(larger, bytes);
}

void __wrap_free(void *block);
void __wrap_free(void *block) {
    forget(block);
    __real_free(block);
}

int __wrap_posix_memalign(void **block, size_t align, size_t bytes);
int __wrap_posix_memalign(void **block, size_t align, size_t bytes) {
    if (no_memory(bytes)) return ENOMEM;
    int result = __real_posix_memalign(block, align, bytes);
    if (result == 0) remember(*block, bytes);
    return result;
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = __wrap_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *__wrap_strndup(const char *text, size_t most);
char *__wrap_strndup(const char *text, size_t most) {
    size_t bytes = strnlen(text, most);
    char *copy = __wrap_malloc(bytes + 1);
    if (!copy) return NULL;
    copy[bytes] = 0;
    return memcpy(copy, text, bytes);
}

char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved) {
    if (!resolved && no_memory(PATH_MAX)) return NULL;
    char *result = __real_realpath(path, resolved);
    if (!resolved) remember(result, PATH_MAX);
    return result;
}

char *__wrap___realpath_chk(const char *path, char *resolved, size_t room);
char *__wrap___realpath_chk(const char *path, char *resolved, size_t room) {
    (void)room;
    return __wrap_realpath(path, resolved);
}

int __real_vasprintf(char **text, const char *format, va_list arguments);
int __wrap_vasprintf(char **text, const char *format, va_list arguments);
int __wrap_vasprintf(char **text, const char *format, va_list arguments) {
    if (no_memory(strlen(format))) return -1;
    int result = __real_vasprintf(text, format, arguments);
    if (result >= 0) remember(*text, (size_t)result + 1);
    return result;
}

int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list arguments);
int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list arguments) {
    (void)flag;
    return __wrap_vasprintf(text, format, arguments);
}

void faults_install(void) { json_set_alloc_funcs(__wrap_malloc, __wrap_free); }

/* -------------------------------------------------------------------------------- what is not on the disk yet */

enum { DESCRIPTORS = 256 };
static char *written_paths[DESCRIPTORS]; /* opened for writing */
static bool dirty[DESCRIPTORS];
static char *lost[DESCRIPTORS]; /* closed while dirty */
static int lost_count;
static uint64_t unsynced;

uint64_t faults_unsynced(void) { return unsynced; }

static void opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= DESCRIPTORS) return;
    __real_free(written_paths[fd]);
    written_paths[fd] = NULL;
    dirty[fd] = false;
    size_t bytes = strlen(path) + 1;
    if ((flags & O_ACCMODE) == O_RDONLY || !(written_paths[fd] = __real_malloc(bytes))) return;
    memcpy(written_paths[fd], path, bytes);
}

static void set_dirty(int fd, bool state) {
    if (fd >= 0 && fd < DESCRIPTORS && written_paths[fd]) dirty[fd] = state;
}

static void closing(int fd) {
    if (fd < 0 || fd >= DESCRIPTORS || !written_paths[fd]) return;
    if (dirty[fd] && lost_count < DESCRIPTORS)
        lost[lost_count++] = written_paths[fd];
    else
        __real_free(written_paths[fd]);
    written_paths[fd] = NULL;
}

static bool is_at_or_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return path && strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* A removal renames first, but what is removed need not be on the disk: only names that will be read count. */
static void renaming(const char *from, const char *to) {
    if (strstr(to, ".tmp-")) return;
    for (int i = 0; i < DESCRIPTORS; i++) unsynced += dirty[i] && is_at_or_below(written_paths[i], from);
    for (int i = 0; i < lost_count; i++) unsynced += is_at_or_below(lost[i], from);
}

/* ---------------------------------------------------------------------------------------------------- files */

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (fails(FAULT_OPEN, EMFILE) || fails(FAULT_EINTR, EINTR)) return -1;
    if (flags & O_EXCL && fails(FAULT_EXISTS, EEXIST)) return -1;
    int fd = __real_open(path, flags, mode);
    opened(fd, path, flags);
    return fd;
}

int __wrap___open_2(const char *path, int flags);
int __wrap___open_2(const char *path, int flags) { return __wrap_open(path, flags); }

int __wrap_close(int fd);
int __wrap_close(int fd) {
    closing(fd);
    int result = __real_close(fd);
    return fails(FAULT_CLOSE, EIO) ? -1 : result;
}

ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes) {
    if (fails(FAULT_READ, EIO) || fails(FAULT_EINTR, EINTR)) return -1;
    return __real_read(fd, to, bytes > 1 && turn(FAULT_SHORT_READ) ? 1 : bytes);
}

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at) {
    if (fails(FAULT_READ, EIO) || fails(FAULT_EINTR, EINTR)) return -1;
    return __real_pread(fd, to, bytes > 1 && turn(FAULT_SHORT_READ) ? 1 : bytes, at);
}

ssize_t __wrap___pread_chk(int fd, void *to, size_t bytes, off_t at, size_t room);
ssize_t __wrap___pread_chk(int fd, void *to, size_t bytes, off_t at, size_t room) {
    if (bytes > room) abort();
    return __wrap_pread(fd, to, bytes, at);
}

ssize_t __wrap___read_chk(int fd, void *to, size_t bytes, size_t room);
ssize_t __wrap___read_chk(int fd, void *to, size_t bytes, size_t room) {
    if (bytes > room) abort();
    return __wrap_read(fd, to, bytes);
}

/* What goes to the terminal, and to the tests' own pipes, is left alone. */
static bool write_fails(int fd) {
    if (fd <= STDERR_FILENO) return false;
    return fails(FAULT_ENOSPC, ENOSPC) || fails(FAULT_EIO, EIO) || fails(FAULT_EINTR, EINTR);
}

ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes) {
    if (write_fails(fd)) return -1;
    set_dirty(fd, true);
    return __real_write(fd, from, bytes > 1 && turn(FAULT_SHORT) ? 1 : bytes);
}

/* A short one may end within the first part or at its end. */
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count);
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count) {
    if (write_fails(fd)) return -1;
    set_dirty(fd, true);
    if (count < 1 || !turn(FAULT_SHORT)) return __real_writev(fd, parts, count);
    size_t most = parts[0].iov_len;
    return __real_write(fd, parts[0].iov_base, most > 1 && calls % 2 ? 1 : most);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t at) {
    if (write_fails(fd)) return -1;
    set_dirty(fd, true);
    return __real_pwrite(fd, from, bytes > 1 && turn(FAULT_SHORT) ? 1 : bytes, at);
}

/* The disk is not asked: what counts here is that we would have asked it, and the tests are ten times
 * faster. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    if (fails(FAULT_FSYNC, EIO) || fails(FAULT_EINTR, EINTR)) return -1;
    set_dirty(fd, false);
    return 0;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
    if (fails(FAULT_FSYNC, EIO) || fails(FAULT_EINTR, EINTR)) return -1;
    set_dirty(fd, false);
    return 0;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    if (fails(FAULT_RENAME, EIO)) return -1;
    renaming(from, to);
    return __real_rename(from, to);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    if (fails(FAULT_RENAME, EINVAL)) return -1; /* what a file system without an exchange says */
    renaming(from, to);
    return __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    return fails(FAULT_ENOSPC, ENOSPC) || fails(FAULT_EXISTS, EEXIST) ? -1 : __real_mkdir(path, mode);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from) {
    return fails(FAULT_MAP, ENOMEM) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, from);
}

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path) { return fails(FAULT_OPEN, EMFILE) ? NULL : __real_opendir(path); }

struct dirent *__wrap_readdir(DIR *open);
struct dirent *__wrap_readdir(DIR *open) {
    return fails(FAULT_READ, EIO) ? NULL : __real_readdir(open);
}

int __wrap_scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
int __wrap_scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **)) {
    return fails(FAULT_OPEN, EMFILE) ? -1 : __real_scandir(path, list, filter, compare);
}

int __wrap_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about) {
    return fails(FAULT_STAT, EIO) ? -1 : __real_stat(path, about);
}

int __wrap_fstat(int fd, struct stat *about);
int __wrap_fstat(int fd, struct stat *about) { return fails(FAULT_STAT, EIO) ? -1 : __real_fstat(fd, about); }

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
    return fails(FAULT_STAT, EIO) ? -1 : __real_access(path, mode);
}
// NOLINTEND(bugprone-reserved-identifier)
