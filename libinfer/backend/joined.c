/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/joined.h"

#include <string.h>

#include "core/half.h"
#include "quant/affine.h"
#include "quant/dtype.h"
#include "quant/fp4-planes.h"

#define MLX2_COLS  128u /* weights of a block of MLX2 */
#define MLX2_BYTES 36u

static uint32_t joined_load(const uint8_t *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Joins a row of a ternary matrix. Its codes are the bits 2t and 2t + 1 of @cols bytes. */
static void join_ternary(const uint8_t *codes, unsigned t, uint32_t cols, uint8_t *dst)
{
    for (uint32_t k = 0; k < cols; k += 16, dst += 4) {
        uint32_t word = 0;

        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = k + 4 * i;
            const uint32_t four =
                at < cols ? joined_load(codes + at) >> 2 * t & 0x03030303 : 0x01010101;

            word |= four << 2 * i;
        }
        memcpy(dst, &word, sizeof(word));
    }
}

/* Swaps the bits of @mask with those that are @shift places higher. */
static uint32_t swap_bits(uint32_t x, uint32_t mask, unsigned shift)
{
    const uint32_t t = (x >> shift ^ x) & mask;

    return x ^ t ^ t << shift;
}

/* Moves code 4i + j from bits 2j of byte i to bits 2i of byte j. */
static uint32_t transpose_codes(uint32_t x)
{
    x = swap_bits(x, 0x00c0300c, 6);
    x = swap_bits(x, 0x0000c030, 12);
    return swap_bits(x, 0x000000c0, 18);
}

static void join_mlx2(const uint8_t *codes, uint8_t *dst)
{
    for (uint32_t i = 0; i < MLX2_COLS / 16; i++) {
        const uint32_t word = transpose_codes(joined_load(codes + 4 * i));

        memcpy(dst + 4 * i, &word, sizeof(word));
    }
}

/* Writes the scale and the offset of group @group as F16, which can hold both exactly. */
static void join_halves(const struct plane_row *row, uint32_t group, uint8_t dst[4])
{
    for (enum weight_plane p = WEIGHT_SCALES; p <= WEIGHT_ZEROS; p++) {
        const uint16_t half = f16_from_f32(plane_get(row->type, row->planes[p], group));

        memcpy(dst + 2 * p, &half, sizeof(half));
    }
}

static void join_q4_1(const uint8_t *codes, unsigned bits, uint8_t *dst)
{
    if (bits == 4) {
        fp4_planes_codes(codes, dst);
        return;
    }
    for (unsigned i = 0; i < 16; i++)
        dst[i] = (uint8_t)(affine_code(codes, bits, i) | affine_code(codes, bits, i + 16) << 4);
}

static void join_q5_1(const uint8_t *codes, uint8_t *dst)
{
    uint32_t high = 0;

    for (unsigned i = 0; i < 32; i++)
        high |= (affine_code(codes, 5, i) >> 4) << i;
    memcpy(dst, &high, sizeof(high));
    for (unsigned i = 0; i < 16; i++)
        dst[4 + i] =
            (uint8_t)((affine_code(codes, 5, i) & 15) | (affine_code(codes, 5, i + 16) & 15) << 4);
}

static void join_affine(const struct weight *w, const struct plane_row *row, enum inf_dtype dtype,
                        uint8_t *dst)
{
    const unsigned bits = dtype_info(w->dtype)->planes->bits;
    const uint32_t cols = dtype == INF_DTYPE_MLX2 ? MLX2_COLS : BLOCK_ELEMS;
    const uint8_t *codes = row->codes;

    for (uint32_t k = 0; k < w->cols; k += cols, codes += cols / 8 * bits) {
        join_halves(row, k / w->group, dst);
        dst += 4;
        if (dtype == INF_DTYPE_MLX2)
            join_mlx2(codes, dst);
        else if (dtype == INF_DTYPE_Q4_1)
            join_q4_1(codes, bits, dst);
        else
            join_q5_1(codes, dst);
        dst += dtype == INF_DTYPE_MLX2   ? MLX2_BYTES - 4
               : dtype == INF_DTYPE_Q4_1 ? sizeof(struct block_q4_1) - 4
                                         : sizeof(struct block_q5_1) - 4;
    }
}

static void join_bitnet(const struct weight *w, const struct plane_row *row, enum inf_dtype dtype,
                        uint8_t *dst)
{
    (void)dtype;
    join_ternary(row->codes, row->place, w->cols, dst);
}

static void join_mxfp4(const struct weight *w, const struct plane_row *row, enum inf_dtype dtype,
                       uint8_t *dst)
{
    (void)dtype;
    fp4_planes_join(row->codes, row->planes[WEIGHT_SCALES], w->cols / BLOCK_ELEMS, dst);
}

/* Returns whether F16 can hold all scales and offsets of @w exactly. */
static bool halves_suffice(const struct weight *w)
{
    const uint64_t n = (uint64_t)w->rows * (w->cols / w->group);

    for (uint32_t e = 0; w->plane_type != PLANE_F16 && e < MAX(w->n_experts, 1u); e++) {
        const struct weight one = weight_of_expert(w, e);

        for (enum weight_plane p = WEIGHT_SCALES; p <= WEIGHT_ZEROS; p++)
            for (uint64_t i = 0; i < n; i++) {
                const float x = plane_get(w->plane_type, one.planes[p], i);

                if (f16_to_f32(f16_from_f32(x)) != x)
                    return false;
            }
    }
    return true;
}

static enum inf_dtype affine_dtype(const struct weight *w)
{
    const unsigned bits = dtype_info(w->dtype)->planes->bits;

    if (bits > 5 || !halves_suffice(w))
        return bits > 4 ? INF_DTYPE_MLX8 : INF_DTYPE_MLX4;
    if (w->dtype == INF_DTYPE_MLX2 && w->group % MLX2_COLS == 0)
        return INF_DTYPE_MLX2;
    return w->dtype == INF_DTYPE_MLX5 ? INF_DTYPE_Q5_1 : INF_DTYPE_Q4_1;
}

/* Says how each format is joined. If choose() is NULL, `dtype` is the format of the blocks. */
static const struct joiner {
    enum inf_dtype dtype;
    enum inf_dtype (*choose)(const struct weight *w);
    void (*join)(const struct weight *w, const struct plane_row *row, enum inf_dtype dtype,
                 uint8_t *dst);
} joiners[INF_DTYPE_N] = {
    [INF_DTYPE_BITNET] = {INF_DTYPE_BITNET, NULL, join_bitnet},
    [INF_DTYPE_FP4_PLANES] = {INF_DTYPE_MXFP4, NULL, join_mxfp4},
    [INF_DTYPE_MLX2] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MLX3] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MLX4] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MLX5] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MLX6] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MLX8] = {0, affine_dtype, join_affine},
    [INF_DTYPE_MXFP8] = {INF_DTYPE_FP8, NULL, NULL},
    [INF_DTYPE_NVFP4_PLANES] = {INF_DTYPE_NF4, NULL, NULL},
};

static uint64_t joined_row_bytes(enum inf_dtype dtype, uint32_t cols)
{
    uint64_t bytes = 0;

    if (dtype == INF_DTYPE_BITNET)
        return 4 * DIV_UP((uint64_t)cols, 16u);
    if (dtype == INF_DTYPE_MLX2)
        return (uint64_t)(cols / MLX2_COLS) * MLX2_BYTES;
    if (joined_wide_bytes(dtype) > 0)
        return (uint64_t)(cols / BLOCK_ELEMS) * joined_wide_bytes(dtype);
    return dtype_row_bytes(dtype, cols, &bytes) ? bytes : 0;
}

bool joined_layout(const struct weight *w, struct joined *ret)
{
    const struct joiner *j = &joiners[w->dtype];

    if (w->coded) {
        ret->dtype = joined_coded_dtype(w->coded, MAX(w->n_experts, 1u));
        ret->row_bytes = joined_row_bytes(ret->dtype, w->cols);
        return true;
    }
    if (!dtype_info(w->dtype)->planes || !w->planes[WEIGHT_SCALES])
        return false;
    ret->dtype = j->choose ? j->choose(w) : j->dtype;
    ret->row_bytes = joined_row_bytes(ret->dtype, w->cols);
    return true;
}

void joined_rows(const struct weight *w, enum inf_dtype dtype, uint32_t first, uint32_t n,
                 uint8_t *dst)
{
    const uint64_t row_bytes = joined_row_bytes(dtype, w->cols);

    assert(first <= w->rows && n <= w->rows - first && w->n_experts == 0);
    for (uint32_t i = first; i < first + n; i++, dst += row_bytes) {
        if (joined_wide_bytes(dtype) > 0) {
            joined_wide_row(w, dtype, i, dst);
            continue;
        }
        if (w->coded) {
            joined_coded_row(w->coded, dtype, w->coded_first + i, dst);
            continue;
        }
        const struct plane_row row = weight_plane_row(w, i);

        joiners[w->dtype].join(w, &row, dtype, dst);
    }
}

uint64_t joined_bytes(const struct weight *w)
{
    struct joined j;
    uint64_t bytes;

    if (!joined_layout(w, &j))
        return weight_bytes(w);
    if (!size_mul(j.row_bytes, w->rows, &bytes) || !size_mul(bytes, MAX(w->n_experts, 1u), &bytes))
        return UINT64_MAX;
    return bytes;
}

bool joined_same_table(const struct weight *a, const struct weight *b)
{
    struct joined x, y;

    return !joined_layout(a, &x) || !joined_layout(b, &y) || x.dtype != INF_DTYPE_NF4 ||
           y.dtype != INF_DTYPE_NF4 ||
           memcmp(joined_table(a), joined_table(b), JOINED_TABLE * sizeof(float)) == 0;
}

float joined_factor(const struct weight *w)
{
    return w->dtype == INF_DTYPE_BITNET ? plane_get(w->plane_type, w->planes[WEIGHT_SCALES], 0) : 1;
}
