/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists the number formats in GGUF files (ggml.h, enum ggml_type). */

#include <infer/types.h>

#include "core/macros.h"

/* Block layout of a ggml type. The file format fixes the sizes. */
struct ggml_type {
    const char *name;
    uint32_t block_elems, block_bytes;
    enum inf_dtype dtype; /* INF_DTYPE_INVALID: sconce knows the type but cannot compute with it */
};

/* Ids of the number formats that a converted file can have. */
enum ggml_type_id {
    GGML_TYPE_F32 = 0,
    GGML_TYPE_F16 = 1,
    GGML_TYPE_Q4_0 = 2,
    GGML_TYPE_Q4_1 = 3,
    GGML_TYPE_Q5_0 = 6,
    GGML_TYPE_Q5_1 = 7,
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_Q2_K = 10,
    GGML_TYPE_Q3_K = 11,
    GGML_TYPE_Q4_K = 12,
    GGML_TYPE_Q5_K = 13,
    GGML_TYPE_Q6_K = 14,
    GGML_TYPE_IQ2_XXS = 16,
    GGML_TYPE_IQ2_XS = 17,
    GGML_TYPE_IQ3_XXS = 18,
    GGML_TYPE_IQ1_S = 19,
    GGML_TYPE_IQ4_NL = 20,
    GGML_TYPE_IQ3_S = 21,
    GGML_TYPE_IQ2_S = 22,
    GGML_TYPE_IQ4_XS = 23,
    GGML_TYPE_IQ1_M = 29,
    GGML_TYPE_BF16 = 30,
    GGML_TYPE_TQ1_0 = 34,
    GGML_TYPE_TQ2_0 = 35,
    GGML_TYPE_MXFP4 = 39,
    GGML_TYPE_NVFP4 = 40,
    GGML_TYPE_Q1_0 = 41,
    GGML_TYPE_Q2_0 = 42,
};

/* Returns NULL for ids that no published revision of the format defines. */
const struct ggml_type *ggml_type(uint32_t id);
/* Finds the id of a type by its name, in upper or lower case. Returns false if there is none. */
bool ggml_type_find(const char *name, uint32_t *ret_id);
