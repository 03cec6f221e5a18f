/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parts of files, sent through pipes
 *
 * What comes out of a pipe is what was put in: unlike a descriptor of the file, its reading end
 * shows nothing else of it. Pages of the page cache go in as they are and are copied once, by who
 * reads them.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that wait in a pipe, if the system lets it have so many. */
#define PIPE_BYTES (1u << 20)

/* Makes one whose ends do not block: ret_ends[0] reads, ret_ends[1] writes. -errno. */
int pipe_new(int ret_ends[2]);
/* Puts up to @n bytes at @offset of the file @fd into @pipe, waiting for the disk but not for the
 * reader. How many those were. 0: the file ends there; -EAGAIN: the pipe is full; -EPIPE: nobody
 * reads it any more (SIGPIPE is to be ignored); -EIO and others: the file cannot be read. */
ssize_t pipe_fill(int pipe, int fd, uint64_t offset, size_t n);
