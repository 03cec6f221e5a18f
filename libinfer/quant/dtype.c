/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the table of number formats, one row per format. A new format needs a row here, a layout
 * in block.h or block-iq.h, and its decode and encode functions. A format with planes needs a row
 * in PLANES, and a function that decodes a row (planes.h).
 */

#include "quant/dtype.h"

#include "quant/affine.h"
#include "quant/bitnet.h"
#include "quant/block-iq.h"
#include "quant/fp4-planes.h"

/* dtype, stem, label, elements and bytes of a block, the function that encodes by importance */
#define DTYPES(X)                                                                                  \
    X(F32, f32, "F32", 1, 4, NULL)                                                                 \
    X(F16, f16, "F16", 1, 2, NULL)                                                                 \
    X(BF16, bf16, "BF16", 1, 2, NULL)                                                              \
    X(Q8_0, q8_0, "Q8_0", BLOCK_ELEMS, sizeof(struct block_q8_0), NULL)                            \
    X(Q4_0, q4_0, "Q4_0", BLOCK_ELEMS, sizeof(struct block_q4_0), encode_q4_0_by)                  \
    X(Q4_1, q4_1, "Q4_1", BLOCK_ELEMS, sizeof(struct block_q4_1), encode_q4_1_by)                  \
    X(Q5_0, q5_0, "Q5_0", BLOCK_ELEMS, sizeof(struct block_q5_0), encode_q5_0_by)                  \
    X(Q5_1, q5_1, "Q5_1", BLOCK_ELEMS, sizeof(struct block_q5_1), encode_q5_1_by)                  \
    X(Q4_K, q4_k, "Q4_K", SUPER_ELEMS, sizeof(struct block_q4_k), encode_q4_k_by)                  \
    X(Q5_K, q5_k, "Q5_K", SUPER_ELEMS, sizeof(struct block_q5_k), encode_q5_k_by)                  \
    X(Q6_K, q6_k, "Q6_K", SUPER_ELEMS, sizeof(struct block_q6_k), encode_q6_k_by)                  \
    X(MXFP4, mxfp4, "MXFP4", BLOCK_ELEMS, sizeof(struct block_mxfp4), NULL)                        \
    X(TQ2_0, tq2_0, "TQ2_0", SUPER_ELEMS, sizeof(struct block_tq2_0), NULL)                        \
    X(TQ1_0, tq1_0, "TQ1_0", SUPER_ELEMS, sizeof(struct block_tq1_0), NULL)                        \
    X(Q2_K, q2_k, "Q2_K", SUPER_ELEMS, sizeof(struct block_q2_k), encode_q2_k_by)                  \
    X(Q3_K, q3_k, "Q3_K", SUPER_ELEMS, sizeof(struct block_q3_k), encode_q3_k_by)                  \
    X(IQ4_NL, iq4_nl, "IQ4_NL", BLOCK_ELEMS, sizeof(struct block_iq4_nl), encode_iq4_nl_by)        \
    X(IQ4_XS, iq4_xs, "IQ4_XS", SUPER_ELEMS, sizeof(struct block_iq4_xs), encode_iq4_xs_by)        \
    X(NVFP4, nvfp4, "NVFP4", BLOCK_NVFP4_ELEMS, sizeof(struct block_nvfp4), NULL)                  \
    X(Q1_0, q1_0, "Q1_0", BLOCK_Q1_0_ELEMS, sizeof(struct block_q1_0), NULL)                       \
    X(Q2_0, q2_0, "Q2_0", BLOCK_Q2_0_ELEMS, sizeof(struct block_q2_0), NULL)                       \
    X(IQ2_XXS, iq2_xxs, "IQ2_XXS", SUPER_ELEMS, sizeof(struct block_iq2_xxs), encode_iq2_xxs_by)   \
    X(IQ2_XS, iq2_xs, "IQ2_XS", SUPER_ELEMS, sizeof(struct block_iq2_xs), encode_iq2_xs_by)        \
    X(IQ2_S, iq2_s, "IQ2_S", SUPER_ELEMS, sizeof(struct block_iq2_s), encode_iq2_s_by)             \
    X(IQ3_XXS, iq3_xxs, "IQ3_XXS", SUPER_ELEMS, sizeof(struct block_iq3_xxs), encode_iq3_xxs_by)   \
    X(IQ3_S, iq3_s, "IQ3_S", SUPER_ELEMS, sizeof(struct block_iq3_s), encode_iq3_s_by)             \
    X(IQ1_S, iq1_s, "IQ1_S", SUPER_ELEMS, sizeof(struct block_iq1_s), encode_iq1_s_by)             \
    X(IQ1_M, iq1_m, "IQ1_M", SUPER_ELEMS, sizeof(struct block_iq1_m), encode_iq1_m_by)

/* Formats with planes: dtype, stem and label, elements and bytes of a block of codes, then members
 * of struct planes_info. */
#define SCALES (1u << WEIGHT_SCALES)
#define BOTH   (SCALES | 1u << WEIGHT_ZEROS)
#define HALVES (1u << PLANE_F32 | 1u << PLANE_F16 | 1u << PLANE_BF16)
#define MLX(bits_)                                                                                 \
    .bits = bits_, .places = 1, .needed = BOTH, .types = HALVES, .group = 32, .affine = true
#define FP(bits_, size, scale)                                                                     \
    .bits = bits_, .places = 1, .needed = SCALES, .types = 1u << PLANE_##scale, .group = size,     \
    .group_most = size
#define PLANES(X)                                                                                  \
    X(MLX2, "mlx2", "MLX2", 32, 8, affine_decode_2, MLX(2))                                        \
    X(MLX3, "mlx3", "MLX3", 32, 12, affine_decode_3, MLX(3))                                       \
    X(MLX4, "mlx4", "MLX4", 32, 16, affine_decode_4, MLX(4))                                       \
    X(MLX5, "mlx5", "MLX5", 32, 20, affine_decode_5, MLX(5))                                       \
    X(MLX6, "mlx6", "MLX6", 32, 24, affine_decode_6, MLX(6))                                       \
    X(MLX8, "mlx8", "MLX8", 32, 32, affine_decode_8, MLX(8))                                       \
    X(MXFP8, "mxfp8", "MXFP8", 32, 32, mxfp8_decode, FP(8, 32, E8M0))                              \
    X(NVFP4_PLANES, "nvfp4_planes", "NVFP4-planes", 32, 16, nvfp4_planes_decode, FP(4, 16, E4M3))  \
    X(FP4_PLANES, "fp4_planes", "MXFP4-planes", 32, 16, fp4_planes_decode_row, FP(4, 32, E8M0),    \
      .steps = true)                                                                               \
    X(BITNET, "bitnet", "BITNET", 4, 1, bitnet_decode_row, .bits = 2, .needed = SCALES,            \
      .types = 1u << PLANE_F32, .places = 4)

/* Coded matrices (quant/coded.h): dtype, stem and label, elements and bytes of a group of codes. */
#define CODED(X)                                                                                   \
    X(GPTQ2, "gptq2", "GPTQ2", 16, 4)                                                              \
    X(GPTQ3, "gptq3", "GPTQ3", 32, 12)                                                             \
    X(GPTQ4, "gptq4", "GPTQ4", 8, 4)                                                               \
    X(GPTQ8, "gptq8", "GPTQ8", 4, 4)                                                               \
    X(AWQ4, "awq4", "AWQ4", 8, 4)                                                                  \
    X(CT4, "ct4", "CT4", 8, 4)                                                                     \
    X(CT8, "ct8", "CT8", 4, 4)                                                                     \
    X(INT8, "int8", "INT8", 1, 1)                                                                  \
    X(FP8, "fp8", "FP8", 1, 1)                                                                     \
    X(NF4, "nf4", "NF4", 2, 1)                                                                     \
    X(CTFP4, "ctfp4", "CTFP4", 2, 1)

#define ROW(dtype, stem, label, elems, bytes, by)                                                  \
    [INF_DTYPE_##dtype] = {#stem, label, elems, bytes, decode_##stem, encode_##stem, by, NULL},
#define PLANES_INFO(dtype, stem, label, elems, bytes, fn, ...)                                     \
    static const struct planes_info planes_##dtype = {.decode = fn, __VA_ARGS__};
#define PLANES_ROW(dtype, stem, label, elems, bytes, ...)                                          \
    [INF_DTYPE_##dtype] = {stem, label, elems, bytes, NULL, NULL, NULL, &planes_##dtype},
#define CODED_ROW(dtype, stem, label, elems, bytes)                                                \
    [INF_DTYPE_##dtype] = {stem, label, elems, bytes, NULL, NULL, NULL, NULL},

PLANES(PLANES_INFO)
static const struct dtype_info dtypes[] = {DTYPES(ROW) PLANES(PLANES_ROW) CODED(CODED_ROW)};

static_assert(ARRAY_SIZE(dtypes) == INF_DTYPE_N, "a row for each format");

const struct dtype_info *dtype_info(enum inf_dtype dtype)
{
    return (unsigned)dtype < INF_DTYPE_N ? &dtypes[dtype] : NULL;
}

bool dtype_row_bytes(enum inf_dtype dtype, uint64_t n_elems, uint64_t *ret_bytes)
{
    const struct dtype_info *info = dtype_info(dtype);

    if (!info || n_elems % info->block_elems != 0)
        return false;
    return size_mul(n_elems / info->block_elems, info->block_bytes, ret_bytes);
}
