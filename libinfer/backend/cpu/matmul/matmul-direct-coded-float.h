/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies coded matrices whose codes stand for floats, FP8 and NF4 (quant/coded.h), by up to
 * DIRECT_M prepared rows of floats without a panel, for matmul-vec.h. Include it after
 * matmul-direct-coded.h. MXFP8, whose scales are a plane, is multiplied in the same way.
 *
 * 16 bytes of each of VEC_N rows are loaded and transposed, so that each lane belongs to a row of
 * W. The float arithmetic is that of the tiles. Additions to a sum wait for each other, so the
 * chunks of k, whose sums are separate, are computed in pairs, and FLOAT_SIDE chunks side by side.
 */

#define FLOAT_SIDE  4u
#define FLOAT_PARTS (PANEL_K_F32 / 32) /* a part of a chunk has 32 elements of k and one scale */

/* Holds the scales of a chunk for VEC_N rows. */
struct float_scales {
    v_flt v[FLOAT_PARTS];
    bool large; /* FP8: a scale times 2^120 is not finite */
};

/* Loads the scales of VEC_N rows in the group @g. */
static __attribute__((noinline)) v_flt TILE_NAME(float_group)(const struct matmul_direct *d,
                                                              uint32_t g)
{
    const struct coded *c = d->coded;
    const uint32_t n_groups = coded_groups(c);
    uint32_t bits[VEC_N] __attribute__((aligned(64)));

    for (unsigned i = 0; i < VEC_N; i++) {
        const uint64_t at = (uint64_t)((d->coded_row + i) / c->group_rows) * n_groups + g;
        uint16_t half;

        if (c->scale_type == INF_DTYPE_F32) {
            memcpy(&bits[i], (const uint8_t *)c->scales + 4 * at, 4);
        } else {
            memcpy(&half, (const uint8_t *)c->scales + 2 * at, 2);
            bits[i] = c->scale_type == INF_DTYPE_F16 ? half : (uint32_t)half << 16;
        }
    }
    return c->scale_type == INF_DTYPE_F16 ? v_from_f16_low(v_load(bits)) : v_bits(v_load(bits));
}

/* Loads the scales of the chunk that begins at @k. @last is the group of the last scale that was
 * loaded, or UINT32_MAX. */
INLINE void float_chunk(const struct matmul_direct *d, uint32_t k, uint32_t *last, v_flt *scale,
                        struct float_scales *s)
{
    for (unsigned i = 0; i < FLOAT_PARTS && k + 32 * i < d->K; i++) {
        const uint32_t g = (k + 32 * i) / d->coded->group;

        if (g != *last)
            *scale = TILE_NAME(float_group)(d, g);
        *last = g;
        s->v[i] = *scale;
    }
}

/* Adds the products of VEC_N weights with element @k of the prepared rows. */
INLINE void float_chain(const struct matmul_direct *d, const unsigned m_n, size_t k, v_flt w,
                        v_flt sum[DIRECT_M])
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const float *x = (const float *)(d->act + m * d->act_stride);

        sum[m] = v_fma(w, v_bcastf(x + k), sum[m]);
    }
}

INLINE void float_load(struct matmul_direct *d, size_t at, v_int v[4])
{
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        v[i] = v_rows16(d->w + at + i * d->row_bytes, d->row_bytes);
        prefetch_step(d->ahead.at, i, 4 * VEC_N);
    }
    prefetch_move(&d->ahead, 16 * VEC_N);
    transpose(v);
}

/* ---- NF4 ---- */

/* Adds 32 elements of each of @n chunks; those of the first chunk begin at @k. */
INLINE void float_nf4(struct matmul_direct *d, const unsigned m_n, const unsigned n, size_t k,
                      const unsigned part, const struct float_scales *scales, v_flt sum[][DIRECT_M])
{
    const struct coded_table table = coded_table_load(d->coded->table);
    v_int v[2][4];

    UNROLL for (unsigned s = 0; s < n; s++) float_load(d, (k + s * PANEL_K_F32) / 2, v[s]);
    UNROLL for (unsigned i = 0; i < 32; i++) UNROLL for (unsigned s = 0; s < n; s++)
    {
        const v_flt w = coded_lookup(v[s][i / 8], 4 * (i % 8 ^ 1), &table);

        float_chain(d, m_n, k + s * PANEL_K_F32 + i, v_mulf(w, scales[s].v[part]), sum[s]);
    }
}

/* ---- FP8 ---- */

/* Moves byte @t of each lane, an E4M3, to the place that its bits have in a float. The float is
 * 2^-120 of the number; NaN becomes a number. */
INLINE v_flt float_e4m3(v_int v, const unsigned t)
{
    return v_bits(v_and(v_sar(v_shl(v, 8 * (3 - t)), 4), v_set(0x87f00000)));
}

/* Returns the weight exactly for all codes and scales. */
INLINE v_flt float_e4m3_rare(v_int v, const unsigned t, v_flt scale)
{
    const coded_u32 code = (coded_u32)v << 8 * (3 - t) >> 24 & 0x7f;
    const v_flt f = v_mulf(float_e4m3(v, t), v_setf(0x1p120f));

    return v_mulf(v_bits(v_or((v_int)f, (v_int)(code == 0x7f) & v_set(0x7fc00000))), scale);
}

/* Adds 16 elements of each of @n chunks; those of the first chunk begin at @k. */
INLINE void float_fp8(struct matmul_direct *d, const unsigned m_n, const unsigned n, size_t k,
                      const unsigned part, const struct float_scales *scales, v_flt sum[][DIRECT_M])
{
    const v_int ones = v_set(0x01010101), high = v_set(0x80808080);
    v_int v[2][4], nan = v_zero();
    bool large = false;

    UNROLL for (unsigned s = 0; s < n; s++)
    {
        float_load(d, k + s * PANEL_K_F32, v[s]);
        large |= scales[s].large;
        /* The carry reaches bit 7 only if the other bits are set. */
        UNROLL for (unsigned i = 0; i < 4; i++) nan =
            v_or(nan, v_add(v_and(v[s][i], v_xor(high, v_set(UINT32_MAX))), ones));
    }
    if (UNLIKELY(large || v_any(v_and(nan, high)))) {
        UNROLL for (unsigned s = 0; s < n; s++) for (unsigned i = 0; i < 16; i++)
        {
            float_chain(d, m_n, k + s * PANEL_K_F32 + i,
                        float_e4m3_rare(v[s][i / 4], i % 4, scales[s].v[part]), sum[s]);
        }
        return;
    }
    UNROLL for (unsigned i = 0; i < 16; i++) UNROLL for (unsigned s = 0; s < n; s++)
    {
        const v_flt scale = v_mulf(scales[s].v[part], v_setf(0x1p120f));

        float_chain(d, m_n, k + s * PANEL_K_F32 + i, v_mulf(float_e4m3(v[s][i / 4], i % 4), scale),
                    sum[s]);
    }
}

/* ---- kernels ---- */

/* Says where the scales of a format are. */
enum float_source { FLOAT_CODED, FLOAT_E8M0 };

/* Loads the scales of MXFP8, which belong to 32 elements, of the chunk that begins at @k. */
INLINE void float_chunk_e8m0(const struct matmul_direct *d, uint32_t k, struct float_scales *s)
{
    for (unsigned i = 0; i < FLOAT_PARTS && k + 32 * i < d->K; i++) {
        uint32_t bits[VEC_N] __attribute__((aligned(64)));

        for (unsigned j = 0; j < VEC_N; j++) {
            const uint32_t e = d->planes.scales[j * d->planes.row_bytes + k / 32 + i];

            bits[j] = e == 0 ? 1u << 22 : e << 23;
        }
        s->v[i] = v_bits(v_load(bits));
    }
}

/* Sets s->large for a chunk. @n elements of k are left from the beginning of the chunk on. */
INLINE void float_chunk_large(uint32_t n, struct float_scales *s)
{
    v_int large = v_zero();

    for (unsigned i = 0; i < FLOAT_PARTS && 32 * i < n; i++)
        large = v_or(large, (v_int)((coded_u32)s->v[i] << 1 >= 0x87000000));
    s->large = v_any(large);
}

/* Loads the scales of up to FLOAT_SIDE chunks that begin at @k0. */
INLINE void float_begin(const struct matmul_direct *d, const enum float_source source, uint32_t k0,
                        uint32_t *last, v_flt *scale, struct float_scales *s)
{
    for (uint32_t j = 0; j < FLOAT_SIDE && k0 + j * PANEL_K_F32 < d->K; j++) {
        const uint32_t k = k0 + j * PANEL_K_F32;

        if (source == FLOAT_CODED)
            float_chunk(d, k, last, scale, &s[j]);
        else
            float_chunk_e8m0(d, k, &s[j]);
        float_chunk_large(d->K - k, &s[j]);
    }
}

/* Defines the kernel of a format, from the function @block, which adds @step elements of each of
 * one or two chunks. */
#define DIRECT_CODED_FLOAT(stem, block, step, source)                                              \
    INLINE void direct_##stem##_m(struct matmul_direct *d, const unsigned m_n)                     \
    {                                                                                              \
        const uint32_t chunk = PANEL_K_F32, K = d->K;                                              \
        v_flt acc[DIRECT_M], sum[FLOAT_SIDE][DIRECT_M], scale = v_setf(0);                         \
        struct float_scales s[FLOAT_SIDE];                                                         \
        uint32_t last = UINT32_MAX;                                                                \
                                                                                                   \
        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = v_loadf(d->init);                       \
        for (uint32_t k0 = 0; k0 < K; k0 += FLOAT_SIDE * chunk) {                                  \
            float_begin(d, source, k0, &last, &scale, s);                                          \
            UNROLL for (unsigned j = 0; j < FLOAT_SIDE; j++)                                       \
                UNROLL for (unsigned m = 0; m < m_n; m++) sum[j][m] = v_setf(0);                   \
            for (uint32_t k1 = 0; k1 < chunk; k1 += (step))                                        \
                UNROLL for (unsigned j = 0; j < FLOAT_SIDE; j += 2)                                \
                {                                                                                  \
                    const uint32_t k = k0 + k1 + j * chunk;                                        \
                                                                                                   \
                    if (k + chunk < K)                                                             \
                        block(d, m_n, 2, k, k1 / 32, s + j, sum + j);                              \
                    else if (k < K)                                                                \
                        block(d, m_n, 1, k, k1 / 32, s + j, sum + j);                              \
                }                                                                                  \
            UNROLL for (unsigned j = 0; j < FLOAT_SIDE; j++) if (k0 + j * chunk < K)               \
                UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = v_addf(acc[m], sum[j][m]);      \
        }                                                                                          \
        UNROLL for (unsigned m = 0; m < m_n; m++) v_storef(d->y + m * d->ldy, acc[m]);             \
    }                                                                                              \
    DIRECT_FLOAT_FNS(TILE_NAME(direct_##stem), direct_##stem)

DIRECT_CODED_FLOAT(fp8, float_fp8, 16, FLOAT_CODED)
DIRECT_CODED_FLOAT(mxfp8, float_fp8, 16, FLOAT_E8M0)
DIRECT_CODED_FLOAT(nf4, float_nf4, 32, FLOAT_CODED)
