/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the tensors of a new directory, and divides them among shards.
 *
 * A shard is a safetensors file: the size of a JSON text in 8 bytes, the text, and the tensors
 * without gaps. Tensors with larger elements come first, so that each is aligned to its elements.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "convert/dir.h"
#include "core/err.h"
#include "format/json.h"
#include "quant/dtype.h"

/* mlx-lm begins another shard if the tensors of a shard would be larger than this. */
#define SHARD_BYTES ((uint64_t)5 << 30)

/* Adds a tensor to an entry. @end is put after the entry's name. The dimension that varies fastest
 * is the last of @shape; a 0 ends the list of dimensions. */
static int part_add(struct dir *d, struct dir_entry *e, const char *end, const char *type,
                    unsigned elem_bytes, const uint64_t shape[FORMAT_MAX_DIMS])
{
    struct dir_part *p = &e->parts[e->n_parts];
    char name[300];

    assert(e->n_parts < DIR_PARTS);
    snprintf(name, sizeof(name), "%s%s", e->name, end);
    *p = (struct dir_part){.name = arena_strndup(&d->arena, name, strlen(name)), .type = type};
    p->size = elem_bytes;
    while (p->n_dims < FORMAT_MAX_DIMS && shape[p->n_dims] > 0) {
        p->shape[p->n_dims] = shape[p->n_dims];
        if (!size_mul(p->size, shape[p->n_dims++], &p->size))
            return -EOVERFLOW;
    }
    e->n_parts++;
    return p->name ? 0 : -ENOMEM;
}

/* Adds a tensor with rows of @cols elements for each row of the matrices. */
static int part_add_rows(struct dir *d, struct dir_entry *e, const char *end, const char *type,
                         unsigned elem_bytes, uint64_t cols)
{
    uint64_t shape[FORMAT_MAX_DIMS] = {0};
    unsigned n = 0;

    if (e->w.n_experts > 0)
        shape[n++] = e->w.n_experts;
    if (e->w.rows > 1 || e->w.n_experts == 0)
        shape[n++] = e->w.rows;
    shape[n] = cols;
    return part_add(d, e, end, type, elem_bytes, shape);
}

static const char *plane_type_name(enum plane_type type)
{
    static const char *const names[PLANE_TYPES] = {"F32", "F16", "BF16", "U8", "U8"};

    return names[type];
}

static int plan_mlx(struct dir *d, struct dir_entry *e)
{
    const struct planes_info *info = dtype_info(e->to.dtype)->planes;
    const uint64_t n_groups = e->w.cols / e->to.group;
    int r;

    if (!info->affine)
        e->type = e->to.dtype == INF_DTYPE_NVFP4_PLANES ? PLANE_E4M3 : PLANE_E8M0;
    r = part_add_rows(d, e, ".weight", "U32", 4, (uint64_t)e->w.cols * info->bits / 32);
    if (r == 0)
        r = part_add_rows(d, e, ".scales", plane_type_name(e->type), plane_bytes(e->type),
                          n_groups);
    if (r == 0 && info->affine)
        r = part_add_rows(d, e, ".biases", plane_type_name(e->type), plane_bytes(e->type),
                          n_groups);
    return r;
}

/* Names the tensors of GPTQ and AWQ (quant/coded.h). */
static int plan_words(struct dir *d, struct dir_entry *e)
{
    const bool awq = d->type.layout == DIR_AWQ;
    const uint64_t rows = e->w.rows, cols = e->w.cols, bits = e->repack.bits;
    const uint64_t n_groups = cols / e->repack.group;
    int r;

    r = part_add(d, e, ".qweight", "I32", 4,
                 awq ? (const uint64_t[4]){cols, rows / 8}
                     : (const uint64_t[4]){cols * bits / 32, rows});
    if (r == 0)
        r = part_add(d, e, ".qzeros", "I32", 4, (const uint64_t[4]){n_groups, rows * bits / 32});
    if (r == 0)
        r = part_add(d, e, ".scales", "F16", 2, (const uint64_t[4]){n_groups, rows});
    if (r == 0 && !awq)
        r = part_add(d, e, ".g_idx", "I32", 4, (const uint64_t[4]){cols});
    return r;
}

/* Names a tensor that keeps its format. */
static int plan_raw(struct dir *d, struct dir_entry *e)
{
    const struct format_tensor *t = e->raw;
    uint64_t shape[FORMAT_MAX_DIMS] = {0};
    uint64_t n = 1;

    for (uint32_t i = 0; i < t->n_dims; i++) {
        shape[i] = t->dims[t->n_dims - 1 - i];
        n *= shape[i];
    }
    if (e->taps_last) {
        shape[1] = shape[2];
        shape[2] = 1;
    }
    return part_add(d, e, e->w.data ? ".weight" : "", t->type_name,
                    (unsigned)(t->size / MAX(n, 1u)), shape);
}

static int plan_entry(struct dir *d, struct dir_entry *e)
{
    const char *end = e->bare ? "" : ".weight";

    if (e->to.dtype != INF_DTYPE_INVALID)
        return plan_mlx(d, e);
    if (e->kept)
        return plan_words(d, e);
    if (e->raw)
        return plan_raw(d, e);
    if (e->vector)
        return part_add(d, e, end, dtype_info(e->floats)->label, dtype_info(e->floats)->block_bytes,
                        (const uint64_t[4]){e->w.cols});
    if (e->taps)
        return part_add(d, e, end, dtype_info(e->floats)->label, dtype_info(e->floats)->block_bytes,
                        (const uint64_t[4]){e->w.rows, e->w.cols, 1});
    return part_add_rows(d, e, end, dtype_info(e->floats)->label,
                         dtype_info(e->floats)->block_bytes, e->w.cols);
}

/* ---- shards ---- */

static uint64_t entry_bytes(const struct dir_entry *e)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < e->n_parts; i++)
        n += e->parts[i].size;
    return n;
}

static int plan_shards(struct dir *d)
{
    const uint64_t most = d->params->shard_bytes > 0 ? d->params->shard_bytes : SHARD_BYTES;
    uint64_t size = 0;

    d->shards = NEW(struct dir_shard, d->n);
    if (!d->shards)
        return -ENOMEM;
    for (size_t i = 0; i < d->n; i++) {
        const uint64_t n = entry_bytes(&d->entries[i]);

        if (d->n_shards == 0 || n > most || size > most - n) {
            d->shards[d->n_shards++].first = i;
            size = 0;
        }
        size += n;
        d->total_size += n;
        d->shards[d->n_shards - 1].n++;
        d->entries[i].shard = (uint32_t)(d->n_shards - 1);
    }
    for (size_t i = 0; i < d->n_shards; i++)
        if (d->n_shards == 1)
            snprintf(d->shards[i].name, sizeof(d->shards[i].name), "model.safetensors");
        else
            snprintf(d->shards[i].name, sizeof(d->shards[i].name),
                     "model-%05zu-of-%05zu.safetensors", i + 1, d->n_shards);
    return 0;
}

/* Returns the bytes of an element. */
static uint64_t part_elem(const struct dir_part *p)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < p->n_dims; i++)
        n *= p->shape[i];
    return n > 0 ? p->size / n : 0;
}

static json_t *part_json(const struct dir_part *p)
{
    json_t *shape = json_array();

    for (uint32_t i = 0; shape && i < p->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)p->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", p->type, "shape", shape, "data_offsets",
                     (json_int_t)p->offset, (json_int_t)(p->offset + p->size));
}

/* Gives the tensors of a shard their places, from the beginning of the data, and lists them. */
static json_t *shard_list(const struct dir *d, const struct dir_shard *s, uint64_t *ret_size)
{
    json_t *list =
        json_pack("{s:{s:s}}", "__metadata__", "format", d->type.layout == DIR_MLX ? "mlx" : "pt");
    uint64_t at = 0;

    for (unsigned elem = 8; list && elem > 0; elem /= 2)
        for (size_t i = s->first; i < s->first + s->n; i++)
            for (uint32_t j = 0; j < d->entries[i].n_parts; j++) {
                struct dir_part *p = &d->entries[i].parts[j];

                if (part_elem(p) != elem)
                    continue;
                p->offset = at;
                at += p->size;
                if (json_object_set_new(list, p->name, part_json(p)) < 0) {
                    json_decref(list);
                    return NULL;
                }
            }
    *ret_size = at;
    return list;
}

static int shard_header(struct dir *d, struct dir_shard *s)
{
    _cleanup_json_ json_t *list = shard_list(d, s, &s->total);
    _cleanup_free_ char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    const size_t n = text ? strlen(text) : 0;
    const uint64_t n_padded = (n + 7) / 8 * 8;

    s->header_size = 8 + n_padded;
    s->header = text ? malloc(s->header_size) : NULL;
    if (!s->header)
        return -ENOMEM;
    memcpy(s->header, &n_padded, 8); /* little-endian */
    memcpy(s->header + 8, text, n);
    memset(s->header + 8 + n, ' ', n_padded - n);
    s->total += s->header_size;
    for (size_t i = s->first; i < s->first + s->n; i++)
        for (uint32_t j = 0; j < d->entries[i].n_parts; j++)
            d->entries[i].parts[j].offset += s->header_size;
    return 0;
}

static int plan_index(struct dir *d)
{
    _cleanup_json_ json_t *map = json_object(), *index = NULL;
    uint64_t n_elems = 0;

    for (size_t i = 0; map && i < d->n; i++) {
        const struct dir_entry *e = &d->entries[i];
        const uint64_t elem = e->raw ? part_elem(&e->parts[0]) : 1;

        n_elems += e->w.data ? dir_rows(e) * e->w.cols : elem > 0 ? e->parts[0].size / elem : 0;
        for (uint32_t j = 0; j < e->n_parts; j++)
            json_object_set_new(map, e->parts[j].name, json_string(d->shards[e->shard].name));
    }
    index = json_pack("{s:{s:I, s:I}, s:O}", "metadata", "total_size", (json_int_t)d->total_size,
                      "total_parameters", (json_int_t)n_elems, "weight_map", map);
    d->index = index ? json_dumps(index, JSON_INDENT(4) | JSON_SORT_KEYS) : NULL;
    return d->index ? 0 : -ENOMEM;
}

int dir_plan(struct dir *d, struct inf_err *reterr)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < d->n; i++)
        r = plan_entry(d, &d->entries[i]);
    if (r == 0)
        r = plan_shards(d);
    for (size_t i = 0; r == 0 && i < d->n_shards; i++)
        r = shard_header(d, &d->shards[i]);
    if (r == 0)
        r = plan_index(d);
    return r == 0 ? 0
                  : err_set(reterr, -r,
                            r == -ENOMEM ? "out of memory" : "the new files would be too large");
}
