/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and decodes rows of weights, with their planes (quant/planes.h). */
#include "graph/weight.h"

#include <assert.h>

#include "quant/dtype.h"

uint64_t weight_row_bytes(const struct weight *w)
{
    const struct dtype_info *info = dtype_info(w->dtype);

    return (uint64_t)(w->cols / info->block_elems) * info->block_bytes *
           (info->planes ? info->planes->places : 1);
}

uint64_t weight_plane_bytes(const struct weight *w, enum weight_plane plane)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;

    if (!info || !(info->needed & 1u << plane) || w->group == 0)
        return 0;
    return (uint64_t)(w->cols / w->group) * plane_bytes(w->plane_type);
}

struct plane_row weight_plane_row(const struct weight *w, uint32_t i)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;
    const uint32_t n_stored = w->rows / info->places;
    const uint64_t at = (uint64_t)(i % n_stored) * MAX(w->row_step, 1u);
    struct plane_row row = {.codes = (const uint8_t *)w->data + at * weight_row_bytes(w),
                            .type = w->plane_type,
                            .group = w->group,
                            .place = i / n_stored};

    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        if (w->planes[p])
            row.planes[p] = (const uint8_t *)w->planes[p] + at * weight_plane_bytes(w, p);
    return row;
}

void weight_decode_row(const struct weight *w, uint32_t i, float *dst)
{
    const struct dtype_info *info = dtype_info(w->dtype);

    assert(i < w->rows);
    if (w->coded) {
        coded_decode_row(w->coded, w->coded_first + i, dst);
        return;
    }
    if (info->planes) {
        const struct plane_row row = weight_plane_row(w, i);

        info->planes->decode(&row, dst, w->cols);
        return;
    }
    info->decode((const uint8_t *)w->data + i * weight_row_bytes(w), dst, w->cols);
}

/* Returns the bytes of the planes of one matrix. */
static uint64_t planes_bytes(const struct weight *w)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;
    uint64_t bytes = 0;

    if (w->coded)
        return coded_plane_bytes(w->coded) / w->coded->rows * w->rows;
    for (enum weight_plane p = 0; info && p < WEIGHT_PLANES; p++)
        if (info->needed & 1u << p)
            bytes += w->group > 0 ? w->rows * weight_plane_bytes(w, p) : plane_bytes(w->plane_type);
    return bytes;
}

uint64_t weight_bytes(const struct weight *w)
{
    uint64_t bytes = 0;

    if (!w->data)
        return 0;
    if (!dtype_row_bytes(w->dtype, w->cols, &bytes) || !size_mul(bytes, w->rows, &bytes) ||
        !size_add(bytes, planes_bytes(w), &bytes) ||
        !size_mul(bytes, MAX(w->n_experts, 1u), &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t weight_plane_expert_bytes(const struct weight *w, enum weight_plane plane)
{
    return w->expert_bytes / weight_row_bytes(w) * weight_plane_bytes(w, plane);
}

struct weight weight_of_expert(const struct weight *w, uint32_t i)
{
    struct weight one = *w;

    if (w->n_experts == 0)
        return one;
    one.data = weight_expert(w, i);
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        if (w->planes[p])
            one.planes[p] = (const uint8_t *)w->planes[p] + i * weight_plane_expert_bytes(w, p);
    if (w->coded) {
        one.coded = &w->coded[i];
        one.planes[WEIGHT_SCALES] = one.coded->scales;
    }
    one.n_experts = 0;
    one.experts = NULL;
    return one;
}
