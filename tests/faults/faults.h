/* SPDX-License-Identifier: MIT
 *
 * Faults on demand, in test programs alone: the linker's --wrap puts these functions between the objects of the
 * library, which are those of the release, and the system.
 *
 *     faults_arm(FAULT_ENOSPC, FAULT_ONCE, 7);         the seventh write of the program says ENOSPC
 *     ... work ...
 *     faults_disarm();
 *     if (faults_hit() == 0) ...                       fewer than seven writes were made
 *
 * Memory of the library, of the program and of jansson counts; what libc takes for itself does not. Not for
 * several threads: the seventh would be another one each time. */
#ifndef SIA_TESTS_FAULTS_H
#define SIA_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_MEMORY,     /* an allocation gives NULL */
    FAULT_SHORT,      /* a write takes one byte */
    FAULT_ENOSPC,     /* a write, a new folder: the disk is full */
    FAULT_EIO,        /* a write: the disk is broken */
    FAULT_EINTR,      /* a write, read, open, fsync: a signal came */
    FAULT_FSYNC,      /* fsync, fdatasync: EIO */
    FAULT_RENAME,     /* rename, renameat2: EIO */
    FAULT_EXISTS,     /* a new name by open or mkdir: EEXIST, someone else was first */
    FAULT_OPEN,       /* open, opendir, scandir: EMFILE */
    FAULT_READ,       /* read, readdir: EIO */
    FAULT_SHORT_READ, /* read: one byte */
    FAULT_MAP,        /* mmap: ENOMEM */
    FAULT_STAT,       /* stat, fstat, access: EIO */
    FAULT_CLOSE,      /* close: EIO, but the descriptor is closed */
    FAULT_KINDS
} fault_kind;

typedef enum fault_mode {
    FAULT_ONCE,   /* the n-th call alone */
    FAULT_ONWARD, /* the n-th and all that follow */
    FAULT_EVERY,  /* the n-th, the 2n-th, ... */
} fault_mode;

const char *fault_name(fault_kind kind);

void faults_arm(fault_kind kind, fault_mode mode, uint64_t n);
void faults_disarm(void);
uint64_t faults_hit(void);   /* faults since they were armed */
uint64_t faults_calls(void); /* calls of the kind since they were armed, faulty or not */

/* Blocks that were allocated and not freed, and their bytes; the most bytes at once since the last call of
 * faults_peak_reset; the largest block that was asked for, given or not. */
size_t faults_live(void);
size_t faults_live_bytes(void);
size_t faults_peak_bytes(void);
size_t faults_largest(void);
void faults_peak_reset(void);

/* Renames of a file, or of a folder above it, that was written to and not synced: after a power failure
 * its name would stand for nothing. Counted from the start of the program. */
uint64_t faults_unsynced(void);

/* Makes jansson allocate through here too. Once, before anything else. */
void faults_install(void);

#endif
