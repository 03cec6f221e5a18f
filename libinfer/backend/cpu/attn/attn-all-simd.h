/* SPDX-License-Identifier: Apache-2.0 */

/* Defines all attention kernels and their table. Include it after a simd-<isa>.h and a
 * simd-bf16….h. */

#include "backend/cpu/attn/attn-simd.h"

#include "backend/cpu/attn/attn-half-simd.h"

#include "backend/cpu/attn/attn-row-simd.h"

#include "backend/cpu/attn/attn-pack-simd.h"

#include "backend/cpu/attn/attn-q8-simd.h"

#include "backend/cpu/attn/attn-q8-values-simd.h"

#include "backend/cpu/attn/attn-fp8-simd.h"

/* Defines the table of an instruction set. */
#define ATTN_FNS(rung, flags)                                                                      \
    ATTN_FNS_WITH(rung, flags, 0, query_float, scores_f16, values_f16, scores_bf16, values_bf16)

/* Defines a table with the given kernels for F16, and for the scores and values of BF16. */
#define ATTN_FNS_WITH(rung, flags, rows, query_half, scores_half, values_half, scores_pairs,       \
                      values_pairs)                                                                \
    {                                                                                              \
        .name = rung, .cpu_flags = flags, .task_rows = rows,                                       \
        .query = {query_float, query_half, query_bf16, query_q8, query_q4, query_float, query_q4}, \
        .scores = {scores_f32, scores_half, scores_pairs, scores_q8,                               \
                   scores_q4,  scores_fp8,  scores_q3},                                            \
        .values = {values_f32, values_half, values_pairs, values_q8,                               \
                   values_q4,  values_fp8,  values_q3},                                            \
        .softmax = softmax, .merge = merge, .quantise = quantise, .quantise_q4 = quantise_q4,      \
        .quantise_q3 = quantise_q3, .quantise_fp8 = quantise_fp8, .rotate = rotate,                \
    }
