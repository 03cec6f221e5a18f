/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Simulates a disk with faults: a function table for segments, and a VFS for SQLite.
 *
 * Any call may return an error, transfer only a part, or be the last one before a power loss. After
 * that no call has an effect until faults_power_on() decides for each unsynced write whether it is
 * complete, missing, or partial.
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
    uint32_t one_in; /* one call of this many fails; 0: none */
    uint32_t flips;  /* one read of this many has a wrong bit; 0: none */
    bool is_full, is_read_only;
    bool no_punch;     /* the file system has no holes */
    uint64_t injected; /* faults so far */
};

extern struct faults faults;
extern const struct store_io faults_io;
extern const char faults_vfs[];

/* Disables faults, restarts the random sequence, and registers the VFS. */
void faults_start(uint64_t seed);
/* Disables faults. */
void faults_none(void);
/* Decides which unsynced writes are on the disk. */
void faults_power_on(void);
