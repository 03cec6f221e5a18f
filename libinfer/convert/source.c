/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the model that is converted, and decodes rows of its tensors.
 */
#include "convert/source.h"

#include <errno.h>
#include <string.h>

#include "convert/source-impl.h"
#include "core/err.h"
#include "core/text.h"
#include "format/gguf/ggml-type.h"
#include "model/model.h"

/* Orders tensors: those outside the layers come first, then the layers in their order. */
static int by_layer(const void *a, const void *b)
{
    const struct source_tensor *x = a, *y = b;
    const char *p = text_after(x->name, "blk."), *q = text_after(y->name, "blk.");
    const long i = p ? strtol(p, NULL, 10) : -1, j = q ? strtol(q, NULL, 10) : -1;

    return i != j ? (i < j ? -1 : 1) : strcmp(x->name, y->name);
}

int source_open(const char *path, struct source **ret, struct inf_err *reterr)
{
    _cleanup_(source_closep) struct source *s = NEW(struct source, 1);
    int r;

    if (!s)
        return err_set(reterr, ENOMEM, "out of memory");
    r = path_is_dir(path) ? source_open_model(s, path, reterr) : source_open_gguf(s, path, reterr);
    if (r < 0)
        return r;
    if (s->n == 0)
        return err_set(reterr, EBADMSG, "%.160s: there are no tensors", path_base(path));
    qsort(s->tensors, s->n, sizeof(*s->tensors), by_layer);
    *ret = STEAL(s);
    return 0;
}

struct source *source_close(struct source *s)
{
    if (!s)
        return NULL;
    free(s->tensors);
    gguf_close(s->gguf);
    model_close(s->model);
    format_close(s->format);
    free(s->meta);
    arena_done(&s->arena);
    free(s);
    return NULL;
}

size_t source_n(const struct source *s)
{
    return s->n;
}

const struct source_tensor *source_at(const struct source *s, size_t i)
{
    assert(i < s->n);
    return &s->tensors[i];
}

const struct file_map *source_file(const struct source *s, size_t i)
{
    return s->format ? format_file(s->format, i) : gguf_file(s->gguf, i);
}

const char *source_arch(const struct source *s)
{
    return s->arch;
}

bool source_number(const struct source *s, const char *key, uint64_t *ret)
{
    const struct gguf_value *v = gguf_find(s->gguf, key);

    if (!v || v->elem == GGUF_STRING || v->n == 0)
        return false;
    *ret = (uint64_t)MAX(gguf_elem_i64(v, 0), 0);
    return true;
}

int source_put_meta(const struct source *s, struct gguf_out *w)
{
    /* The first four keys describe the file, not the model. The caller adds the other keys with the
     * values of the new file. */
    static const char *const left_out[] = {
        "general.alignment",
        "split.no",
        "split.count",
        "split.tensors.count",
        "general.file_type",
        "general.quantization_version",
        "quantize.imatrix.file",
        "quantize.imatrix.dataset",
        "quantize.imatrix.entries_count",
        "quantize.imatrix.chunks_count",
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < gguf_n_values(s->gguf); i++) {
        const struct gguf_value *v = gguf_value_at(s->gguf, i);
        bool copied = true;

        for (size_t j = 0; j < ARRAY_SIZE(left_out); j++)
            copied = copied && strcmp(v->key, left_out[j]) != 0;
        if (copied)
            r = gguf_out_value(w, v);
    }
    return r;
}

void source_row(const struct source_tensor *t, uint64_t i, float *dst)
{
    const uint64_t n_rows = t->dims[1];
    const struct weight w = weight_of_expert(&t->w, (uint32_t)(i / n_rows));
    const uint32_t *columns = t->order.columns;
    uint32_t row = (uint32_t)(i % n_rows);

    row = t->order.rows ? t->order.rows[row] : row;
    if (row == SOURCE_ZEROS) {
        memset(dst, 0, t->dims[0] * sizeof(*dst));
        return;
    }
    weight_decode_row(&w, row, dst);
    for (uint32_t k = 0; columns && k < w.cols; k++) {
        const float x = dst[k];

        dst[k] = dst[columns[k]];
        dst[columns[k]] = x;
    }
}
