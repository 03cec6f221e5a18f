/* SPDX-License-Identifier: Apache-2.0 */

/* Fills panels with codes that stand for floats: NVFP4, FP8 and NF4. NVFP4 and NF4 become integers.
 * For matmul-coded.h. */

/* Converts E4M3 to floats: @ret[t] gets byte t of each lane, divided by 256. The numbers become
 * binary16, whose exponent has another bias. */
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

        ret[t] = v_from_f16_low(v_and(h, v_set(0xffff)));
        ret[t + 2] = v_from_f16_low(v_shr(h, 16));
    }
}

/* The panel holds a code of NVFP4 as twice its value, plus 32. The table is indexed by codes. */
#define CODED_FP4_ZERO 32
static const uint8_t TILE_NAME(coded_fp4_values)[16]
    __attribute__((aligned(16))) = {32, 33, 34, 35, 36, 38, 40, 44, 32, 31, 30, 29, 28, 26, 24, 20};

/* Returns the factor of scales as coded_e4m3() returns them. It also halves them. */
INLINE float coded_fp4_factor(const struct coded *c)
{
    return 128 / c->factor;
}

/* Loads the scales of NVFP4 of 4 groups: @dst[t] gets those of group @g + t, halved. */
INLINE void coded_fp4_scales(const struct coded *c, uint32_t n, uint32_t g, float (*dst)[PANEL_N])
{
    const uint32_t n_groups = coded_groups(c);
    const uint8_t *p = (const uint8_t *)c->scales + (uint64_t)n * n_groups + g;
    v_flt scale[4];

    for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
        uint32_t words[VEC_N] __attribute__((aligned(64))) = {0};

        for (unsigned i = 0; i < VEC_N; i++)
            memcpy(&words[i], p + (j + i) * n_groups, MIN(n_groups - g, 4u));
        coded_e4m3(v_load(words), scale);
        UNROLL for (unsigned t = 0; t < 4; t++)
            v_storef(&dst[t][j], v_mulf(scale[t], v_setf(coded_fp4_factor(c))));
    }
}

/* Fills a panel with NVFP4, whose scales belong to 16 elements of k. */
static void TILE_NAME(fill_ctfp4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                  uint32_t k, uint32_t kc)
{
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
                v_store(p->q[8 * i + u][j], v_table16(affine_spread4(v[u / 2], u % 2 * 2),
                                                      TILE_NAME(coded_fp4_values)));
        }
    }
}

/* Fills a panel with FP8. If groups are neither whole rows nor multiples of a chunk, the panel has
 * a scale for every 16 elements of k, else one for all. */
static void TILE_NAME(fill_fp8)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                uint32_t k, uint32_t kc)
{
    const uint8_t *w = (const uint8_t *)c->codes + (uint64_t)n * c->cols + k;
    const uint32_t part = coded_has_groups(c, PANEL_K_F32) ? PANEL_K_F32 : 16;

    for (uint32_t i = 0; i < kc; i += part)
        coded_scales(c, n, (k + i) / c->group, p->scale[i / part]);
    for (uint32_t i = 0; i < kc; i += 16) {
        coded_ahead_rows(c, n, k + i, 16, 8);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            v_int v[4];

            load_rows16(w + j * (size_t)c->cols + i, c->cols, v);
            UNROLL for (unsigned t = 0; t < 4; t++)
            {
                v_flt f[4];

                coded_e4m3(v[t], f);
                UNROLL for (unsigned u = 0; u < 4; u++) v_storef(&p->f[i + 4 * t + u][j], f[u]);
            }
        }
    }
}

/* The table of NF4 as integers: number i is @unit × (128 × high[i] + low[i] - 128 × NF4_MIDDLE).
 * Each is rounded to a multiple of @unit, which is 1 / 8191 of the largest magnitude. */
#define NF4_MIDDLE   64
#define NF4_LOW_BITS 7
struct nf4_digits {
    uint8_t high[16], low[16]; /* at most 127 */
    float unit;
} __attribute__((aligned(16)));

INLINE struct nf4_digits nf4_digits_get(const float table[16])
{
    struct nf4_digits d;
    float most = 0;

    for (unsigned i = 0; i < 16; i++)
        most = fabsf(table[i]) > most ? fabsf(table[i]) : most;
    const float inverse = most > 0 ? 8191 / most : 0;

    for (unsigned i = 0; i < 16; i++) {
        /* Adding 1.5 × 2^23 rounds to the nearest integer, which is then in the low bits. */
        const uint32_t u = half_bits_f32(table[i] * inverse + 0x1.8p23f) - 0x4b400000 +
                           (NF4_MIDDLE << NF4_LOW_BITS);

        d.high[i] = (uint8_t)(u >> NF4_LOW_BITS & 127);
        d.low[i] = (uint8_t)(u & 127);
    }
    d.unit = most / 8191;
    return d;
}

/* Fills a panel with NF4. The elements that share a scale have their high digits first, and then
 * their low digits. */
static void TILE_NAME(fill_nf4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                uint32_t k, uint32_t kc)
{
    const unsigned part = coded_has_groups(c, 32) ? 32 : 16;
    const struct nf4_digits digits = nf4_digits_get(c->table);
    const v_flt unit = v_setf(digits.unit);
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;

    for (uint32_t i = 0; i < kc / part; i++) {
        if (i == 0 || (k + i * part) % c->group == 0)
            coded_scales(c, n, (k + i * part) / c->group, p->scale[i]);
        else
            memcpy(p->scale[i], p->scale[i - 1], sizeof(p->scale[i]));
        for (unsigned s = 0; s < part / 8; s++, w += 4) {
            coded_ahead_rows(c, n, k + i * part + 8 * s, 8, 4);
            for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
                const v_int v = affine_load(w + j * stride, stride);
                /* The first code of a byte is in its upper half. */
                const v_int swapped = v_or(v_shl(LOW_NIBBLES(v), 4), HIGH_NIBBLES(v));

                UNROLL for (unsigned t = 0; t < 2; t++)
                {
                    const v_int unit4 = affine_spread4(swapped, 2 * t);
                    const unsigned at = part / 2 * i + 2 * s + t;

                    v_store(p->q[at][j], v_table16(unit4, digits.high));
                    v_store(p->q[at + part / 4][j], v_table16(unit4, digits.low));
                }
            }
        }
    }
    for (uint32_t i = 0; i < kc / part; i++)
        for (unsigned j = 0; j < PANEL_N; j += VEC_N)
            v_storef(&p->scale[i][j], v_mulf(v_loadf(&p->scale[i][j]), unit));
}
