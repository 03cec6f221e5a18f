/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the directories and files of the store, whatever models they belong to (see store.h).
 */
#define _XOPEN_SOURCE 700 /* nftw() */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "common/config/config.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

#define STORE_SYSTEM  "/var/lib/sconce/models"
#define STORE_SHIPPED SCONCE_DATADIR "/models" /* belongs to packages */
#define STORE_REMOVED ".removed."

/* Returns the first model directory that exists and may be written; NULL: there is none. */
static const char *writable_directory(const struct config *config, size_t n_own)
{
    for (size_t i = 0; i < n_own; i++)
        if (strcmp(config->model_dirs[i], STORE_SHIPPED) != 0 &&
            path_is_dir(config->model_dirs[i]) && access(config->model_dirs[i], W_OK | X_OK) == 0)
            return config->model_dirs[i];
    return NULL;
}

/* Returns the model directory to make if none can be written; for root, the machine's directory. */
static const char *usual_directory(const struct config *config, size_t n_own)
{
    for (size_t i = 0; geteuid() == 0 && i < n_own; i++)
        if (strcmp(config->model_dirs[i], STORE_SYSTEM) == 0)
            return STORE_SYSTEM;
    return config->model_dirs[0];
}

int store_directory(const struct config *config, bool chosen, char **ret_dir,
                    struct inf_err *reterr)
{
    const size_t n_own = config->n_model_dirs - config->n_foreign;
    const char *dir;

    if (n_own == 0)
        return err_set(reterr, ENOENT, "models.directories names no directory");
    dir = chosen ? config->model_dirs[0] : writable_directory(config, n_own);
    *ret_dir = strdup(dir ? dir : usual_directory(config, n_own));
    return *ret_dir ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

int store_make_dirs(const char *path, struct inf_err *reterr)
{
    const int r = path_make_dirs(path, 0755);

    return r < 0 ? err_set(reterr, -r, "%s cannot be made: %s", path, strerror(-r)) : 0;
}

int store_become_owner(const char *dir, struct inf_err *reterr)
{
    struct stat st;

    if (geteuid() != 0 || stat(dir, &st) < 0 || st.st_uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
        setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)
        return err_set(reterr, errno, "the owner of %s: %s", dir, strerror(errno));
    return 0;
}

/* Gives a file that root has made in the store @dir to the owner of the store. If the process may
 * not do this because it is confined, it continues. */
static void give_to_owner(const char *dir, int fd)
{
    struct stat file, store;

    if (fstat(fd, &file) == 0 && file.st_uid == 0 && stat(dir, &store) == 0 && store.st_uid != 0 &&
        fchown(fd, store.st_uid, store.st_gid) < 0)
        return;
}

int store_lock(const char *dir, int *ret_fd, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, ".lock");
    _cleanup_close_ int fd = -1;
    int r = path ? store_make_dirs(dir, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r < 0)
        return r;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    give_to_owner(dir, fd);
    *ret_fd = STEAL_FD(fd);
    return 0;
}

/* Syncs the directory of the file @path, so that the file's present name survives a crash. */
static int store_sync_dir(const char *path)
{
    _cleanup_free_ char *dir = strdup(path);
    char *slash = dir ? strrchr(dir, '/') : NULL;
    _cleanup_close_ int fd = -1;

    if (!dir)
        return -ENOMEM;
    if (slash)
        slash[slash == dir] = 0;
    fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int store_write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

char *store_digest_path(const char *dir, const char *sub, const char *digest)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s/sha256-%s", dir, sub, digest) < 0 ? NULL : path;
}

int store_put(const char *path, const char *text, size_t len, struct inf_err *reterr)
{
    _cleanup_free_ char *fresh = NULL;
    _cleanup_close_ int fd = -1;
    const char *base = path_base(path);
    int r;

    if (asprintf(&fresh, "%.*s.%s.XXXXXX", (int)(base - path), path, base) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0)
        return err_set(reterr, errno, "%s cannot be written: %s", path, strerror(errno));
    r = store_write_all(fd, text, len);
    if (r == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0 || rename(fresh, path) < 0))
        r = -errno;
    if (r == 0)
        r = store_sync_dir(path);
    else
        unlink(fresh);
    return r < 0 ? err_set(reterr, -r, "%s cannot be written: %s", path, strerror(-r)) : 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)walk;
    return (kind == FTW_DP || kind == FTW_D ? rmdir(path) : unlink(path)) < 0 ? errno : 0;
}

static int remove_tree(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int store_discard(const char *dir, const char *path, struct inf_err *reterr)
{
    _cleanup_free_ char *hidden = path_join(dir, STORE_REMOVED "XXXXXX"), *inside = NULL;
    int r;

    if (!hidden)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!mkdtemp(hidden))
        return err_set(reterr, errno, "%s cannot be changed: %s", dir, strerror(errno));
    inside = path_join(hidden, "model");
    if (!inside || rename(path, inside) < 0) {
        r = inside ? errno : ENOMEM;
        rmdir(hidden);
        return err_set(reterr, r, "%s cannot be removed: %s", path, strerror(r));
    }
    store_sync_dir(path);
    r = remove_tree(hidden);
    return r == 0 ? 0
                  : err_set(reterr, r < 0 ? errno : r, "%s cannot be removed: %s", hidden,
                            strerror(r < 0 ? errno : r));
}

bool store_walk(const char *dir, const char *prefix, bool (*visit)(const char *path, void *arg),
                void *arg)
{
    const struct dirent *e;
    DIR *d = dir ? opendir(dir) : NULL;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        _cleanup_free_ char *path =
            text_starts_with(e->d_name, prefix) ? path_join(dir, e->d_name) : NULL;

        found = path && (!visit || visit(path, arg));
    }
    if (d)
        closedir(d);
    return found;
}

bool store_has_removed(const char *dir)
{
    return store_walk(dir, STORE_REMOVED, NULL, NULL);
}

static bool clean_tree(const char *path, void *arg UNUSED)
{
    remove_tree(path);
    return false;
}

void store_clean_removed(const char *dir)
{
    store_walk(dir, STORE_REMOVED, clean_tree, NULL);
}

int store_clean_blobs(const char *dir, uint64_t *ret_bytes, struct inf_err *reterr)
{
    _cleanup_free_ char *blobs = path_join(dir, STORE_BLOBS);
    const struct dirent *e;
    DIR *d = blobs ? opendir(blobs) : NULL;
    uint64_t bytes = 0;
    struct stat st;
    int r = 0;

    if (!blobs)
        return err_set(reterr, ENOMEM, "out of memory");
    while (d && (e = readdir(d))) {
        if (!text_starts_with(e->d_name, "sha256-") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink > 1)
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) == 0)
            bytes += (uint64_t)st.st_size;
        else
            r = err_set(reterr, errno, "%s/%s cannot be removed: %s", blobs, e->d_name,
                        strerror(errno));
    }
    if (d)
        closedir(d);
    if (r == 0)
        *ret_bytes = bytes;
    return r;
}
