/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the files of a model (see store.h). */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/models/manifest.h"
#include "common/models/safe-path.h"
#include "common/store/store.h"
#include "core/array.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

enum {
    FILES_DEPTH = 3, /* levels of directories of a model */
    FILES_MAX = 65536,
};

void store_files_done(struct store_files *files)
{
    arena_done(&files->arena);
    free(files->files);
    *files = (struct store_files){0};
}

/* Returns the digest of a blob, a file whose real name is its digest. NULL: the file is not a
 * blob. */
static const char *blob_digest(struct store_files *out, const char *path)
{
    char real[PATH_MAX];
    const char *base, *hex;

    if (!realpath(path, real))
        return NULL;
    base = path_base(real);
    hex = text_after(base, "sha256-");
    hex = hex ? hex : base;
    return sha256_is_text(hex) ? arena_strndup(&out->arena, hex, STORE_DIGEST) : NULL;
}

static int add_file(struct store_files *out, const char *name, const char *path,
                    const struct model_manifest_file *listed)
{
    struct store_file *f;
    struct stat st;

    if (out->n == FILES_MAX || ARRAY_GROW(out->files, out->cap, out->n + 1) < 0)
        return -ENOMEM;
    f = &out->files[out->n];
    *f = (struct store_file){
        .name = arena_strndup(&out->arena, name, strlen(name)),
        .path = arena_strndup(&out->arena, path, strlen(path)),
        .size = stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX,
    };
    if (!f->name || !f->path)
        return -ENOMEM;
    if (listed && listed->size != UINT64_MAX)
        f->size = listed->size;
    if (!listed)
        f->sha256 = blob_digest(out, path);
    else if (listed->sha256)
        f->sha256 = arena_strndup(&out->arena, listed->sha256, STORE_DIGEST);
    out->n++;
    return 0;
}

static int add_directory(struct store_files *out, const char *dir, const char *sub, unsigned depth)
{
    _cleanup_free_ char *path = *sub ? path_join(dir, sub) : strdup(dir);
    struct dirent **names = NULL;
    const int n = path ? scandir(path, &names, NULL, alphasort) : -1;
    int r = path ? 0 : -ENOMEM;

    for (int i = 0; i < n; i++) {
        const char *base = names[i]->d_name;
        _cleanup_free_ char *name = *sub ? path_join(sub, base) : strdup(base);
        _cleanup_free_ char *full = name ? path_join(dir, name) : NULL;

        if (r == 0 && !full)
            r = -ENOMEM;
        if (r == 0 && base[0] != '.' && !path_is_dir(full))
            r = add_file(out, name, full, NULL);
        else if (r == 0 && base[0] != '.' && depth < FILES_DEPTH)
            r = add_directory(out, dir, name, depth + 1);
        free(names[i]);
    }
    free(names);
    return r;
}

/* Adds the file @path and, if it is the first part of a split model, the other parts. */
static int add_parts(struct store_files *out, const char *path)
{
    const size_t len = strlen(path);
    _cleanup_free_ char *part = strdup(path);
    unsigned first = 0, n = 0;
    int used = 0, r;

    if (!part)
        return -ENOMEM;
    r = add_file(out, path_base(path), path, NULL);
    if (len < 20 || !text_ends_with_nocase(path, ".gguf") ||
        sscanf(path + len - 20, "-%5u-of-%5u%n", &first, &n, &used) != 2 || used != 15 ||
        first != 1)
        return r;
    for (unsigned i = 2; r == 0 && i <= n; i++) {
        char number[12];

        snprintf(number, sizeof(number), "%05u", i);
        memcpy(part + len - 19, number, 5);
        if (path_exists(part))
            r = add_file(out, path_base(part), part, NULL);
    }
    return r;
}

static int add_listed(struct store_files *out, const struct models_entry *e,
                      const struct model_manifest *manifest)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < manifest->n_files; i++) {
        _cleanup_free_ char *path = path_join(e->manifest_dir, manifest->files[i].name);

        r = path ? add_file(out, manifest->files[i].name, path, &manifest->files[i]) : -ENOMEM;
    }
    return r;
}

int store_files_list(const struct models_entry *e, struct store_files *ret, struct inf_err *reterr)
{
    struct model_manifest manifest = {0};
    int r = 0;

    *ret = (struct store_files){0};
    if (e->manifest) {
        r = model_manifest_read(&ret->arena, e->manifest, &manifest, reterr);
        if (r < 0) {
            store_files_done(ret);
            return r;
        }
    }
    if (manifest.n_files > 0)
        r = add_listed(ret, e, &manifest);
    else if (path_is_dir(e->path))
        r = add_directory(ret, e->path, "", 0);
    else
        r = add_parts(ret, e->path);
    if (r < 0) {
        store_files_done(ret);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    return 0;
}
