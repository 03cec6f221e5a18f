/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses safetensors files (github.com/huggingface/safetensors, README "Format").
 *
 * A file has three parts. The first 8 bytes are the length of the header, little-endian. The header
 * is a JSON object {name: {dtype, shape, data_offsets}} with an optional member "__metadata__". The
 * data of the tensors follow. The tensors must cover the data exactly, without overlap or gap, so
 * that the file has no hidden bytes. The header is parsed in private memory.
 *
 * mlx does not pad the header, so the data in its files can begin at any address. Tensors whose
 * elements are not aligned are copied, except the planes of quantized matrices, which are read byte
 * by byte (quant/planes.h). In quantized models, the other tensors are small.
 */
#include "format/hf/safetensors.h"

#include <errno.h>
#include <string.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/file.h"
#include "core/map.h"
#include "core/text.h"
#include "format/json.h"

#define ST_MAX_HEADER ((uint64_t)32 << 20)
#define ST_MAX_NAME   4096

struct safetensors {
    struct arena arena; /* names, and copies of data that were not aligned */
    struct format_tensor *tensors;
    size_t n_tensors;
    struct map map; /* maps a name to an index into the tensors */
    struct file_map file;
};

struct st_dtype {
    const char *name;
    uint32_t bits;
    enum inf_dtype dtype;
};

static const struct st_dtype dtypes[] = {
    {"F32", 32, INF_DTYPE_F32},        {"F16", 16, INF_DTYPE_F16},
    {"BF16", 16, INF_DTYPE_BF16},      {"F64", 64, INF_DTYPE_INVALID},
    {"I64", 64, INF_DTYPE_INVALID},    {"U64", 64, INF_DTYPE_INVALID},
    {"C64", 64, INF_DTYPE_INVALID},    {"I32", 32, INF_DTYPE_INVALID},
    {"U32", 32, INF_DTYPE_INVALID},    {"I16", 16, INF_DTYPE_INVALID},
    {"U16", 16, INF_DTYPE_INVALID},    {"I8", 8, INF_DTYPE_INVALID},
    {"U8", 8, INF_DTYPE_INVALID},      {"BOOL", 8, INF_DTYPE_INVALID},
    {"F8_E4M3", 8, INF_DTYPE_INVALID}, {"F8_E5M2", 8, INF_DTYPE_INVALID},
    {"F8_E8M0", 8, INF_DTYPE_INVALID}, {"F6_E2M3", 6, INF_DTYPE_INVALID},
    {"F6_E3M2", 6, INF_DTYPE_INVALID}, {"F4", 4, INF_DTYPE_INVALID},
};

static const struct st_dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

static bool get_offset(const json_t *array, size_t i, uint64_t *ret)
{
    const json_t *x = json_array_get(array, i);

    if (!json_is_integer(x) || json_integer_value(x) < 0)
        return false;
    *ret = (uint64_t)json_integer_value(x);
    return true;
}

/* Sets the dimensions of @t. In a file, the dimension that varies slowest comes first. If there are
 * more than FORMAT_MAX_DIMS dimensions, the slowest dimensions are multiplied into one. */
static int set_shape(struct format_tensor *t, const json_t *shape, uint64_t *ret_n,
                     struct inf_err *reterr)
{
    const size_t rank = json_array_size(shape);
    uint64_t n = 1, dim;

    if (!json_is_array(shape))
        return err_set(reterr, EBADMSG, "tensor %.64s has no shape", t->name);
    for (size_t i = 0; i < FORMAT_MAX_DIMS; i++)
        t->dims[i] = 1;
    t->n_dims = (uint32_t)MIN(MAX(rank, 1u), (size_t)FORMAT_MAX_DIMS);
    for (size_t i = 0; i < rank; i++) {
        if (!get_offset(shape, rank - 1 - i, &dim))
            return err_set(reterr, EBADMSG, "tensor %.64s: its shape is malformed", t->name);
        if (!size_mul(n, dim, &n) || n > INT64_MAX)
            return err_set(reterr, EBADMSG, "tensor %.64s: its dimensions overflow", t->name);
        if (i < FORMAT_MAX_DIMS)
            t->dims[i] = dim;
        else if (!size_mul(t->dims[FORMAT_MAX_DIMS - 1], dim, &t->dims[FORMAT_MAX_DIMS - 1]))
            return err_set(reterr, EBADMSG, "tensor %.64s: its dimensions overflow", t->name);
    }
    *ret_n = n;
    return 0;
}

static int set_entry(struct format_tensor *t, const json_t *entry, const unsigned char *data,
                     uint64_t size, struct inf_err *reterr)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const struct st_dtype *type = name ? find_dtype(name) : NULL;
    uint64_t n = 0, bits, begin, end;
    int r;

    if (!type)
        return err_set(reterr, EBADMSG, "tensor %.64s has the unknown dtype %.16s", t->name,
                       name ? name : "(none)");
    t->type_name = type->name;
    t->dtype = type->dtype;
    r = set_shape(t, json_object_get(entry, "shape"), &n, reterr);
    if (r < 0)
        return r;
    if (json_array_size(offsets) != 2 || !get_offset(offsets, 0, &begin) ||
        !get_offset(offsets, 1, &end))
        return err_set(reterr, EBADMSG, "tensor %.64s: its data_offsets are malformed", t->name);
    if (begin > end || end > size)
        return err_set(
            reterr, EBADMSG, "tensor %.64s: bytes %llu … %llu lie outside the data of %llu bytes",
            t->name, (unsigned long long)begin, (unsigned long long)end, (unsigned long long)size);
    if (!size_mul(n, type->bits, &bits) || bits % 8 || bits / 8 != end - begin)
        return err_set(reterr, EBADMSG, "tensor %.64s: %llu elements of %s do not take %llu bytes",
                       t->name, (unsigned long long)n, type->name,
                       (unsigned long long)(end - begin));
    t->data = data + begin;
    t->size = end - begin;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct format_tensor *const *x = a, *const *y = b;
    const uintptr_t p = (uintptr_t)(*x)->data, q = (uintptr_t)(*y)->data;

    if (p == q)
        return (*x)->size < (*y)->size ? -1 : (*x)->size > (*y)->size;
    return p < q ? -1 : 1;
}

/* Checks that each tensor begins where the previous tensor ends. */
static int check_cover(const struct safetensors *st, const unsigned char *data, uint64_t size,
                       struct inf_err *reterr)
{
    _cleanup_free_ const struct format_tensor **order = NULL;
    const unsigned char *at = data;

    order = NEW(const struct format_tensor *, st->n_tensors);
    if (!order)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < st->n_tensors; i++)
        order[i] = &st->tensors[i];
    qsort(order, st->n_tensors, sizeof(*order), by_address);
    for (size_t i = 0; i < st->n_tensors; i++) {
        if (order[i]->data != at)
            return err_set(reterr, EBADMSG, "tensor %.64s %s", order[i]->name,
                           (uintptr_t)order[i]->data < (uintptr_t)at
                               ? "overlaps another tensor"
                               : "comes after bytes that belong to no tensor");
        at += order[i]->size;
    }
    if (at != data + size)
        return err_set(reterr, EBADMSG, "%llu bytes at the end belong to no tensor",
                       (unsigned long long)(data + size - at));
    return 0;
}

/* Copies tensors whose elements are not aligned. */
static int align_tensors(struct safetensors *st, const struct file_map *map, struct inf_err *reterr)
{
    for (size_t i = 0; i < st->n_tensors; i++) {
        struct format_tensor *t = &st->tensors[i];
        const uint64_t at = (uint64_t)((const unsigned char *)t->data - map->data);
        void *copy;
        int r;

        if (t->dtype == INF_DTYPE_INVALID || t->size == 0 ||
            at % (t->dtype == INF_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t)) == 0 ||
            text_ends_with(t->name, ".scales") || text_ends_with(t->name, ".biases"))
            continue;
        copy = arena_alloc(&st->arena, t->size);
        if (!copy)
            return err_set(reterr, ENOMEM, "out of memory");
        r = file_map_read(map, at, copy, t->size, reterr);
        if (r < 0)
            return r;
        t->data = copy;
    }
    return 0;
}

static int read_entries(struct safetensors *st, json_t *header, const unsigned char *data,
                        uint64_t size, struct inf_err *reterr)
{
    const char *name;
    json_t *entry;
    int r;

    st->tensors = NEW(struct format_tensor, json_object_size(header));
    if (!st->tensors || map_reserve(&st->map, json_object_size(header)) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    json_object_foreach(header, name, entry)
    {
        struct format_tensor *t = &st->tensors[st->n_tensors];
        const size_t len = strlen(name);

        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (len == 0 || len > ST_MAX_NAME)
            return err_set(reterr, EBADMSG, "a tensor's name has %zu bytes", len);
        t->name = arena_strndup(&st->arena, name, len);
        if (!t->name)
            return err_set(reterr, ENOMEM, "out of memory");
        t->file_name = t->name;
        r = set_entry(t, entry, data, size, reterr);
        if (r < 0)
            return r;
        r = map_put(&st->map, t->name, len, st->n_tensors);
        if (r < 0)
            return err_set(reterr, ENOMEM, "out of memory");
        assert(r == 0); /* the JSON parser has refused duplicate names */
        st->n_tensors++;
    }
    return check_cover(st, data, size, reterr);
}

/* Reads the header, which begins at offset 8 and has *ret_len bytes. */
static int read_header(const struct file_map *map, json_t **ret_header, uint64_t *ret_len,
                       struct inf_err *reterr)
{
    _cleanup_(file_start_done) struct file_start start = {0};
    uint64_t len;
    int r;

    if (map->size < 8)
        return err_set_at(reterr, EBADMSG, map->size, "truncated file: it ends inside the header");
    r = file_start_read(&start, map, 8, reterr);
    if (r < 0)
        return r;
    memcpy(&len, start.data, 8);
    if (len > ST_MAX_HEADER)
        return err_set_at(reterr, EBADMSG, 0, "the header has %llu bytes; at most %llu are read",
                          (unsigned long long)len, (unsigned long long)ST_MAX_HEADER);
    if (len > map->size - 8)
        return err_set_at(reterr, EBADMSG, map->size, "truncated file: its header has %llu bytes",
                          (unsigned long long)len);
    r = file_start_read(&start, map, 8 + len, reterr);
    if (r == 0)
        r = json_text_parse((const char *)start.data + 8, len, 0, "header", ret_header, reterr);
    *ret_len = len;
    return r;
}

static int parse_map(const struct file_map *map, struct safetensors **ret_st,
                     struct inf_err *reterr)
{
    _cleanup_(safetensors_closep) struct safetensors *st = NULL;
    _cleanup_json_ json_t *header = NULL;
    uint64_t len = 0;
    int r;

    st = NEW(struct safetensors, 1);
    if (!st)
        return err_set(reterr, ENOMEM, "out of memory");
    r = read_header(map, &header, &len, reterr);
    if (r == 0)
        r = read_entries(st, header, map->data + 8 + len, map->size - 8 - len, reterr);
    if (r == 0)
        r = align_tensors(st, map, reterr);
    if (r < 0)
        return r;
    *ret_st = STEAL(st);
    return 0;
}

int safetensors_parse(const void *data, uint64_t size, struct safetensors **ret_st,
                      struct inf_err *reterr)
{
    return parse_map(&(struct file_map){.data = data, .size = size}, ret_st, reterr);
}

int safetensors_open(const char *path, struct safetensors **ret_st, struct inf_err *reterr)
{
    struct file_map file = {0};
    struct safetensors *st;
    int r;

    r = file_map_open(path, &file, reterr);
    if (r < 0)
        return r;
    r = parse_map(&file, &st, reterr);
    if (r < 0) {
        file_map_done(&file);
        err_prefix(reterr, "%.96s", path_base(path));
        return r;
    }
    st->file = file;
    *ret_st = st;
    return 0;
}

struct safetensors *safetensors_close(struct safetensors *st)
{
    if (!st)
        return NULL;
    map_done(&st->map);
    free(st->tensors);
    file_map_done(&st->file);
    arena_done(&st->arena);
    free(st);
    return NULL;
}

const struct file_map *safetensors_file(const struct safetensors *st)
{
    return &st->file;
}

size_t safetensors_n(const struct safetensors *st)
{
    return st->n_tensors;
}

const struct format_tensor *safetensors_at(const struct safetensors *st, size_t i)
{
    assert(i < st->n_tensors);
    return &st->tensors[i];
}

const struct format_tensor *safetensors_find(const struct safetensors *st, const char *name)
{
    uint64_t i;

    return map_find(&st->map, name, strlen(name), &i) ? &st->tensors[i] : NULL;
}
