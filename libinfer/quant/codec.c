/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the table of number formats of keys and values. */
#include "quant/codec.h"

#include <assert.h>
#include <string.h>

#include "quant/block.h"
#include "quant/code-rows.h"

#define HEAD UINT32_MAX /* scales of whole heads */

/* Levels of Max (1960) for 2^n codes, divided by the largest one and multiplied by 127. */
static const int8_t max4[16] = {-127, -96, -75, -58, -44, -31, -18, -6,
                                6,    18,  31,  44,  58,  75,  96,  127};
static const int8_t max3[16] = CODEC_Q3_LEVELS;
static const int8_t max2[16] = {-127, -38, 38, 127};
static const int8_t max1[16] = {-127, 127};
static const int8_t q4[16] = CODEC_Q4_LEVELS;
static const int8_t even4[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
static const int8_t even3[16] = {-7, -5, -3, -1, 1, 3, 5, 7};
static const int8_t even2[16] = {-3, -1, 1, 3};

/* Levels 2 c - 31 and 2 c - 63 of the codes c. */
#define EVEN8(first)                                                                               \
    (first), (first) + 2, (first) + 4, (first) + 6, (first) + 8, (first) + 10, (first) + 12,       \
        (first) + 14
static const int8_t even5[32] = {EVEN8(-31), EVEN8(-15), EVEN8(1), EVEN8(17)};
static const int8_t even6[64] = {EVEN8(-63), EVEN8(-47), EVEN8(-31), EVEN8(-15),
                                 EVEN8(1),   EVEN8(17),  EVEN8(33),  EVEN8(49)};

#define FLOATS(name, bits)                                                                         \
    {                                                                                              \
        name, CODEC_FLOATS, CODEC_PLAIN, 1, bits, 0, NULL, false, false                            \
    }
#define AFFINE(name, unit, n, group, levels)                                                       \
    {                                                                                              \
        name, CODEC_CODES, CODEC_ROTATED, unit, n, group, levels, true, false                      \
    }
#define TURBO(name, unit, n, levels, residual)                                                     \
    {                                                                                              \
        name, CODEC_CODES, CODEC_SIGNED, unit, n, HEAD, levels, false, residual                    \
    }
#define ROWS(name, unit)                                                                           \
    {                                                                                              \
        name, CODEC_ROWS, CODEC_PLAIN, unit, 0, 0, NULL, false, false                              \
    }

static const struct codec_info codecs[] = {
    [CODEC_F32] = FLOATS("f32", 32),
    [CODEC_F16] = FLOATS("f16", 16),
    [CODEC_BF16] = FLOATS("bf16", 16),
    [CODEC_Q8_0] = {"q8_0", CODEC_BYTES, CODEC_PLAIN, BLOCK_ELEMS, 8, BLOCK_ELEMS, NULL, false,
                    false},
    [CODEC_Q4_0] = {"q4_0", CODEC_CODES, CODEC_ROTATED, BLOCK_ELEMS, 4, BLOCK_ELEMS, q4, false,
                    false},
    [CODEC_FP8] = {"fp8", CODEC_FLOATS, CODEC_PLAIN, 1, 8, HEAD, NULL, false, false},
    [CODEC_Q6_0] = {"q6_0", CODEC_CODES, CODEC_ROTATED, 64, 6, 64, even6, false, false},
    [CODEC_Q5_0] = {"q5_0", CODEC_CODES, CODEC_ROTATED, 128, 5, 64, even5, false, false},
    [CODEC_Q3_0] = {"q3_0", CODEC_CODES, CODEC_ROTATED, 128, 3, 128, max3, false, false},
    [CODEC_Q2_0] = {"q2_0", CODEC_CODES, CODEC_ROTATED, 128, 2, 128, max2, false, false},
    [CODEC_AFFINE4_32] = AFFINE("affine4_32", 32, 4, 32, even4),
    [CODEC_AFFINE4_64] = AFFINE("affine4_64", 64, 4, 64, even4),
    [CODEC_AFFINE3_32] = AFFINE("affine3_32", 128, 3, 32, even3),
    [CODEC_AFFINE3_64] = AFFINE("affine3_64", 128, 3, 64, even3),
    [CODEC_AFFINE2_32] = AFFINE("affine2_32", 64, 2, 32, even2),
    [CODEC_AFFINE2_64] = AFFINE("affine2_64", 64, 2, 64, even2),
    [CODEC_TURBO4] = TURBO("turbo4", 32, 4, max4, false),
    [CODEC_TURBO3] = TURBO("turbo3", 128, 3, max3, false),
    [CODEC_TURBO2] = TURBO("turbo2", 64, 2, max2, false),
    [CODEC_TURBO4_QJL] = TURBO("turbo4_qjl", 128, 4, max3, true),
    [CODEC_TURBO3_QJL] = TURBO("turbo3_qjl", 128, 3, max2, true),
    [CODEC_TURBO2_QJL] = TURBO("turbo2_qjl", 128, 2, max1, true),
    [CODEC_PLANAR4] = ROWS("planar4", 8),
    [CODEC_PLANAR3] = ROWS("planar3", 8),
    [CODEC_ISO4] = ROWS("iso4", 8),
    [CODEC_ISO3] = ROWS("iso3", 8),
    [CODEC_ROTOR4] = ROWS("rotor4", 1),
    [CODEC_ROTOR3] = ROWS("rotor3", 1),
};

static_assert(ARRAY_SIZE(codecs) == CODEC_N, "a row for each format");

const struct codec_info *codec_info(enum codec codec)
{
    assert((unsigned)codec < CODEC_N);
    return &codecs[codec];
}

bool codec_find(const char *name, size_t len, enum codec *ret_codec)
{
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (strlen(codecs[i].name) == len && memcmp(codecs[i].name, name, len) == 0) {
            *ret_codec = (enum codec)i;
            return true;
        }
    return false;
}

uint32_t codec_scale_elements(enum codec codec, uint32_t head_dim)
{
    return MIN(codec_info(codec)->scale_elements, head_dim);
}

uint32_t codec_scalars(enum codec codec, uint32_t head_dim)
{
    const struct codec_info *info = codec_info(codec);
    const uint32_t shared = codec_scale_elements(codec, head_dim);

    return shared == 0 ? 0 : head_dim / shared * (info->offset || info->residual ? 2 : 1);
}

uint32_t codec_code_bytes(enum codec codec, uint32_t head_dim)
{
    const struct codec_info *info = codec_info(codec);

    assert(head_dim % info->head_unit == 0);
    return info->kind == CODEC_ROWS ? code_rows_bytes(codec, head_dim)
                                    : (uint32_t)((uint64_t)head_dim * info->n_bits / 8);
}

uint64_t codec_head_bytes(enum codec codec, uint32_t head_dim)
{
    return codec_code_bytes(codec, head_dim) + 2 * (uint64_t)codec_scalars(codec, head_dim);
}
