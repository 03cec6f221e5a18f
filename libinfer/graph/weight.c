/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes rows of weights, with their planes: the arrays of scales and offsets that some number
 * formats have (weight.h). */
#include "graph/weight.h"

#include <assert.h>

#include "quant/affine.h"
#include "quant/bitnet.h"
#include "quant/dtype.h"
#include "quant/fp4-planes.h"

void weight_decode_row(const struct weight *w, uint32_t i, float *dst)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    const uint64_t row_bytes = (uint64_t)(w->cols / info->block_elems) * info->block_bytes;
    const uint64_t step = MAX(w->row_step, 1u);
    const uint8_t *row = (const uint8_t *)w->data + i * step * row_bytes;

    assert(i < w->rows);
    if (w->coded) {
        coded_decode_row(w->coded, w->coded_first + i, dst);
        return;
    }
    if (w->dtype == INF_DTYPE_FP4_PLANES) {
        fp4_planes_decode(row,
                          (const uint8_t *)w->planes[WEIGHT_SCALES] + i * step * (w->cols / 32),
                          dst, w->cols);
        return;
    }
    if (w->dtype == INF_DTYPE_BITNET) {
        const uint32_t quarter = w->rows / 4;

        bitnet_decode((const uint8_t *)w->data + (uint64_t)(i % quarter) * w->cols, i / quarter,
                      *(const float *)w->planes[WEIGHT_SCALES], dst, w->cols);
        return;
    }
    if (info->affine_bits > 0) {
        const uint64_t at = (uint64_t)i * (w->cols / w->group) * sizeof(uint16_t);

        affine_decode(info->affine_bits, row, (const uint8_t *)w->planes[WEIGHT_SCALES] + at,
                      (const uint8_t *)w->planes[WEIGHT_ZEROS] + at, w->group, dst, w->cols);
        return;
    }
    info->decode(row, dst, w->cols);
}

/* Returns the bytes of the planes of one matrix. */
static uint64_t plane_bytes(const struct weight *w)
{
    if (w->dtype == INF_DTYPE_BITNET)
        return sizeof(float);
    if (w->coded)
        return coded_plane_bytes(w->coded) / w->coded->rows * w->rows;
    if (w->group == 0)
        return 0;
    if (w->dtype == INF_DTYPE_FP4_PLANES)
        return (uint64_t)w->rows * (w->cols / w->group);
    return (uint64_t)w->rows * (w->cols / w->group) * 2 * sizeof(uint16_t);
}

uint64_t weight_bytes(const struct weight *w)
{
    uint64_t bytes = 0;

    if (!w->data)
        return 0;
    if (!dtype_row_bytes(w->dtype, w->cols, &bytes) || !size_mul(bytes, w->rows, &bytes) ||
        !size_add(bytes, plane_bytes(w), &bytes) || !size_mul(bytes, MAX(w->n_experts, 1u), &bytes))
        return UINT64_MAX;
    return bytes;
}

struct weight weight_of_expert(const struct weight *w, uint32_t i)
{
    struct weight one = *w;

    if (w->n_experts == 0)
        return one;
    one.data = weight_expert(w, i);
    if (w->coded)
        one.coded = &w->coded[i];
    if (w->dtype == INF_DTYPE_FP4_PLANES) /* a block has 16 bytes of codes and 1 of scales */
        one.planes[WEIGHT_SCALES] =
            (const uint8_t *)w->planes[WEIGHT_SCALES] + i * (w->expert_bytes / 16);
    one.n_experts = 0;
    one.experts = NULL;
    return one;
}
