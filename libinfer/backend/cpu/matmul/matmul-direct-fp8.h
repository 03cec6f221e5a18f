/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies FP8 (quant/coded.h) and MXFP8 by up to DIRECT_M prepared rows of floats without a
 * panel, for matmul-vec.h. Include it after matmul-coded-float.h.
 *
 * The float arithmetic is that of tile_parts(). The code of NaN becomes a number. If a row has such
 * a code, its results are set to NaN at the end.
 */

#include "backend/cpu/matmul/matmul-fp8-steps.h"

/* Sets the results of rows that have a code of NaN to NaN. */
static __attribute__((noinline)) void TILE_NAME(fp8_nans)(const struct matmul_direct *d,
                                                          unsigned m_n)
{
    for (unsigned i = 0; i < FP8_ROWS; i++) {
        const uint8_t *w = d->w + i * d->row_bytes;
        bool has = false;

        for (uint32_t k = 0; k < d->K; k++)
            has |= (w[k] & 0x7f) == 0x7f;
        for (unsigned m = 0; has && m < m_n; m++)
            d->y[m * d->ldy + i] = NAN;
    }
}

/* Returns whether a code of NaN was loaded. */
INLINE bool fp8_has_nan(const struct fp8_seen *seen)
{
    const v_int ones = v_set(0x01010101), high = v_set(0x80808080), low = v_set(0x7f7f7f7f);
    /* Bit 7 of a byte: all its lower bits are set. */
    const v_int u8 = v_add(v_and(seen->u8, low), ones), s8 = v_add(v_and(seen->s8, low), ones);

    return v_any(v_and(v_and(u8, seen->u8), high)) ||
           v_any(v_and(v_and(s8, v_xor(seen->s8, high)), high));
}

/* ---- scales ---- */

/* Says where the scales of FP8 are. */
struct fp8_scales {
    uint64_t at[FP8_ROWS]; /* the scale of group 0 of each row */
    uint32_t group;        /* the group of @scale, or UINT32_MAX */
    v_flt scale[FP8_VECS];
};

INLINE void fp8_scales_init(const struct matmul_direct *d, struct fp8_scales *s)
{
    const struct coded *c = d->coded;
    const uint32_t first = d->coded_row, last = first + FP8_ROWS - 1, n = c->group_rows;

    s->group = UINT32_MAX;
    if (n > 1 && first / n == last / n)
        for (unsigned i = 0; i < FP8_ROWS; i++)
            s->at[i] = (uint64_t)(first / n) * coded_groups(c);
    else
        for (unsigned i = 0; i < FP8_ROWS; i++)
            s->at[i] = (uint64_t)(n == 1 ? first + i : (first + i) / n) * coded_groups(c);
}

/* Loads the scales of the group @g. */
static __attribute__((noinline)) void TILE_NAME(fp8_group)(const struct coded *c, uint32_t g,
                                                           struct fp8_scales *s)
{
    uint32_t bits[FP8_ROWS] __attribute__((aligned(64)));

    s->group = g;
    for (unsigned i = 0; i < FP8_ROWS; i++) {
        uint16_t half;

        if (c->scale_type == INF_DTYPE_F32) {
            memcpy(&bits[i], (const uint8_t *)c->scales + 4 * (s->at[i] + g), 4);
        } else {
            memcpy(&half, (const uint8_t *)c->scales + 2 * (s->at[i] + g), 2);
            bits[i] = c->scale_type == INF_DTYPE_F16 ? half : (uint32_t)half << 16;
        }
    }
    for (unsigned r = 0; r < FP8_VECS; r++) {
        const v_int v = v_load(bits + r * VEC_N);

        s->scale[r] = c->scale_type == INF_DTYPE_F16 ? v_from_f16_low(v) : v_bits(v);
    }
}

/* Loads the scales of the chunk that begins at @k. */
INLINE void fp8_scales_chunk(const struct matmul_direct *d, uint32_t k, struct fp8_scales *s,
                             v_flt scale[FP8_VECS][FP8_PARTS])
{
    if (k / d->coded->group != s->group)
        TILE_NAME(fp8_group)(d->coded, k / d->coded->group, s);
    UNROLL for (unsigned r = 0; r < FP8_VECS; r++) scale[r][0] = s->scale[r];
}

/* Does the same for MXFP8, whose scales belong to 32 elements. */
INLINE void fp8_scales_e8m0(const struct matmul_direct *d, uint32_t k,
                            v_flt scale[FP8_VECS][FP8_PARTS])
{
    const uint8_t *p = d->planes.scales + k / 32;
    const uint32_t n = MIN((d->K - k) / 32, FP8_PARTS);
    uint32_t words[FP8_ROWS] __attribute__((aligned(64))) = {0};

    if (n == FP8_PARTS)
        UNROLL for (unsigned i = 0; i < FP8_ROWS; i++)
            memcpy(&words[i], p + i * d->planes.row_bytes, FP8_PARTS);
    else
        for (unsigned i = 0; i < FP8_ROWS; i++)
            memcpy(&words[i], p + i * d->planes.row_bytes, n);
    UNROLL for (unsigned i = 0; i < FP8_PARTS * FP8_VECS; i++)
    {
        const v_int v = v_load(words + i / FP8_PARTS * VEC_N);
        const v_int e = v_and(v_shr(v, i % FP8_PARTS * 8), v_set(255));
        const v_int least = v_shl(v_shr(v_add(e, v_set(UINT32_MAX)), 31), 22); /* e is 0: 2^-127 */

        scale[i / FP8_PARTS][i % FP8_PARTS] = v_bits(v_or(v_shl(e, 23), least));
    }
}

/* ---- kernels ---- */

/* Begins the sums of @n chunks, the first of which begins at @k. */
INLINE void fp8_begin(const struct matmul_direct *d, const unsigned m_n, const unsigned part,
                      uint32_t k, unsigned n, struct fp8_scales *scales, struct fp8_sums *a)
{
    UNROLL for (unsigned s = 0; s < FP8_SIDE; s++)
    {
        UNROLL for (unsigned r = 0; r < FP8_VECS; r++) UNROLL for (unsigned m = 0; m < m_n; m++)
            a->part[s][r][m] = a->chunk[s][r][m] = v_setf(0);
        UNROLL for (unsigned i = 0; i < FP8_PARTS * FP8_VECS; i++)
            a->scale[s][i / FP8_PARTS][i % FP8_PARTS] = v_setf(0);
        if (s < n && part == PANEL_K_F32)
            fp8_scales_chunk(d, k + s * PANEL_K_F32, scales, a->scale[s]);
        else if (s < n)
            fp8_scales_e8m0(d, k + s * PANEL_K_F32, a->scale[s]);
    }
}

/* Adds the sums of @n chunks to those of the chunks before them. */
INLINE void fp8_end(const unsigned m_n, const unsigned part, unsigned n, struct fp8_sums *a,
                    v_flt acc[FP8_VECS][DIRECT_M])
{
    UNROLL for (unsigned s = 0; s < FP8_SIDE; s++) if (s < n)
    {
        if (part == PANEL_K_F32)
            fp8_end_part(a, m_n, s, 0);
        UNROLL for (unsigned r = 0; r < FP8_VECS; r++) UNROLL for (unsigned m = 0; m < m_n; m++)
            acc[r][m] = v_addf(acc[r][m], a->chunk[s][r][m]);
    }
}

/* Returns how many of the FP8_SIDE chunks have a step at @k. @k is in the first of them; the last
 * chunk of a row may be shorter. */
INLINE unsigned fp8_chunks(uint32_t K, uint32_t k)
{
    return k < K ? MIN((K - k - 1) / PANEL_K_F32 + 1, FP8_SIDE) : 0;
}

/* Multiplies rows whose parts of @part elements of k, 128 (FP8) or 32 (MXFP8), have a scale. */
INLINE void direct_fp8_rows(struct matmul_direct *d, const unsigned m_n, const unsigned part)
{
    fp8_halves half[2][FP8_SIDE][FP8_VECS] __attribute__((aligned(64)));
    struct fp8_next next = {.w = d->w, .n = fp8_chunks(d->K, 0), .to = half[0]};
    struct fp8_seen seen = {v_zero(), v_set(0x80808080)};
    unsigned turn = 0;
    struct fp8_scales scales;
    struct fp8_sums a;
    v_flt acc[FP8_VECS][DIRECT_M];

    if (part == PANEL_K_F32)
        fp8_scales_init(d, &scales);
    UNROLL for (unsigned r = 0; r < FP8_VECS; r++) UNROLL for (unsigned m = 0; m < m_n; m++)
        acc[r][m] = v_loadf(d->init + r * VEC_N);
    for (unsigned i = 0; i < 4; i++)
        fp8_convert_next(d, &next, i, &seen);
    for (uint32_t k0 = 0; k0 < d->K; k0 += FP8_SIDE * PANEL_K_F32) {
        const unsigned n = fp8_chunks(d->K, k0);

        fp8_begin(d, m_n, part, k0, n, &scales, &a);
        for (uint32_t k = k0; k < k0 + PANEL_K_F32; k += FP8_STEP, turn ^= 1) {
            const uint32_t after =
                k + FP8_STEP < k0 + PANEL_K_F32 ? k + FP8_STEP : k0 + FP8_SIDE * PANEL_K_F32;

            next = (struct fp8_next){d->w + after, fp8_chunks(d->K, after), half[turn ^ 1]};
            __asm__("" : "+m"(half));
            fp8_add_chunks(d, m_n, part, fp8_chunks(d->K, k), k, (k - k0) / 32, half[turn], &a,
                           &next, &seen);
        }
        fp8_end(m_n, part, n, &a, acc);
    }
    UNROLL for (unsigned r = 0; r < FP8_VECS; r++) UNROLL for (unsigned m = 0; m < m_n; m++)
        v_storef(d->y + m * d->ldy + r * VEC_N, acc[r][m]);
    if (UNLIKELY(fp8_has_nan(&seen)))
        TILE_NAME(fp8_nans)(d, m_n);
}

DIRECT(fp8, direct_fp8_rows(d, m_n, PANEL_K_F32))
DIRECT(mxfp8, direct_fp8_rows(d, m_n, 32))
