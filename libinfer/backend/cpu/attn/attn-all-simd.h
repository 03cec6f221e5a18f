/* SPDX-License-Identifier: Apache-2.0 */

/* Defines all attention kernels and their table. Include it after a simd-<isa>.h and a
 * simd-bf16….h. */

#include "backend/cpu/attn/attn-simd.h"

#include "backend/cpu/attn/attn-half-simd.h"

#include "backend/cpu/attn/attn-row-simd.h"

#include "backend/cpu/attn/attn-pack-simd.h"

#include "backend/cpu/attn/attn-codes-simd.h"

#include "backend/cpu/attn/attn-q8-simd.h"

#include "backend/cpu/attn/attn-q8-values-simd.h"

#include "backend/cpu/attn/attn-fp8-simd.h"

#include "backend/cpu/attn/attn-rows-simd.h"

/* Defines the table of an instruction set. */
#define ATTN_FNS(rung, flags)                                                                      \
    ATTN_FNS_WITH(rung, flags, 0, query_float, scores_f16, values_f16, scores_bf16, values_bf16)

/* Defines a table with the given kernels for F16, and for the scores and values of BF16. */
#define ATTN_FNS_WITH(rung, flags, rows, query_half, scores_half, values_half, scores_pairs,       \
                      values_pairs)                                                                \
    {                                                                                              \
        .name = rung, .cpu_flags = flags, .task_rows = rows,                                       \
        .query = {[CODEC_F32] = query_float,                                                       \
                  [CODEC_F16] = query_half,                                                        \
                  [CODEC_BF16] = query_bf16,                                                       \
                  [CODEC_FP8] = query_float,                                                       \
                  ATTN_OF_CODES(query_q8, query_rotated, query_signed, query_residual,             \
                                query_float)},                                                     \
        .scores = {[CODEC_F32] = scores_f32,                                                       \
                   [CODEC_F16] = scores_half,                                                      \
                   [CODEC_BF16] = scores_pairs,                                                    \
                   [CODEC_FP8] = scores_fp8,                                                       \
                   ATTN_OF_CODES(scores_codes, scores_codes, scores_codes, scores_codes,           \
                                 scores_rows)},                                                    \
        .values = {[CODEC_F32] = values_f32,                                                       \
                   [CODEC_F16] = values_half,                                                      \
                   [CODEC_BF16] = values_pairs,                                                    \
                   [CODEC_FP8] = values_fp8,                                                       \
                   ATTN_OF_CODES(values_codes, values_codes, values_codes, NULL, values_rows)},    \
        .softmax = softmax, .merge = merge, .quantise = quantise, .quantise_q4 = quantise_q4,      \
        .quantise_fp8 = quantise_fp8, .rotate = rotate,                                            \
    }
