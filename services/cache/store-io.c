/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the system calls for segments (see store-io.h). */
#include "cache/store-io.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int io_open(void *data, int dir, const char *name, int flags)
{
    const int fd = openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

    (void)data;
    return fd < 0 ? -errno : fd;
}

static ssize_t io_pread(void *data, int fd, void *buffer, size_t n, uint64_t offset)
{
    const ssize_t r = pread(fd, buffer, n, (off_t)offset);

    (void)data;
    return r < 0 ? -errno : r;
}

static ssize_t io_pwrite(void *data, int fd, const void *bytes, size_t n, uint64_t offset)
{
    const ssize_t r = pwrite(fd, bytes, n, (off_t)offset);

    (void)data;
    return r < 0 ? -errno : r;
}

static int io_sync(void *data, int fd)
{
    (void)data;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int io_punch(void *data, int fd, uint64_t offset, uint64_t n)
{
    (void)data;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n) < 0)
        return -errno;
    return 0;
}

static int io_unlink(void *data, int dir, const char *name)
{
    (void)data;
    return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

static int io_space(void *data, int fd, uint64_t *ret_free)
{
    struct statvfs st;

    (void)data;
    if (fstatvfs(fd, &st) < 0)
        return -errno;
    *ret_free = (uint64_t)st.f_bavail * st.f_frsize;
    return 0;
}

const struct store_io store_io_system = {
    .open = io_open,
    .pread = io_pread,
    .pwrite = io_pwrite,
    .sync = io_sync,
    .punch = io_punch,
    .unlink = io_unlink,
    .space = io_space,
};
