/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Simulates a disk with faults: a function table for segments, and a VFS for SQLite.
 *
 * Any call may return an error, transfer only a part of its bytes, or be the last call before a
 * power loss. After a power loss no call has an effect until faults_power_on() decides for each
 * unsynced write whether the write is complete, missing, or partial.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cache/store-io.h"
#include "core/rng.h"

struct faults {
    struct rng rng;
    uint64_t calls;
    uint64_t off_at; /* the power fails at this call; 0: never */
    bool is_off;
    bool loses;      /* unsynced writes may be lost at a power failure */
    uint32_t one_in; /* one in this many calls fails; 0: no call fails */
    uint32_t flips;  /* one in this many reads has a wrong bit; 0: no read has one */
    bool is_full, is_read_only;
    bool no_punch;     /* the file system has no holes */
    uint64_t injected; /* faults so far */
};

extern struct faults faults;
extern const struct store_io faults_io;
extern const char faults_vfs[];

/* Disables faults, restarts the random sequence, and registers the VFS. */
void faults_start(uint64_t seed);
/* Disables all faults. */
void faults_none(void);
/* Decides which unsynced writes are on the disk. */
void faults_power_on(void);
