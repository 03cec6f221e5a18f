/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins weights to the blocks of joined.h that have floats as scales.
 *
 * These blocks are for weights whose scales do not fit any block of GGUF files.
 */
#include "backend/joined.h"

#include <string.h>

#include "quant/affine.h"
#include "quant/block.h"
#include "quant/dtype.h"

/* The parts of a block of 32 weights. */
struct wide {
    float d[2]; /* scales of the two halves */
    float m;
    uint8_t q[BLOCK_ELEMS];
};

/* The values of E2M1. */
static const float fp4_table[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

uint32_t joined_wide_bytes(enum inf_dtype dtype)
{
    switch (dtype) {
    case INF_DTYPE_MLX8:
        return 2 * sizeof(float) + BLOCK_ELEMS;
    case INF_DTYPE_MLX4:
    case INF_DTYPE_NF4:
        return 2 * sizeof(float) + BLOCK_ELEMS / 2;
    case INF_DTYPE_FP8:
        return sizeof(float) + BLOCK_ELEMS;
    default:
        return 0;
    }
}

const float *joined_table(const struct weight *w)
{
    return w->coded && w->coded->dtype == INF_DTYPE_NF4 ? w->coded->table : fp4_table;
}

static void wide_coded(const struct coded *c, uint32_t n, uint32_t k, struct wide *b)
{
    const uint32_t g = k / c->group;

    b->d[0] = coded_scale(c, n, g);
    b->d[1] = coded_scale(c, n, (k + BLOCK_ELEMS / 2) / c->group);
    b->m = coded_kind(c->dtype).has_zero ? -b->d[0] * (float)coded_zero(c, n, g) : 0;
    for (uint32_t i = 0; i < BLOCK_ELEMS; i++)
        b->q[i] = (uint8_t)coded_code(c, n, c->order ? c->order[k + i] : k + i);
}

static void wide_planes(const struct weight *w, const struct plane_row *row, uint32_t k,
                        struct wide *b)
{
    const unsigned bits = dtype_info(w->dtype)->planes->bits;

    for (unsigned i = 0; i < 2; i++)
        b->d[i] =
            plane_get(row->type, row->planes[WEIGHT_SCALES], (k + i * BLOCK_ELEMS / 2) / w->group);
    b->m = row->planes[WEIGHT_ZEROS] ? plane_get(row->type, row->planes[WEIGHT_ZEROS], k / w->group)
                                     : 0;
    for (uint32_t i = 0; i < BLOCK_ELEMS; i++)
        b->q[i] = (uint8_t)affine_code(row->codes, bits, k + i);
}

static uint8_t *put_float(uint8_t *dst, float x)
{
    memcpy(dst, &x, sizeof(x));
    return dst + sizeof(x);
}

static void put_block(enum inf_dtype dtype, const struct wide *b, uint8_t *dst)
{
    dst = put_float(dst, b->d[0]);
    if (dtype != INF_DTYPE_FP8)
        dst = put_float(dst, dtype == INF_DTYPE_NF4 ? b->d[1] : b->m);
    if (dtype == INF_DTYPE_FP8 || dtype == INF_DTYPE_MLX8) {
        memcpy(dst, b->q, sizeof(b->q));
        return;
    }
    for (unsigned i = 0; i < BLOCK_ELEMS / 2; i++)
        dst[i] = (uint8_t)(b->q[i] | b->q[i + BLOCK_ELEMS / 2] << 4);
}

void joined_wide_row(const struct weight *w, enum inf_dtype dtype, uint32_t i, uint8_t *dst)
{
    const uint32_t step = joined_wide_bytes(dtype);
    struct plane_row row = {0};
    struct wide b;

    if (!w->coded)
        row = weight_plane_row(w, i);
    for (uint32_t k = 0; k < w->cols; k += BLOCK_ELEMS, dst += step) {
        if (w->coded)
            wide_coded(w->coded, w->coded_first + i, k, &b);
        else
            wide_planes(w, &row, k, &b);
        put_block(dtype, &b, dst);
    }
}
