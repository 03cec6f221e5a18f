/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends parts of files through pipes.
 *
 * The reader of a pipe gets only the bytes that were put into the pipe, while a descriptor of the
 * file would give it the whole file. Pages of the page cache enter the pipe without a copy; the
 * reader copies them once.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Capacity of a pipe, if the system allows that much. */
#define PIPE_BYTES (1u << 20)

/* Makes a pipe with non-blocking ends: ret_ends[0] reads, ret_ends[1] writes. -errno. */
int pipe_new(int ret_ends[2]);
/* Puts up to @n bytes at @offset of the file @fd into @pipe. Waits for the disk but not for the
 * reader. Returns the number of bytes that it put into the pipe; 0: @offset is at the end of the
 * file; -EAGAIN: the pipe is full; -EPIPE: the pipe has no reader any more (SIGPIPE must be
 * ignored); -EIO and others: the file cannot be read. */
ssize_t pipe_fill(int pipe, int fd, uint64_t offset, size_t n);
