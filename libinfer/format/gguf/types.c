/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the number formats in GGUF files (ggml.h, enum ggml_type), indexed by id. Formats with
 * block size 0 were removed from GGUF and never come back.
 */
#include "format/gguf/types.h"

#include <strings.h>

#define ROW(id, type, elems, bytes)                                                                \
    [id] = {.name = #type, .block_elems = elems, .block_bytes = bytes, .dtype = INF_DTYPE_##type}
#define OTHER(id, type, elems, bytes)                                                              \
    [id] = {.name = #type, .block_elems = elems, .block_bytes = bytes, .dtype = INF_DTYPE_INVALID}

static const struct ggml_type types[] = {
    ROW(0, F32, 1, 4),         ROW(1, F16, 1, 2),         ROW(2, Q4_0, 32, 18),
    ROW(3, Q4_1, 32, 20),      ROW(6, Q5_0, 32, 22),      ROW(7, Q5_1, 32, 24),
    ROW(8, Q8_0, 32, 34),      OTHER(9, Q8_1, 32, 36),    ROW(10, Q2_K, 256, 84),
    ROW(11, Q3_K, 256, 110),   ROW(12, Q4_K, 256, 144),   ROW(13, Q5_K, 256, 176),
    ROW(14, Q6_K, 256, 210),   OTHER(15, Q8_K, 256, 292), ROW(16, IQ2_XXS, 256, 66),
    ROW(17, IQ2_XS, 256, 74),  ROW(18, IQ3_XXS, 256, 98), ROW(19, IQ1_S, 256, 50),
    ROW(20, IQ4_NL, 32, 18),   ROW(21, IQ3_S, 256, 110),  ROW(22, IQ2_S, 256, 82),
    ROW(23, IQ4_XS, 256, 136), OTHER(24, I8, 1, 1),       OTHER(25, I16, 1, 2),
    OTHER(26, I32, 1, 4),      OTHER(27, I64, 1, 8),      OTHER(28, F64, 1, 8),
    ROW(29, IQ1_M, 256, 56),   ROW(30, BF16, 1, 2),       ROW(34, TQ1_0, 256, 54),
    ROW(35, TQ2_0, 256, 66),   ROW(39, MXFP4, 32, 17),    ROW(40, NVFP4, 64, 36),
    ROW(41, Q1_0, 128, 18),    ROW(42, Q2_0, 64, 18),
};

const struct ggml_type *ggml_type(uint32_t id)
{
    return id < ARRAY_SIZE(types) && types[id].block_elems > 0 ? &types[id] : NULL;
}

bool ggml_type_find(const char *name, uint32_t *ret_id)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(types); i++)
        if (types[i].block_elems > 0 && strcasecmp(types[i].name, name) == 0) {
            *ret_id = i;
            return true;
        }
    return false;
}
