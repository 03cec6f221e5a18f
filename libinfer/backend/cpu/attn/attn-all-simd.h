/* SPDX-License-Identifier: Apache-2.0 */

/* Defines all attention kernels and their table. Include it after a simd-<isa>.h and a
 * simd-bf16….h. */

#include "backend/cpu/attn/attn-simd.h"

#include "backend/cpu/attn/attn-row-simd.h"

#include "backend/cpu/attn/attn-pack-simd.h"

#include "backend/cpu/attn/attn-q8-simd.h"

#include "backend/cpu/attn/attn-q8-values-simd.h"

#include "backend/cpu/attn/attn-fp8-simd.h"

#define ATTN_FNS(rung, flags) ATTN_FNS_WITH(rung, flags, scores_bf16, values_bf16)

/* Defines the table of an instruction set, with the given BF16 kernels for scores and values. */
#define ATTN_FNS_WITH(rung, flags, scores_pairs, values_pairs)                                     \
    {                                                                                              \
        .name = rung, .cpu_flags = flags,                                                          \
        .query = {query_float, query_float, query_bf16, query_q8, query_q4, query_float},          \
        .scores = {scores_f32, scores_f16, scores_pairs, scores_q8, scores_q4, scores_fp8},        \
        .values = {values_f32, values_f16, values_pairs, values_q8, values_q4, values_fp8},        \
        .softmax = softmax, .merge = merge, .quantise = quantise, .quantise_q4 = quantise_q4,      \
        .quantise_fp8 = quantise_fp8, .rotate = rotate,                                            \
    }
