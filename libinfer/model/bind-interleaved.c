/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the experts of gpt-oss as Hugging Face stores them (transformers, models/gpt_oss).
 *
 * The matrices gate and up are one tensor, in which rows of gate and rows of up alternate. In MXFP4
 * (tensors …_blocks and …_scales) the matrices are used in place. In other formats the tensors are
 * transposed, [experts, inputs, outputs]; kernels cannot read them, so a copy of them is made when
 * the model is opened.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

/* A matrix of the experts of a layer, and its place in a tensor. */
struct interleaved {
    enum slot slot, bias;
    const char *name;     /* of the tensor, without ending */
    uint32_t rows, cols;  /* of the matrix */
    uint32_t first, step; /* row i of the matrix is row first + i × step of the tensor */
};

/* Finds a tensor of a layer, and marks it as bound. Returns NULL if the file does not have it. */
static const struct format_tensor *interleaved_find(struct binder *b, uint32_t i_layer,
                                                    const char *name, const char *end)
{
    char full[96];
    size_t i;

    snprintf(full, sizeof(full), "blk.%u.%s%s", i_layer, name, end);
    if (!format_find_index(b->m->f, full, &i))
        return NULL;
    b->bound[i] = true;
    return format_tensor_at(b->m->f, i);
}

/* Checks the dimensions of a tensor, up to the first 0 in @dims. The dimension whose index changes
 * fastest comes first. */
static int interleaved_check(struct binder *b, const struct format_tensor *t,
                             const uint64_t dims[FORMAT_MAX_DIMS])
{
    uint32_t n = 0;

    while (n < FORMAT_MAX_DIMS && dims[n] > 0)
        n++;
    if (t->n_dims == n && memcmp(t->dims, dims, n * sizeof(*dims)) == 0)
        return 0;
    return err_set(b->err, EBADMSG, "tensor %.64s has another shape than the experts of the model",
                   t->file_name);
}

/* Checks that the elements of a tensor are single numbers. */
static int interleaved_check_plain(struct binder *b, const struct format_tensor *t)
{
    if (t->dtype != INF_DTYPE_INVALID && dtype_info(t->dtype)->block_elems == 1)
        return 0;
    return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                   t->file_name, t->type_name);
}

/* Binds a matrix in MXFP4, whose blocks are the tensor @t. */
static int interleaved_planes(struct binder *b, uint32_t i_layer, const struct interleaved *x,
                              const struct format_tensor *t, struct weight *w)
{
    const struct format_tensor *scales = interleaved_find(b, i_layer, x->name, ".scales");
    const uint64_t n_rows = (uint64_t)x->rows * x->step;
    const uint32_t n_experts = b->m->hp->experts.n, n_blocks = x->cols / 32;
    int r;

    if (!scales)
        return err_set(b->err, EBADMSG, "tensor %.64s has no scales", t->file_name);
    if (strcmp(t->type_name, "U8") != 0 || strcmp(scales->type_name, "U8") != 0)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is not stored as bytes", t->file_name);
    if (x->cols % 32 != 0)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s: %u columns are not whole blocks",
                       t->file_name, x->cols);
    r = interleaved_check(b, t, (const uint64_t[]){16, n_blocks, n_rows, n_experts});
    if (r == 0)
        r = interleaved_check(b, scales, (const uint64_t[]){n_blocks, n_rows, n_experts, 0});
    if (r < 0)
        return r;
    w->dtype = INF_DTYPE_FP4_PLANES;
    w->group = 32;
    w->plane_type = PLANE_E8M0;
    w->row_step = x->step;
    w->expert_bytes = n_rows * n_blocks * 16;
    w->data = (const uint8_t *)t->data + (uint64_t)x->first * n_blocks * 16;
    w->planes[WEIGHT_SCALES] = (const uint8_t *)scales->data + (uint64_t)x->first * n_blocks;
    return 0;
}

/* Copies elements of @size bytes. Element (i, j) of the result, [n_rows, n_cols], is element
 * (first + i × step) of row j of @src, whose rows have @width elements. */
static void interleaved_transpose(const uint8_t *src, uint8_t *dst, const struct interleaved *x,
                                  uint64_t width, unsigned size)
{
    enum { TILE = 32 }; /* rows and columns that are in the cache together */

    for (uint32_t i0 = 0; i0 < x->rows; i0 += TILE)
        for (uint32_t j0 = 0; j0 < x->cols; j0 += TILE)
            for (uint32_t i = i0; i < MIN(i0 + TILE, x->rows); i++)
                for (uint32_t j = j0; j < MIN(j0 + TILE, x->cols); j++)
                    memcpy(dst + ((uint64_t)i * x->cols + j) * size,
                           src + (j * width + x->first + (uint64_t)i * x->step) * size, size);
}

/* Binds a copy of the transposed matrices that the tensor @t holds. */
static int interleaved_copy(struct binder *b, const struct interleaved *x,
                            const struct format_tensor *t, struct weight *w)
{
    const uint64_t width = (uint64_t)x->rows * x->step;
    const uint32_t n_experts = b->m->hp->experts.n;
    unsigned size;
    uint8_t *copy;
    int r;

    r = interleaved_check_plain(b, t);
    if (r == 0)
        r = interleaved_check(b, t, (const uint64_t[]){width, x->cols, n_experts, 0});
    if (r < 0)
        return r;
    size = dtype_info(t->dtype)->block_bytes;
    w->dtype = t->dtype;
    w->expert_bytes = (uint64_t)x->rows * x->cols * size;
    w->data = copy = arena_alloc(&b->m->arena, w->expert_bytes * n_experts);
    if (!copy)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint32_t e = 0; e < n_experts; e++)
        interleaved_transpose((const uint8_t *)t->data + e * width * x->cols * size,
                              copy + e * w->expert_bytes, x, width, size);
    return 0;
}

static int interleaved_bias(struct binder *b, uint32_t i_layer, const struct interleaved *x)
{
    const struct format_tensor *t = interleaved_find(b, i_layer, x->name, ".bias");
    struct weight w = {.rows = 1, .cols = x->rows, .n_experts = b->m->hp->experts.n};
    const uint64_t n = (uint64_t)w.n_experts * x->rows;
    uint8_t *copy;
    unsigned size;
    int r;

    if (!t)
        return err_set(b->err, EBADMSG, "the tensor blk.%u.%s.bias is missing", i_layer, x->name);
    r = interleaved_check_plain(b, t);
    if (r == 0)
        r = interleaved_check(b, t,
                              (const uint64_t[]){(uint64_t)x->rows * x->step, w.n_experts, 0, 0});
    if (r < 0)
        return r;
    size = dtype_info(t->dtype)->block_bytes;
    copy = arena_alloc(&b->m->arena, n * size);
    if (!copy)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < n; i++)
        memcpy(copy + i * size, (const uint8_t *)t->data + (x->first + i * x->step) * size, size);
    w.data = copy;
    w.dtype = t->dtype;
    w.expert_bytes = (uint64_t)x->rows * size;
    w.name = t->name;
    bind_put(b, i_layer, x->bias, &w);
    return 0;
}

static int interleaved_matrix(struct binder *b, uint32_t i_layer, const struct interleaved *x)
{
    const struct format_tensor *blocks = interleaved_find(b, i_layer, x->name, ".blocks");
    const struct format_tensor *t =
        blocks ? blocks : interleaved_find(b, i_layer, x->name, ".transposed");
    struct weight w = {.rows = x->rows, .cols = x->cols, .n_experts = b->m->hp->experts.n};
    int r;

    if (!t)
        return err_set(b->err, EBADMSG, "layer %u has no matrices of experts (%s)", i_layer,
                       x->name);
    w.name = t->name;
    r = blocks ? interleaved_planes(b, i_layer, x, t, &w) : interleaved_copy(b, x, t, &w);
    if (r == 0)
        bind_put(b, i_layer, x->slot, &w);
    return r;
}

int bind_interleaved(struct binder *b)
{
    const uint32_t ff = b->m->hp->experts.ff, n_embd = b->m->hp->n_embd;
    const struct interleaved all[] = {
        {SLOT_GATE_EXPERTS, SLOT_GATE_EXPERTS_BIAS, "ffn_gate_up_exps", ff, n_embd, 0, 2},
        {SLOT_UP_EXPERTS, SLOT_UP_EXPERTS_BIAS, "ffn_gate_up_exps", ff, n_embd, 1, 2},
        {SLOT_DOWN_EXPERTS, SLOT_DOWN_EXPERTS_BIAS, "ffn_down_exps", n_embd, ff, 0, 1},
    };
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->m->hp->n_layers; i++)
        for (size_t j = 0; r == 0 && j < ARRAY_SIZE(all); j++) {
            if (!layer_w(b->m, i, all[j].slot)->data)
                r = interleaved_matrix(b, i, &all[j]);
            if (r == 0 && !layer_w(b->m, i, all[j].bias)->data)
                r = interleaved_bias(b, i, &all[j]);
        }
    return r;
}
