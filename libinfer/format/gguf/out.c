/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the header of a GGUF file, and gives each tensor its place.
 */
#include "format/gguf/out.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "format/gguf/ggml-type.h"

#define VERSION 3u

static int out_fail(struct gguf_out *w, int r)
{
    if (r < 0 && w->failed == 0)
        w->failed = r;
    return w->failed;
}

/* Keeps a copy of a key or name, and refuses one that is in @seen already. */
static int out_claim(struct gguf_out *w, struct map *seen, const char *name)
{
    int r;

    if (ARRAY_GROW(w->owned, w->owned_cap, w->n_owned + 1) < 0)
        return -ENOMEM;
    w->owned[w->n_owned] = strdup(name);
    if (!w->owned[w->n_owned])
        return -ENOMEM;
    r = map_put(seen, w->owned[w->n_owned], strlen(name), 0);
    w->n_owned++;
    return r == MAP_EXISTS ? -EEXIST : r;
}

static int out_text(struct str *s, const char *text, uint64_t len)
{
    const int r = str_append(s, &len, sizeof(len));

    return r == 0 && len > 0 ? str_append(s, text, len) : r;
}

/* Begins a pair: writes its key and its type. */
static int out_key(struct gguf_out *w, const char *key, enum gguf_type type)
{
    const uint32_t id = type;
    int r = w->failed;

    if (r == 0)
        r = out_claim(w, &w->keys, key);
    if (r == 0)
        r = out_text(&w->pairs, key, strlen(key));
    if (r == 0)
        r = str_append(&w->pairs, &id, sizeof(id));
    if (r == 0)
        w->n_pairs++;
    return out_fail(w, r);
}

static int out_scalar(struct gguf_out *w, const char *key, enum gguf_type type, const void *data,
                      size_t size)
{
    const int r = out_key(w, key, type);

    return r == 0 ? out_fail(w, str_append(&w->pairs, data, size)) : r;
}

int gguf_out_u32(struct gguf_out *w, const char *key, uint32_t x)
{
    return out_scalar(w, key, GGUF_U32, &x, sizeof(x));
}

int gguf_out_f32(struct gguf_out *w, const char *key, float x)
{
    return out_scalar(w, key, GGUF_F32, &x, sizeof(x));
}

int gguf_out_bool(struct gguf_out *w, const char *key, bool x)
{
    const uint8_t byte = x;

    return out_scalar(w, key, GGUF_BOOL, &byte, sizeof(byte));
}

int gguf_out_string(struct gguf_out *w, const char *key, const char *text, uint64_t len)
{
    const int r = out_key(w, key, GGUF_STRING);

    return r == 0 ? out_fail(w, out_text(&w->pairs, text, len)) : r;
}

static uint64_t type_size(enum gguf_type type)
{
    static const uint8_t sizes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };

    return type < ARRAY_SIZE(sizes) ? sizes[type] : 0;
}

/* Begins an array of @n elements. */
static int out_array(struct gguf_out *w, const char *key, enum gguf_type elem, uint64_t n)
{
    const uint32_t id = elem;
    int r = out_key(w, key, GGUF_ARRAY);

    if (r == 0)
        r = str_append(&w->pairs, &id, sizeof(id));
    return r == 0 ? str_append(&w->pairs, &n, sizeof(n)) : r;
}

int gguf_out_array(struct gguf_out *w, const char *key, enum gguf_type elem, const void *data,
                   uint64_t n)
{
    uint64_t size;
    int r = out_array(w, key, elem, n);

    if (r == 0 && (type_size(elem) == 0 || !size_mul(n, type_size(elem), &size)))
        r = -EOVERFLOW;
    return out_fail(w, r == 0 && n > 0 ? str_append(&w->pairs, data, size) : r);
}

int gguf_out_strings(struct gguf_out *w, const char *key, const struct gguf_str *texts, uint64_t n)
{
    int r = out_array(w, key, GGUF_STRING, n);

    for (uint64_t i = 0; r == 0 && i < n; i++)
        r = out_text(&w->pairs, texts[i].data, texts[i].len);
    return out_fail(w, r);
}

int gguf_out_value(struct gguf_out *w, const struct gguf_value *value)
{
    struct gguf_str text;
    int r;

    if (value->elem != GGUF_STRING)
        return value->type == GGUF_ARRAY
                   ? gguf_out_array(w, value->key, value->elem, value->data, value->n)
                   : out_scalar(w, value->key, value->type, value->data, type_size(value->type));
    if (value->type == GGUF_STRING) {
        text = gguf_string_at(value, 0);
        return gguf_out_string(w, value->key, text.data, text.len);
    }
    r = out_array(w, value->key, GGUF_STRING, value->n);
    for (uint64_t i = 0; r == 0 && i < value->n; i++) {
        text = gguf_string_at(value, i);
        r = out_text(&w->pairs, text.data, text.len);
    }
    return out_fail(w, r);
}

/* Computes the bytes of a tensor. */
static int tensor_size(const uint64_t *dims, uint32_t n_dims, const struct ggml_type *type,
                       uint64_t *ret_size)
{
    uint64_t n = dims[0] / type->block_elems;

    if (dims[0] % type->block_elems != 0)
        return -EINVAL;
    for (uint32_t i = 1; i < n_dims; i++)
        if (!size_mul(n, dims[i], &n))
            return -EOVERFLOW;
    if (n == 0)
        return -EINVAL;
    return size_mul(n, type->block_bytes, ret_size) && *ret_size <= INT64_MAX / 2 ? 0 : -EOVERFLOW;
}

static int out_entry(struct gguf_out *w, const char *name, const uint64_t *dims, uint32_t n_dims,
                     uint32_t type)
{
    struct str *s = &w->directory;
    int r = out_text(s, name, strlen(name));

    if (r == 0)
        r = str_append(s, &n_dims, sizeof(n_dims));
    if (r == 0)
        r = str_append(s, dims, n_dims * sizeof(*dims));
    if (r == 0)
        r = str_append(s, &type, sizeof(type));
    return r == 0 ? str_append(s, &w->data_size, sizeof(w->data_size)) : r;
}

int gguf_out_tensor(struct gguf_out *w, const char *name, const uint64_t *dims, uint32_t n_dims,
                    uint32_t type)
{
    const struct ggml_type *info = ggml_type(type);
    struct gguf_place place = {.offset = w->data_size};
    uint64_t end = 0;
    int r = w->failed;

    assert(info && n_dims >= 1 && n_dims <= FORMAT_MAX_DIMS);
    if (r == 0)
        r = tensor_size(dims, n_dims, info, &place.size);
    if (r == 0 && (!size_add(place.offset, place.size, &end) || end > INT64_MAX / 2))
        r = -EOVERFLOW;
    if (r == 0)
        r = out_claim(w, &w->names, name);
    if (r == 0)
        r = ARRAY_GROW(w->places, w->places_cap, w->n_tensors + 1);
    if (r == 0)
        r = out_entry(w, name, dims, n_dims, type);
    if (r < 0)
        return out_fail(w, r);
    w->places[w->n_tensors++] = place;
    w->data_size = ALIGN_UP(end, (uint64_t)GGUF_ALIGNMENT);
    return 0;
}

int gguf_out_header(const struct gguf_out *w, char **ret_data, size_t *ret_size)
{
    const uint64_t n_tensors = w->n_tensors, n_pairs = w->n_pairs;
    const uint32_t version = VERSION;
    static const char zeros[GGUF_ALIGNMENT];
    _cleanup_str_ struct str s = {0};
    int r = w->failed;

    if (r == 0)
        r = str_append(&s, "GGUF", 4);
    if (r == 0)
        r = str_append(&s, &version, sizeof(version));
    if (r == 0)
        r = str_append(&s, &n_tensors, sizeof(n_tensors));
    if (r == 0)
        r = str_append(&s, &n_pairs, sizeof(n_pairs));
    if (r == 0 && w->pairs.len > 0)
        r = str_append(&s, w->pairs.data, w->pairs.len);
    if (r == 0 && w->directory.len > 0)
        r = str_append(&s, w->directory.data, w->directory.len);
    if (r == 0)
        r = str_append(&s, zeros, ALIGN_UP(s.len, GGUF_ALIGNMENT) - s.len);
    if (r < 0)
        return r;
    *ret_data = str_take(&s, ret_size);
    return *ret_data ? 0 : -ENOMEM;
}

void gguf_out_done(struct gguf_out *w)
{
    for (size_t i = 0; i < w->n_owned; i++)
        free(w->owned[i]);
    free(w->owned);
    free(w->places);
    map_done(&w->keys);
    map_done(&w->names);
    str_done(&w->pairs);
    str_done(&w->directory);
    *w = (struct gguf_out){0};
}
