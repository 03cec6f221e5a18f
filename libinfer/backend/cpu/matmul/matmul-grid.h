/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes the formats with grids (quant/block-iq.h) into a panel, for matmul-vec.h.
 *
 * Blocks are unpacked one row at a time. Then the points of the grids are loaded one by one, which
 * is faster than vector gathers on most CPUs.
 */

#include "backend/cpu/matmul/matmul-grid-unpack.h"

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

            prefetch_step(*ahead, i, PANEL_AHEAD(kind.block_bytes));
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
