/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies a panel (matmul-kernels.h) by prepared rows, for matmul-vec.h.
 *
 * A tile is a few rows times a few vectors of columns. A loop runs over the k of the panel while
 * all sums of a tile stay in registers. A tile of one row performs the same operations in the same
 * order as the largest tile.
 */

/* The kinds of panels. Only the affine format of MLX has codes of 6 bits with offsets (mlx6).
 * Panels of formats with grids (iq3_xxs, and iq2_s with a scale for each 16 weights) hold w + 64,
 * which is at most 126. */
static const struct tile_kind kind_q8_0 = {
    .steps = 8, .zero = VEC_S8 ? 0 : 7, .is_s8 = VEC_S8, .narrow = 1};
static const struct tile_kind kind_q4_0 = {.steps = 8, .zero = 3, .narrow = 8};
static const struct tile_kind kind_q5_0 = {.steps = 8, .zero = 4, .narrow = 4};
static const struct tile_kind kind_q4_k = {.steps = 8, .offset = 8, .narrow = 8};
static const struct tile_kind kind_q5_k = {.steps = 8, .offset = 8, .narrow = 4};
static const struct tile_kind kind_mlx6 = {.steps = 8, .offset = 8, .narrow = 2};
static const struct tile_kind kind_mlx8 = {
    .steps = 8, .zero = VEC_S8 ? 0 : 7, .offset = 8, .is_s8 = VEC_S8, .narrow = 1};
static const struct tile_kind kind_q6_k = {.steps = 4, .zero = 5, .narrow = 2};
static const struct tile_kind kind_iq3_xxs = {.steps = 8, .zero = 6, .narrow = 1};
static const struct tile_kind kind_iq2_s = {.steps = 4, .zero = 6, .narrow = 1};
static const struct tile_kind kind_float = {.steps = 0};
static const struct tile_kind kind_parts32 = {.steps = 0};
static const struct tile_kind kind_nf4 = {.steps = 8, .zero = 6, .narrow = 1, .low_bits = 7};
static const struct tile_kind kind_nf4_16 = {.steps = 4, .zero = 6, .narrow = 1, .low_bits = 7};
static const struct tile_kind kind_q2_k = {.steps = 8, .offset = 4, .narrow = 2};

/* Returns the initial value of the integer sums: minus 2^zero times the sum of those numbers of the
 * block @x that share a scale of weights. They are half @part of the block if kind.steps is 4, else
 * the whole block. */
INLINE v_int tile_first(const struct matmul_q8 *x, unsigned part, const struct tile_kind kind)
{
    if (!kind.zero)
        return v_zero();
    if (kind.steps == 4)
        return v_shl(v_bcast(&x->nsum[part]), kind.zero);
    return v_shl(v_add(v_bcast(&x->nsum[0]), v_bcast(&x->nsum[1])), kind.zero);
}

/* Adds up the integer sums of one scale for the @m_n rows at @act; @q is the first unit of
 * this scale in the panel. */
INLINE void tile_dots(v_int sum[TILE_M][TILE_V], const uint8_t *act, size_t stride,
                      const unsigned m_n, const uint8_t (*q)[PANEL_N][4],
                      const struct tile_kind kind)
{
    v_int pairs[TILE_M][TILE_V];

    UNROLL for (unsigned s = 0; s < kind.steps; s++)
    {
        const uint8_t *unit = (const uint8_t *)q[s];
        v_int w[TILE_V];

        UNROLL for (unsigned v = 0; v < TILE_V; v++) w[v] = v_load(unit + 4 * v * VEC_N);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int a = v_bcast(act + m * stride + 4 * s);

            UNROLL for (unsigned v = 0; v < TILE_V; v++)
            {
                if (kind.is_s8)
                    sum[m][v] = v_dot_s8(sum[m][v], w[v], a);
                else if (!VEC_PAIRS)
                    sum[m][v] = v_dot(sum[m][v], w[v], a);
                else if (s % kind.narrow == 0)
                    pairs[m][v] = v_pairs(w[v], a);
                else
                    pairs[m][v] = v_add16(pairs[m][v], v_pairs(w[v], a));
                if (VEC_PAIRS && !kind.is_s8 && s % kind.narrow == kind.narrow - 1)
                    sum[m][v] = v_widen(sum[m][v], pairs[m][v]);
            }
        }
    }
}

#if TILE_STEP == 2
#include "backend/cpu/matmul/matmul-tile-pairs.h"
#else
#define tile_pairs tile_dots
#endif

/* Returns the sum of x by which an offset is multiplied: of all 32 elements if @steps is 8, or
 * minus the sum of half @part. */
INLINE v_flt tile_sum(const struct matmul_q8 *x, uint32_t part, const unsigned steps)
{
    if (steps == 8)
        return v_bcastf(&x->s);
    return v_mulf(v_to_float(v_bcast(&x->nsum[part])), v_bcastf(&x->d));
}

/* Computes the contribution of the offsets in a sum of its own, and adds this sum to @acc. */
INLINE void tile_offsets(const struct matmul_tile *t, const uint8_t *act, const unsigned m_n,
                         unsigned col, const unsigned steps, v_flt acc[TILE_M][TILE_V])
{
    v_flt sum[TILE_M][TILE_V];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
        sum[m][v] = v_setf(0);
    for (uint32_t i = 0; i < t->kc / 4 / steps; i++) {
        const uint8_t *block = act + i / (8 / steps) * sizeof(struct matmul_q8);

        UNROLL for (unsigned v = 0; v < TILE_V; v++)
        {
            const v_flt offset = v_loadf(&t->panel->offset[i][col + v * VEC_N]);

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = (const void *)(block + m * t->act_stride);

                sum[m][v] = v_fma(offset, tile_sum(x, i % (8 / steps), steps), sum[m][v]);
            }
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
        acc[m][v] = v_addf(acc[m][v], sum[m][v]);
}

/* Multiplies @m_n rows (≤ TILE_M) by TILE_V vectors of columns from @col on. */
INLINE void tile_q8(const struct matmul_tile *t, uint32_t m0, const unsigned m_n, unsigned col,
                    const struct tile_kind kind)
{
    const struct matmul_panel *p = t->panel;
    const uint8_t *act = t->act + m0 * t->act_stride;
    const size_t stride = t->act_stride;
    const float *init = t->init + m0 * t->init_stride + col;
    float *y = t->y + m0 * t->ldy + col;
    const uint32_t n_scales = t->kc / 4 / kind.steps, n_next = tile_next(t, m0, m_n);
    const uint32_t units = kind.low_bits ? 2 * kind.steps : kind.steps; /* with one scale */
    struct tile_ahead ahead = tile_ahead(t, m0, col == 0 ? m_n : 0, n_scales);
    v_flt acc[TILE_M][TILE_V];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
        acc[m][v] = v_loadf(init + m * t->init_stride + v * VEC_N);

    for (uint32_t i = 0; i < n_scales; i++) {
        const uint32_t part = i % (8 / kind.steps), b = i / (8 / kind.steps);
        const uint8_t *block = act + b * sizeof(struct matmul_q8);
        v_int sum[TILE_M][TILE_V];

        tile_prefetch(&ahead);
        if (i < n_next)
            tile_prefetch_y(y + (m_n + i) * t->ldy, TILE_V * VEC_N);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int first = tile_first((const void *)(block + m * stride), part, kind);

            UNROLL for (unsigned v = 0; v < TILE_V; v++) sum[m][v] = first;
        }
        tile_pairs(sum, block + 16 * part, stride, m_n, (void *)p->q[i * units][col], kind);
        if (kind.low_bits) {
            UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
                sum[m][v] = v_shl(sum[m][v], kind.low_bits);
            tile_pairs(sum, block + 16 * part, stride, m_n,
                       (void *)p->q[i * units + kind.steps][col], kind);
        }
        UNROLL for (unsigned v = 0; v < TILE_V; v++)
        {
            const v_flt scale = v_loadf(&p->scale[i][col + v * VEC_N]);

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = (const void *)(block + m * stride);
                const v_flt scaled = v_mulf(v_to_float(sum[m][v]), scale);

                acc[m][v] = v_fma(scaled, v_bcastf(&x->d), acc[m][v]);
            }
        }
    }
    if (kind.offset)
        tile_offsets(t, act, m_n, col, kind.offset, acc);
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
        v_storef(y + m * t->ldy + v * VEC_N, acc[m][v]);
}

INLINE void multiply_q8(const struct matmul_tile *t, const struct tile_kind kind)
{
    uint32_t m = 0;

    while (m < t->M) {
        /* Divide the rows into tiles of similar heights, because in a small tile each addition must
         * wait for the addition before it. */
        const uint32_t n_left = t->M - m, n_tiles = (n_left + TILE_M - 1) / TILE_M;
        const uint32_t m_n = MIN(ALIGN_UP(DIV_UP(n_left, n_tiles), TILE_STEP), n_left);

        for (unsigned col = 0; col < PANEL_N; col += TILE_V * VEC_N)
            UNROLL for (unsigned n = 1; n <= TILE_M; n++) if (n == m_n) tile_q8(t, m, n, col, kind);
        m += m_n;
    }
}

static void TILE_NAME(multiply_q8_0)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q8_0);
}

static void TILE_NAME(multiply_q4_0)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q4_0);
}

static void TILE_NAME(multiply_q5_0)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q5_0);
}

static void TILE_NAME(multiply_q4_k)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q4_k);
}

static void TILE_NAME(multiply_q5_k)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q5_k);
}

static void TILE_NAME(multiply_mlx6)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_mlx6);
}

static void TILE_NAME(multiply_mlx8)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_mlx8);
}

static void TILE_NAME(multiply_q6_k)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q6_k);
}

static void TILE_NAME(multiply_iq3_xxs)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_iq3_xxs);
}

static void TILE_NAME(multiply_iq2_s)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_iq2_s);
}

static void TILE_NAME(multiply_q2_k)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_q2_k);
}

static void TILE_NAME(multiply_nf4)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_nf4);
}

static void TILE_NAME(multiply_nf4_16)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_nf4_16);
}

#include "backend/cpu/matmul/matmul-tile-float.h"
