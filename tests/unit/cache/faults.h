/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A disk that fails: the table of functions of segments, and a VFS for SQLite
 *
 * Any call may return an error, do half of its work, or be the last one before the power goes.
 * After that nothing has an effect any more, until faults_power_on() decides for each write that
 * was not synced whether it is there, is not, or is in part.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cache/store-io.h"
#include "core/rng.h"

struct faults {
    struct rng rng;
    uint64_t calls;
    uint64_t off_at; /* the power goes at this call; 0: never */
    bool is_off;
    bool loses;      /* what was not synced may be lost when the power goes */
    uint32_t one_in; /* calls fail; 0: none */
    uint32_t flips;  /* one in so many reads has a bit that is wrong; 0: none */
    bool is_full, is_read_only;
    bool no_punch;     /* the file system has no holes */
    uint64_t injected; /* faults so far */
};

extern struct faults faults;
extern const struct store_io faults_io;
extern const char faults_vfs[];

/* Nothing fails from now on; the sequence of chance begins anew. Registers the VFS. */
void faults_start(uint64_t seed);
/* Nothing fails from now on. */
void faults_none(void);
/* Decides what is there of what was not synced. */
void faults_power_on(void);
