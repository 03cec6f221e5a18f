/* SPDX-License-Identifier: Apache-2.0 */

#include "weights.h"

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "quant/dtype.h"

/* For each format without planes: the offsets of the binary16 numbers in a block, and where its
 * codes lie. */
static const struct layout {
    int16_t half[2]; /* byte offsets, or -1 */
    int16_t codes;   /* if the format has offsets: the first byte of the codes, else 0 */
    int16_t end;     /* the first byte after these codes */
} layouts[INF_DTYPE_N] = {
    [INF_DTYPE_F32] = {{-1, -1}, 0, 0},    [INF_DTYPE_F16] = {{-1, -1}, 0, 0},
    [INF_DTYPE_BF16] = {{-1, -1}, 0, 0},   [INF_DTYPE_Q8_0] = {{0, -1}, 0, 0},
    [INF_DTYPE_Q4_0] = {{0, -1}, 0, 0},    [INF_DTYPE_Q4_1] = {{0, 2}, 4, 20},
    [INF_DTYPE_Q5_0] = {{0, -1}, 0, 0},    [INF_DTYPE_Q5_1] = {{0, 2}, 4, 24},
    [INF_DTYPE_Q4_K] = {{0, 2}, 16, 144},  [INF_DTYPE_Q5_K] = {{0, 2}, 16, 176},
    [INF_DTYPE_Q6_K] = {{208, -1}, 0, 0},  [INF_DTYPE_MXFP4] = {{-1, -1}, 0, 0},
    [INF_DTYPE_TQ2_0] = {{64, -1}, 0, 0},  [INF_DTYPE_TQ1_0] = {{52, -1}, 0, 0},
    [INF_DTYPE_Q2_K] = {{80, 82}, 16, 80}, [INF_DTYPE_Q3_K] = {{108, -1}, 0, 0},
    [INF_DTYPE_IQ4_NL] = {{0, -1}, 0, 0},  [INF_DTYPE_IQ4_XS] = {{0, -1}, 0, 0},
    [INF_DTYPE_NVFP4] = {{-1, -1}, 0, 0},  [INF_DTYPE_Q1_0] = {{0, -1}, 0, 0},
    [INF_DTYPE_Q2_0] = {{0, -1}, 0, 0},    [INF_DTYPE_IQ2_XXS] = {{0, -1}, 0, 0},
    [INF_DTYPE_IQ2_XS] = {{0, -1}, 0, 0},  [INF_DTYPE_IQ2_S] = {{0, -1}, 0, 0},
    [INF_DTYPE_IQ3_XXS] = {{0, -1}, 0, 0}, [INF_DTYPE_IQ3_S] = {{0, -1}, 0, 0},
    [INF_DTYPE_IQ1_S] = {{0, -1}, 0, 0},   [INF_DTYPE_IQ1_M] = {{-1, -1}, 0, 0},
};

static void put_half(uint8_t *p, float f)
{
    const uint16_t h = f16_from_f32(f);

    memcpy(p, &h, sizeof(h));
}

/* Sets the scale of a block of MXFP4 to 2^-11 … 2^-4. With WEIGHT_LOW the scale is one of the
 * smallest, and all values of the block are the most negative one. */
static void fill_fp4(struct check *c, enum weight_fill fill, uint8_t *block)
{
    if (fill == WEIGHT_LOW)
        memset(block + 1, 0xff, 16);
    block[0] = (uint8_t)(rng_u32(&c->rng) % (fill == WEIGHT_LOW ? 4 : 8));
    if (fill != WEIGHT_LOW)
        block[0] = (uint8_t)(block[0] + 116);
}

/* Sets d of a block of IQ1_M, whose bits are in the top 4 bits of 4 words. */
static void fill_iq1_m(uint8_t *block, float d)
{
    const uint16_t bits = f16_from_f32(d);

    for (unsigned i = 0; i < 4; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
}

static void fill_bytes(struct check *c, enum inf_dtype dtype, enum weight_fill fill, uint8_t *p,
                       uint64_t n_blocks)
{
    const struct dtype_info *info = dtype_info(dtype);

    for (uint64_t b = 0; b < n_blocks; b++, p += info->block_bytes) {
        for (uint32_t i = 0; i < info->block_bytes; i++)
            p[i] = (uint8_t)(fill == WEIGHT_RANDOM ? rng_u32(&c->rng) >> 24
                             : fill == WEIGHT_ONES ? 0xff
                                                   : 0);
        if (dtype == INF_DTYPE_Q8_0 && fill == WEIGHT_LOW)
            memset(p, 0x80, info->block_bytes);
        if (dtype == INF_DTYPE_Q6_K && fill == WEIGHT_LOW)
            memset(p + 192, 0x80, 16);
        for (uint32_t i = 0; dtype == INF_DTYPE_MXFP8 && i < info->block_bytes; i++)
            if ((p[i] & 0x7f) == 0x7f) /* NaN */
                p[i] ^= 1;
        if (dtype == INF_DTYPE_MXFP4)
            fill_fp4(c, fill, p);
        if (dtype == INF_DTYPE_IQ1_M)
            fill_iq1_m(p, fill == WEIGHT_ZERO ? 0 : 0.01f * rng_normal(&c->rng));
        for (unsigned i = 0; i < 2; i++)
            if (!info->planes && layouts[dtype].half[i] >= 0)
                put_half(p + layouts[dtype].half[i],
                         fill == WEIGHT_ZERO ? 0 : 0.01f * rng_normal(&c->rng));
    }
}

void weights_fill(struct check *c, enum inf_dtype dtype, enum weight_fill fill, void *dst,
                  uint64_t n_elems)
{
    const struct dtype_info *info = dtype_info(dtype);
    float x[256];

    if (!info->encode || (info->block_elems > 1 && fill != WEIGHT_ENCODED)) {
        fill_bytes(c, dtype, fill, dst, n_elems / info->block_elems);
        return;
    }
    for (uint64_t at = 0; at < n_elems; at += 256) {
        const uint64_t n = MIN(n_elems - at, 256u);

        fill_floats(c, fill == WEIGHT_ZERO ? FILL_ZERO : FILL_NORMAL, x, n);
        for (uint64_t i = 0; i < n; i++)
            x[i] *= 0.1f;
        info->encode(x, (uint8_t *)dst + at / info->block_elems * info->block_bytes, n);
    }
}

struct plane_choice weights_choose_planes(struct check *c, enum inf_dtype dtype, uint32_t K)
{
    const struct planes_info *info = dtype_info(dtype)->planes;
    struct plane_choice choice = {PLANE_F32, 0};

    do
        choice.type = (enum plane_type)(rng_u32(&c->rng) % PLANE_TYPES);
    while (!(info->types & 1u << choice.type));
    if (info->group == 0 || K % info->group != 0)
        return choice;
    choice.group = info->group;
    while (info->group_most == 0 && choice.group < 128 && K % (2 * choice.group) == 0 &&
           rng_u32(&c->rng) % 4 > 0)
        choice.group *= 2;
    return choice;
}

/* Writes element @i of a plane: about 0.01 × a normal number, but a positive power of two in
 * E8M0. */
static void put_element(struct check *c, enum plane_type type, uint8_t *p, uint64_t i, bool zero)
{
    const float x = zero ? 0 : 0.01f * rng_normal(&c->rng);
    const uint16_t halves[] = {f16_from_f32(x), bf16_from_f32(x)};

    p += i * plane_bytes(type);
    if (type == PLANE_F32)
        memcpy(p, &x, sizeof(x));
    else if (type == PLANE_E8M0)
        *p = (uint8_t)(zero ? 0 : 116 + rng_u32(&c->rng) % 8);
    else if (type == PLANE_E4M3)
        *p = e4m3_from_f32(4 * x);
    else
        memcpy(p, &halves[type == PLANE_BF16], sizeof(halves[0]));
}

void weights_fill_plane(struct check *c, enum weight_fill fill, enum plane_type type, void *dst,
                        uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        put_element(c, type, dst, i, fill == WEIGHT_ZERO);
}

void weights_planes_magnitudes(enum inf_dtype dtype, const struct plane_row *row, float *dst,
                               uint32_t n)
{
    const struct planes_info *info = dtype_info(dtype)->planes;

    info->decode(row, dst, n);
    for (uint32_t i = 0; i < n; i++) {
        const float offset =
            info->affine ? plane_get(row->type, row->planes[WEIGHT_ZEROS], i / row->group) : 0;

        dst[i] = fabsf(dst[i] - offset) + fabsf(offset);
        if (dtype == INF_DTYPE_MLX8) /* kernels subtract 128 from the codes */
            dst[i] +=
                2 * 128 * fabsf(plane_get(row->type, row->planes[WEIGHT_SCALES], i / row->group));
    }
}

void weights_magnitudes(enum inf_dtype dtype, const void *block, float *dst)
{
    const struct dtype_info *info = dtype_info(dtype);
    uint8_t copy[256] = {0};
    float offset[256];

    info->decode(block, dst, info->block_elems);
    if (layouts[dtype].end == 0) {
        for (uint32_t i = 0; i < info->block_elems; i++)
            dst[i] = fabsf(dst[i]);
        return;
    }
    memcpy(copy, block, info->block_bytes);
    memset(copy + layouts[dtype].codes, 0, (size_t)(layouts[dtype].end - layouts[dtype].codes));
    info->decode(copy, offset, info->block_elems);
    for (uint32_t i = 0; i < info->block_elems; i++)
        dst[i] = fabsf(dst[i] - offset[i]) + fabsf(offset[i]);
}
