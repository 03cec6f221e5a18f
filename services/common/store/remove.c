/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes models (see store.h).
 *
 * A directory is renamed before its files are removed, so that no search finds half of a model. The
 * other files of a model are removed after its manifest. A service that has mapped a file keeps the
 * file until the service unloads the model.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/models/foreign.h"
#include "common/models/manifest.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"

/* Returns whether @path, without following a link at its end, is below the store. */
static bool is_inside(const char *dir, const char *path)
{
    char real_dir[PATH_MAX], real[PATH_MAX];
    _cleanup_free_ char *parent = strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (!slash || slash == parent)
        return false;
    *slash = 0;
    return realpath(dir, real_dir) && realpath(parent, real) && path_is_below(real, real_dir);
}

bool store_has(const char *dir, const struct models_entry *e)
{
    return e->layout == MODELS_OWN && is_inside(dir, e->manifest ? e->manifest : e->path);
}

/* Returns whether the manifest of @e belongs to its directory, so that all files of the directory
 * are those of the model. */
static bool owns_directory(const struct models_entry *e)
{
    return e->manifest && strcmp(path_base(e->manifest), MODEL_MANIFEST) == 0;
}

static bool is_directory_itself(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int unlink_file(const char *path, uint64_t *bytes, struct inf_err *reterr)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_set(reterr, errno, "%s: %s", path, strerror(errno));
    if (unlink(path) < 0)
        return err_set(reterr, errno, "%s cannot be removed: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode) && st.st_nlink == 1)
        *bytes += (uint64_t)st.st_size;
    return 0;
}

/* Returns the total size of the files that have only one hard link, before they are removed. */
static uint64_t sole_bytes(const struct store_files *files)
{
    uint64_t bytes = 0;
    struct stat st;

    for (size_t i = 0; i < files->n; i++)
        if (lstat(files->files[i].path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
            bytes += (uint64_t)st.st_size;
    return bytes;
}

/* Removes the directory "ORG" if "ORG/NAME" was its last model. */
static void remove_empty_parent(const char *dir, const char *path)
{
    _cleanup_free_ char *parent = strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (!slash)
        return;
    *slash = 0;
    if (strcmp(parent, dir) != 0 && is_inside(dir, parent))
        rmdir(parent);
}

static int remove_directory(const char *dir, const char *path, const struct store_files *files,
                            uint64_t *bytes, struct inf_err *reterr)
{
    const uint64_t sole = sole_bytes(files);
    const int r = store_discard(dir, path, reterr);

    if (r < 0)
        return r;
    *bytes += sole;
    remove_empty_parent(dir, path);
    return 0;
}

/* Removes the manifest of @e, and those of its files that are in the store. */
static int remove_files(const char *dir, const struct models_entry *e,
                        const struct store_files *files, uint64_t *bytes, struct inf_err *reterr)
{
    int r = e->manifest ? unlink_file(e->manifest, bytes, reterr) : 0;

    if (r == 0 && is_inside(dir, e->path) && is_directory_itself(e->path))
        return remove_directory(dir, e->path, files, bytes, reterr);
    if (r == 0 && path_is_dir(e->path))
        return is_inside(dir, e->path) ? unlink_file(e->path, bytes, reterr) : 0;
    for (size_t i = 0; r == 0 && i < files->n; i++)
        if (is_inside(dir, files->files[i].path))
            r = unlink_file(files->files[i].path, bytes, reterr);
    return r;
}

int store_remove(const char *dir, const struct models_entry *e, uint64_t *ret_bytes,
                 struct inf_err *reterr)
{
    const char *program = models_layout_program(e->layout);
    _cleanup_(store_files_done) struct store_files files = {0};
    uint64_t bytes = 0, blobs = 0;
    int r;

    if (program)
        return err_set(reterr, EPERM, "%s belongs to %s: remove it there", e->name, program);
    if (!store_has(dir, e))
        return err_set(reterr, EPERM, "%s is at %s, outside of the store %s; remove it by hand",
                       e->name, e->path, dir);
    store_clean_removed(dir);
    r = store_files_list(e, &files, reterr);
    if (r == 0)
        r = owns_directory(e) ? remove_directory(dir, e->manifest_dir, &files, &bytes, reterr)
                              : remove_files(dir, e, &files, &bytes, reterr);
    if (r == 0)
        r = store_clean_blobs(dir, &blobs, reterr);
    if (r == 0)
        *ret_bytes = bytes + blobs;
    return r;
}
