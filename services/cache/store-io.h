/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the system calls on segments, the files in which the cache service stores blocks.
 *
 * The calls are in a table of functions, so that tests can let any call fail, write only a part, or
 * end the process at any call. Each function returns what its system call returns, but a negative
 * errno instead of -1.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct store_io {
    void *data;
    int (*open)(void *data, int dir, const char *name, int flags);
    ssize_t (*pread)(void *data, int fd, void *buffer, size_t n, uint64_t offset);
    ssize_t (*pwrite)(void *data, int fd, const void *bytes, size_t n, uint64_t offset);
    int (*sync)(void *data,
                int fd); /* syncs contents and size of a file, or names of a directory */
    /* Frees the space of a range, which reads as zeros afterwards. */
    int (*punch)(void *data, int fd, uint64_t offset, uint64_t n);
    int (*unlink)(void *data, int dir, const char *name);
    int (*space)(void *data, int fd, uint64_t *ret_free); /* bytes that are still available */
};

extern const struct store_io store_io_system;
