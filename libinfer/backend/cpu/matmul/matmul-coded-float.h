/* SPDX-License-Identifier: Apache-2.0 */

/* Fills panels with codes that stand for floats: NVFP4, FP8 and NF4. For matmul-coded.h. */

/* Converts E4M3 to floats: @ret[t] gets byte t of each lane. The numbers become binary16, whose
 * exponent has another bias. */
INLINE void coded_e4m3(v_int v, v_flt ret[4])
{
    const v_int low = v_and(v, v_set(0x7f7f7f7f)), halves = v_set(0x00ff00ff);
    /* Only NaN has all low bits set. Its bit 7 becomes part of the exponent of binary16. */
    const v_int all = v_or(low, v_and(v_add(low, v_set(0x01010101)), v_set(0x80808080)));
    const v_int sign = v_and(v, v_set(0x80808080));

    UNROLL for (unsigned t = 0; t < 2; t++)
    {
        const v_int h = v_or(v_shl(v_and(v_shr(all, 8 * t), halves), 7),
                             v_shl(v_and(v_shr(sign, 8 * t), halves), 8));

        ret[t] = v_mulf(v_from_f16_low(v_and(h, v_set(0xffff))), v_setf(256));
        ret[t + 2] = v_mulf(v_from_f16_low(v_shr(h, 16)), v_setf(256));
    }
}

/* Loads the scales of NVFP4 of 4 groups: @dst[t] gets those of group @g + t, halved. */
INLINE void coded_fp4_scales(const struct coded *c, uint32_t n, uint32_t g, float (*dst)[PANEL_N])
{
    const uint32_t n_groups = coded_groups(c);
    const uint8_t *p = (const uint8_t *)c->scales + (uint64_t)n * n_groups + g;
    v_flt scale[4];

    if (g + 4 > n_groups) {
        for (unsigned t = 0; g + t < n_groups; t++)
            for (unsigned j = 0; j < PANEL_N; j++)
                dst[t][j] = coded_scale(c, n + j, g + t) * 0.5f;
        return;
    }
    for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
        coded_e4m3(affine_load(p + j * n_groups, n_groups), scale);
        UNROLL for (unsigned t = 0; t < 4; t++)
            v_storef(&dst[t][j], v_mulf(scale[t] / v_setf(c->factor), v_setf(0.5f)));
    }
}

/* Fills a panel with NVFP4: a code becomes twice its value, plus 32, and each scale, which belongs
 * to 16 elements of k, is halved. */
static void TILE_NAME(fill_ctfp4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                  uint32_t k, uint32_t kc)
{
    static const uint8_t values[16] __attribute__((aligned(16))) = {32, 33, 34, 35, 36, 38, 40, 44,
                                                                    32, 31, 30, 29, 28, 26, 24, 20};
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;

    for (uint32_t i = 0; i < kc / 32; i++, w += 16) {
        if (i % 2 == 0)
            coded_fp4_scales(c, n, k / 16 + 2 * i, &p->scale[2 * i]);
        coded_ahead_rows(c, n, k + 32 * i, 32, 4);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            v_int v[4];

            load_rows16(w + j * stride, stride, v);
            UNROLL for (unsigned u = 0; u < 8; u++)
                v_store(p->q[8 * i + u][j], v_table16(affine_spread4(v[u / 2], u % 2 * 2), values));
        }
    }
}

/* Fills a panel with FP8. */
static void TILE_NAME(fill_fp8)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                uint32_t k, uint32_t kc)
{
    const uint8_t *w = (const uint8_t *)c->codes + (uint64_t)n * c->cols + k;
    float scale[PANEL_N] __attribute__((aligned(64)));
    uint32_t g = UINT32_MAX;

    for (uint32_t i = 0; i < kc; i += 16) {
        if ((k + i) / c->group != g)
            coded_scales(c, n, g = (k + i) / c->group, scale);
        coded_ahead_rows(c, n, k + i, 16, 8);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            const v_flt factor = v_loadf(scale + j);
            v_int v[4];

            load_rows16(w + j * (size_t)c->cols + i, c->cols, v);
            UNROLL for (unsigned t = 0; t < 4; t++)
            {
                v_flt f[4];

                coded_e4m3(v[t], f);
                UNROLL for (unsigned u = 0; u < 4; u++)
                    v_storef(&p->f[i + 4 * t + u][j], v_mulf(f[u], factor));
            }
        }
    }
}

/* Struct coded_table has a table of 16 floats. coded_lookup() returns in each lane the element of
 * the table whose number is in the 4 bits of @v from bit @at on. */
#if VEC_N == 16
struct coded_table {
    __m512 v;
};

INLINE struct coded_table coded_table_load(const float *p)
{
    return (struct coded_table){_mm512_loadu_ps(p)};
}

INLINE v_flt coded_lookup(v_int v, const unsigned at, const struct coded_table *table)
{
    return _mm512_permutexvar_ps(v_shr(v, at), table->v);
}
#elif VEC_N == 8
struct coded_table {
    __m256 low, high;
};

INLINE struct coded_table coded_table_load(const float *p)
{
    return (struct coded_table){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

INLINE v_flt coded_lookup(v_int v, const unsigned at, const struct coded_table *table)
{
    const v_int number = v_shr(v, at);

    /* The top bit of the number chooses between the halves of the table. */
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table->low, number),
                            _mm256_permutevar8x32_ps(table->high, number),
                            v_bits(v_shl(v, 28 - at)));
}
#else
struct coded_table {
    const float *p;
};

INLINE struct coded_table coded_table_load(const float *p)
{
    return (struct coded_table){p};
}

INLINE v_flt coded_lookup(v_int v, const unsigned at, const struct coded_table *table)
{
    float y[VEC_N] __attribute__((aligned(64)));

    UNROLL for (unsigned i = 0; i < VEC_N; i++) y[i] = table->p[((coded_u32)v)[i] >> at & 15];
    return v_loadf(y);
}
#endif

/* Fills a panel with NF4. */
static void TILE_NAME(fill_nf4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                uint32_t k, uint32_t kc)
{
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;
    const struct coded_table table = coded_table_load(c->table);
    float scale[PANEL_N] __attribute__((aligned(64)));
    uint32_t g = UINT32_MAX;

    for (uint32_t i = 0; i < kc; i += 8, w += 4) {
        if ((k + i) / c->group != g)
            coded_scales(c, n, g = (k + i) / c->group, scale);
        coded_ahead_rows(c, n, k + i, 8, 4);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            const v_int v = affine_load(w + j * stride, stride);

            UNROLL for (unsigned t = 0; t < 8; t++)
            {
                const v_flt f = coded_lookup(v, 4 * (t ^ 1), &table);

                v_storef(&p->f[i + t][j], v_mulf(f, v_loadf(scale + j)));
            }
        }
    }
}
