/* SPDX-License-Identifier: Apache-2.0 */
/* Fills pipes from files (see block-pipe.h): with splice(), or by copying if the file system has no
 * splice(). */
#include "cache/block-pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/macros.h"

/* Bytes copied at a time where splice() does not work. */
#define COPY_BYTES (64u << 10)

int pipe_new(int ret_ends[2])
{
    if (pipe2(ret_ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    /* If the system refuses this size, the pipe has the default size and is slower. */
    fcntl(ret_ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

/* Copies bytes where the file system has no splice(). Bytes that do not fit into the pipe are read
 * again later. */
static ssize_t pipe_copy(int pipe, int fd, uint64_t offset, size_t n)
{
    char bytes[COPY_BYTES];
    ssize_t r = pread(fd, bytes, MIN(n, sizeof(bytes)), (off_t)offset);

    if (r > 0)
        r = write(pipe, bytes, (size_t)r);
    return r < 0 ? -errno : r;
}

ssize_t pipe_fill(int pipe, int fd, uint64_t offset, size_t n)
{
    off_t at = (off_t)offset;
    const ssize_t r = splice(fd, &at, pipe, NULL, n, SPLICE_F_NONBLOCK);

    if (r >= 0)
        return r;
    return errno == EINVAL ? pipe_copy(pipe, fd, offset, n) : -errno;
}
