/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cache/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/macros.h"

enum { SECTOR = 512, FDS = 1024 };

struct faults faults;
const char faults_vfs[] = "faults";

/* Struct undo holds the contents that a file had before a write that is not synced. The list has
 * the latest write last. */
struct undo {
    char path[128];
    uint64_t offset, n, size; /* size: size of the file before the write */
    uint8_t *old;
};

static struct undo *undos;
static size_t n_undos, undos_cap;
static char paths[FDS][128];

static bool chance(uint32_t one_in)
{
    return one_in > 0 && rng_u32(&faults.rng) % one_in == 0;
}

/* Counts a call. Returns 0 if the call may proceed, else the error with which it must fail. */
static int call(bool writes)
{
    static const int errors[] = {EIO, ENOSPC, EIO, EINTR};

    faults.calls++;
    if (!faults.is_off && faults.off_at && faults.calls >= faults.off_at) {
        faults.is_off = true;
        faults.injected++;
    }
    if (faults.is_off)
        return -EIO;
    if (writes && (faults.is_full || faults.is_read_only)) {
        faults.injected++;
        return faults.is_full ? -ENOSPC : -EROFS;
    }
    if (!chance(faults.one_in))
        return 0;
    faults.injected++;
    return -errors[rng_u32(&faults.rng) % (writes ? 3 : 4)];
}

/* Returns how many of @n bytes a call transfers. */
static size_t part(size_t n)
{
    if (n < 2 || !chance(faults.one_in))
        return n;
    faults.injected++;
    return 1 + rng_u32(&faults.rng) % (n - 1);
}

static void flip(void *bytes, size_t n)
{
    if (n == 0 || !chance(faults.flips))
        return;
    faults.injected++;
    ((uint8_t *)bytes)[rng_u32(&faults.rng) % n] ^= (uint8_t)(1 << rng_u32(&faults.rng) % 8);
}

static void remember(const char *path, int fd, uint64_t offset, uint64_t n)
{
    struct undo *u;
    struct stat st;

    if (n_undos == undos_cap) {
        undos_cap = undos_cap ? undos_cap * 2 : 256;
        undos = reallocarray(undos, undos_cap, sizeof(*undos));
        assert(undos);
    }
    u = &undos[n_undos++];
    *u = (struct undo){.offset = offset, .n = n, .old = calloc(1, n)};
    assert(u->old);
    snprintf(u->path, sizeof(u->path), "%s", path);
    if (fstat(fd, &st) == 0)
        u->size = (uint64_t)st.st_size;
    if (pread(fd, u->old, n, (off_t)offset) < 0)
        memset(u->old, 0, n);
}

/* Drops the saved contents of a file, because its writes are now durable or because it was deleted.
 * NULL: drops those of all files. */
static void forget(const char *path)
{
    size_t m = 0;

    for (size_t i = 0; i < n_undos; i++)
        if (path && strcmp(undos[i].path, path) != 0)
            undos[m++] = undos[i];
        else
            free(undos[i].old);
    n_undos = m;
}

/* Undoes a random part of a write: nothing, all its sectors, the sectors from some point on, or
 * random sectors. */
static void take_back(const struct undo *u)
{
    const int fd = open(u->path, O_RDWR | O_CLOEXEC);
    const uint32_t how = rng_u32(&faults.rng) % 4;
    uint64_t at = 0;

    if (fd < 0 || how == 0)
        goto out;
    if (how == 1)
        at = u->n ? rng_u32(&faults.rng) % u->n / SECTOR * SECTOR : 0;
    for (; at < u->n; at += SECTOR) {
        const uint64_t n = MIN(u->n - at, SECTOR);

        if (how == 2 && chance(2))
            continue;
        if (pwrite(fd, u->old + at, n, (off_t)(u->offset + at)) < 0)
            break;
    }
    if (how == 3 && u->size < u->offset + u->n && chance(2) && ftruncate(fd, (off_t)u->size) < 0)
        goto out;
out:
    if (fd >= 0)
        close(fd);
}

void faults_power_on(void)
{
    if (faults.loses)
        for (size_t i = n_undos; i > 0; i--)
            take_back(&undos[i - 1]);
    forget(NULL);
    faults_none();
}

void faults_none(void)
{
    faults.off_at = 0;
    faults.one_in = faults.flips = 0;
    faults.is_off = faults.is_full = faults.is_read_only = faults.loses = false;
}

/* segments */

static int f_open(void *data, int dir, const char *name, int flags)
{
    char path[96];
    ssize_t n;
    int fd = call(flags & O_CREAT);

    (void)data;
    if (fd == 0)
        fd = store_io_system.open(NULL, dir, name, flags);
    if (fd < 0)
        return fd;
    assert(fd < FDS);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, paths[fd], sizeof(paths[fd]) - 1);
    paths[fd][n > 0 ? n : 0] = 0;
    return fd;
}

static ssize_t f_pread(void *data, int fd, void *buffer, size_t n, uint64_t offset)
{
    ssize_t r = call(false);

    (void)data;
    if (r == 0)
        r = store_io_system.pread(NULL, fd, buffer, part(n), offset);
    if (r > 0)
        flip(buffer, (size_t)r);
    return r;
}

static ssize_t f_pwrite(void *data, int fd, const void *bytes, size_t n, uint64_t offset)
{
    const ssize_t r = call(true);

    (void)data;
    if (r < 0)
        return r;
    n = part(n);
    remember(paths[fd], fd, offset, n);
    return store_io_system.pwrite(NULL, fd, bytes, n, offset);
}

static int f_sync(void *data, int fd)
{
    const int r = call(true);

    (void)data;
    if (r == 0 && fd < FDS)
        forget(paths[fd]);
    return r;
}

static int f_punch(void *data, int fd, uint64_t offset, uint64_t n)
{
    const int r = faults.no_punch ? -EOPNOTSUPP : call(true);

    (void)data;
    if (r < 0)
        return r;
    remember(paths[fd], fd, offset, n);
    return store_io_system.punch(NULL, fd, offset, n);
}

static int f_unlink(void *data, int dir, const char *name)
{
    const int r = call(true);

    (void)data;
    return r < 0 ? r : store_io_system.unlink(NULL, dir, name);
}

static int f_space(void *data, int fd, uint64_t *ret_free)
{
    const int r = call(false);

    (void)data;
    return r < 0 ? r : store_io_system.space(NULL, fd, ret_free);
}

const struct store_io faults_io = {
    .open = f_open,
    .pread = f_pread,
    .pwrite = f_pwrite,
    .sync = f_sync,
    .punch = f_punch,
    .unlink = f_unlink,
    .space = f_space,
};

/* SQLite */

struct file {
    sqlite3_file base;
    int fd; /* used to read the former contents; SQLite has another descriptor */
    char path[128];
    sqlite3_file *real;
};

static struct file *file_of(sqlite3_file *f)
{
    return (struct file *)f;
}

static sqlite3_file *real_of(sqlite3_file *f)
{
    return file_of(f)->real;
}

static int sqlite_error(int r, int io_error)
{
    return r == -ENOSPC ? SQLITE_FULL : r == -EROFS ? SQLITE_READONLY : io_error;
}

static int v_close(sqlite3_file *f)
{
    const int rc = real_of(f)->pMethods->xClose(real_of(f));

    if (file_of(f)->fd >= 0)
        close(file_of(f)->fd);
    sqlite3_free(file_of(f)->real);
    return rc;
}

static int v_read(sqlite3_file *f, void *buffer, int n, sqlite3_int64 offset)
{
    const int r = call(false);
    int rc;

    if (r < 0)
        return r == -EINTR ? SQLITE_IOERR_SHORT_READ : SQLITE_IOERR_READ;
    rc = real_of(f)->pMethods->xRead(real_of(f), buffer, n, offset);
    if (rc == SQLITE_OK)
        flip(buffer, (size_t)n);
    return rc;
}

static int v_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset)
{
    const int r = call(true);
    int wrote;

    if (r < 0)
        return sqlite_error(r, SQLITE_IOERR_WRITE);
    wrote = (int)part((size_t)n);
    remember(file_of(f)->path, file_of(f)->fd, (uint64_t)offset, (uint64_t)wrote);
    if (wrote == n)
        return real_of(f)->pMethods->xWrite(real_of(f), bytes, n, offset);
    real_of(f)->pMethods->xWrite(real_of(f), bytes, wrote, offset);
    return SQLITE_IOERR_WRITE;
}

static int v_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    const int r = call(true);

    return r < 0 ? sqlite_error(r, SQLITE_IOERR_TRUNCATE)
                 : real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int v_sync(sqlite3_file *f, int flags)
{
    const int r = call(true);

    (void)flags;
    if (r < 0)
        return sqlite_error(r, SQLITE_IOERR_FSYNC);
    forget(file_of(f)->path);
    return SQLITE_OK;
}

static int v_size(sqlite3_file *f, sqlite3_int64 *ret_size)
{
    return call(false) < 0 ? SQLITE_IOERR_FSTAT
                           : real_of(f)->pMethods->xFileSize(real_of(f), ret_size);
}

static int v_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int v_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int v_is_reserved(sqlite3_file *f, int *ret)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int v_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int v_sector(sqlite3_file *f)
{
    (void)f;
    return SECTOR;
}

static int v_kind(sqlite3_file *f)
{
    (void)f;
    return 0;
}

/* Version 1 has no functions for shared memory or memory maps. An index that only one process uses
 * needs neither. */
static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = v_close,
    .xRead = v_read,
    .xWrite = v_write,
    .xTruncate = v_truncate,
    .xSync = v_sync,
    .xFileSize = v_size,
    .xLock = v_lock,
    .xUnlock = v_unlock,
    .xCheckReservedLock = v_is_reserved,
    .xFileControl = v_control,
    .xSectorSize = v_sector,
    .xDeviceCharacteristics = v_kind,
};

static sqlite3_vfs *below;

static int v_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    struct file *file = file_of(f);
    int rc;

    (void)vfs;
    file->base.pMethods = NULL;
    if (call(false) < 0)
        return SQLITE_CANTOPEN;
    file->real = sqlite3_malloc(below->szOsFile);
    if (!file->real)
        return SQLITE_NOMEM;
    memset(file->real, 0, (size_t)below->szOsFile);
    rc = below->xOpen(below, name, file->real, flags, ret_flags);
    if (rc != SQLITE_OK) {
        sqlite3_free(file->real);
        return rc;
    }
    snprintf(file->path, sizeof(file->path), "%s", name ? name : "");
    file->fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    file->base.pMethods = &methods;
    return SQLITE_OK;
}

static int v_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    const int r = call(true);

    (void)vfs;
    if (r < 0)
        return sqlite_error(r, SQLITE_IOERR_DELETE);
    forget(name);
    return below->xDelete(below, name, sync_dir);
}

void faults_start(uint64_t seed)
{
    static sqlite3_vfs vfs;

    if (!below) {
        below = sqlite3_vfs_find(NULL);
        vfs = *below;
        vfs.zName = faults_vfs;
        vfs.pNext = NULL;
        vfs.szOsFile = sizeof(struct file);
        vfs.xOpen = v_open;
        vfs.xDelete = v_delete;
        sqlite3_vfs_register(&vfs, 0);
    }
    forget(NULL);
    faults_none();
    faults.no_punch = false;
    rng_seed(&faults.rng, seed);
}
