/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies FP8 (quant/coded.h) and MXFP8 by up to DIRECT_M prepared rows of floats without a
 * panel, for matmul-vec.h. Include it after matmul-coded-float.h.
 *
 * 4 × VEC_N bytes of each of VEC_N rows, a *step*, are loaded and transposed, so that 16-bit lanes
 * with two codes belong to a row of W. Shifts turn the codes into numbers in binary16, which are
 * 2^-8 of the numbers in E4M3. They go through a buffer in the first-level cache, because
 * converting them from there needs no shuffle. The float arithmetic is that of tile_parts().
 * Additions to a sum wait for each other, so up to FP8_SIDE chunks of k are computed side by side.
 *
 * The code of NaN becomes a number. If a row has such a code, its results are set to NaN at the
 * end.
 */

#define FP8_STEP  (4 * VEC_N) /* elements of k of a step */
#define FP8_SIDE  4u
#define FP8_PARTS (PANEL_K_F32 / 32)

/* Has the numbers of a step: [h][c][o][q] has element 32 h + 16 q + 2 c + o of VEC_N rows. */
typedef uint16_t fp8_halves[VEC_N / 8][8][2][2][VEC_N];

/* Shows whether a code of NaN, 0x7f or 0xff, was loaded. */
struct fp8_seen {
    v_int u8, s8; /* the largest bytes, without and with a sign */
};

/* Holds the sums of the chunks that are computed side by side. */
struct fp8_sums {
    v_flt part[FP8_SIDE][DIRECT_M], chunk[FP8_SIDE][DIRECT_M];
    v_flt scale[FP8_SIDE][FP8_PARTS]; /* one scale for a chunk: only the first */
};

#if VEC_N == 16
#define fp8_max_u8(a, b) _mm512_max_epu8(a, b)
#define fp8_max_s8(a, b) _mm512_max_epi8(a, b)
#define fp8_shl8(v)      _mm512_slli_epi16(v, 8)
#define fp8_half(v)      v_and(_mm512_srai_epi16(v, 1), v_set(0xbf80bf80))
#else
#define fp8_max_u8(a, b) _mm256_max_epu8(a, b)
#define fp8_max_s8(a, b) _mm256_max_epi8(a, b)
#define fp8_shl8(v)      _mm256_slli_epi16(v, 8)
#define fp8_half(v)      v_and(_mm256_srai_epi16(v, 1), v_set(0xbf80bf80))
#endif

/* Transposes the 16-bit units of 8 rows within each 16 bytes: unit c of row i becomes unit i of
 * v[c]. */
INLINE void fp8_transpose8(v_int v[8])
{
    v_int a[8], b[8];

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        a[i] = v_low16(v[2 * i], v[2 * i + 1]);
        a[4 + i] = v_high16(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        b[i + j] = v_low32(a[i + 2 * j], a[i + 2 * j + 1]);
        b[i + 2 + j] = v_high32(a[i + 2 * j], a[i + 2 * j + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        v[i + 2 * j] = v_low64(b[i + 2 * j], b[i + 2 * j + 1]);
        v[i + 2 * j + 1] = v_high64(b[i + 2 * j], b[i + 2 * j + 1]);
    }
}

/* Loads a step of VEC_N rows: 16-bit unit l of v[8 h + c] has the elements 32 h + 16 (l / VEC_N) +
 * 2 c and 32 h + 16 (l / VEC_N) + 2 c + 1 of row l % VEC_N. */
INLINE void fp8_load(struct matmul_direct *d, size_t k, struct fp8_seen *seen, v_int v[VEC_N])
{
    const uint8_t *w = d->w + k;

    UNROLL for (unsigned i = 0; i < VEC_N; i++)
    {
        prefetch_turn(&d->ahead, i, FP8_STEP);
        v[i] = v_load(w + i * d->row_bytes);
        seen->u8 = fp8_max_u8(seen->u8, v[i]);
        seen->s8 = fp8_max_s8(seen->s8, v[i]);
    }
    fp8_transpose8(v);
#if VEC_N == 16
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);

    fp8_transpose8(v + 8);
    UNROLL for (unsigned c = 0; c < 8; c++)
    {
        const v_int a = v[c], b = v[8 + c];

        v[c] = _mm512_permutex2var_epi64(a, first, b);
        v[8 + c] = _mm512_permutex2var_epi64(a, last, b);
    }
#endif
}

/* Loads a step and writes its numbers to @dst. */
INLINE void fp8_convert(struct matmul_direct *d, size_t k, struct fp8_seen *seen, fp8_halves dst)
{
    v_int v[VEC_N];

    fp8_load(d, k, seen, v);
    UNROLL for (unsigned i = 0; i < VEC_N; i++)
    {
        v_store(dst[i / 8][i % 8][0], fp8_half(fp8_shl8(v[i])));
        v_store(dst[i / 8][i % 8][1], fp8_half(v[i]));
    }
}

/* Ends the sums of part @i of chunk @s. */
INLINE void fp8_end_part(struct fp8_sums *a, const unsigned m_n, const unsigned s, const unsigned i)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        a->chunk[s][m] = v_fma(v_mulf(a->part[s][m], v_setf(256)), a->scale[s][i], a->chunk[s][m]);
        a->part[s][m] = v_setf(0);
    }
}

/* Adds a step of the @n chunks from chunk @s0 on. The step of chunk 0 begins at @k, and is in part
 * @i_part of the chunk. */
INLINE void fp8_add(const struct matmul_direct *d, const unsigned m_n, const unsigned part,
                    const unsigned s0, const unsigned n, size_t k, uint32_t i_part,
                    fp8_halves half[FP8_SIDE], struct fp8_sums *a)
{
    for (unsigned q = 0; q < VEC_N / 4; q++) {
        UNROLL for (unsigned c = 0; c < 16; c++) UNROLL for (unsigned s = s0; s < s0 + n; s++)
        {
            const v_flt w = v_from_f16(half[s][q / 2][c / 2][c % 2][q % 2]);

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const float *x = (const float *)(d->act + m * d->act_stride) + k + 16 * q + c;

                a->part[s][m] = v_fma(w, v_bcastf(x + s * PANEL_K_F32), a->part[s][m]);
            }
        }
        if (part == 32 && q % 2 == 1)
            UNROLL for (unsigned s = s0; s < s0 + n; s++) fp8_end_part(a, m_n, s, i_part + q / 2);
    }
}

/* Adds a step of the first @n chunks. */
INLINE void fp8_add_chunks(const struct matmul_direct *d, const unsigned m_n, const unsigned part,
                           const unsigned n, size_t k, uint32_t i_part, fp8_halves half[FP8_SIDE],
                           struct fp8_sums *a)
{
    if (n == FP8_SIDE && 4 * m_n <= VEC_N) {
        fp8_add(d, m_n, part, 0, 4, k, i_part, half, a);
        return;
    }
    if (n >= 2)
        fp8_add(d, m_n, part, 0, 2, k, i_part, half, a);
    if (n == 4)
        fp8_add(d, m_n, part, 2, 2, k, i_part, half, a);
    if (n == 1)
        fp8_add(d, m_n, part, 0, 1, k, i_part, half, a);
    if (n == 3)
        fp8_add(d, m_n, part, 2, 1, k, i_part, half, a);
}

/* Sets the results of rows that have a code of NaN to NaN. */
static __attribute__((noinline)) void TILE_NAME(fp8_nans)(const struct matmul_direct *d,
                                                          unsigned m_n)
{
    for (unsigned i = 0; i < VEC_N; i++) {
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
    const v_int ones = v_set(0x01010101), high = v_set(0x80808080);
    /* Adding 1 changes the top bit of 0x7f, and of 0xff without its top bit. The carry of a byte
     * reaches the next byte only if the byte is 0xff, so the top bit is left out. */
    const v_int u8 = v_and(v_add(v_and(seen->u8, v_set(0x7f7f7f7f)), ones), v_and(seen->u8, high));
    const v_int s8 =
        v_and(v_add(v_and(seen->s8, v_set(0x7f7f7f7f)), ones), v_xor(v_and(seen->s8, high), high));

    return v_any(v_or(u8, v_and(s8, high)));
}

/* ---- scales ---- */

/* Says where the scales of FP8 are. */
struct fp8_scales {
    uint64_t at[VEC_N]; /* the scale of group 0 of each row */
    bool same;          /* all rows have the same scales */
    uint32_t group;     /* the group of @scale, or UINT32_MAX */
    v_flt scale;
};

INLINE void fp8_scales_init(const struct matmul_direct *d, struct fp8_scales *s)
{
    const struct coded *c = d->coded;
    const uint32_t first = d->coded_row, n_groups = coded_groups(c);

    s->group = UINT32_MAX;
    s->scale = v_setf(0);
    s->same = first / c->group_rows == (first + VEC_N - 1) / c->group_rows;
    for (unsigned i = 0; i < VEC_N; i++) {
        const uint32_t row = c->group_rows == 1 ? first + i
                             : s->same          ? first / c->group_rows
                                                : (first + i) / c->group_rows;

        s->at[i] = (uint64_t)row * n_groups;
    }
}

/* Returns the scales of VEC_N rows in the group @g. */
static __attribute__((noinline)) v_flt TILE_NAME(fp8_group)(const struct coded *c,
                                                            const struct fp8_scales *s, uint32_t g)
{
    uint32_t bits[VEC_N] __attribute__((aligned(64)));

    for (unsigned i = 0; i < VEC_N; i++) {
        uint16_t half;

        if (c->scale_type == INF_DTYPE_F32) {
            memcpy(&bits[i], (const uint8_t *)c->scales + 4 * (s->at[i] + g), 4);
        } else {
            memcpy(&half, (const uint8_t *)c->scales + 2 * (s->at[i] + g), 2);
            bits[i] = c->scale_type == INF_DTYPE_F16 ? half : (uint32_t)half << 16;
        }
    }
    return c->scale_type == INF_DTYPE_F16 ? v_from_f16_low(v_load(bits)) : v_bits(v_load(bits));
}

/* Loads the scales of the chunk that begins at @k. */
INLINE void fp8_scales_chunk(const struct matmul_direct *d, uint32_t k, struct fp8_scales *s,
                             v_flt scale[FP8_PARTS])
{
    const uint32_t g = k / d->coded->group;

    if (g != s->group)
        s->scale = TILE_NAME(fp8_group)(d->coded, s, g);
    s->group = g;
    scale[0] = s->scale;
}

/* Does the same for MXFP8, whose scales belong to 32 elements. */
INLINE void fp8_scales_e8m0(const struct matmul_direct *d, uint32_t k, v_flt scale[FP8_PARTS])
{
    const uint8_t *p = d->planes.scales + k / 32;
    uint32_t words[VEC_N] __attribute__((aligned(64)));

    if (k + PANEL_K_F32 <= d->K)
        UNROLL for (unsigned i = 0; i < VEC_N; i++)
            memcpy(&words[i], p + i * d->planes.row_bytes, 4);
    else
        for (unsigned i = 0; i < VEC_N; i++) {
            words[i] = 0;
            memcpy(&words[i], p + i * d->planes.row_bytes, (d->K - k) / 32);
        }
    UNROLL for (unsigned i = 0; i < FP8_PARTS; i++)
    {
        const v_int e = v_and(v_shr(v_load(words), 8 * i), v_set(255));
        const v_int least = v_shl(v_shr(v_add(e, v_set(UINT32_MAX)), 31), 22); /* e is 0: 2^-127 */

        scale[i] = v_bits(v_or(v_shl(e, 23), least));
    }
}

/* ---- kernels ---- */

/* Multiplies rows whose parts of @part elements of k, 128 (FP8) or 32 (MXFP8), have a scale. */
INLINE void direct_fp8_rows(struct matmul_direct *d, const unsigned m_n, const unsigned part)
{
    fp8_halves half[FP8_SIDE] __attribute__((aligned(64)));
    const uint32_t chunk = PANEL_K_F32, K = d->K;
    struct fp8_seen seen = {v_zero(), v_set(0x80808080)};
    struct fp8_scales scales;
    struct fp8_sums a;
    v_flt acc[DIRECT_M];

    if (part == chunk)
        fp8_scales_init(d, &scales);
    UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = v_loadf(d->init);
    for (uint32_t k0 = 0; k0 < K; k0 += FP8_SIDE * chunk) {
        const unsigned n = MIN(DIV_UP(K - k0, chunk), FP8_SIDE);

        UNROLL for (unsigned s = 0; s < FP8_SIDE; s++)
        {
            UNROLL for (unsigned m = 0; m < m_n; m++) a.part[s][m] = a.chunk[s][m] = v_setf(0);
            if (s < n && part == chunk)
                fp8_scales_chunk(d, k0 + s * chunk, &scales, a.scale[s]);
            else if (s < n)
                fp8_scales_e8m0(d, k0 + s * chunk, a.scale[s]);
        }
        for (uint32_t k1 = 0; k1 < chunk; k1 += FP8_STEP) {
            unsigned n_now = 0;

            for (; n_now < n && k0 + n_now * chunk + k1 < K; n_now++)
                fp8_convert(d, k0 + n_now * chunk + k1, &seen, half[n_now]);
            __asm__("" : "+m"(half));
            fp8_add_chunks(d, m_n, part, n_now, k0 + k1, k1 / 32, half, &a);
        }
        UNROLL for (unsigned s = 0; s < FP8_SIDE; s++) if (s < n)
        {
            if (part == chunk)
                fp8_end_part(&a, m_n, s, 0);
            UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = v_addf(acc[m], a.chunk[s][m]);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) v_storef(d->y + m * d->ldy, acc[m]);
    if (UNLIKELY(fp8_has_nan(&seen)))
        TILE_NAME(fp8_nans)(d, m_n);
}

DIRECT(fp8, direct_fp8_rows(d, m_n, PANEL_K_F32))
DIRECT(mxfp8, direct_fp8_rows(d, m_n, 32))
