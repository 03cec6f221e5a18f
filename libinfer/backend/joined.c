/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/joined.h"

#include <string.h>

#include "quant/affine.h"
#include "quant/dtype.h"
#include "quant/fp4-planes.h"

#define MLX2_COLS  128u /* weights of a block of MLX2 */
#define MLX2_BYTES 36u
#define Q4_1_COLS  32u

bool joined_layout(const struct weight *w, struct joined *ret)
{
    if (!w->planes[WEIGHT_SCALES])
        return false;
    if (w->coded) {
        ret->dtype = joined_coded_dtype(w->coded);
        return dtype_row_bytes(ret->dtype, w->cols, &ret->row_bytes);
    }
    switch (w->dtype) {
    case INF_DTYPE_BITNET:
        *ret = (struct joined){w->dtype, 4 * DIV_UP((uint64_t)w->cols, 16u)};
        return true;
    case INF_DTYPE_FP4_PLANES:
        *ret = (struct joined){INF_DTYPE_MXFP4,
                               (uint64_t)(w->cols / BLOCK_ELEMS) * sizeof(struct block_mxfp4)};
        return true;
    case INF_DTYPE_MLX2:
    case INF_DTYPE_MLX4:
        if (w->dtype == INF_DTYPE_MLX2 && w->group % MLX2_COLS == 0)
            *ret = (struct joined){w->dtype, (uint64_t)(w->cols / MLX2_COLS) * MLX2_BYTES};
        else
            *ret = (struct joined){INF_DTYPE_Q4_1,
                                   (uint64_t)(w->cols / Q4_1_COLS) * sizeof(struct block_q4_1)};
        return true;
    default:
        return false;
    }
}

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

static void join_mlx2(const uint8_t *codes, const uint8_t *scale, const uint8_t *offset,
                      uint8_t *dst)
{
    memcpy(dst, scale, 2);
    memcpy(dst + 2, offset, 2);
    for (uint32_t i = 0; i < MLX2_COLS / 16; i++) {
        const uint32_t word = transpose_codes(joined_load(codes + 4 * i));

        memcpy(dst + 4 + 4 * i, &word, sizeof(word));
    }
}

static unsigned code_at(const uint8_t *codes, unsigned bits, unsigned i)
{
    return codes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
}

static void join_q4_1(const uint8_t *codes, unsigned bits, const uint8_t *scale,
                      const uint8_t *offset, uint8_t *dst)
{
    memcpy(dst, scale, 2);
    memcpy(dst + 2, offset, 2);
    if (bits == 4) {
        fp4_planes_codes(codes, dst + 4);
        return;
    }
    for (unsigned i = 0; i < 16; i++)
        dst[4 + i] = (uint8_t)(code_at(codes, bits, i) | code_at(codes, bits, i + 16) << 4);
}

/* Joins row @i of an affine matrix to blocks of @cols columns. */
static void join_affine(const struct weight *w, uint32_t i, uint32_t cols, uint8_t *dst)
{
    const unsigned bits = dtype_info(w->dtype)->affine_bits;
    const uint8_t *codes = (const uint8_t *)w->data + (uint64_t)i * w->cols / 8 * bits;
    const uint64_t first = (uint64_t)i * (w->cols / w->group);

    for (uint32_t k = 0; k < w->cols; k += cols, codes += cols / 8 * bits) {
        const uint64_t at = 2 * (first + k / w->group);
        const uint8_t *scale = (const uint8_t *)w->planes[WEIGHT_SCALES] + at;
        const uint8_t *offset = (const uint8_t *)w->planes[WEIGHT_ZEROS] + at;

        if (cols == MLX2_COLS) {
            join_mlx2(codes, scale, offset, dst);
            dst += MLX2_BYTES;
        } else {
            join_q4_1(codes, bits, scale, offset, dst);
            dst += sizeof(struct block_q4_1);
        }
    }
}

static void join_row(const struct weight *w, enum inf_dtype dtype, uint32_t i, uint8_t *dst)
{
    const uint64_t n = (uint64_t)w->cols / BLOCK_ELEMS, row = i * (uint64_t)MAX(w->row_step, 1u);
    const uint32_t quarter = w->rows / 4;

    if (w->coded) {
        joined_coded_row(w->coded, dtype, w->coded_first + i, dst);
        return;
    }
    switch (w->dtype) {
    case INF_DTYPE_BITNET:
        join_ternary((const uint8_t *)w->data + (uint64_t)(i % quarter) * w->cols, i / quarter,
                     w->cols, dst);
        return;
    case INF_DTYPE_FP4_PLANES:
        fp4_planes_join((const uint8_t *)w->data + row * n * 16,
                        (const uint8_t *)w->planes[WEIGHT_SCALES] + row * n, n, dst);
        return;
    default:
        join_affine(w, i, dtype == INF_DTYPE_MLX2 ? MLX2_COLS : Q4_1_COLS, dst);
        return;
    }
}

void joined_rows(const struct weight *w, uint32_t first, uint32_t n, uint8_t *dst)
{
    struct joined j = {.row_bytes = 0};

    assert(first <= w->rows && n <= w->rows - first && w->n_experts == 0);
    if (!joined_layout(w, &j))
        return;
    for (uint32_t i = 0; i < n; i++, dst += j.row_bytes)
        join_row(w, j.dtype, first + i, dst);
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

float joined_factor(const struct weight *w)
{
    return w->dtype == INF_DTYPE_BITNET ? *(const float *)w->planes[WEIGHT_SCALES] : 1;
}
