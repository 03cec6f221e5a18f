/* SPDX-License-Identifier: Apache-2.0 */

/* Packs weights in the order in which tiles and blocks of int16 are multiplied (matmul-tiles-amx.c,
 * matmul-blocks-simd.h). */

#include <math.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul.h"
#include "core/half.h"

const struct matmul_ops *matmul_packer(const struct matmul_ops *ops, enum inf_dtype dtype)
{
    while (ops && (dtype == INF_DTYPE_F16 ? !ops->blocks : !ops->tiles))
        ops = ops->base;
    return ops;
}

bool matmul_packs(const struct matmul_ops *ops, enum inf_dtype dtype)
{
    return (dtype == INF_DTYPE_F32 || dtype == INF_DTYPE_F16 || dtype == INF_DTYPE_BF16) &&
           matmul_packer(ops, dtype);
}

enum matmul_act matmul_packed_kind(enum inf_dtype dtype)
{
    if (dtype == INF_DTYPE_F16)
        return MATMUL_ACT_I16;
    return dtype == INF_DTYPE_F32 ? MATMUL_ACT_TWO : MATMUL_ACT_BF16;
}

size_t matmul_packed_bytes(enum inf_dtype dtype, uint32_t K)
{
    if (dtype == INF_DTYPE_F16)
        return DIV_UP(K, MATMUL_BLOCK) * sizeof(struct matmul_blocks) / MATMUL_N_STEP;
    return ALIGN_UP((size_t)K, 32u) * (dtype == INF_DTYPE_F32 ? 2 : 1) * sizeof(uint16_t);
}

/* Packs a row of W for tiles: [group][32 k][hi, lo][pair of k][row of the group][2]. */
static void pack_tiles(unsigned n_parts, const float *row, uint32_t n, uint32_t K,
                       uint16_t (*to)[16][MATMUL_N_STEP][2])
{
    for (uint32_t k = 0; k < K; k++) {
        const uint16_t hi = bf16_from_f32(row[k]);

        to[k / 32 * n_parts][k % 32 / 2][n][k % 2] = hi;
        if (n_parts == 2)
            to[k / 32 * 2 + 1][k % 32 / 2][n][k % 2] = bf16_from_f32(row[k] - bf16_to_f32(hi));
    }
}

static void pack_blocks(const float *row, uint32_t n, uint32_t K, struct matmul_blocks *to)
{
    for (uint32_t k = 0; k < K; k += MATMUL_BLOCK, to++) {
        const uint32_t kc = MIN(K - k, MATMUL_BLOCK);
        uint32_t most = 0;
        float inverse;

        for (uint32_t i = 0; i < kc; i++)
            most = MAX(most, half_bits_f32(row[k + i]) & 0x7fffffff);
        to->d[n] = matmul_block_scale(most, &inverse);
        for (uint32_t i = 0; inverse > 0 && i < kc; i++)
            to->q[i / 2][n][i % 2] = (int16_t)rintf(row[k + i] * inverse);
    }
}

void matmul_pack(enum inf_dtype dtype, const float *row, uint32_t n, uint32_t K, void *dst)
{
    void *group =
        (uint8_t *)dst + n / MATMUL_N_STEP * MATMUL_N_STEP * matmul_packed_bytes(dtype, K);

    n %= MATMUL_N_STEP;
    if (dtype == INF_DTYPE_F16)
        pack_blocks(row, n, K, group);
    else
        pack_tiles(dtype == INF_DTYPE_F32 ? 2 : 1, row, n, K, group);
}
