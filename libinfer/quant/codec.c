/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the table of number formats of keys and values. */
#include "quant/codec.h"

#include <assert.h>
#include <string.h>

#include "quant/block.h"

static const struct codec_info codecs[] = {
    [CODEC_F32] = {"f32", 1, 32, 0, false},
    [CODEC_F16] = {"f16", 1, 16, 0, false},
    [CODEC_BF16] = {"bf16", 1, 16, 0, false},
    [CODEC_Q8_0] = {"q8_0", BLOCK_ELEMS, 8, BLOCK_ELEMS, false},
    [CODEC_Q4_0] = {"q4_0", BLOCK_ELEMS, 4, BLOCK_ELEMS, true},
    [CODEC_FP8] = {"fp8", 1, 8, UINT32_MAX, false},
    [CODEC_Q3_0] = {"q3_0", CODEC_Q3_RUN, 3, CODEC_Q3_RUN, true},
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

uint64_t codec_head_bytes(enum codec codec, uint32_t head_dim)
{
    const struct codec_info *info = codec_info(codec);
    const uint32_t shared = codec_scale_elements(codec, head_dim);

    assert(head_dim % info->head_unit == 0);
    return (uint64_t)head_dim * info->n_bits / 8 + (shared > 0 ? head_dim / shared * 2 : 0);
}
