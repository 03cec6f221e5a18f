/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodes the formats IQ1, IQ2 and IQ3 (quant/block-iq.h).
 *
 * For each part of a block that has a scale of its own, a search finds the scale and the points
 * (quant/grid-search.h). Then d and the small numbers s are chosen, and d is set to the value that
 * fits the points best. Last, the points are searched with the scales that decoding will use.
 * The error of a weight x counts in proportion to √(x² + mean of x²), because large weights matter
 * more in products. If its column has an importance, the error counts in proportion to the
 * importance × √(x² + 8 × mean of x²). With the factor 8, x itself matters less beside the
 * importance, and the predictions of trained models diverge least; in IQ1_S they do with the factor
 * 2. Values that are not finite count as zero.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-iq.h"
#include "quant/grid-search.h"

#define MAX_PARTS 16u
#define F16_MAX   65504.0f

/* How much the mean of the squares counts beside the square of a weight with importance. */
#define IQ_MEAN_BY_IMPORTANCE 8.0f
#define IQ_MEAN_IQ1_S         2.0f

/* Describes how a format stores scales: scale = d × (2 s + 1) / divisor. */
struct iq_format {
    enum search_grid grid;
    unsigned n_part; /* weights that share a scale: 16 or 32 */
    unsigned s_max;
    float divisor;
    bool seven;      /* 7 of 8 signs are stored */
    bool has_shift;  /* IQ1: a shift for each part */
    bool has_shifts; /* IQ1: a shift for each 8 weights */
};

/* Holds a block while it is encoded. */
struct iq_block {
    float x[SUPER_ELEMS]; /* divided by `most`; magnitudes, except in IQ1 */
    float w[SUPER_ELEMS]; /* how much errors count */
    uint8_t signs[32];    /* of each 8 weights */
    float most;           /* the largest magnitude; 0: the block is zero */
    float d;              /* divided by `most` */
    uint16_t d_bits;      /* d as binary16 */
    uint8_t s[MAX_PARTS];
    float shift[MAX_PARTS];
    struct search_fit fit[MAX_PARTS];
};

/* Reads a block. If the importance of all elements is 0, they count as without importance. */
static void iq_load(const struct iq_format *f, struct iq_block *b, const float *src,
                    const float *importance)
{
    float mean = 0, all = 0;

    b->most = 0;
    for (unsigned i = 0; i < SUPER_ELEMS; i++)
        if (isfinite(src[i]))
            b->most = MAX(b->most, fabsf(src[i]));
    if (b->most < 1e-30f)
        b->most = 0;
    for (unsigned i = 0; i < SUPER_ELEMS; i++) {
        b->x[i] = isfinite(src[i]) && b->most > 0 ? src[i] / b->most : 0;
        mean += b->x[i] * b->x[i] / SUPER_ELEMS;
    }
    for (unsigned i = 0; i < SUPER_ELEMS && importance; i++)
        all += importance[i];
    if (all > 0)
        mean *= f->has_shift ? IQ_MEAN_IQ1_S : IQ_MEAN_BY_IMPORTANCE;
    for (unsigned i = 0; i < SUPER_ELEMS; i++)
        b->w[i] = sqrtf(mean + b->x[i] * b->x[i]) * (all > 0 ? importance[i] : 1);
}

/* Moves the signs of weights to b->signs. With @seven, each group of 8 must have an even number of
 * negative weights. If the number is odd, the weight that matters least gets the wrong sign. */
static void iq_take_signs(struct iq_block *b, bool seven)
{
    for (unsigned l = 0; l < 32; l++) {
        float *x = b->x + 8 * l, least = INFINITY;
        unsigned signs = 0, at = 0;

        for (unsigned i = 0; i < 8; i++) {
            const float matter = b->w[8 * l + i] * x[i] * x[i];

            signs |= (unsigned)(x[i] < 0) << i;
            x[i] = fabsf(x[i]);
            if (matter < least) {
                least = matter;
                at = i;
            }
        }
        if (seven && __builtin_parity(signs)) {
            signs ^= 1u << at;
            x[at] = -x[at];
        }
        b->signs[l] = (uint8_t)signs;
    }
}

static struct search_how iq_how(const struct iq_format *f, const struct iq_block *b, unsigned part)
{
    return (struct search_how){
        .search = search_get(f->grid), .both = f->has_shifts, .shift = b->shift[part]};
}

/* Finds the points of a part for the scale that b->d and @s give. Returns their error. */
static float iq_try(const struct iq_format *f, const struct iq_block *b, unsigned part, unsigned s,
                    struct search_fit *ret)
{
    const struct search_how how = iq_how(f, b, part);
    const unsigned at = part * f->n_part;

    search_points(&how, b->x + at, b->w + at, f->n_part, b->d * (float)(2 * s + 1) / f->divisor,
                  ret);
    return ret->error;
}

/* Chooses the shift of a part, and returns a good scale for the part. */
static float iq_part_scale(const struct iq_format *f, struct iq_block *b, unsigned part)
{
    const unsigned at = part * f->n_part;
    struct search_how how = iq_how(f, b, part);
    struct search_fit fit;
    float best = 0, least = INFINITY;

    if (!f->has_shift)
        return search_scale(&how, b->x + at, b->w + at, f->n_part);
    for (how.shift = 1; how.shift >= -1; how.shift -= 2) {
        const float scale = search_scale(&how, b->x + at, b->w + at, f->n_part);

        if (scale == 0)
            continue;
        search_points(&how, b->x + at, b->w + at, f->n_part, scale, &fit);
        if (fit.error < least) {
            least = fit.error;
            best = scale;
            b->shift[part] = how.shift;
        }
    }
    return best;
}

/* Sets b->d to the value nearest to @d that binary16 has. */
static void iq_set_d(struct iq_block *b, float d)
{
    b->d_bits = f16_from_f32(MIN(d * b->most, F16_MAX));
    b->d = f16_to_f32(b->d_bits) / b->most;
}

/* Chooses s of all parts, given d and the scales that the parts should have. */
static void iq_choose(const struct iq_format *f, struct iq_block *b, const float *scale)
{
    for (unsigned part = 0; part < SUPER_ELEMS / f->n_part; part++) {
        const float ideal = (scale[part] * f->divisor / b->d - 1) / 2;
        const int near = (int)(ideal < 0 ? 0 : MIN(ideal + 0.5f, (float)f->s_max));
        float least = INFINITY;

        for (int s = MAX(near - 1, 0); s <= MIN(near + 1, (int)f->s_max); s++) {
            struct search_fit fit;
            const float error = iq_try(f, b, part, (unsigned)s, &fit);

            if (error < least) {
                least = error;
                b->s[part] = (uint8_t)s;
                b->fit[part] = fit;
            }
        }
    }
}

/* Returns the d that fits the chosen points best; 0 if there is none. */
static float iq_best_d(const struct iq_format *f, const struct iq_block *b)
{
    float xu = 0, uu = 0;

    for (unsigned part = 0; part < SUPER_ELEMS / f->n_part; part++) {
        const float m = (float)(2 * b->s[part] + 1) / f->divisor;

        xu += m * b->fit[part].xu;
        uu += m * m * b->fit[part].uu;
    }
    return xu > 0 && uu > 0 ? xu / uu : 0;
}

/* Encodes a block. Returns false if it is zero, or too small for binary16. */
static bool iq_encode(const struct iq_format *f, struct iq_block *b, const float *src,
                      const float *importance)
{
    const unsigned n_parts = SUPER_ELEMS / f->n_part;
    float scale[MAX_PARTS], most = 0;

    iq_load(f, b, src, importance);
    if (b->most == 0)
        return false;
    memset(b->shift, 0, sizeof(b->shift));
    memset(b->s, 0, sizeof(b->s));
    memset(b->fit, 0, sizeof(b->fit));
    if (!f->has_shift && !f->has_shifts)
        iq_take_signs(b, f->seven);
    for (unsigned part = 0; part < n_parts; part++) {
        if (f->has_shift)
            b->shift[part] = 1;
        scale[part] = iq_part_scale(f, b, part);
        most = MAX(most, scale[part]);
    }
    iq_set_d(b, most * f->divisor / (float)(2 * f->s_max + 1));
    if (b->d > 0) {
        iq_choose(f, b, scale);
        iq_set_d(b, iq_best_d(f, b));
    }
    for (unsigned part = 0; part < n_parts && b->d > 0; part++)
        iq_try(f, b, part, b->s[part], &b->fit[part]);
    return b->d > 0;
}

/* ---- IQ2 ---- */

/* Returns the index of lot @l, which is 8 weights in IQ1 and IQ2, and 4 in IQ3. */
static unsigned iq_index(const struct iq_format *f, const struct iq_block *b, unsigned l)
{
    const unsigned n_lots = f->n_part / (SUPER_ELEMS / (f->grid >= SEARCH_IQ3_XXS ? 64 : 32));

    return b->fit[l / n_lots].index[l % n_lots];
}

/* Returns 4 × 7 signs and s of a group. */
static uint32_t iq_word28(const struct iq_block *b, unsigned g)
{
    uint32_t word = (uint32_t)b->s[g] << 28;

    for (unsigned l = 0; l < 4; l++)
        word |= (b->signs[4 * g + l] & 127u) << 7 * l;
    return word;
}

static const struct iq_format format_iq2_xxs = {
    .grid = SEARCH_IQ2_XXS, .n_part = 32, .s_max = 15, .divisor = 8, .seven = true};
static const struct iq_format format_iq2_xs = {
    .grid = SEARCH_IQ2_XS, .n_part = 16, .s_max = 15, .divisor = 8, .seven = true};
static const struct iq_format format_iq2_s = {
    .grid = SEARCH_IQ2_S, .n_part = 16, .s_max = 15, .divisor = 8};
static const struct iq_format format_iq3_xxs = {
    .grid = SEARCH_IQ3_XXS, .n_part = 32, .s_max = 15, .divisor = 4, .seven = true};
static const struct iq_format format_iq3_s = {
    .grid = SEARCH_IQ3_S, .n_part = 32, .s_max = 15, .divisor = 1};
static const struct iq_format format_iq1_s = {
    .grid = SEARCH_IQ1, .n_part = 32, .s_max = 7, .divisor = 8, .has_shift = true};
static const struct iq_format format_iq1_m = {
    .grid = SEARCH_IQ1, .n_part = 16, .s_max = 7, .divisor = 8, .has_shifts = true};

static void pack_iq2_xxs(const struct iq_block *b, void *dst)
{
    struct block_iq2_xxs out = {.d = b->d_bits};

    for (unsigned g = 0; g < 8; g++) {
        const uint32_t word = iq_word28(b, g);

        for (unsigned l = 0; l < 4; l++)
            out.groups[g][l] = (uint8_t)iq_index(&format_iq2_xxs, b, 4 * g + l);
        memcpy(out.groups[g] + 4, &word, sizeof(word));
    }
    memcpy(dst, &out, sizeof(out));
}

static void pack_iq2_xs(const struct iq_block *b, void *dst)
{
    struct block_iq2_xs out = {.d = b->d_bits};

    for (unsigned l = 0; l < 32; l++)
        out.q[l] = (uint16_t)(iq_index(&format_iq2_xs, b, l) | (b->signs[l] & 127u) << 9);
    for (unsigned g = 0; g < 8; g++)
        out.scales[g] = (uint8_t)(b->s[2 * g] | b->s[2 * g + 1] << 4);
    memcpy(dst, &out, sizeof(out));
}

static void pack_iq2_s(const struct iq_block *b, void *dst)
{
    struct block_iq2_s out = {.d = b->d_bits};

    for (unsigned l = 0; l < 32; l++) {
        const unsigned index = iq_index(&format_iq2_s, b, l);

        out.q[l] = (uint8_t)index;
        out.high[l / 4] |= (uint8_t)(index >> 8 << l % 4 * 2);
        out.signs[l] = b->signs[l];
    }
    for (unsigned g = 0; g < 8; g++)
        out.scales[g] = (uint8_t)(b->s[2 * g] | b->s[2 * g + 1] << 4);
    memcpy(dst, &out, sizeof(out));
}

/* ---- IQ3 ---- */

static void pack_iq3_xxs(const struct iq_block *b, void *dst)
{
    struct block_iq3_xxs out = {.d = b->d_bits};

    for (unsigned l = 0; l < 64; l++)
        out.q[l] = (uint8_t)iq_index(&format_iq3_xxs, b, l);
    for (unsigned g = 0; g < 8; g++) {
        const uint32_t word = iq_word28(b, g);

        memcpy(out.signs[g], &word, sizeof(word));
    }
    memcpy(dst, &out, sizeof(out));
}

static void pack_iq3_s(const struct iq_block *b, void *dst)
{
    struct block_iq3_s out = {.d = b->d_bits};

    for (unsigned l = 0; l < 64; l++) {
        const unsigned index = iq_index(&format_iq3_s, b, l);

        out.q[l] = (uint8_t)index;
        out.high[l / 8] |= (uint8_t)(index >> 8 << l % 8);
    }
    memcpy(out.signs, b->signs, sizeof(out.signs));
    for (unsigned i = 0; i < 4; i++)
        out.scales[i] = (uint8_t)(b->s[2 * i] | b->s[2 * i + 1] << 4);
    memcpy(dst, &out, sizeof(out));
}

/* ---- IQ1 ---- */

static void pack_iq1_s(const struct iq_block *b, void *dst)
{
    struct block_iq1_s out = {.d = b->d_bits};

    for (unsigned l = 0; l < 32; l++) {
        const unsigned index = iq_index(&format_iq1_s, b, l);

        out.q[l] = (uint8_t)index;
        out.high[l / 4] |= (uint16_t)(index >> 8 << l % 4 * 3);
    }
    for (unsigned g = 0; g < 8; g++)
        out.high[g] |= (uint16_t)(b->s[g] << 12 | (b->shift[g] < 0) << 15);
    memcpy(dst, &out, sizeof(out));
}

static void pack_iq1_m(const struct iq_block *b, void *dst)
{
    struct block_iq1_m out = {0};

    for (unsigned l = 0; l < 32; l++) {
        const unsigned index = iq_index(&format_iq1_m, b, l);
        const unsigned minus = b->fit[l / 2].minus >> l % 2 & 1u;

        out.q[l] = (uint8_t)index;
        out.high[l / 2] |= (uint8_t)((index >> 8 | minus << 3) << l % 2 * 4);
    }
    for (unsigned i = 0; i < 16; i++)
        out.scales[i / 4] |= (uint16_t)(b->s[i] << i % 4 * 3);
    for (unsigned i = 0; i < 4; i++)
        out.scales[i] |= (uint16_t)((b->d_bits >> 4 * i & 15) << 12);
    memcpy(dst, &out, sizeof(out));
}

/* ---- functions of the table ---- */

static void iq_encode_all(const struct iq_format *f, unsigned block_bytes,
                          void (*pack)(const struct iq_block *b, void *dst), const float *src,
                          const float *importance, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += block_bytes) {
        struct iq_block b;

        if (iq_encode(f, &b, src + i, importance ? importance + i : NULL))
            pack(&b, p);
        else
            memset(p, 0, block_bytes);
    }
}

#define IQ_ENCODE(stem)                                                                            \
    void encode_##stem(const float *src, void *dst, uint64_t n_elems)                              \
    {                                                                                              \
        encode_##stem##_by(src, NULL, dst, n_elems);                                               \
    }                                                                                              \
    void encode_##stem##_by(const float *src, const float *importance, void *dst,                  \
                            uint64_t n_elems)                                                      \
    {                                                                                              \
        iq_encode_all(&format_##stem, sizeof(struct block_##stem), pack_##stem, src, importance,   \
                      dst, n_elems);                                                               \
    }

IQ_ENCODE(iq2_xxs)
IQ_ENCODE(iq2_xs)
IQ_ENCODE(iq2_s)
IQ_ENCODE(iq3_xxs)
IQ_ENCODE(iq3_s)
IQ_ENCODE(iq1_s)
IQ_ENCODE(iq1_m)
