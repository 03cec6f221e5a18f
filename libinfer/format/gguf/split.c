/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens GGUF files on disk: a single file, or the parts of a split model.
 *
 * Parts are named PREFIX-00001-of-00003.gguf. Each part is a complete GGUF file that contains its
 * number (split.no, from 0) and the number of parts (split.count). The first part holds the
 * metadata. The names of the other parts are derived from the name of the first, so no content of a
 * file chooses a path.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "format/gguf/types.h"

#define GGUF_MAX_PARTS 1000

int gguf_open_part(const char *path, struct gguf **ret_gguf, struct inf_err *reterr)
{
    _cleanup_free_ struct file_map *map = NULL;
    struct gguf *g;
    int r;

    map = NEW(struct file_map, 1);
    if (!map)
        return err_set(reterr, ENOMEM, "out of memory");
    r = file_map_open(path, map, reterr);
    if (r < 0)
        return r;
    r = gguf_parse_map(map, &g, reterr);
    if (r < 0) {
        file_map_done(map);
        err_prefix(reterr, "%.96s", path_base(path));
        return r;
    }
    g->maps = STEAL(map);
    g->n_maps = 1;
    *ret_gguf = g;
    return 0;
}

/* Returns the length of PREFIX in PREFIX-00001-of-@n_parts.gguf; 0 if the name has another form. */
static size_t split_prefix(const char *path, uint64_t n_parts)
{
    const size_t len = strlen(path);
    char suffix[48];
    size_t n;

    n = (size_t)snprintf(suffix, sizeof(suffix), "-00001-of-%05u.gguf", (unsigned)n_parts);
    if (len <= n || strcmp(path + len - n, suffix) != 0)
        return 0;
    return len - n;
}

/* Moves the tensors and the mapping of @part to the end of @g. */
static int append_part(struct gguf *g, struct gguf *part, struct inf_err *reterr)
{
    const size_t n = g->n_tensors + part->n_tensors;
    struct format_tensor *tensors;
    struct file_map *maps;

    tensors = realloc(g->tensors, MAX(n, 1u) * sizeof(*tensors));
    if (!tensors)
        return err_set(reterr, ENOMEM, "out of memory");
    g->tensors = tensors;
    maps = realloc(g->maps, (g->n_maps + 1) * sizeof(*maps));
    if (!maps)
        return err_set(reterr, ENOMEM, "out of memory");
    g->maps = maps;
    for (size_t i = 0; i < part->n_tensors; i++) {
        struct format_tensor *t = &g->tensors[g->n_tensors];
        int r;

        *t = part->tensors[i];
        t->name = arena_strndup(&g->arena, t->name, strlen(t->name));
        if (t->dtype == INF_DTYPE_INVALID)
            t->type_name = arena_strndup(&g->arena, t->type_name, strlen(t->type_name));
        if (!t->name || !t->type_name)
            return err_set(reterr, ENOMEM, "out of memory");
        t->file_name = t->name;
        r = map_put(&g->tensor_map, t->name, strlen(t->name), g->n_tensors);
        if (r < 0)
            return err_set(reterr, ENOMEM, "out of memory");
        if (r == MAP_EXISTS)
            return err_set(reterr, EBADMSG, "tensor %.64s is in two parts", t->name);
        g->n_tensors++;
    }
    g->maps[g->n_maps++] = part->maps[0];
    part->n_maps = 0;
    return 0;
}

static int open_next(struct gguf *g, const char *path, uint64_t no, uint64_t n_parts,
                     struct inf_err *reterr)
{
    _cleanup_(gguf_closep) struct gguf *part = NULL;
    uint64_t part_no, part_count;
    int r;

    r = gguf_open_part(path, &part, reterr);
    if (r < 0)
        return r;
    if (!gguf_u64(part, "split.no", &part_no) || !gguf_u64(part, "split.count", &part_count) ||
        part_no != no || part_count != n_parts)
        return err_set(reterr, EBADMSG, "%.96s: is not part %llu of %llu", path_base(path),
                       (unsigned long long)no + 1, (unsigned long long)n_parts);
    return append_part(g, part, reterr);
}

static int open_others(struct gguf *g, const char *path, uint64_t n_parts, struct inf_err *reterr)
{
    const size_t prefix = split_prefix(path, n_parts);
    uint64_t n_tensors;
    int r;

    if (prefix == 0)
        return err_set(reterr, EBADMSG,
                       "%.64s: the first of %llu parts must be called "
                       "NAME-00001-of-%05u.gguf",
                       path_base(path), (unsigned long long)n_parts, (unsigned)n_parts);
    for (uint64_t i = 1; i < n_parts; i++) {
        _cleanup_free_ char *next = NULL;

        if (asprintf(&next, "%.*s-%05u-of-%05u.gguf", (int)prefix, path, (unsigned)i + 1,
                     (unsigned)n_parts) < 0) {
            next = NULL;
            return err_set(reterr, ENOMEM, "out of memory");
        }
        r = open_next(g, next, i, n_parts, reterr);
        if (r < 0)
            return r;
    }
    if (gguf_u64(g, "split.tensors.count", &n_tensors) && n_tensors != g->n_tensors)
        return err_set(reterr, EBADMSG, "%.96s: the parts hold %zu tensors instead of %llu",
                       path_base(path), g->n_tensors, (unsigned long long)n_tensors);
    return 0;
}

int gguf_open(const char *path, struct gguf **ret_gguf, struct inf_err *reterr)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    uint64_t no = 0, n_parts = 1;
    int r;

    r = gguf_open_part(path, &g, reterr);
    if (r < 0)
        return r;
    gguf_u64(g, "split.count", &n_parts);
    if (n_parts > GGUF_MAX_PARTS)
        return err_set(reterr, EBADMSG, "%.96s: split.count is %llu", path_base(path),
                       (unsigned long long)n_parts);
    if (n_parts > 1) {
        if (gguf_u64(g, "split.no", &no) && no != 0)
            return err_set(
                reterr, EINVAL, "%.96s: is part %llu of %llu; open the first part instead",
                path_base(path), (unsigned long long)no + 1, (unsigned long long)n_parts);
        r = open_others(g, path, n_parts, reterr);
        if (r < 0)
            return r;
    }
    *ret_gguf = STEAL(g);
    return 0;
}
