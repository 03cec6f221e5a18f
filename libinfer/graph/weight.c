/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes rows of weights, with their planes. */
#include "graph/weight.h"

#include <assert.h>

#include "quant/affine.h"
#include "quant/bitnet.h"
#include "quant/dtype.h"

void weight_decode_row(const struct weight *w, uint32_t i, float *dst)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    const uint64_t row_bytes = (uint64_t)(w->cols / info->block_elems) * info->block_bytes;
    const uint8_t *row = (const uint8_t *)w->data + i * row_bytes;

    assert(i < w->rows);
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
