/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies panels of int8 (matmul-kernels.h) by many prepared rows in AMX tiles.
 *
 * A tile of sums has 16 rows of x and 16 columns. One instruction computes the exact integer sums
 * of all products that share a scale, which are 16 or 32 elements of k. The sums leave the tile
 * through memory, because each is multiplied by floats and added to a float sum. These floats are
 * computed in the same order as in matmul-tile.h, so the bits of y are the same.
 *
 * Tiles and vector units work at the same time only if a tile is stored while the next tiles are
 * computed, and scaled later. So the integer products run LAG scales ahead of the float sums.
 */

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/tiles.h"
#include "core/cpu.h"

/* Bytes of a unit of the panel: 4 k of all columns. The columns are two tiles side by side. */
#define PANEL_LINE (PANEL_N * 4)
/* The number of scales by which the integer products are ahead, and the number of tiles of integer
 * sums. */
#define LAG    3u
#define N_SUMS 4u

/* Holds the position of a tile, and its last N_SUMS tiles of integer sums. */
struct place {
    int32_t sums[N_SUMS][TILE_ROWS][16];
    const struct matmul_panel *panel;
    const uint8_t *act; /* row 0 of the tile */
    size_t stride;
    unsigned col;
    uint32_t n_scales;
} __attribute__((aligned(64)));

/* Configures tiles 0 … 3 for sums, 4 and 5 for rows of x, 6 and 7 for columns of the panel, if
 * @steps units share a scale. */
static void q8_configure(unsigned steps)
{
    struct tile_config c = {.palette = 1};

    for (unsigned i = 0; i < 8; i++) {
        c.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * steps : 64);
        c.rows[i] = (uint8_t)(i < 6 ? TILE_ROWS : steps);
    }
    __asm__ volatile("" : : "m"(c));
    _tile_loadconfig(&c);
}

/* Makes the weights of the panel signed: q - 2^zero. */
static void panel_sign(struct matmul_panel *panel, uint32_t kc, unsigned zero)
{
    const __m512i offset = _mm512_set1_epi8((char)(1u << zero));
    uint8_t *q = panel->q[0][0];

    for (uint32_t i = 0; i < kc * PANEL_N; i += 64)
        _mm512_store_si512(q + i, _mm512_sub_epi8(_mm512_load_si512(q + i), offset));
}

/* Computes the integer sums of scale @i in tile @tile, which must be @i % N_SUMS. */
#define PLACE_MULTIPLY(p, i, steps, tile, rows, columns)                                           \
    do {                                                                                           \
        const uint8_t *act_ = (p)->act + (i) / (8 / (steps)) * sizeof(struct matmul_q8);           \
                                                                                                   \
        _tile_loadd(rows, act_ + (i) % (8 / (steps)) * 4 * (steps), (p)->stride);                  \
        _tile_loadd(columns, (p)->panel->q[(i) * (steps)][(p)->col], PANEL_LINE);                  \
        _tile_zero(tile);                                                                          \
        _tile_dpbssd(tile, rows, columns);                                                         \
    } while (0)

/* Does one step: computes the sums of scale @i, stores the sums of the scale before it, and adds
 * the sums of scale @i - LAG to the float sums. */
#define PLACE_STEP(p, i, steps, acc, tile, before, rows, columns)                                  \
    do {                                                                                           \
        if ((i) < (p)->n_scales)                                                                   \
            PLACE_MULTIPLY(p, i, steps, tile, rows, columns);                                      \
        if ((i) > 0 && (i) <= (p)->n_scales)                                                       \
            _tile_stored(before, (p)->sums[before], 64);                                           \
        if ((i) >= LAG && (i) < (p)->n_scales + LAG)                                               \
            place_scale(p, (i)-LAG, steps, acc);                                                   \
    } while (0)

INLINE void place_scale(const struct place *p, uint32_t i, const unsigned steps,
                        __m512 acc[TILE_ROWS])
{
    const __m512 scale = _mm512_loadu_ps(&p->panel->scale[i][p->col]);
    const uint8_t *act = p->act + i / (8 / steps) * sizeof(struct matmul_q8);

    UNROLL for (unsigned m = 0; m < TILE_ROWS; m++)
    {
        const struct matmul_q8 *x = (const void *)(act + m * p->stride);
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(p->sums[i % N_SUMS][m]));

        acc[m] = _mm512_fmadd_ps(_mm512_mul_ps(sum, scale), _mm512_set1_ps(x->d), acc[m]);
    }
}

/* Computes the contribution of the offsets in a sum of its own, and adds this sum to @acc. */
INLINE void place_offsets(const struct place *p, __m512 acc[TILE_ROWS])
{
    __m512 sum[TILE_ROWS];

    UNROLL for (unsigned m = 0; m < TILE_ROWS; m++) sum[m] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < p->n_scales; i++) {
        const __m512 offset = _mm512_loadu_ps(&p->panel->offset[i][p->col]);
        const uint8_t *act = p->act + i * sizeof(struct matmul_q8);

        UNROLL for (unsigned m = 0; m < TILE_ROWS; m++)
        {
            const struct matmul_q8 *x = (const void *)(act + m * p->stride);

            sum[m] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x->s), sum[m]);
        }
    }
    UNROLL for (unsigned m = 0; m < TILE_ROWS; m++) acc[m] = _mm512_add_ps(acc[m], sum[m]);
}

INLINE void place_sums(struct place *p, const unsigned steps, __m512 acc[TILE_ROWS])
{
    for (uint32_t i = 0; i < p->n_scales + LAG; i += N_SUMS) {
        PLACE_STEP(p, i, steps, acc, 0, 3, 4, 6);
        PLACE_STEP(p, i + 1, steps, acc, 1, 0, 5, 7);
        PLACE_STEP(p, i + 2, steps, acc, 2, 1, 4, 6);
        PLACE_STEP(p, i + 3, steps, acc, 3, 2, 5, 7);
    }
}

/* Computes 16 rows from @m0 on × 16 columns from @col on. */
INLINE void q8_tile(const struct matmul_tile *t, uint32_t m0, unsigned col, const bool offsets,
                    const unsigned steps)
{
    const float *init = t->init + m0 * t->init_stride + col;
    float *y = t->y + m0 * t->ldy + col;
    struct place p;
    __m512 acc[TILE_ROWS];

    p.panel = t->panel;
    p.act = t->act + m0 * t->act_stride;
    p.stride = t->act_stride;
    p.col = col;
    p.n_scales = t->kc / 4 / steps;
    UNROLL for (unsigned m = 0; m < TILE_ROWS; m++) acc[m] =
        _mm512_loadu_ps(init + m * t->init_stride);
    place_sums(&p, steps, acc);
    if (offsets)
        place_offsets(&p, acc);
    UNROLL for (unsigned m = 0; m < TILE_ROWS; m++) _mm512_storeu_ps(y + m * t->ldy, acc[m]);
}

static void multiply_many(const struct matmul_tile *t, struct matmul_panel *panel,
                          const struct tile_kind *kind)
{
    if (kind->zero > 0 && !kind->is_s8)
        panel_sign(panel, t->kc, kind->zero);
    /* gcc does not declare that loads of tiles read memory. */
    __asm__ volatile("" : : : "memory");
    q8_configure(kind->steps);
    for (uint32_t m = 0; m < t->M; m += TILE_ROWS)
        for (unsigned col = 0; col < PANEL_N; col += 16)
            if (kind->steps == 8)
                q8_tile(t, m, col, kind->offset > 0, 8);
            else
                q8_tile(t, m, col, false, 4);
    /* A switch to another thread takes longer while this thread has tiles in use. */
    _tile_release();
}

const struct matmul_ops matmul_amxint8 = {
    .name = "amxint8",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AVX512_FP16 | CPU_AMX_INT8,
    .base = &matmul_avx512fp16,
    .multiply_many = multiply_many,
};
