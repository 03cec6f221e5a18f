/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads importance matrices, and divides their sums by their counts.
 */
#include "convert/imatrix.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/file.h"
#include "core/map.h"
#include "core/text.h"
#include "format/gguf/gguf.h"

#define MAX_BYTES   ((size_t)1 << 30)
#define MAX_ENTRIES (1u << 20)
#define MAX_NAME    255u

struct imatrix {
    struct arena arena;
    struct map map;                /* maps a name to an index into entries */
    struct imatrix_entry *entries; /* [n] */
    size_t n, cap;
    uint32_t n_chunks;
    const char *dataset;
    uint8_t digest[SHA256_BYTES];
};

struct imatrix_entry {
    float *values;
    uint64_t n;
};

/* Adds an entry of @n numbers, which the caller fills in. */
static int imatrix_add(struct imatrix *m, const char *name, size_t len, uint64_t n,
                       float **ret_values, struct inf_err *reterr)
{
    struct imatrix_entry *e;
    const char *copy;
    int r;

    if (m->n >= m->cap)
        return err_set(reterr, EBADMSG, "there are more entries than the file says");
    e = &m->entries[m->n];
    copy = arena_strndup(&m->arena, name, len);
    e->values = arena_alloc(&m->arena, n * sizeof(float));
    e->n = n;
    if (!copy || !e->values)
        return err_set(reterr, ENOMEM, "out of memory");
    r = map_put(&m->map, copy, len, m->n);
    if (r == MAP_EXISTS)
        return err_set(reterr, EBADMSG, "the matrix %.64s occurs twice", copy);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    m->n++;
    *ret_values = e->values;
    return 0;
}

static int imatrix_reserve(struct imatrix *m, size_t n, struct inf_err *reterr)
{
    if (n == 0 || n > MAX_ENTRIES)
        return err_set(reterr, EBADMSG, "%zu is not a valid number of matrices", n);
    m->entries = NEW(struct imatrix_entry, n);
    m->cap = n;
    return m->entries && map_reserve(&m->map, n) == 0 ? 0
                                                      : err_set(reterr, ENOMEM, "out of memory");
}

static bool is_valid(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || x[i] < 0)
            return false;
    return true;
}

static const struct format_tensor *find_tensor(const struct gguf *g, const char *name, size_t len,
                                               const char *end)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct format_tensor *t = gguf_tensor_at(g, i);

        if (strncmp(t->name, name, len) == 0 && strcmp(t->name + len, end) == 0)
            return t;
    }
    return NULL;
}

/* Divides sums by counts: @n_cols sums for each of @n_counts counts. A matrix that was never used,
 * such as that of a rare expert, gets equal numbers. */
static void imatrix_divide(float *x, uint64_t n_cols, const float *counts, uint64_t n_counts)
{
    for (uint64_t j = 0; j < n_counts; j++) {
        const float count = roundf(counts[j]);

        for (uint64_t i = 0; i < n_cols; i++)
            x[j * n_cols + i] = count > 0 ? x[j * n_cols + i] / count : 1;
    }
}

/* Reads the entry whose sums are @t; @len is the length of its name without the end ".in_sum2". */
static int read_entry(struct imatrix *m, const struct gguf *g, const struct format_tensor *t,
                      size_t len, struct inf_err *reterr)
{
    const struct format_tensor *c = find_tensor(g, t->name, len, ".counts");
    const uint64_t n = t->size / sizeof(float);
    uint64_t n_counts;
    float *values;
    int r;

    if (!c)
        return err_set(reterr, EBADMSG, "the counts of %.64s are missing", t->name);
    n_counts = c->size / sizeof(float);
    if (t->dtype != INF_DTYPE_F32 || c->dtype != INF_DTYPE_F32 || n % n_counts != 0)
        return err_set(reterr, EBADMSG, "the sums %.64s do not fit their counts", t->name);
    r = imatrix_add(m, t->name, len, n, &values, reterr);
    if (r < 0)
        return r;
    memcpy(values, t->data, n * sizeof(float));
    if (!is_valid(c->data, n_counts))
        return err_set(reterr, EBADMSG, "a count of %.64s is not valid", t->name);
    imatrix_divide(values, n / n_counts, c->data, n_counts);
    return is_valid(values, n) ? 0
                               : err_set(reterr, EBADMSG, "a sum of %.64s is not valid", t->name);
}

static int read_gguf(struct imatrix *m, const struct gguf *g, struct inf_err *reterr)
{
    const struct gguf_value *datasets = gguf_find(g, "imatrix.datasets");
    uint64_t n_chunks = 0;
    struct gguf_str name;
    int r;

    if (!datasets || !gguf_find(g, "imatrix.chunk_size") ||
        !gguf_u64(g, "imatrix.chunk_count", &n_chunks))
        return err_set(reterr, EBADMSG, "the GGUF file is not an importance matrix");
    m->n_chunks = (uint32_t)MIN(n_chunks, UINT32_MAX);
    if (datasets->elem == GGUF_STRING && datasets->n > 0) {
        name = gguf_string_at(datasets, 0);
        m->dataset = arena_strndup(&m->arena, name.data, name.len);
        if (!m->dataset)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    r = imatrix_reserve(m, gguf_n_tensors(g), reterr);
    for (size_t i = 0; r == 0 && i < gguf_n_tensors(g); i++) {
        const struct format_tensor *t = gguf_tensor_at(g, i);

        if (text_ends_with(t->name, ".in_sum2"))
            r = read_entry(m, g, t, strlen(t->name) - strlen(".in_sum2"), reterr);
    }
    return r;
}

/* The part of a .dat file that is not read yet. The file begins with the number of entries. Each
 * entry has the length of its name, the name, the number of calls, the number of values, and the
 * values, which were added up over the calls. The number of chunks, and the length and the name of
 * the text, come after the entries. All numbers have 4 bytes. */
struct reader {
    const uint8_t *data;
    uint64_t left;
};

static bool reader_take(struct reader *r, uint64_t n, const void **ret)
{
    if (n > r->left)
        return false;
    *ret = r->data;
    r->data += n;
    r->left -= n;
    return true;
}

static bool reader_number(struct reader *r, uint32_t max, uint32_t *ret)
{
    const void *p;
    int32_t x;

    if (!reader_take(r, sizeof(x), &p))
        return false;
    memcpy(&x, p, sizeof(x));
    if (x < 0 || (uint32_t)x > max)
        return false;
    *ret = (uint32_t)x;
    return true;
}

static int read_dat_entry(struct imatrix *m, struct reader *r, uint32_t i, struct inf_err *reterr)
{
    uint32_t len, n_calls, n;
    const void *name, *data;
    float *values;
    int rc;

    if (!reader_number(r, MAX_NAME, &len) || !reader_take(r, len, &name) || memchr(name, 0, len) ||
        !reader_number(r, INT32_MAX, &n_calls) || !reader_number(r, INT32_MAX, &n) || n == 0 ||
        !reader_take(r, n * sizeof(float), &data))
        return err_set(reterr, EBADMSG, "not an importance matrix, or entry %u is damaged", i);
    rc = imatrix_add(m, name, len, n, &values, reterr);
    if (rc < 0)
        return rc;
    memcpy(values, data, n * sizeof(float));
    for (uint32_t j = 0; n_calls > 0 && j < n; j++)
        values[j] /= (float)n_calls;
    return is_valid(values, n) ? 0
                               : err_set(reterr, EBADMSG, "a number of entry %u is not valid", i);
}

static int read_dat(struct imatrix *m, struct reader r, struct inf_err *reterr)
{
    uint32_t n, len;
    const void *name;
    int rc;

    if (!reader_number(&r, MAX_ENTRIES, &n))
        return err_set(reterr, EBADMSG, "not an importance matrix");
    rc = imatrix_reserve(m, n, reterr);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = read_dat_entry(m, &r, i, reterr);
    if (rc < 0 || !reader_number(&r, INT32_MAX, &m->n_chunks))
        return rc;
    if (reader_number(&r, 4096, &len) && reader_take(&r, len, &name)) {
        m->dataset = arena_strndup(&m->arena, name, len);
        if (!m->dataset)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    return 0;
}

int imatrix_parse(const void *data, uint64_t size, struct imatrix **ret, struct inf_err *reterr)
{
    _cleanup_(imatrix_closep) struct imatrix *m = NEW(struct imatrix, 1);
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    struct sha256 h;
    int r;

    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->dataset = "";
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        r = gguf_parse(data, size, &g, reterr);
        if (r == 0)
            r = read_gguf(m, g, reterr);
    } else {
        r = read_dat(m, (struct reader){data, size}, reterr);
    }
    if (r == 0 && m->n == 0)
        r = err_set(reterr, EBADMSG, "there are no matrices");
    if (r < 0)
        return r;
    sha256_init(&h);
    sha256_add(&h, data, size);
    sha256_end(&h, m->digest);
    *ret = STEAL(m);
    return 0;
}

int imatrix_open(const char *path, struct imatrix **ret, struct inf_err *reterr)
{
    _cleanup_free_ char *data = NULL;
    size_t size;
    int r;

    r = file_read(path, MAX_BYTES, &data, &size, reterr);
    if (r < 0)
        return r;
    r = imatrix_parse(data, size, ret, reterr);
    if (r < 0)
        err_prefix(reterr, "%.96s", path_base(path));
    return r;
}

struct imatrix *imatrix_close(struct imatrix *m)
{
    if (!m)
        return NULL;
    map_done(&m->map);
    free(m->entries);
    arena_done(&m->arena);
    free(m);
    return NULL;
}

const float *imatrix_find(const struct imatrix *m, const char *name, uint64_t *ret_n)
{
    uint64_t i;

    if (!map_find(&m->map, name, strlen(name), &i))
        return NULL;
    *ret_n = m->entries[i].n;
    return m->entries[i].values;
}

size_t imatrix_n_entries(const struct imatrix *m)
{
    return m->n;
}

uint32_t imatrix_n_chunks(const struct imatrix *m)
{
    return m->n_chunks;
}

const char *imatrix_dataset(const struct imatrix *m)
{
    return m->dataset;
}

const uint8_t *imatrix_digest(const struct imatrix *m)
{
    return m->digest;
}
