/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remembers which uploaded files this process has verified, so that a model of them is made without
 * reading them again. A file that was written afterwards has another time of change, and one that
 * was replaced has another inode.
 */

#include <pthread.h>
#include <sys/stat.h>

#include <infer/types.h>

#include "core/sha256.h"

enum {
    VERIFIED_MAX =
        256, /* only the last files are remembered, so other files of a model are read again */
};

struct verified {
    pthread_mutex_t lock; /* guards the members below */
    struct verified_file {
        char digest[2 * SHA256_BYTES + 1];
        dev_t dev;
        ino_t ino;
        off_t size;
        struct timespec mtime;
    } files[VERIFIED_MAX];
    size_t n; /* number of files that were added */
};

void verified_init(struct verified *v);
void verified_done(struct verified *v);
/* The functions below may be called on any thread. */
void verified_add(struct verified *v, const char *digest, const struct stat *st);
bool verified_has(struct verified *v, const char *digest, const struct stat *st);
