/* SPDX-License-Identifier: Apache-2.0 */
/* Gives access to the metadata pairs and tensors of a parsed GGUF file. The values are not
 * aligned. */
#include <string.h>

#include "format/gguf/types.h"

const struct file_map *gguf_file(const struct gguf *g, size_t i)
{
    return i < g->n_maps ? &g->maps[i] : NULL;
}

size_t gguf_n_values(const struct gguf *g)
{
    return g->n_values;
}

const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_values);
    return &g->values[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    uint64_t i;

    return map_find(&g->value_map, key, strlen(key), &i) ? &g->values[i] : NULL;
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct format_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_tensors);
    return &g->tensors[i];
}

static uint64_t load_element(const struct gguf_value *v, uint64_t i, size_t size)
{
    uint64_t x = 0;

    assert(i < v->n && v->data);
    memcpy(&x, v->data + i * size, size);
    return x;
}

struct gguf_str gguf_string_at(const struct gguf_value *v, uint64_t i)
{
    const unsigned char *p = v->data;
    struct gguf_str s;

    assert(i < v->n && v->elem == GGUF_STRING);
    if (v->offsets)
        p += v->offsets[i];
    memcpy(&s.len, p, sizeof(s.len));
    s.data = (const char *)p + sizeof(s.len);
    return s;
}

static double load_f32(const struct gguf_value *v, uint64_t i)
{
    float f;

    assert(i < v->n && v->data);
    memcpy(&f, v->data + i * sizeof(f), sizeof(f));
    return (double)f;
}

static double load_f64(const struct gguf_value *v, uint64_t i)
{
    double f;

    assert(i < v->n && v->data);
    memcpy(&f, v->data + i * sizeof(f), sizeof(f));
    return f;
}

/* Converts a double to an integer. A value outside the range of int64_t becomes the nearest bound,
 * and NaN becomes 0. */
static int64_t to_i64(double x)
{
    if (x >= 0x1p63)
        return INT64_MAX;
    if (x <= -0x1p63)
        return INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

int64_t gguf_elem_i64(const struct gguf_value *v, uint64_t i)
{
    switch (v->elem) {
    case GGUF_U8:
    case GGUF_BOOL:
        return (int64_t)load_element(v, i, 1);
    case GGUF_I8:
        return (int8_t)load_element(v, i, 1);
    case GGUF_U16:
        return (int64_t)load_element(v, i, 2);
    case GGUF_I16:
        return (int16_t)load_element(v, i, 2);
    case GGUF_U32:
        return (int64_t)load_element(v, i, 4);
    case GGUF_I32:
        return (int32_t)load_element(v, i, 4);
    case GGUF_U64:
    case GGUF_I64:
        return (int64_t)load_element(v, i, 8);
    case GGUF_F32:
        return to_i64(load_f32(v, i));
    case GGUF_F64:
        return to_i64(load_f64(v, i));
    case GGUF_STRING:
    case GGUF_ARRAY:
        break;
    }
    return 0;
}

double gguf_elem_f64(const struct gguf_value *v, uint64_t i)
{
    switch (v->elem) {
    case GGUF_F32:
        return load_f32(v, i);
    case GGUF_F64:
        return load_f64(v, i);
    case GGUF_U64:
        return (double)load_element(v, i, 8);
    default:
        return (double)gguf_elem_i64(v, i);
    }
}

static bool is_integer(enum gguf_type type)
{
    return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_BOOL && type != GGUF_STRING &&
           type != GGUF_ARRAY;
}

bool gguf_u64(const struct gguf *g, const char *key, uint64_t *ret)
{
    const struct gguf_value *v = gguf_find(g, key);
    int64_t x;

    if (!v || !is_integer(v->type))
        return false;
    x = gguf_elem_i64(v, 0);
    if (x < 0 && v->type != GGUF_U64)
        return false;
    *ret = (uint64_t)x;
    return true;
}

bool gguf_f64(const struct gguf *g, const char *key, double *ret)
{
    const struct gguf_value *v = gguf_find(g, key);

    if (!v || (!is_integer(v->type) && v->type != GGUF_F32 && v->type != GGUF_F64))
        return false;
    *ret = gguf_elem_f64(v, 0);
    return true;
}

bool gguf_bool(const struct gguf *g, const char *key, bool *ret)
{
    const struct gguf_value *v = gguf_find(g, key);

    if (!v || v->type != GGUF_BOOL)
        return false;
    *ret = v->data[0] != 0;
    return true;
}

bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *ret)
{
    const struct gguf_value *v = gguf_find(g, key);

    if (!v || v->type != GGUF_STRING)
        return false;
    *ret = gguf_string_at(v, 0);
    return true;
}
