/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the form of prepared rows for a format of weights, and prepares rows. */

#include "backend/cpu/matmul/matmul-prepared.h"

#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"

static bool is_float(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_F32 || dtype == INF_DTYPE_F16 || dtype == INF_DTYPE_BF16;
}

/* Returns whether the codes of a format stand for floats that no int8 can represent. */
static bool is_float_code(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_MXFP8 || dtype == INF_DTYPE_FP8;
}

static bool can_prepare(const struct matmul_ops *ops, enum matmul_act kind)
{
    switch (kind) {
    case MATMUL_ACT_F32:
        return true;
    case MATMUL_ACT_BF16:
        return ops->prepare_bf16 != NULL;
    case MATMUL_ACT_TWO:
        return ops->prepare_two != NULL;
    case MATMUL_ACT_I16:
        return ops->prepare_blocks != NULL;
    case MATMUL_ACT_APART:
        return ops->prepare_apart != NULL;
    case MATMUL_ACT_F16:
        return ops->prepare_f16 != NULL;
    case MATMUL_ACT_ROW8:
        return ops->prepare_row8 != NULL;
    default:
        return ops->prepare_q8 != NULL;
    }
}

const struct matmul_ops *matmul_find_preparer(const struct matmul_ops *ops, enum matmul_act kind)
{
    while (ops && !can_prepare(ops, kind))
        ops = ops->base;
    return ops;
}

enum matmul_act matmul_act_kind(const struct matmul_ops *ops, enum inf_dtype dtype)
{
    if (dtype == INF_DTYPE_BF16 && matmul_find_preparer(ops, MATMUL_ACT_BF16))
        return MATMUL_ACT_BF16;
    if (dtype == INF_DTYPE_F16 && matmul_find_preparer(ops, MATMUL_ACT_F16))
        return MATMUL_ACT_F16;
    if (dtype == INF_DTYPE_F16 && matmul_find_preparer(ops, MATMUL_ACT_APART))
        return MATMUL_ACT_APART;
    if (dtype == INF_DTYPE_BITNET)
        return MATMUL_ACT_ROW8;
    return is_float(dtype) || is_float_code(dtype) ? MATMUL_ACT_F32 : MATMUL_ACT_Q8;
}

size_t matmul_act_offset(enum matmul_act kind, uint32_t K)
{
    switch (kind) {
    case MATMUL_ACT_F32:
        return (size_t)K * sizeof(float);
    case MATMUL_ACT_BF16:
        return (size_t)K * sizeof(uint16_t);
    case MATMUL_ACT_TWO:
        return (size_t)DIV_UP(K, 32u) * sizeof(struct matmul_two);
    case MATMUL_ACT_I16:
    case MATMUL_ACT_APART:
        return (size_t)DIV_UP(K, MATMUL_BLOCK) * sizeof(struct matmul_i16);
    case MATMUL_ACT_F16:
        return (size_t)DIV_UP(K, 32u) * sizeof(struct matmul_f16);
    case MATMUL_ACT_ROW8:
        return matmul_row8_bytes(K) + sizeof(struct matmul_row8);
    default:
        return (size_t)K / 32 * sizeof(struct matmul_q8);
    }
}

size_t matmul_act_bytes(enum matmul_act kind, uint32_t K)
{
    const size_t bytes = ALIGN_UP(matmul_act_offset(kind, ALIGN_UP(K, 2u)), MATMUL_ALIGN);
    const bool many = kind == MATMUL_ACT_BF16 || kind == MATMUL_ACT_TWO || kind == MATMUL_ACT_I16 ||
                      kind == MATMUL_ACT_APART;

    /* Kernels load a cache line from each of many rows at the same time. If rows are an odd number
     * of lines apart, these lines do not compete for the same cache sets. */
    return many && bytes / MATMUL_ALIGN % 2 == 0 ? bytes + MATMUL_ALIGN : bytes;
}

void matmul_prepare(const struct matmul_ops *ops, enum matmul_act kind, const float *x, size_t ldx,
                    uint32_t K, uint32_t row0, uint32_t row1, void *dst)
{
    const size_t stride = matmul_act_bytes(kind, K);

    ops = matmul_find_preparer(ops, kind);
    for (uint32_t m = row0; m < row1; m++) {
        uint8_t *to = (uint8_t *)dst + m * stride;

        if (kind == MATMUL_ACT_F32)
            memcpy(to, x + m * ldx, K * sizeof(float));
        else if (kind == MATMUL_ACT_BF16)
            ops->prepare_bf16(x + m * ldx, K, (uint16_t *)to);
        else if (kind == MATMUL_ACT_TWO)
            ops->prepare_two(x + m * ldx, K, (struct matmul_two *)to);
        else if (kind == MATMUL_ACT_I16)
            ops->prepare_blocks(x + m * ldx, K, (struct matmul_i16 *)to);
        else if (kind == MATMUL_ACT_APART)
            ops->prepare_apart(x + m * ldx, K, (struct matmul_i16 *)to);
        else if (kind == MATMUL_ACT_F16)
            ops->prepare_f16(x + m * ldx, K, (struct matmul_f16 *)to);
        else if (kind == MATMUL_ACT_ROW8)
            ops->prepare_row8(x + m * ldx, K, (int8_t *)to,
                              (struct matmul_row8 *)(to + matmul_row8_bytes(K)));
        else
            ops->prepare_q8(x + m * ldx, K, (struct matmul_q8 *)to);
    }
}
