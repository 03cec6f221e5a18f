/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gguf_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "format/gguf/gguf.h"

enum { DEFAULT_VERSION = 3, DEFAULT_ALIGNMENT = 32 };

static void put(struct str *s, const void *data, size_t len)
{
    if (str_append(s, data, len) < 0)
        abort();
}

static void put_u32(struct str *s, uint32_t x)
{
    put(s, &x, sizeof(x));
}

static void put_u64(struct str *s, uint64_t x)
{
    put(s, &x, sizeof(x));
}

static void put_text(struct str *s, const char *text)
{
    put_u64(s, strlen(text));
    put(s, text, strlen(text));
}

void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *data,
                  size_t len)
{
    put_text(&w->values, key);
    put_u32(&w->values, type);
    put(&w->values, data, len);
    w->n_values++;
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t x)
{
    gguf_put_raw(w, key, GGUF_U32, &x, sizeof(x));
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float x)
{
    gguf_put_raw(w, key, GGUF_F32, &x, sizeof(x));
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool x)
{
    const uint8_t byte = x;

    gguf_put_raw(w, key, GGUF_BOOL, &byte, 1);
}

void gguf_put_string(struct gguf_writer *w, const char *key, const char *x)
{
    gguf_put_raw(w, key, GGUF_STRING, NULL, 0);
    put_text(&w->values, x);
}

static void put_array(struct gguf_writer *w, const char *key, uint32_t elem, const void *data,
                      size_t size, uint64_t n)
{
    gguf_put_raw(w, key, GGUF_ARRAY, &elem, sizeof(elem));
    put_u64(&w->values, n);
    put(&w->values, data, size * n);
}

void gguf_put_strings(struct gguf_writer *w, const char *key, const char *const *x, uint64_t n)
{
    put_array(w, key, GGUF_STRING, NULL, 0, n);
    for (uint64_t i = 0; i < n; i++)
        put_text(&w->values, x[i]);
}

void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *x, uint64_t n)
{
    put_array(w, key, GGUF_I32, x, sizeof(*x), n);
}

void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *x, uint64_t n)
{
    put_array(w, key, GGUF_F32, x, sizeof(*x), n);
}

void gguf_put_bools(struct gguf_writer *w, const char *key, const uint8_t *x, uint64_t n)
{
    put_array(w, key, GGUF_BOOL, x, sizeof(*x), n);
}

static uint64_t alignment(const struct gguf_writer *w)
{
    return w->alignment ? w->alignment : DEFAULT_ALIGNMENT;
}

static void pad(struct str *s, uint64_t align)
{
    while (s->len % align)
        put(s, "", 1);
}

void gguf_put_entry(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                    uint32_t n_dims, uint64_t offset)
{
    put_text(&w->tensors, name);
    put_u32(&w->tensors, n_dims);
    put(&w->tensors, dims, n_dims * sizeof(*dims));
    put_u32(&w->tensors, type);
    put_u64(&w->tensors, offset);
    w->n_tensors++;
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                     uint32_t n_dims, const void *data, size_t size)
{
    pad(&w->data, alignment(w));
    gguf_put_entry(w, name, type, dims, n_dims, w->data.len);
    put(&w->data, data, size);
}

char *gguf_writer_finish(struct gguf_writer *w, size_t *ret_len)
{
    struct str s = {0};

    put(&s, "GGUF", 4);
    put_u32(&s, w->version ? w->version : DEFAULT_VERSION);
    put_u64(&s, w->n_tensors);
    put_u64(&s, w->n_values);
    put(&s, w->values.data, w->values.len);
    put(&s, w->tensors.data, w->tensors.len);
    if (w->data.len > 0)
        pad(&s, alignment(w));
    put(&s, w->data.data, w->data.len);
    str_done(&w->values);
    str_done(&w->tensors);
    str_done(&w->data);
    *w = (struct gguf_writer){0};
    return str_take(&s, ret_len);
}

char *test_file_save(const void *data, size_t len)
{
    const char *dir = getenv("TMPDIR");
    char *path;
    FILE *f;
    int fd;

    if (asprintf(&path, "%s/sconce-test-XXXXXX", dir ? dir : "/tmp") < 0)
        abort();
    fd = mkstemp(path);
    f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
        abort();
    return path;
}

char *gguf_writer_save(struct gguf_writer *w)
{
    size_t len;
    char *data = gguf_writer_finish(w, &len), *path = test_file_save(data, len);

    free(data);
    return path;
}
