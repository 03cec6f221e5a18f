/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills panels with coded matrices (quant/coded.h), for matmul-vec.h. Include it after
 * matmul-decode-affine.h and matmul-tile.h.
 *
 * Integers of at most 4 bits lie in the panel as code - zero + 16, which multiply_q5_0()
 * multiplies, or, if a group is not a multiple of 32 columns, as code - zero + 32, which
 * multiply_q6_k() multiplies. The sums of such products are exact integers. Codes of 8 bits lie
 * there without their zero, and the panel has the offset scale × (128 - zero). The words of GPTQ
 * have neighboring columns of the panel in neighboring lanes already, so nothing is transposed.
 */

#include "quant/coded.h"

typedef uint32_t coded_u32 __attribute__((vector_size(4 * VEC_N)));
typedef int32_t coded_i32 __attribute__((vector_size(4 * VEC_N)));

/* What the PANEL_N columns of a panel have in common in a group. */
struct coded_columns {
    uint32_t g; /* the group */
    float scale[PANEL_N];
    uint32_t add[PANEL_N];                /* what is added to codes, in each byte */
    float offset[PANEL_N];                /* for codes of 8 bits */
    uint32_t add_awq[PANEL_N / 4][VEC_N]; /* add of 4 columns, repeated */
} __attribute__((aligned(64)));

/* Writes units of 4 elements of k to the panel: units @to … @to + @n - 1 get the elements from
 * column @k of the matrix on. */
typedef void coded_units(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                         unsigned to, unsigned n_units, const struct coded_columns *cols);

INLINE coded_u32 coded_load(const void *p)
{
    return (coded_u32)v_load(p);
}

INLINE void coded_store(void *p, coded_u32 v)
{
    v_store(p, (v_int)v);
}

/* ---- scales and zeros ---- */

INLINE void coded_scales_f16(const uint16_t *p, float *dst)
{
    for (unsigned i = 0; i < PANEL_N; i += VEC_N)
        v_storef(dst + i, v_from_f16(p + i));
}

/* Loads the scales of the rows from @n on. */
INLINE void coded_scales(const struct coded *c, uint32_t n, uint32_t g, float *dst)
{
    const uint64_t at = (uint64_t)g * c->rows + n;
    uint16_t half[PANEL_N] __attribute__((aligned(64)));

    if (!coded_kind(c->dtype).by_place || c->scale_type == INF_DTYPE_F32) {
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = coded_scale(c, n + i, g);
        return;
    }
    memcpy(half, (const uint8_t *)c->scales + 2 * at, sizeof(half));
    if (c->scale_type == INF_DTYPE_F16) {
        coded_scales_f16(half, dst);
        return;
    }
    for (unsigned i = 0; i < PANEL_N; i++)
        dst[i] = half_from_bits_f32((uint32_t)half[i] << 16);
}

/* Extracts the 8 numbers of 4 bits of each of the 4 words at @p. Number i of a word is in the bits
 * from shift[i] on. */
INLINE void coded_nibbles(const uint8_t *p, const uint8_t shift[8], uint32_t add, uint32_t *dst)
{
    for (unsigned i = 0; i < PANEL_N; i += 8, p += 4) {
        uint32_t word;

        memcpy(&word, p, 4);
        for (unsigned j = 0; j < 8; j++)
            dst[i + j] = ((word >> shift[j]) + add) & 15;
    }
}

static const uint8_t TILE_NAME(gptq_shift)[8] = {0, 4, 8, 12, 16, 20, 24, 28};
static const uint8_t TILE_NAME(awq_shift)[8] = {0, 16, 4, 20, 8, 24, 12, 28};

INLINE void coded_zeros(const struct coded *c, uint32_t n, uint32_t g, uint32_t *dst)
{
    const uint8_t *words = (const uint8_t *)c->zeros + ((uint64_t)g * c->rows + n) / 2;

    if (c->dtype == INF_DTYPE_GPTQ4 && n % 8 == 0)
        coded_nibbles(words, TILE_NAME(gptq_shift), c->zero_add, dst);
    else if (c->dtype == INF_DTYPE_AWQ4 && n % 8 == 0)
        coded_nibbles(words, TILE_NAME(awq_shift), 0, dst);
    else
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = coded_zero(c, n + i, g);
}

/* Loads what the columns have in common in the group @g. Codes get @base - zero added. */
INLINE void coded_columns_load(const struct coded *c, uint32_t n, uint32_t g, uint32_t base,
                               struct coded_columns *cols)
{
    cols->g = g;
    coded_scales(c, n, g, cols->scale);
    coded_zeros(c, n, g, cols->add);
    for (unsigned i = 0; i < PANEL_N; i++) {
        cols->offset[i] = cols->scale[i] * (float)(128 - (int)cols->add[i]);
        cols->add[i] = (base - cols->add[i]) * 0x01010101;
    }
    for (unsigned i = 0; c->dtype == INF_DTYPE_AWQ4 && i < PANEL_N * VEC_N / 4; i++)
        cols->add_awq[i / VEC_N][i % VEC_N] = cols->add[i / VEC_N * 4 + i % 4];
}

/* Fills a panel with integers. @units writes the codes, and @wide says that they have 8 bits. */
INLINE void coded_fill(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                       uint32_t kc, coded_units *units, const bool wide)
{
    const uint32_t part = c->group % 32 == 0 || c->group == c->cols ? 32 : 16;
    struct coded_columns cols = {.g = UINT32_MAX};

    for (uint32_t i = 0; i < kc / part; i++) {
        const uint32_t at = k + i * part;

        if (at / c->group != cols.g)
            coded_columns_load(c, n, at / c->group, part == 32 ? 16 : 32, &cols);
        memcpy(p->scale[i], cols.scale, sizeof(cols.scale));
        if (wide)
            memcpy(p->offset[i], cols.offset, sizeof(cols.offset));
        units(p, c, n, at, i * part / 4, part / 4, &cols);
    }
}

/* ---- codes ---- */

/* Prefetches the words of the next columns of W, which are read soon. */
INLINE void coded_ahead(const uint8_t *p)
{
    __builtin_prefetch(p + 4 * PANEL_N, 0, 2);
    __builtin_prefetch(p + 4 * PANEL_N + 64, 0, 2);
}

INLINE void coded_units_gptq4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 8) * c->rows + n) * 4;

    for (unsigned i = 0; i < n_units; i += 2, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            const v_int v = v_load(w + 4 * j), add = v_load(cols->add + j);

            v_store(p->q[to + i][j], v_add(affine_spread4(v, 0), add));
            v_store(p->q[to + i + 1][j], v_add(affine_spread4(v, 2), add));
        }
    }
}

INLINE void coded_units_gptq2(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 16) * c->rows + n) * 4;

    for (unsigned i = 0; i < n_units; i += 4, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            const v_int v = v_load(w + 4 * j), add = v_load(cols->add + j);

            UNROLL for (unsigned u = 0; u < 4; u++)
                v_store(p->q[to + i + u][j], v_add(affine_spread2(v, u), add));
        }
    }
}

INLINE void coded_units_gptq8(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 4) * c->rows + n) * 4;

    (void)cols;
    for (unsigned i = 0; i < n_units; i++, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
            v_store(p->q[to + i][j], v_xor(v_load(w + 4 * j), v_set(VEC_S8 ? 0x80808080 : 0)));
    }
}

/* Returns code @k of the rows from @n on. */
INLINE coded_u32 coded_gptq_one(const struct coded *c, uint32_t n, uint32_t k, const unsigned bits)
{
    const uint32_t at = k * bits % 32;
    const uint8_t *w =
        (const uint8_t *)c->codes + ((uint64_t)((uint64_t)k * bits / 32) * c->rows + n) * 4;
    coded_u32 v = coded_load(w) >> at;

    if (at + bits > 32)
        v |= coded_load(w + 4 * (uint64_t)c->rows) << (32 - at);
    return v & ((1u << bits) - 1);
}

/* Writes codes of any number of bits, in any order of columns. */
INLINE void coded_units_gptq(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                             unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const unsigned bits = coded_kind(c->dtype).bits;

    for (unsigned i = 0; i < n_units; i++) {
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            coded_u32 v = {0};

            UNROLL for (unsigned t = 0; t < 4; t++)
            {
                const uint32_t at = k + 4 * i + t;

                v |= coded_gptq_one(c, n + j, c->order ? c->order[at] : at, bits) << 8 * t;
            }
            if (bits == 8)
                v ^= (coded_u32)v_set(VEC_S8 ? 0x80808080 : 0);
            else
                v += coded_load(cols->add + j);
            coded_store(p->q[to + i][j], v);
        }
    }
}

/* Splits the words of 4 rows of AWQ's codes into units: @v[c] gets in each lane the unit of column
 * c of the 8 columns of a word. The half bytes s and s + 4 of a word are columns 2 s and 2 s + 1.
 */
INLINE void coded_awq_split(const coded_u32 row[4], coded_u32 v[8])
{
    UNROLL for (unsigned s = 0; s < 4; s++)
    {
        coded_u32 part[4], pair[2];

        UNROLL for (unsigned t = 0; t < 4; t++) part[t] = row[t] >> 4 * s & 0x000f000f;
        UNROLL for (unsigned t = 0; t < 2; t++) pair[t] = part[2 * t] | part[2 * t + 1] << 8;
        v[2 * s] = (pair[0] & 0xffff) | pair[1] << 16;
        v[2 * s + 1] = pair[0] >> 16 | (pair[1] & 0xffff0000);
    }
}

/* Writes VEC_N / 4 units of 32 columns. The 16 bytes of a row with these columns are 4 lanes. */
INLINE void coded_awq_put(struct matmul_panel *p, const uint8_t *w, uint64_t stride, unsigned to,
                          const struct coded_columns *cols)
{
    uint32_t unit[VEC_N] __attribute__((aligned(64)));
    coded_u32 row[4], v[8];

    UNROLL for (unsigned t = 0; t < 4; t++) row[t] = (coded_u32)v_rows16(w + t * stride, stride);
    coded_awq_split(row, v);
    UNROLL for (unsigned h = 0; h < 2; h++)
    {
        v_int t[4] = {(v_int)v[4 * h], (v_int)v[4 * h + 1], (v_int)v[4 * h + 2],
                      (v_int)v[4 * h + 3]};

        /* The words of a vector become vectors, in which 4 columns are side by side. */
        transpose(t);
        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            v_store(unit, v_add(t[i], v_load(cols->add_awq[2 * i + h])));
            UNROLL for (unsigned q = 0; q < VEC_N / 4; q++)
                memcpy(p->q[to + q][8 * i + 4 * h], unit + 4 * q, 16);
        }
    }
}

INLINE void coded_units_awq4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                             unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint64_t stride = c->rows / 2;
    const uint8_t *w = (const uint8_t *)c->codes + k * stride + n / 2;

    for (unsigned i = 0; i < n_units; i += VEC_N / 4, w += VEC_N * stride) {
        for (unsigned t = 0; n % 128 == 0 && t < VEC_N; t++)
            __builtin_prefetch(w + t * stride + 64, 0, 2);
        coded_awq_put(p, w, stride, to + i, cols);
    }
}

INLINE void coded_units_ct4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                            unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;

    for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
        const v_int add = v_load(cols->add + j);
        v_int v[4] = {v_zero(), v_zero(), v_zero(), v_zero()};

        if (n_units == 8)
            load_rows16(w + j * stride, stride, v);
        else
            UNROLL for (unsigned i = 0; i < 2; i++) v[i] =
                affine_load(w + j * stride + 4 * i, stride);
        for (unsigned i = 0; i < n_units / 2; i++) {
            v_store(p->q[to + 2 * i][j], v_add(affine_spread4(v[i], 0), add));
            v_store(p->q[to + 2 * i + 1][j], v_add(affine_spread4(v[i], 2), add));
        }
    }
}

INLINE void coded_units_rows8(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint32_t flip = VEC_S8 ^ (c->dtype == INF_DTYPE_INT8) ? 0x80808080 : 0;
    const uint8_t *w = (const uint8_t *)c->codes + (uint64_t)n * c->cols + k;

    (void)cols;
    for (unsigned i = 0; i < n_units; i += 4)
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            v_int v[4];

            load_rows16(w + j * (size_t)c->cols + 4 * i, c->cols, v);
            UNROLL for (unsigned t = 0; t < 4; t++)
                v_store(p->q[to + i + t][j], v_xor(v[t], v_set(flip)));
        }
}

/* Writes codes one by one: the only way for rows in another order. */
INLINE void coded_units_plain(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const bool wide = coded_kind(c->dtype).bits == 8;

    for (unsigned i = 0; i < 4 * n_units; i++)
        for (unsigned j = 0; j < PANEL_N; j++) {
            const unsigned q = coded_code(c, n + j, c->order ? c->order[k + i] : k + i);

            p->q[to + i / 4][j][i % 4] =
                (uint8_t)(wide ? q ^ (VEC_S8 ? 0x80 : 0) : q + (uint8_t)cols->add[j]);
        }
}

#define CODED_FILL(stem, units, wide)                                                              \
    static void TILE_NAME(fill_##stem)(struct matmul_panel * p, const struct coded *c, uint32_t n, \
                                       uint32_t k, uint32_t kc)                                    \
    {                                                                                              \
        if (c->order)                                                                              \
            coded_fill(p, c, n, k, kc,                                                             \
                       coded_kind(c->dtype).by_place ? coded_units_gptq : coded_units_plain,       \
                       wide);                                                                      \
        else                                                                                       \
            coded_fill(p, c, n, k, kc, units, wide);                                               \
    }
CODED_FILL(gptq2, coded_units_gptq2, false)
CODED_FILL(gptq3, coded_units_gptq, false)
CODED_FILL(gptq4, coded_units_gptq4, false)
CODED_FILL(gptq8, coded_units_gptq8, true)
CODED_FILL(ct4, coded_units_ct4, false)
CODED_FILL(rows8, coded_units_rows8, true)

static void TILE_NAME(fill_awq4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                 uint32_t k, uint32_t kc)
{
    coded_fill(p, c, n, k, kc, n % 8 == 0 ? coded_units_awq4 : coded_units_plain, false);
}

static void TILE_NAME(multiply_coded8)(const struct matmul_tile *t)
{
    multiply_q8(t,
                (struct tile_kind){
                    .steps = 8, .zero = VEC_S8 ? 0 : 7, .offset = 8, .is_s8 = VEC_S8, .narrow = 1});
}

/* ---- codes of floats ---- */

/* Fills a panel with NVFP4: the doubled value of a code plus 32, and half the scale, for 16
 * elements of k each. */
static void TILE_NAME(fill_ctfp4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                  uint32_t k, uint32_t kc)
{
    static const uint8_t values[16] __attribute__((aligned(16))) = {32, 33, 34, 35, 36, 38, 40, 44,
                                                                    32, 31, 30, 29, 28, 26, 24, 20};
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;

    for (uint32_t i = 0; i < kc / 16; i++, w += 8) {
        for (unsigned j = 0; j < PANEL_N; j++)
            p->scale[i][j] = coded_scale(c, n + j, k / 16 + i) * 0.5f;
        for (unsigned j = 0; j < PANEL_N; j += VEC_N)
            UNROLL for (unsigned u = 0; u < 4; u++)
            {
                const v_int v = affine_load(w + j * stride + u / 2 * 4, stride);

                v_store(p->q[4 * i + u][j], v_table16(affine_spread4(v, u % 2 * 2), values));
            }
    }
}

/* Converts the E4M3 in the lowest byte of each lane. They become binary16, whose exponent has
 * another bias. */
INLINE v_flt coded_e4m3(v_int v)
{
    const v_int h = v_or(v_shl(v_and(v, v_set(0x7f)), 7), v_shl(v_and(v, v_set(0x80)), 8));
    const coded_i32 nan = ((coded_i32)v_and(v, v_set(0x7f)) == 0x7f) & 0x7fc00000;

    return v_bits(v_or((v_int)v_mulf(v_from_f16_low(h), v_setf(256)), (v_int)nan));
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
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            v_int v[4];

            load_rows16(w + j * (size_t)c->cols + i, c->cols, v);
            UNROLL for (unsigned t = 0; t < 16; t++)
                v_storef(&p->f[i + t][j],
                         v_mulf(coded_e4m3(v_shr(v[t / 4], 8 * (t % 4))), v_loadf(scale + j)));
        }
    }
}

/* Replaces each lane of @v, which is 0 … 15, by an element of @table. */
#if VEC_N == 16
#define coded_lookup(v, table) _mm512_permutexvar_ps(v, _mm512_loadu_ps(table))
#else
INLINE v_flt coded_lookup(v_int v, const float *table)
{
    float y[VEC_N] __attribute__((aligned(64)));

    UNROLL for (unsigned i = 0; i < VEC_N; i++) y[i] = table[((coded_u32)v)[i]];
    return v_loadf(y);
}
#endif

/* Fills a panel with NF4. */
static void TILE_NAME(fill_nf4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                uint32_t k, uint32_t kc)
{
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;
    float scale[PANEL_N] __attribute__((aligned(64)));
    uint32_t g = UINT32_MAX;

    for (uint32_t i = 0; i < kc; i += 8, w += 4) {
        if ((k + i) / c->group != g)
            coded_scales(c, n, g = (k + i) / c->group, scale);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            const v_int v = affine_load(w + j * stride, stride);

            UNROLL for (unsigned t = 0; t < 8; t++)
            {
                const v_int code = v_and(v_shr(v, 4 * (t ^ 1)), v_set(15));

                v_storef(&p->f[i + t][j], v_mulf(coded_lookup(code, c->table), v_loadf(scale + j)));
            }
        }
    }
}
