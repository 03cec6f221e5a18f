/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the table of number formats, one row per format. A new format needs a row here, a layout
 * in block.h or block-iq.h, and its decode and encode functions.
 */

#include "quant/dtype.h"

#include "quant/block-iq.h"

/*       dtype  stem  label   elements and bytes of a block */
#define DTYPES(X)                                                                                  \
    X(F32, f32, "F32", 1, 4)                                                                       \
    X(F16, f16, "F16", 1, 2)                                                                       \
    X(BF16, bf16, "BF16", 1, 2)                                                                    \
    X(Q8_0, q8_0, "Q8_0", BLOCK_ELEMS, sizeof(struct block_q8_0))                                  \
    X(Q4_0, q4_0, "Q4_0", BLOCK_ELEMS, sizeof(struct block_q4_0))                                  \
    X(Q4_1, q4_1, "Q4_1", BLOCK_ELEMS, sizeof(struct block_q4_1))                                  \
    X(Q5_0, q5_0, "Q5_0", BLOCK_ELEMS, sizeof(struct block_q5_0))                                  \
    X(Q5_1, q5_1, "Q5_1", BLOCK_ELEMS, sizeof(struct block_q5_1))                                  \
    X(Q4_K, q4_k, "Q4_K", SUPER_ELEMS, sizeof(struct block_q4_k))                                  \
    X(Q5_K, q5_k, "Q5_K", SUPER_ELEMS, sizeof(struct block_q5_k))                                  \
    X(Q6_K, q6_k, "Q6_K", SUPER_ELEMS, sizeof(struct block_q6_k))                                  \
    X(MXFP4, mxfp4, "MXFP4", BLOCK_ELEMS, sizeof(struct block_mxfp4))                              \
    X(TQ2_0, tq2_0, "TQ2_0", SUPER_ELEMS, sizeof(struct block_tq2_0))                              \
    X(TQ1_0, tq1_0, "TQ1_0", SUPER_ELEMS, sizeof(struct block_tq1_0))

/* Formats whose encoders can weight columns. */
#define IQ_DTYPES(X)                                                                               \
    X(IQ2_XXS, iq2_xxs, "IQ2_XXS", SUPER_ELEMS, sizeof(struct block_iq2_xxs))                      \
    X(IQ2_XS, iq2_xs, "IQ2_XS", SUPER_ELEMS, sizeof(struct block_iq2_xs))                          \
    X(IQ2_S, iq2_s, "IQ2_S", SUPER_ELEMS, sizeof(struct block_iq2_s))                              \
    X(IQ3_XXS, iq3_xxs, "IQ3_XXS", SUPER_ELEMS, sizeof(struct block_iq3_xxs))                      \
    X(IQ3_S, iq3_s, "IQ3_S", SUPER_ELEMS, sizeof(struct block_iq3_s))                              \
    X(IQ1_S, iq1_s, "IQ1_S", SUPER_ELEMS, sizeof(struct block_iq1_s))                              \
    X(IQ1_M, iq1_m, "IQ1_M", SUPER_ELEMS, sizeof(struct block_iq1_m))

#define ROW(dtype, stem, label, elems, bytes)                                                      \
    [INF_DTYPE_##dtype] = {#stem, label, elems, bytes, 0, decode_##stem, encode_##stem},
#define IQ_ROW(dtype, stem, label, elems, bytes)                                                   \
    [INF_DTYPE_##dtype] = {#stem, label,         elems,         bytes,                             \
                           0,     decode_##stem, encode_##stem, encode_weighted_##stem},
static const struct dtype_info dtypes[] = {
    DTYPES(ROW) IQ_DTYPES(IQ_ROW)[INF_DTYPE_MLX2] = {"mlx2", "MLX2", BLOCK_ELEMS, BLOCK_ELEMS / 4,
                                                     2, NULL, NULL},
    [INF_DTYPE_BITNET] = {"bitnet", "BITNET", 4, 1, 0, NULL, NULL},
    [INF_DTYPE_FP4_PLANES] = {"fp4_planes", "MXFP4 (planes)", BLOCK_ELEMS, BLOCK_ELEMS / 2, 0, NULL,
                              NULL},
    [INF_DTYPE_MLX4] = {"mlx4", "MLX4", BLOCK_ELEMS, BLOCK_ELEMS / 2, 4, NULL, NULL},
};
#undef ROW
#undef IQ_ROW

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
