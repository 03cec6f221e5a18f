/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the matrices of BitNet b1.58. A packed ternary matrix (quant/bitnet.h) is two tensors: the
 * bytes X.weight, and the number X.weight_scale. Ordinary weights become ternary when the model is
 * opened.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/bitnet.h"
#include "quant/dtype.h"

bool bind_is_ternary(const struct binder *b, const struct arch_slot *slot)
{
    return b->m->hp->ternary != TERNARY_NONE && !(slot->flags & (SLOT_WHOLE | SLOT_F32)) &&
           slot->rows != DIM_1;
}

/* Reads the number X.weight_scale of the matrix @t. */
static int ternary_scale(struct binder *b, const struct format_tensor *t, float *ret)
{
    const size_t n = strlen(t->name), n_end = strlen(".weight");
    const struct format_tensor *scale;
    char name[128];
    size_t i;

    if (n < n_end || strcmp(t->name + n - n_end, ".weight") != 0 ||
        snprintf(name, sizeof(name), "%s_scale", t->name) >= (int)sizeof(name))
        return err_set(b->err, EBADMSG, "tensor %.64s has codes but is not a weight", t->file_name);
    if (!format_find_index(b->m->f, name, &i))
        return err_set(b->err, EBADMSG, "the tensor %s is missing", name);
    scale = format_tensor_at(b->m->f, i);
    if (scale->dtype == INF_DTYPE_INVALID || dtype_info(scale->dtype)->block_elems != 1)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                       scale->file_name, scale->type_name);
    for (uint32_t j = 0; j < scale->n_dims; j++)
        if (scale->dims[j] != 1)
            return err_set(b->err, EBADMSG, "tensor %.64s is not one number", scale->file_name);
    b->bound[i] = true;
    dtype_info(scale->dtype)->decode(scale->data, ret, 1);
    return 0;
}

static float *ternary_factor(struct binder *b, float value)
{
    float *factor = arena_alloc(&b->m->arena, sizeof(*factor));

    if (factor)
        *factor = value;
    else
        err_set(b->err, ENOMEM, "out of memory");
    return factor;
}

static int ternary_packed(struct binder *b, const struct format_tensor *t, struct weight *w)
{
    const float *factor;
    float scale = 0;
    int r;

    if (strcmp(t->type_name, "U8") != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s is stored as %s, but config.json says that weights are packed "
                       "ternary (U8)",
                       t->file_name, t->type_name);
    if (t->n_dims != 2 || t->dims[0] != w->cols || t->dims[1] != w->rows / 4)
        return err_set(b->err, EBADMSG, "tensor %.64s is not %u rows of %u bytes", t->file_name,
                       w->rows / 4, w->cols);
    r = ternary_scale(b, t, &scale);
    if (r < 0)
        return r;
    if (b->m->hp->ternary == TERNARY_DIVIDED)
        scale = 1 / scale;
    if (!isfinite(scale))
        return err_set(b->err, EBADMSG, "tensor %.64s_scale is not a usable number", t->file_name);
    factor = ternary_factor(b, scale);
    w->data = t->data;
    w->planes[WEIGHT_SCALES] = factor;
    return factor ? 0 : -ENOMEM;
}

/* Returns the mean of the magnitudes of a tensor of @w's shape. @row is a buffer for one row. */
static double ternary_mean(const struct format_tensor *t, const struct weight *w,
                           uint64_t row_bytes, float *row)
{
    double sum = 0;

    for (uint32_t i = 0; i < w->rows; i++) {
        dtype_info(t->dtype)->decode((const char *)t->data + i * row_bytes, row, w->cols);
        for (uint32_t j = 0; j < w->cols; j++)
            sum += fabs((double)row[j]);
    }
    return sum / ((double)w->rows * w->cols);
}

/* Rounds a matrix as WeightQuant of transformers does: with the mean m of the magnitudes, a weight
 * w becomes -m, 0 or m, whichever is nearest. */
static int ternary_online(struct binder *b, const struct format_tensor *t, struct weight *w)
{
    const uint64_t n_codes = (uint64_t)(w->rows / 4) * w->cols;
    uint8_t *codes = arena_zalloc(&b->m->arena, n_codes);
    _cleanup_free_ float *row = NEW(float, w->cols);
    const float *factor;
    uint64_t row_bytes;
    float mean;

    if (!codes || !row)
        return err_set(b->err, ENOMEM, "out of memory");
    if (!dtype_row_bytes(t->dtype, w->cols, &row_bytes))
        return err_set(b->err, EBADMSG, "tensor %.64s has %u columns", t->file_name, w->cols);
    mean = fmaxf((float)ternary_mean(t, w, row_bytes, row), 1e-5f);
    for (uint32_t i = 0; i < w->rows; i++) {
        uint8_t *to = codes + (uint64_t)(i % (w->rows / 4)) * w->cols;
        const unsigned shift = 2 * (i / (w->rows / 4));

        dtype_info(t->dtype)->decode((const char *)t->data + i * row_bytes, row, w->cols);
        for (uint32_t j = 0; j < w->cols; j++) {
            const float q = rintf(row[j] * (1 / mean));

            to[j] |= (uint8_t)((q > 0 ? 2 : q < 0 ? 0 : 1) << shift);
        }
    }
    factor = ternary_factor(b, mean);
    w->data = codes;
    w->planes[WEIGHT_SCALES] = factor;
    return factor ? 0 : -ENOMEM;
}

int bind_ternary(struct binder *b, const struct format_tensor *t, uint32_t rows, uint32_t cols,
                 struct weight *ret)
{
    struct weight w = {.dtype = INF_DTYPE_BITNET,
                       .plane_type = PLANE_F32,
                       .rows = rows,
                       .cols = cols,
                       .name = t->name};
    int r;

    if (rows % 4 != 0 || cols % 4 != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s: %u x %u ternary weights are not supported, only multiples of "
                       "4",
                       t->file_name, rows, cols);
    if (b->m->hp->ternary == TERNARY_ONLINE)
        r = ternary_online(b, t, &w);
    else
        r = ternary_packed(b, t, &w);
    if (r == 0)
        *ret = w;
    return r;
}
