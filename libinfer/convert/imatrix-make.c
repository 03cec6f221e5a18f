/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up squares while a model runs, and writes them as a GGUF file.
 */
#include "convert/imatrix-make.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/part.h"
#include "core/array.h"
#include "core/err.h"
#include "core/map.h"
#include "core/text.h"
#include "format/gguf/ggml-type.h"
#include "format/gguf/out.h"

struct entry {
    char *name;
    double *sums;     /* [n_matrices, n_cols] */
    uint64_t *counts; /* [n_matrices] */
    uint32_t n_cols, n_matrices;
};

struct imatrix_maker {
    struct product_watch watch;
    struct map map;        /* maps a name to an index into entries */
    struct entry *entries; /* [n] */
    size_t n, cap;
    bool head;
    int failed; /* 0 or a negative errno */
};

static int maker_add(struct imatrix_maker *m, const char *name, uint32_t n_matrices,
                     uint32_t n_cols)
{
    struct entry *e;

    if (ARRAY_GROW(m->entries, m->cap, m->n + 1) < 0)
        return -ENOMEM;
    e = &m->entries[m->n];
    *e = (struct entry){.n_cols = n_cols, .n_matrices = n_matrices};
    e->name = strdup(name);
    e->sums = NEW(double, (size_t)n_matrices *n_cols);
    e->counts = NEW(uint64_t, n_matrices);
    m->n++;
    if (!e->name || !e->sums || !e->counts)
        return -ENOMEM;
    return map_put(&m->map, e->name, strlen(e->name), m->n - 1);
}

static void maker_row(void *data, const char *name, uint32_t i_expert, uint32_t n_experts,
                      const float *x, uint32_t n)
{
    struct imatrix_maker *m = data;
    struct entry *e;
    uint64_t i;
    double *sums;

    if (m->failed < 0 ||
        !(text_starts_with(name, "blk.") || (m->head && strcmp(name, "output.weight") == 0)))
        return;
    if (!map_find(&m->map, name, strlen(name), &i)) {
        m->failed = maker_add(m, name, MAX(n_experts, 1u), n);
        if (m->failed < 0)
            return;
        i = m->n - 1;
    }
    e = &m->entries[i];
    assert(e->n_cols == n && i_expert < e->n_matrices);
    sums = e->sums + (size_t)i_expert * n;
    for (uint32_t j = 0; j < n; j++)
        sums[j] += (double)x[j] * (double)x[j];
    e->counts[i_expert]++;
}

int imatrix_maker_new(bool head, struct imatrix_maker **ret)
{
    struct imatrix_maker *m = NEW(struct imatrix_maker, 1);

    if (!m)
        return -ENOMEM;
    m->head = head;
    m->watch = (struct product_watch){maker_row, m};
    *ret = m;
    return 0;
}

struct imatrix_maker *imatrix_maker_free(struct imatrix_maker *m)
{
    if (!m)
        return NULL;
    map_done(&m->map);
    for (size_t i = 0; i < m->n; i++) {
        free(m->entries[i].name);
        free(m->entries[i].sums);
        free(m->entries[i].counts);
    }
    free(m->entries);
    free(m);
    return NULL;
}

const struct product_watch *imatrix_maker_watch(struct imatrix_maker *m)
{
    return &m->watch;
}

int imatrix_maker_check(const struct imatrix_maker *m)
{
    if (m->failed < 0)
        return m->failed;
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < (size_t)m->entries[i].n_matrices * m->entries[i].n_cols; j++)
            if (!(m->entries[i].sums[j] <= 3e38))
                return -EBADMSG;
    return 0;
}

size_t imatrix_maker_n(const struct imatrix_maker *m)
{
    return m->n;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static int put_header(struct gguf_out *w, const struct imatrix_save *how,
                      const struct entry *const *order, size_t n)
{
    const struct gguf_str dataset = {how->dataset, strlen(how->dataset)};
    char name[160];
    int r = 0;

    gguf_out_string(w, "general.type", "imatrix", 7);
    gguf_out_strings(w, "imatrix.datasets", &dataset, 1);
    gguf_out_u32(w, "imatrix.chunk_count", how->n_chunks);
    gguf_out_u32(w, "imatrix.chunk_size", how->chunk_size);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const uint64_t sums[] = {order[i]->n_cols, order[i]->n_matrices};
        const uint64_t counts[] = {1, order[i]->n_matrices};

        snprintf(name, sizeof(name), "%.128s.in_sum2", order[i]->name);
        gguf_out_tensor(w, name, sums, 2, GGML_TYPE_F32);
        snprintf(name, sizeof(name), "%.128s.counts", order[i]->name);
        r = gguf_out_tensor(w, name, counts, 2, GGML_TYPE_F32);
    }
    return r;
}

/* @places: the two tensors of the entry; the data of the file begin at @data. */
static int write_entry(struct part *p, uint64_t data, const struct gguf_place *places,
                       const struct entry *e, struct inf_err *reterr)
{
    const size_t n = (size_t)e->n_matrices * e->n_cols;
    _cleanup_free_ float *x = NEW(float, MAX(n, (size_t)e->n_matrices));
    int r;

    if (!x)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        x[i] = (float)e->sums[i];
    r = part_write(p, data + places[0].offset, x, places[0].size, reterr);
    for (uint32_t i = 0; i < e->n_matrices; i++)
        x[i] = (float)e->counts[i];
    return r == 0 ? part_write(p, data + places[1].offset, x, places[1].size, reterr) : r;
}

static int write_file(const struct imatrix_save *how, const struct gguf_out *w,
                      const struct entry *const *order, size_t n, struct inf_err *reterr)
{
    _cleanup_(part_closep) struct part *p = NULL;
    _cleanup_free_ char *header = NULL;
    struct part_params params = {.target = how->path, .replace = how->replace};
    uint64_t n_done;
    size_t size;
    int r;

    r = gguf_out_header(w, &header, &size);
    if (r < 0)
        return err_set(reterr, -r, "%s", strerror(-r));
    params.header = header;
    params.header_size = size;
    params.total = size + w->data_size;
    r = part_open(&params, &p, &n_done, reterr);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = write_entry(p, size, w->places + 2 * i, order[i], reterr);
    return r == 0 ? part_finish(p, reterr) : r;
}

int imatrix_maker_save(const struct imatrix_maker *m, const struct imatrix_save *how,
                       struct inf_err *reterr)
{
    _cleanup_free_ const struct entry **order = NEW(const struct entry *, m->n);
    struct gguf_out w = {0};
    int r;

    if (!order)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < m->n; i++)
        order[i] = &m->entries[i];
    qsort(order, m->n, sizeof(*order), by_name);
    r = put_header(&w, how, order, m->n);
    if (r < 0)
        err_set(reterr, -r, "%s", strerror(-r));
    if (r == 0)
        r = write_file(how, &w, order, m->n, reterr);
    gguf_out_done(&w);
    return r;
}
