/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Unpacks blocks of the formats with grids (quant/block-iq.h), and decodes them into a panel, for
 * matmul-vec.h.
 *
 * Blocks are unpacked one row at a time with loops that compilers turn into vector operations. Then
 * the points of the grids are loaded one by one, which is faster than vector gathers on most CPUs.
 */

#include "quant/block-iq.h"
#include "quant/grid.h"

/* Holds one block of a row. A lot is 8 successive weights. */
struct grid_row {
    uint16_t index[64]; /* of the points, one or two for each lot */
    uint8_t signs[32];  /* of each lot: bit i is set if weight i is negative; in IQ1 0, or 0xff if
                           1/8 is subtracted */
    float scale[16];    /* of each 32 or 16 weights */
} __attribute__((aligned(64)));

/* Describes those differences between formats that remain after blocks were unpacked. */
struct grid_kind {
    unsigned block_bytes;
    unsigned zero;     /* panels hold w + 2^zero */
    const void *table; /* the grid */
    void (*unpack)(const uint8_t *p, struct grid_row *row);
    bool is_half;  /* a point has 4 coordinates, not 8 */
    bool has_two;  /* scales belong to 16 weights, not 32 */
    bool is_delta; /* IQ1: a coordinate is 8 v + 10, and a weight is 8 v ± 1 */
};

/* ---- unpacking ---- */

/* Spreads the 4 × 7 signs in the low 28 bits of each word to bytes, and adds the eighth signs. */
INLINE void grid_signs28(const uint32_t words[8], uint8_t signs[32])
{
    for (unsigned g = 0; g < 8; g++) {
        const uint32_t w = words[g];
        const uint32_t s =
            (w & 0x7f) | (w << 1 & 0x7f00) | (w << 2 & 0x7f0000) | (w << 3 & 0x7f000000);
        const uint32_t four = s ^ s >> 4, two = four ^ four >> 2, one = two ^ two >> 1;
        const uint32_t all = s | (one & 0x01010101) << 7;

        memcpy(signs + 4 * g, &all, sizeof(all));
    }
}

INLINE void grid_scales28(const uint32_t words[8], float d, float factor, float *scale)
{
    for (unsigned g = 0; g < 8; g++)
        scale[g] = d * (0.5f + (float)(int32_t)(words[g] >> 28)) * factor;
}

/* Converts the 16 scales of IQ2_XS and IQ2_S, which have 4 bits each. */
INLINE void grid_scales16(const uint8_t s[8], float d, float *scale)
{
    for (unsigned g = 0; g < 8; g++) {
        scale[2 * g] = d * (0.5f + (float)(s[g] & 15)) * 0.25f;
        scale[2 * g + 1] = d * (0.5f + (float)(s[g] >> 4)) * 0.25f;
    }
}

INLINE void unpack_iq2_xxs(const uint8_t *p, struct grid_row *row)
{
    uint32_t words[8];
    struct block_iq2_xxs b;

    memcpy(&b, p, sizeof(b));
    for (unsigned g = 0; g < 8; g++) {
        uint64_t v, wide;

        memcpy(&v, b.groups[g], sizeof(v));
        words[g] = (uint32_t)(v >> 32);
        wide = (v & 0xffff) | (v & 0xffff0000) << 16;
        wide = (wide & 0x000000ff000000ff) | (wide & 0x0000ff000000ff00) << 8;
        memcpy(row->index + 4 * g, &wide, sizeof(wide));
    }
    grid_signs28(words, row->signs);
    grid_scales28(words, f16_to_f32(b.d), 0.25f, row->scale);
}

INLINE void unpack_iq2_xs(const uint8_t *p, struct grid_row *row)
{
    struct block_iq2_xs b;

    memcpy(&b, p, sizeof(b));
    for (unsigned l = 0; l < 32; l++) {
        const uint16_t s = b.q[l] >> 9;
        const uint16_t four = s ^ s >> 4, two = four ^ four >> 2, one = two ^ two >> 1;

        row->index[l] = b.q[l] & 511;
        row->signs[l] = (uint8_t)(s | one << 7);
    }
    grid_scales16(b.scales, f16_to_f32(b.d), row->scale);
}

INLINE void unpack_iq2_s(const uint8_t *p, struct grid_row *row)
{
    static const uint16_t factor[4] = {256, 64, 16, 4};
    struct block_iq2_s b;

    memcpy(&b, p, sizeof(b));
    for (unsigned g = 0; g < 8; g++)
        for (unsigned l = 0; l < 4; l++)
            row->index[4 * g + l] = (uint16_t)(b.q[4 * g + l] | (b.high[g] * factor[l] & 0x300));
    memcpy(row->signs, b.signs, sizeof(row->signs));
    grid_scales16(b.scales, f16_to_f32(b.d), row->scale);
}

INLINE void unpack_iq3_xxs(const uint8_t *p, struct grid_row *row)
{
    uint32_t words[8];
    struct block_iq3_xxs b;

    memcpy(&b, p, sizeof(b));
    memcpy(words, b.signs, sizeof(words));
    for (unsigned i = 0; i < 64; i++)
        row->index[i] = b.q[i];
    grid_signs28(words, row->signs);
    grid_scales28(words, f16_to_f32(b.d), 0.5f, row->scale);
}

INLINE void unpack_iq3_s(const uint8_t *p, struct grid_row *row)
{
    static const uint16_t factor[8] = {256, 128, 64, 32, 16, 8, 4, 2};
    struct block_iq3_s b;

    memcpy(&b, p, sizeof(b));
    for (unsigned g = 0; g < 8; g++)
        for (unsigned l = 0; l < 8; l++)
            row->index[8 * g + l] = (uint16_t)(b.q[8 * g + l] | (b.high[g] * factor[l] & 256));
    memcpy(row->signs, b.signs, sizeof(row->signs));
    for (unsigned g = 0; g < 8; g++)
        row->scale[g] = f16_to_f32(b.d) *
                        (float)(1 + 2 * (g % 2 ? b.scales[g / 2] >> 4 : b.scales[g / 2] & 15));
}

INLINE void unpack_iq1_s(const uint8_t *p, struct grid_row *row)
{
    static const uint32_t factor[4] = {512, 64, 8, 1};
    struct block_iq1_s b;

    memcpy(&b, p, sizeof(b));
    const float eighth = f16_to_f32(b.d) * 0.125f;

    for (unsigned g = 0; g < 8; g++) {
        memset(row->signs + 4 * g, b.high[g] >> 15 ? 255 : 0, 4);
        row->scale[g] = eighth * (float)(2 * (b.high[g] >> 12 & 7) + 1);
        for (unsigned l = 0; l < 4; l++)
            row->index[4 * g + l] =
                (uint16_t)(b.q[4 * g + l] | (b.high[g] * factor[l] >> 1 & 0x700));
    }
}

INLINE void unpack_iq1_m(const uint8_t *p, struct grid_row *row)
{
    struct block_iq1_m b;
    uint8_t high[32];

    memcpy(&b, p, sizeof(b));
    const float eighth = f16_to_f32(block_iq1_m_d(b.scales)) * 0.125f;

    for (unsigned i = 0; i < 16; i++) {
        high[2 * i] = b.high[i] & 15;
        high[2 * i + 1] = b.high[i] >> 4;
        row->scale[i] = eighth * (float)(2 * (b.scales[i / 4] >> i % 4 * 3 & 7) + 1);
    }
    for (unsigned l = 0; l < 32; l++) {
        row->index[l] = (uint16_t)(b.q[l] | (high[l] & 7) << 8);
        row->signs[l] = high[l] & 8 ? 255 : 0;
    }
}

#define GRID_KIND(stem, ...)                                                                       \
    (const struct grid_kind)                                                                       \
    {                                                                                              \
        .block_bytes = sizeof(struct block_##stem), .unpack = unpack_##stem, __VA_ARGS__           \
    }
#define GRID_IQ2_XXS GRID_KIND(iq2_xxs, .table = grid_iq2_xxs, .zero = 6)
#define GRID_IQ2_XS  GRID_KIND(iq2_xs, .table = grid_iq2_xs, .zero = 6, .has_two = true)
#define GRID_IQ2_S   GRID_KIND(iq2_s, .table = grid_iq2_s, .zero = 6, .has_two = true)
#define GRID_IQ3_XXS GRID_KIND(iq3_xxs, .table = grid_iq3_xxs, .zero = 6, .is_half = true)
#define GRID_IQ3_S   GRID_KIND(iq3_s, .table = grid_iq3_s, .zero = 4, .is_half = true)
#define GRID_IQ1_S   GRID_KIND(iq1_s, .table = grid_iq1, .zero = 4, .is_delta = true)
#define GRID_IQ1_M   GRID_KIND(iq1_m, .table = grid_iq1, .zero = 5, .is_delta = true, .has_two = true)

/* ---- panels ---- */

#define GRID_BYTES(n) ((n)*0x0101010101010101u)

/* Returns the points of lot @l of a row, 8 bytes. */
INLINE uint64_t grid_lot(const struct grid_row *row, const unsigned l, const struct grid_kind kind)
{
    const uint32_t *half = kind.table;

    if (!kind.is_half)
        return ((const uint64_t *)kind.table)[row->index[l]];
    return half[row->index[2 * l]] | (uint64_t)half[row->index[2 * l + 1]] << 32;
}

/* Returns the weights of a lot plus 2^zero, 8 bytes. No byte overflows into the next. */
INLINE uint64_t grid_weights(uint64_t lot, uint8_t signs, const struct grid_kind kind)
{
    const uint64_t bits = GRID_BYTES((uint64_t)signs) & 0x8040201008040201;
    /* 127 for each byte whose bit is set, else 0 */
    const uint64_t negative = ((bits + GRID_BYTES(127u)) >> 7 & GRID_BYTES(1u)) * 127;

    if (kind.is_delta)
        return lot + GRID_BYTES((1u << kind.zero) - 9u) - GRID_BYTES(signs & 2u);
    /* If the weight is negative, 2^zero - v = (127 - v) + 2^zero - 127. */
    return (lot ^ negative) + GRID_BYTES(1u << kind.zero) - negative;
}

INLINE void decode_grid(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                        uint32_t kc, const uint8_t **ahead, const struct grid_kind kind)
{
    const unsigned n_scales = kind.has_two ? 16 : 8;

    for (uint32_t k = 0; k < kc; k += 256, w += kind.block_bytes) {
        for (unsigned i = 0; i < 16; i++) {
            const unsigned col = 16 * half + i;
            struct grid_row row;

            prefetch_step(*ahead, i, PANEL_AHEAD(kind.block_bytes), false);
            kind.unpack(w + i * row_bytes, &row);
            for (unsigned n = 0; n < n_scales; n++)
                p->scale[k / 256 * n_scales + n][col] = row.scale[n];
            for (unsigned l = 0; l < 32; l++) {
                const uint64_t v = grid_weights(grid_lot(&row, l, kind), row.signs[l], kind);

                memcpy(p->q[k / 4 + 2 * l][col], &v, 4);
                memcpy(p->q[k / 4 + 2 * l + 1][col], (const uint8_t *)&v + 4, 4);
            }
        }
        *ahead += PANEL_AHEAD(16 * kind.block_bytes);
    }
}

#define GRID_DECODE(stem, kind)                                                                    \
    static void TILE_NAME(decode_##stem)(struct matmul_panel * p, unsigned half, const uint8_t *w, \
                                         size_t row_bytes, uint32_t kc, const uint8_t **ahead)     \
    {                                                                                              \
        decode_grid(p, half, w, row_bytes, kc, ahead, kind);                                       \
    }

GRID_DECODE(iq2_xxs, GRID_IQ2_XXS)
GRID_DECODE(iq2_xs, GRID_IQ2_XS)
GRID_DECODE(iq2_s, GRID_IQ2_S)
GRID_DECODE(iq3_xxs, GRID_IQ3_XXS)
GRID_DECODE(iq3_s, GRID_IQ3_S)
GRID_DECODE(iq1_s, GRID_IQ1_S)
GRID_DECODE(iq1_m, GRID_IQ1_M)
