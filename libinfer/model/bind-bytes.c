/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the 4-bit codes of bitsandbytes (functional.py, QuantState): bytes with two codes each, in
 * the order of the weights (X.weight); a scale for each block of weights (X.weight.absmax); and the
 * 16 values of the codes (X.weight.quant_map). A tensor X.weight.quant_state… is a JSON text with
 * the size of a block. If scales are codes themselves, they are decoded once, when the model is
 * opened.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "format/json.h"
#include "model/arch.h"
#include "quant/coded.h"

#define STATE_MAX 4096u

/* The settings of a tensor X.weight.quant_state…. */
struct state_4bit {
    uint32_t block, nested_block; /* weights that share a scale; codes of scales that share an outer
                                     scale, or 0 */
    float nested_offset;
};

static int state_count(struct binder *b, const json_t *x, const char *what, uint32_t *ret)
{
    if (!json_is_integer(x) || json_integer_value(x) <= 0 || json_integer_value(x) > 1 << 20)
        return err_set(b->err, EBADMSG, "quant_state: %s is not a count", what);
    *ret = (uint32_t)json_integer_value(x);
    return 0;
}

static int state_read(struct binder *b, const struct format_tensor *t, struct state_4bit *ret)
{
    _cleanup_json_ json_t *json = NULL;
    const json_t *nested;
    int r;

    if (strcmp(t->type_name, "U8") != 0 || t->size > STATE_MAX)
        return err_set(b->err, EBADMSG, "tensor %.96s is not a short text", t->file_name);
    r = json_text_parse(t->data, t->size, 0, "quant_state", &json, b->err);
    if (r == 0)
        r = state_count(b, json_object_get(json, "blocksize"), "blocksize", &ret->block);
    nested = json_object_get(json, "nested_blocksize");
    if (r < 0 || !nested)
        return r;
    ret->nested_offset = (float)json_number_value(json_object_get(json, "nested_offset"));
    return state_count(b, nested, "nested_blocksize", &ret->nested_block);
}

/* Finds a tensor of @n numbers of the type @type. */
static int bytes_need(struct binder *b, const char *name, const char *end, const char *type,
                      uint64_t n, const void **ret)
{
    const struct format_tensor *t = bind_coded_find(b, name, end);
    const unsigned size = strcmp(type, "U8") == 0 ? 1 : sizeof(float);

    if (!t)
        return err_set(b->err, EBADMSG, "the tensor %.64s%s is missing", name, end + 7);
    if (strcmp(t->type_name, type) != 0 || t->size != n * size)
        return err_set(b->err, EBADMSG, "tensor %.96s is not a list of %llu numbers (%s)",
                       t->file_name, (unsigned long long)n, type);
    *ret = t->data;
    return 0;
}

/* Decodes scales that are codes: scale i is map[code] × outer[i / block] + offset. */
static int bytes_nested(struct binder *b, const char *name, const struct state_4bit *s,
                        uint64_t n_scales, struct coded *c)
{
    const void *codes = NULL, *map = NULL, *outer = NULL;
    float *scales, entry, factor;
    int r;

    r = bytes_need(b, name, ".weight.absmax", "U8", n_scales, &codes);
    if (r == 0)
        r = bytes_need(b, name, ".weight.nested_quant_map", "F32", 256, &map);
    if (r == 0)
        r = bytes_need(b, name, ".weight.nested_absmax", "F32", DIV_UP(n_scales, s->nested_block),
                       &outer);
    if (r < 0)
        return r;
    c->scales = scales = arena_alloc(&b->m->arena, n_scales * sizeof(*scales));
    if (!scales)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < n_scales; i++) {
        memcpy(&entry, (const float *)map + ((const uint8_t *)codes)[i], sizeof(entry));
        memcpy(&factor, (const float *)outer + i / s->nested_block, sizeof(factor));
        scales[i] = entry * factor;
        scales[i] += s->nested_offset;
    }
    return 0;
}

/* Copies the values of the codes, so that kernels find them aligned. */
static int bytes_table(struct binder *b, const char *name, struct coded *c)
{
    const void *map = NULL;
    float *table;
    const int r = bytes_need(b, name, ".weight.quant_map", "F32", 16, &map);

    if (r < 0)
        return r;
    c->table = table = arena_alloc(&b->m->arena, 16 * sizeof(*table));
    if (!table)
        return err_set(b->err, ENOMEM, "out of memory");
    memcpy(table, map, 16 * sizeof(*table));
    for (unsigned i = 0; i < 16; i++)
        if (!isfinite(table[i]))
            return err_set(b->err, EBADMSG, "value %u of the codes of %.96s is not finite", i,
                           name);
    return 0;
}

int bind_coded_4bit(struct binder *b, const char *name, const struct format_tensor *t,
                    struct coded *c)
{
    const uint64_t n = (uint64_t)c->rows * c->cols;
    const struct format_tensor *state =
        bind_coded_find(b, name, ".weight.quant_state.bitsandbytes__nf4");
    struct state_4bit s = {.block = 0};
    int r;

    if (!state)
        state = bind_coded_find(b, name, ".weight.quant_state.bitsandbytes__fp4");
    if (!state)
        return err_set(b->err, EBADMSG, "tensor %.96s has no quant_state", t->file_name);
    if (strcmp(t->type_name, "U8") != 0 || t->size != n / 2)
        return err_set(b->err, EBADMSG, "tensor %.96s is not %llu bytes, for %u x %u codes",
                       t->file_name, (unsigned long long)(n / 2), c->rows, c->cols);
    r = state_read(b, state, &s);
    if (r < 0)
        return r;
    if (s.block % 16 != 0 || c->cols % s.block != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s: blocks of %u weights in rows of %u are not supported",
                       t->file_name, s.block, c->cols);
    c->dtype = INF_DTYPE_NF4;
    c->codes = t->data;
    c->group = s.block;
    r = bytes_table(b, name, c);
    if (r == 0 && s.nested_block > 0)
        r = bytes_nested(b, name, &s, n / s.block, c);
    else if (r == 0)
        r = bytes_need(b, name, ".weight.absmax", "F32", n / s.block, &c->scales);
    return r;
}
