/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What segments ask of the system
 *
 * A table, so that tests can fail any call, tear any write and end the process at any of them. All
 * return what the system call does, with a negative errno instead of -1.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct store_io {
    void *data;
    int (*open)(void *data, int dir, const char *name, int flags);
    ssize_t (*pread)(void *data, int fd, void *buffer, size_t n, uint64_t offset);
    ssize_t (*pwrite)(void *data, int fd, const void *bytes, size_t n, uint64_t offset);
    int (*sync)(void *data, int fd); /* bytes and size of a file, names of a directory */
    /* Gives back the space of a range, which reads as zeros afterwards. */
    int (*punch)(void *data, int fd, uint64_t offset, uint64_t n);
    int (*unlink)(void *data, int dir, const char *name);
    int (*space)(void *data, int fd, uint64_t *ret_free); /* bytes that may still be taken */
};

extern const struct store_io store_io_system;
