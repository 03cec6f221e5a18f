/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes, continues and finishes the file of a conversion.
 */
#include "convert/part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "core/err.h"

/* Bytes after which the written data are forced to the disk, and the mark is updated. */
#define SYNC_BYTES ((uint64_t)256 << 20)
/* Bytes after which the kernel is told to write them to the disk, while more are computed. */
#define BEGIN_BYTES ((uint64_t)16 << 20)

static const char magic[8] = "sconcept";

struct mark {
    char magic[8];
    uint64_t n_done;
    uint8_t digest[SHA256_BYTES];
};

static_assert(sizeof(struct mark) == PART_MARK_BYTES, "layout");

struct part {
    int fd;
    char *path, *target;
    struct part_params params;
    struct mark mark;
    /* Bytes that were written since the mark was updated, and those of them that the kernel was
     * told to write to the disk. */
    atomic_uint_fast64_t unsynced;
    uint64_t begun;
    uint64_t n_done;
    bool owned; /* the file is that of this conversion */
    bool finished;
};

static int part_errno(const struct part *p, const char *what, struct inf_err *reterr)
{
    const int code = errno;

    return err_set(reterr, code, "%s %.200s: %s", what, p->path, strerror(code));
}

static int part_pwrite(struct part *p, const void *data, uint64_t n, uint64_t at,
                       struct inf_err *reterr)
{
    const char *from = data;

    while (n > 0) {
        const ssize_t k = pwrite(p->fd, from, MIN(n, (uint64_t)1 << 30), (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return part_errno(p, "writing", reterr);
        from += k;
        at += (uint64_t)k;
        n -= (uint64_t)k;
    }
    return 0;
}

/* Forces the data to the disk, and then records in the mark that the disk has them. */
static int part_sync(struct part *p, struct inf_err *reterr)
{
    int r;

    if (fdatasync(p->fd) < 0)
        return part_errno(p, "writing", reterr);
    p->mark.n_done = p->n_done;
    r = part_pwrite(p, &p->mark, sizeof(p->mark), 0, reterr);
    p->unsynced = p->begun = 0;
    return r;
}

/* Compares the mark of an existing file with that of this conversion. */
static int part_read_mark(struct part *p, struct inf_err *reterr)
{
    struct mark m;
    const ssize_t n = pread(p->fd, &m, sizeof(m), 0);

    if (n < 0)
        return part_errno(p, "reading", reterr);
    if (n > 0 && ((size_t)n < sizeof(m) || memcmp(m.magic, magic, sizeof(magic)) != 0) &&
        !p->params.replace)
        return err_set(reterr, EEXIST, "%.200s exists, and no conversion wrote it", p->path);
    if ((size_t)n == sizeof(m) && memcmp(m.magic, magic, sizeof(magic)) == 0 &&
        memcmp(m.digest, p->mark.digest, sizeof(m.digest)) == 0) {
        p->n_done = m.n_done;
        return 0;
    }
    if (ftruncate(p->fd, 0) < 0)
        return part_errno(p, "writing", reterr);
    return part_pwrite(p, &p->mark, sizeof(p->mark), 0, reterr);
}

/* Checks that the file system has room for the bytes that the file does not have yet. */
static int part_check_room(const struct part *p, struct inf_err *reterr)
{
    struct statvfs fs;
    struct stat st;
    uint64_t has, free_bytes;

    if (fstat(p->fd, &st) < 0 || fstatvfs(p->fd, &fs) < 0)
        return part_errno(p, "reading", reterr);
    has = (uint64_t)st.st_blocks * 512;
    free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (has >= p->params.total || p->params.total - has <= free_bytes)
        return 0;
    return err_set(reterr, ENOSPC, "%.200s needs %llu more bytes, but the disk has only %llu",
                   p->path, (unsigned long long)(p->params.total - has),
                   (unsigned long long)free_bytes);
}

static int part_open_file(struct part *p, struct inf_err *reterr)
{
    struct stat st;

    if (!p->params.replace && lstat(p->target, &st) == 0)
        return err_set(reterr, EEXIST, "%.200s exists", p->target);
    p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (p->fd < 0)
        return part_errno(p, "opening", reterr);
    if (flock(p->fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(reterr, EBUSY, "another process writes %.200s", p->path);
    if (fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(reterr, EEXIST, "%.200s is not a file", p->path);
    return part_read_mark(p, reterr);
}

int part_open(const struct part_params *params, struct part **ret_part, uint64_t *ret_n_done,
              struct inf_err *reterr)
{
    _cleanup_(part_closep) struct part *p = NEW(struct part, 1);
    int r;

    assert(params->header_size >= PART_MARK_BYTES);
    if (!p)
        return err_set(reterr, ENOMEM, "out of memory");
    p->fd = -1;
    p->params = *params;
    memcpy(p->mark.magic, magic, sizeof(magic));
    memcpy(p->mark.digest, params->digest, sizeof(p->mark.digest));
    p->target = strdup(params->target);
    if (!p->target || asprintf(&p->path, "%s.part", params->target) < 0) {
        p->path = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    r = part_open_file(p, reterr);
    if (r < 0)
        return r;
    p->owned = true;
    r = part_check_room(p, reterr);
    if (r < 0)
        return r;
    *ret_n_done = p->n_done;
    *ret_part = STEAL(p);
    return 0;
}

int part_write(struct part *p, uint64_t offset, const void *data, uint64_t n,
               struct inf_err *reterr)
{
    assert(offset >= p->params.header_size && offset + n <= p->params.total);
    p->unsynced += n;
    return part_pwrite(p, data, n, offset, reterr);
}

int part_done(struct part *p, uint64_t n_done, struct inf_err *reterr)
{
    p->n_done = n_done;
    if (p->unsynced >= SYNC_BYTES)
        return part_sync(p, reterr);
    if (p->unsynced - p->begun >= BEGIN_BYTES) {
        /* This only saves time later, so failures do not matter. */
        (void)sync_file_range(p->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        p->begun = p->unsynced;
    }
    return 0;
}

/* Forces the new name of a file to the disk. Failures are ignored, because the file already has its
 * name, and some file systems cannot do this. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    _cleanup_close_ int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0)
        (void)fsync(fd);
}

static int part_rename(struct part *p, struct inf_err *reterr)
{
    int r;

    if (p->params.replace)
        r = rename(p->path, p->target);
    else
        r = renameat2(AT_FDCWD, p->path, AT_FDCWD, p->target, RENAME_NOREPLACE);
    /* Some file systems cannot rename without replacing. But all file systems that have hard links
     * refuse to replace a file by a link. */
    if (r < 0 && errno == EINVAL && !p->params.replace) {
        r = link(p->path, p->target);
        if (r == 0)
            unlink(p->path);
    }
    if (r < 0)
        return part_errno(p, "renaming", reterr);
    sync_directory(p->target);
    return 0;
}

int part_finish(struct part *p, struct inf_err *reterr)
{
    int r;

    if (ftruncate(p->fd, (off_t)p->params.total) < 0)
        return part_errno(p, "writing", reterr);
    r = part_sync(p, reterr);
    if (r == 0)
        r = part_pwrite(p, p->params.header, p->params.header_size, 0, reterr);
    if (r == 0 && fsync(p->fd) < 0)
        r = part_errno(p, "writing", reterr);
    if (r == 0)
        r = part_rename(p, reterr);
    p->finished = r == 0;
    return r;
}

struct part *part_close(struct part *p)
{
    if (!p)
        return NULL;
    if (p->fd >= 0 && !p->finished) {
        if (p->n_done > 0)
            (void)part_sync(p, NULL);
        else if (p->owned)
            unlink(p->path);
    }
    if (p->fd >= 0)
        close(p->fd);
    free(p->path);
    free(p->target);
    free(p);
    return NULL;
}
