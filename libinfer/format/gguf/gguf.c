/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses little-endian GGUF v2 and v3 (ggml docs/gguf.md).
 *
 * The parser makes one pass over header, metadata pairs and tensor directory. Every number is
 * checked before it is used: a count is refused if its elements, at their smallest size, would not
 * fit into the remaining bytes. So the size of the file bounds all allocations. Header, metadata
 * and directory are first read into private memory, which the owner of the file cannot change.
 * Strings and numbers stay in this memory. Only keys and names are copied, so that they end with a
 * NUL.
 */
#include "format/gguf/gguf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/gguf/types.h"

/* The format has this limit for keys. The parser applies it to tensor names, too. */
#define GGUF_MAX_NAME   65535
#define GGUF_MAX_VALUES ((uint64_t)1 << 20)
#define GGUF_MAX_ALIGN  ((uint64_t)1 << 20)
/* The size of the file alone is not a sufficient limit, because sparse files can be huge and take
 * no disk space. */
#define GGUF_MAX_STRINGS ((uint64_t)1 << 22) /* in all values together */
#define GGUF_MAX_SCALARS ((uint64_t)1 << 28) /* per array */

struct reader {
    const struct file_map *map;
    struct file_start *start; /* private copy of the file's start */
    uint64_t size, pos;       /* size of the file, and the position in it */
    uint64_t n_strings;       /* number of strings read so far */
    struct inf_err *err;
};

/* An entry of the tensor directory, before the place of the tensor's data is known. */
struct entry {
    uint64_t offset; /* offset of the tensor's data in the data section */
    uint64_t at;     /* offset of this entry in the file, for messages */
    uint32_t elem_align;
};

static uint64_t reader_left(const struct reader *r)
{
    return r->size - r->pos;
}

static int reader_truncated(struct reader *r, const char *what)
{
    return err_set_at(r->err, EBADMSG, r->pos, "truncated file: it ends inside %s", what);
}

/* Takes the next @n bytes. The caller has checked that they are in the file. */
static int reader_take(struct reader *r, uint64_t n, const unsigned char **ret)
{
    const int rc = file_start_read(r->start, r->map, r->pos + n, r->err);

    if (rc < 0)
        return rc;
    *ret = r->start->data + r->pos;
    r->pos += n;
    return 0;
}

static int read_bytes(struct reader *r, void *ret, size_t n, const char *what)
{
    const unsigned char *data;
    int rc;

    if (reader_left(r) < n)
        return reader_truncated(r, what);
    rc = reader_take(r, n, &data);
    if (rc == 0)
        memcpy(ret, data, n);
    return rc;
}

static int read_string(struct reader *r, struct gguf_str *ret, const char *what)
{
    const unsigned char *data;
    uint64_t len = 0;
    int rc;

    rc = read_bytes(r, &len, sizeof(len), what);
    if (rc < 0)
        return rc;
    if (len > reader_left(r))
        return err_set_at(r->err, EBADMSG, r->pos - 8,
                          "%s: a string of %llu bytes, but %llu are left in the file", what,
                          (unsigned long long)len, (unsigned long long)reader_left(r));
    rc = reader_take(r, len, &data);
    if (rc == 0)
        *ret = (struct gguf_str){.data = (const char *)data, .len = len};
    return rc;
}

/* Reads a key or a tensor's name into a copy that ends with a NUL. */
static int read_name(struct reader *r, struct arena *arena, const char **ret, const char *what)
{
    const uint64_t at = r->pos;
    struct gguf_str s = {0};
    int rc;

    rc = read_string(r, &s, what);
    if (rc < 0)
        return rc;
    if (s.len == 0 || s.len > GGUF_MAX_NAME)
        return err_set_at(r->err, EBADMSG, at, "%s has %llu bytes", what,
                          (unsigned long long)s.len);
    if (memchr(s.data, 0, s.len))
        return err_set_at(r->err, EBADMSG, at, "%s contains a NUL byte", what);
    *ret = arena_strndup(arena, s.data, s.len);
    return *ret ? 0 : err_set(r->err, ENOMEM, "out of memory");
}

/* Returns the size of one value in bytes; 0 for types of variable length. */
static uint32_t scalar_size(enum gguf_type type)
{
    static const uint8_t sizes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,  [GGUF_I16] = 2,    [GGUF_U32] = 4,
        [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STRING] = 0, [GGUF_ARRAY] = 0,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };

    return sizes[type];
}

static int read_type(struct reader *r, const char *key, enum gguf_type *ret)
{
    uint32_t type = 0;
    int rc;

    rc = read_bytes(r, &type, sizeof(type), "a metadata value");
    if (rc < 0)
        return rc;
    if (type > GGUF_F64)
        return err_set_at(r->err, EBADMSG, r->pos - 4, "key %.64s has the unknown value type %u",
                          key, type);
    *ret = (enum gguf_type)type;
    return 0;
}

static int read_strings(struct reader *r, struct arena *arena, struct gguf_value *v)
{
    const uint64_t begin = r->pos;
    uint32_t *offsets;
    struct gguf_str text;
    int rc = reader_take(r, 0, &v->data);

    if (rc < 0)
        return rc;
    if (v->type == GGUF_STRING)
        return read_string(r, &text, v->key);
    if (v->n > reader_left(r) / 8 || v->n > GGUF_MAX_STRINGS - r->n_strings)
        return err_set_at(r->err, EBADMSG, r->pos, "key %.64s: %llu strings are too many", v->key,
                          (unsigned long long)v->n);
    offsets = arena_alloc(arena, (size_t)v->n * sizeof(*offsets));
    if (!offsets)
        return err_set(r->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < v->n; i++) {
        if (r->pos - begin > UINT32_MAX)
            return err_set_at(r->err, EBADMSG, r->pos, "key %.64s has more than 4 GiB of strings",
                              v->key);
        offsets[i] = (uint32_t)(r->pos - begin);
        rc = read_string(r, &text, v->key);
        if (rc < 0)
            return rc;
    }
    r->n_strings += v->n;
    v->offsets = offsets;
    return 0;
}

static int read_scalars(struct reader *r, struct gguf_value *v, enum gguf_type type)
{
    const uint32_t size = scalar_size(type);
    int rc;

    if (v->n > reader_left(r) / size || v->n > GGUF_MAX_SCALARS)
        return err_set_at(r->err, EBADMSG, r->pos,
                          "key %.64s: %llu values of %u bytes are too many", v->key,
                          (unsigned long long)v->n, size);
    rc = reader_take(r, v->n * size, &v->data);
    if (rc < 0)
        return rc;
    if (type == GGUF_BOOL)
        for (uint64_t i = 0; i < v->n; i++)
            if (v->data[i] > 1)
                return err_set_at(r->err, EBADMSG, r->pos - v->n + i, "key %.64s: a boolean is %u",
                                  v->key, v->data[i]);
    return 0;
}

static int read_value(struct reader *r, struct arena *arena, struct gguf_value *v)
{
    enum gguf_type type = GGUF_U8;
    int rc;

    rc = read_type(r, v->key, &type);
    if (rc < 0)
        return rc;
    v->type = type;
    v->elem = type;
    v->n = 1;
    if (type == GGUF_ARRAY) {
        rc = read_type(r, v->key, &type);
        if (rc < 0)
            return rc;
        if (type == GGUF_ARRAY)
            return err_set_at(r->err, EBADMSG, r->pos - 4,
                              "key %.64s: arrays of arrays are refused", v->key);
        v->elem = type;
        rc = read_bytes(r, &v->n, sizeof(v->n), "an array");
        if (rc < 0)
            return rc;
    }
    return type == GGUF_STRING ? read_strings(r, arena, v) : read_scalars(r, v, type);
}

static int read_values(struct reader *r, struct gguf *g, uint64_t n)
{
    int rc;

    /* The smallest pair has 14 bytes: 8 + 1 for the key, 4 for the type, 1 for the value. */
    if (n > reader_left(r) / 14 || n > GGUF_MAX_VALUES)
        return err_set_at(r->err, EBADMSG, 16, "%llu metadata pairs do not fit the file",
                          (unsigned long long)n);
    g->values = NEW(struct gguf_value, n);
    if (!g->values || map_reserve(&g->value_map, n) < 0)
        return err_set(r->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        struct gguf_value *v = &g->values[i];
        const uint64_t at = r->pos;

        rc = read_name(r, &g->arena, &v->key, "a metadata key");
        if (rc < 0)
            return rc;
        rc = read_value(r, &g->arena, v);
        if (rc < 0)
            return rc;
        rc = map_put(&g->value_map, v->key, strlen(v->key), i);
        if (rc < 0)
            return err_set(r->err, ENOMEM, "out of memory");
        if (rc == MAP_EXISTS)
            return err_set_at(r->err, EBADMSG, at, "key %.64s occurs twice", v->key);
        g->n_values++;
    }
    return 0;
}

static int set_type(struct reader *r, struct gguf *g, struct format_tensor *t, struct entry *e,
                    uint32_t id)
{
    const struct ggml_type *type = ggml_type(id);
    uint64_t n_blocks;

    if (!type) {
        char name[32];

        /* The type is newer than the table of types. Its size is unknown, which matters only if the
         * tensor is used. */
        snprintf(name, sizeof(name), "ggml type %u", id);
        t->type_name = arena_strndup(&g->arena, name, strlen(name));
        t->dtype = INF_DTYPE_INVALID;
        e->elem_align = 1;
        return t->type_name ? 0 : err_set(r->err, ENOMEM, "out of memory");
    }
    t->type_name = type->name;
    t->dtype = type->dtype;
    if (t->dims[0] % type->block_elems)
        return err_set_at(r->err, EBADMSG, e->at,
                          "tensor %.64s: rows of %llu are not whole blocks of %s", t->name,
                          (unsigned long long)t->dims[0], type->name);
    n_blocks = t->dims[0] / type->block_elems;
    for (uint32_t i = 1; i < t->n_dims; i++)
        if (!size_mul(n_blocks, t->dims[i], &n_blocks))
            return err_set_at(r->err, EBADMSG, e->at, "tensor %.64s: its size overflows", t->name);
    if (!size_mul(n_blocks, type->block_bytes, &t->size) || t->size > INT64_MAX)
        return err_set_at(r->err, EBADMSG, e->at, "tensor %.64s: its size overflows", t->name);
    e->elem_align = type->block_elems == 1 ? type->block_bytes : 2;
    return 0;
}

static int read_entry(struct reader *r, struct gguf *g, struct format_tensor *t, struct entry *e)
{
    uint64_t n_elems = 1;
    uint32_t type = 0;
    int rc;

    e->at = r->pos;
    rc = read_name(r, &g->arena, &t->name, "a tensor's name");
    if (rc < 0)
        return rc;
    t->file_name = t->name;
    rc = read_bytes(r, &t->n_dims, sizeof(t->n_dims), "the tensor directory");
    if (rc < 0)
        return rc;
    if (t->n_dims == 0 || t->n_dims > FORMAT_MAX_DIMS)
        return err_set_at(r->err, EBADMSG, r->pos - 4, "tensor %.64s has %u dimensions", t->name,
                          t->n_dims);
    for (uint32_t i = 0; i < FORMAT_MAX_DIMS; i++)
        t->dims[i] = 1;
    rc = read_bytes(r, t->dims, t->n_dims * sizeof(t->dims[0]), "the tensor directory");
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] == 0)
            return err_set_at(r->err, EBADMSG, e->at, "tensor %.64s has a dimension of 0", t->name);
        if (!size_mul(n_elems, t->dims[i], &n_elems) || n_elems > INT64_MAX)
            return err_set_at(r->err, EBADMSG, e->at, "tensor %.64s: its dimensions overflow",
                              t->name);
    }
    rc = read_bytes(r, &type, sizeof(type), "the tensor directory");
    if (rc < 0)
        return rc;
    rc = set_type(r, g, t, e, type);
    if (rc < 0)
        return rc;
    return read_bytes(r, &e->offset, sizeof(e->offset), "the tensor directory");
}

static int read_alignment(struct reader *r, const struct gguf *g, uint64_t *ret)
{
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    uint64_t align = 32;

    if (v && !gguf_u64(g, "general.alignment", &align))
        return err_set(r->err, EBADMSG, "general.alignment is not a number");
    if (align == 0 || (align & (align - 1)) || align > GGUF_MAX_ALIGN)
        return err_set(r->err, EBADMSG, "general.alignment is %llu, which is not a power of two",
                       (unsigned long long)align);
    *ret = align;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct format_tensor *const *x = a, *const *y = b;
    const uintptr_t p = (uintptr_t)(*x)->data, q = (uintptr_t)(*y)->data;

    return p < q ? -1 : p > q;
}

/* Refuses files in which tensors overlap: only malicious files have such tensors. */
static int check_overlap(struct reader *r, const struct gguf *g)
{
    _cleanup_free_ const struct format_tensor **order = NULL;
    const size_t n = g->n_tensors;

    order = NEW(const struct format_tensor *, n);
    if (!order)
        return err_set(r->err, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        order[i] = &g->tensors[i];
    qsort(order, n, sizeof(*order), by_address);
    for (size_t i = 1; i < n; i++)
        if ((uintptr_t)order[i - 1]->data + order[i - 1]->size > (uintptr_t)order[i]->data)
            return err_set(r->err, EBADMSG, "tensors %.64s and %.64s overlap", order[i - 1]->name,
                           order[i]->name);
    return 0;
}

/* Gives every tensor its place in the data section, which follows the directory. */
static int place_tensors(struct reader *r, struct gguf *g, const struct entry *entries)
{
    uint64_t align = 0, start, begin = 0, end = 0;
    int rc;

    rc = read_alignment(r, g, &align);
    if (rc < 0)
        return rc;
    start = ALIGN_UP(r->pos, align);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct format_tensor *t = &g->tensors[i];
        const struct entry *e = &entries[i];

        if (e->offset % align)
            return err_set_at(r->err, EBADMSG, e->at,
                              "tensor %.64s: offset %llu is not a multiple of the alignment %llu",
                              t->name, (unsigned long long)e->offset, (unsigned long long)align);
        if (!size_add(start, e->offset, &begin) || !size_add(begin, t->size, &end) || end > r->size)
            return err_set_at(r->err, EBADMSG, e->at,
                              "tensor %.64s: %llu bytes at offset %llu lie outside the file of "
                              "%llu bytes",
                              t->name, (unsigned long long)t->size, (unsigned long long)e->offset,
                              (unsigned long long)r->size);
        if (begin % e->elem_align)
            return err_set_at(r->err, EBADMSG, e->at,
                              "tensor %.64s: its data is not aligned to its elements", t->name);
        t->data = r->map->data + begin;
    }
    return check_overlap(r, g);
}

static int read_tensors(struct reader *r, struct gguf *g, uint64_t n)
{
    _cleanup_free_ struct entry *entries = NULL;
    int rc;

    /* The smallest entry has 33 bytes: 8 + 1 for the name, 4 for the rank, 8 for a dimension, 4 for
     * the type, 8 for the offset. */
    if (n > reader_left(r) / 33 || n > GGUF_MAX_VALUES)
        return err_set_at(r->err, EBADMSG, 8, "%llu tensors do not fit the file",
                          (unsigned long long)n);
    g->tensors = NEW(struct format_tensor, n);
    entries = NEW(struct entry, n);
    if (!g->tensors || !entries || map_reserve(&g->tensor_map, n) < 0)
        return err_set(r->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        struct format_tensor *t = &g->tensors[i];

        rc = read_entry(r, g, t, &entries[i]);
        if (rc < 0)
            return rc;
        rc = map_put(&g->tensor_map, t->name, strlen(t->name), i);
        if (rc < 0)
            return err_set(r->err, ENOMEM, "out of memory");
        if (rc == MAP_EXISTS)
            return err_set_at(r->err, EBADMSG, entries[i].at, "tensor %.64s occurs twice", t->name);
        g->n_tensors++;
    }
    return n > 0 ? place_tensors(r, g, entries) : 0;
}

static int read_header(struct reader *r, uint64_t *ret_n_tensors, uint64_t *ret_n_values)
{
    uint32_t version = 0;
    char magic[4] = {};
    int rc;

    rc = read_bytes(r, magic, sizeof(magic), "the header");
    if (rc < 0)
        return rc;
    if (memcmp(magic, "GGUF", 4) != 0)
        return err_set_at(r->err, EBADMSG, 0, "not a GGUF file: it does not start with \"GGUF\"");
    rc = read_bytes(r, &version, sizeof(version), "the header");
    if (rc < 0)
        return rc;
    if (version > 0xffff && (version & 0xffff) == 0)
        return err_set_at(r->err, EOPNOTSUPP, 4, "big-endian GGUF files are not supported");
    if (version != 2 && version != 3)
        return err_set_at(r->err, version == 1 ? EOPNOTSUPP : EBADMSG, 4,
                          "GGUF version %u is not supported; versions 2 and 3 are", version);
    rc = read_bytes(r, ret_n_tensors, sizeof(*ret_n_tensors), "the header");
    if (rc < 0)
        return rc;
    return read_bytes(r, ret_n_values, sizeof(*ret_n_values), "the header");
}

int gguf_parse_map(const struct file_map *map, struct gguf **ret_gguf, struct inf_err *reterr)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    struct reader r = {.map = map, .size = map->size, .err = reterr};
    uint64_t n_tensors = 0, n_values = 0;
    int rc;

    static_assert(sizeof(size_t) == 8, "files are mapped whole");
    g = NEW(struct gguf, 1);
    if (!g)
        return err_set(reterr, ENOMEM, "out of memory");
    r.start = &g->start;
    rc = read_header(&r, &n_tensors, &n_values);
    if (rc < 0)
        return rc;
    rc = read_values(&r, g, n_values);
    if (rc < 0)
        return rc;
    rc = read_tensors(&r, g, n_tensors);
    if (rc < 0)
        return rc;
    file_start_trim(&g->start, r.pos);
    *ret_gguf = STEAL(g);
    return 0;
}

int gguf_parse(const void *data, uint64_t size, struct gguf **ret_gguf, struct inf_err *reterr)
{
    return gguf_parse_map(&(struct file_map){.data = data, .size = size}, ret_gguf, reterr);
}

struct gguf *gguf_close(struct gguf *g)
{
    if (!g)
        return NULL;
    map_done(&g->value_map);
    map_done(&g->tensor_map);
    free(g->values);
    free(g->tensors);
    for (size_t i = 0; i < g->n_maps; i++)
        file_map_done(&g->maps[i]);
    free(g->maps);
    file_start_done(&g->start);
    arena_done(&g->arena);
    free(g);
    return NULL;
}
