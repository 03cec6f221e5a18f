/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of GPTQ (quant/coded.h) by up to GPTQ_M prepared rows without a panel, for
 * matmul-vec.h. Include it after matmul-coded.h and matmul-direct-cols.h.
 *
 * A vector has the words of VEC_N columns of y. A unit is a vector with 4 codes of each column, one
 * per byte. Units are unpacked in the order that is simplest to compute. In this order the codes of
 * a unit are not neighbors, so the block of x is brought to the same order. A lane has the sum of
 * its column, and nothing is transposed. The float arithmetic is that of the tiles.
 *
 * In a matrix with an order, the codes of neighboring places lie in different words. Each code is
 * loaded and moved to its byte. The numbers of x are already in the order of places.
 */

#define GPTQ_V       4u /* vectors that are computed together */
#define GPTQ_COLUMNS (GPTQ_V * VEC_N)
#define GPTQ_LINES   (4 * GPTQ_COLUMNS / 64) /* cache lines of a row of words */
#define GPTQ_M       (VEC_N == 16 ? 4u : 2u)
#define GPTQ_AHEAD   12u /* rows of words from the row that is read to the row that is prefetched */

/* Holds the scales and zeros of the columns in one group, and the float sums of the columns. */
struct gptq_strip {
    v_flt scale[GPTQ_V];
    v_int zero[GPTQ_V];
    v_flt acc[GPTQ_M][GPTQ_V];
};

/* Describes the columns that are computed together. */
struct gptq_place {
    const struct coded *c;
    const uint8_t *w; /* the words of the first k */
    uint64_t stride;  /* bytes from one row of words to the next */
    uint32_t n_rows;  /* rows of words */
    const struct matmul_q8 *x[GPTQ_M];
};

INLINE void gptq_group(const struct coded *c, uint32_t n, uint32_t g, struct gptq_strip *s)
{
    float scale[GPTQ_COLUMNS] __attribute__((aligned(64)));
    uint32_t zero[GPTQ_COLUMNS] __attribute__((aligned(64)));

    for (unsigned i = 0; i < GPTQ_COLUMNS; i += PANEL_N) {
        coded_scales(c, n + i, g, scale + i);
        coded_zeros(c, n + i, g, zero + i);
    }
    UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
    {
        s->scale[i] = v_loadf(scale + VEC_N * i);
        s->zero[i] = v_load(zero + VEC_N * i);
    }
}

/* Writes the 32 numbers of a block of x in the order of units. */
INLINE void gptq_order(const struct matmul_q8 *x, const unsigned bits, int8_t q[32])
{
    const __m128i order = bits == 2
                              ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                              : _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const __m256i v = _mm256_loadu_si256((const void *)x->q);

    _mm256_storeu_si256((void *)q, _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order)));
}

/* Splits a word, whose lowest 24 bits are 8 codes of 3 bits, into two units. */
INLINE void gptq_split3(v_int v, v_int unit[2])
{
    const v_int four = v_or(v_and(v, v_set(0xfff)), v_and(v_shl(v, 4), v_set(0x0fff0000)));
    const v_int two =
        v_or(v_and(four, v_set(0x003f003f)), v_and(v_shl(four, 2), v_set(0x3f003f00)));

    unit[0] = v_and(two, v_set(0x07070707));
    unit[1] = v_and(v_shr(two, 3), v_set(0x07070707));
}

/* Unpacks 32 codes of VEC_N columns, whose words begin at @w. */
INLINE void gptq_units(const uint8_t *w, uint64_t stride, const unsigned bits, v_int unit[8])
{
    v_int v[4];

    UNROLL for (unsigned i = 0; i < bits; i++) v[i] = v_load(w + i * stride);
    if (bits == 3) {
        gptq_split3(v[0], unit);
        gptq_split3(v_or(v_shr(v[0], 24), v_shl(v[1], 8)), unit + 2);
        gptq_split3(v_or(v_shr(v[1], 16), v_shl(v[2], 16)), unit + 4);
        gptq_split3(v_shr(v[2], 8), unit + 6);
        return;
    }
    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        const unsigned each = 8 / bits; /* units of a word */

        unit[i] =
            v_and(v_shr(v[i / each], bits * (i % each)), v_set(((1u << bits) - 1) * 0x01010101));
    }
}

/* Adds the integer sums of a block to the float sums. */
INLINE void gptq_add(const struct matmul_q8 *x, const unsigned m, const unsigned i, v_int sum,
                     struct gptq_strip *s)
{
    const v_int all = v_add(sum, v_mul(s->zero[i], v_set(x->nsum[0] + x->nsum[1])));
    const v_flt scaled = v_mulf(v_to_float(all), s->scale[i]);

    s->acc[m][i] = v_fma(scaled, v_bcastf(&x->d), s->acc[m][i]);
}

/* Returns the place to prefetch while the words of row @row are read: a few rows below, or at the
 * top of the next columns. */
INLINE const uint8_t *gptq_ahead(const struct gptq_place *p, uint32_t row)
{
    return row + GPTQ_AHEAD < p->n_rows
               ? p->w + (row + GPTQ_AHEAD) * p->stride
               : p->w + (row + GPTQ_AHEAD - p->n_rows) * p->stride + 4 * GPTQ_COLUMNS;
}

/* Adds the products of block @b. */
INLINE void gptq_block(const struct gptq_place *p, uint32_t b, const unsigned bits,
                       const unsigned m_n, struct gptq_strip *s)
{
    const struct cols_kind kind = {.steps = 8, .narrow = 8};
    const uint8_t *w = p->w + (uint64_t)b * bits * p->stride;
    const uint8_t *ahead = gptq_ahead(p, b * bits);
    int8_t q[GPTQ_M][32];

    UNROLL for (unsigned m = 0; m < m_n; m++) gptq_order(p->x[m] + b, bits, q[m]);
    UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
    {
        v_int unit[8];

        UNROLL for (unsigned t = 0; t < bits; t++) if (4 * VEC_N * i % 64 == 0)
            prefetch_line(ahead + t * p->stride + 4 * VEC_N * i);
        gptq_units(w + 4 * VEC_N * i, p->stride, bits, unit);
        UNROLL for (unsigned m = 0; m < m_n; m++)
            gptq_add(p->x[m] + b, m, i, cols_sum(unit, q[m], 0, kind), s);
    }
}

/* Adds the code at bit @at of each word to the unit, in byte @t. @code has the bits of a code. */
INLINE v_int gptq_put(v_int unit, const uint8_t *w, uint64_t stride, const unsigned t, uint32_t at,
                      uint32_t bits)
{
    const uint32_t code = (1u << bits) - 1;
    v_int v = v_load(w);

    if (32 % bits != 0 && at + bits > 32) {
        v = (v_int)(((coded_u32)v >> at) | ((coded_u32)v_load(w + stride) << (32 - at)));
        at = 0;
    }
#if VEC_N == 16
    return _mm512_ternarylogic_epi32(unit, _mm512_rolv_epi32(v, v_set(8 * t - at)),
                                     v_set(code << 8 * t), 0xf8); /* unit | (turned & code) */
#else
    return v_or(unit, v_shl(v_and((v_int)((coded_u32)v >> at), v_set(code)), 8 * t));
#endif
}

/* Does the same as gptq_block(), but for a matrix with an order. Codes have @bits bits. */
INLINE void gptq_ordered_block(const struct gptq_place *p, uint32_t b, const uint32_t bits,
                               const unsigned m_n, struct gptq_strip *s)
{
    const uint32_t *order = p->c->order + 32 * b;
    v_int sum[GPTQ_M][GPTQ_V];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        sum[m][i] = v_zero();
    for (unsigned u = 0; u < 8; u++, order += 4) {
        v_int unit[GPTQ_V];

        UNROLL for (unsigned i = 0; i < GPTQ_V; i++) unit[i] = v_zero();
        UNROLL for (unsigned t = 0; t < 4; t++)
        {
            const uint64_t bit = (uint64_t)order[t] * bits;
            const uint8_t *w = p->w + bit / 32 * p->stride;

            /* The words of the next columns are read soon. With each code of a word, one of their
             * lines is prefetched. */
            prefetch_line(w + 4 * GPTQ_COLUMNS + bit / 4 % GPTQ_LINES * 64);
            UNROLL for (unsigned i = 0; i < GPTQ_V; i++) unit[i] =
                gptq_put(unit[i], w + 4 * VEC_N * i, p->stride, t, (uint32_t)(bit % 32), bits);
        }
        UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
            sum[m][i] = v_dot(sum[m][i], unit[i], v_bcast(p->x[m][b].q + 4 * u));
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        gptq_add(p->x[m] + b, m, i, sum[m][i], s);
}

/* Computes GPTQ_COLUMNS columns of y, from column @n on, for @m_n rows. */
INLINE void gptq_columns(const struct matmul_args *a, uint32_t n, const unsigned m_n,
                         const uint32_t bits, const bool ordered)
{
    const struct coded *c = a->coded;
    const uint32_t row = a->coded_first + n;
    struct gptq_place p = {.c = c,
                           .w = (const uint8_t *)c->codes + 4 * (uint64_t)row,
                           .stride = 4 * (uint64_t)c->rows,
                           .n_rows = a->K / 32 * bits};
    struct gptq_strip s;
    uint32_t g = 0;

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        p.x[m] = (const void *)((const uint8_t *)a->act + m * a->act_stride);
        UNROLL for (unsigned i = 0; i < GPTQ_V; i++) s.acc[m][i] =
            a->bias ? v_loadf(a->bias + n + VEC_N * i) : v_setf(0);
    }
    gptq_group(c, row, 0, &s);
    for (uint32_t b = 0; b < a->K / 32; b++) {
        if (32 * b / c->group != g)
            gptq_group(c, row, g = 32 * b / c->group, &s);
        if (ordered)
            gptq_ordered_block(&p, b, bits, m_n, &s);
        else
            gptq_block(&p, b, bits, m_n, &s);
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        v_storef(a->y + m * a->ldy + n + VEC_N * i, s.acc[m][i]);
}

#define GPTQ_FN(name, m_n, bits, ordered)                                                          \
    static __attribute__((noinline)) void name(const struct matmul_args *a, uint32_t n)            \
    {                                                                                              \
        gptq_columns(a, n, m_n, bits, ordered);                                                    \
    }
#if VEC_N == 16
#define GPTQ_FNS(stem, bits, ordered)                                                              \
    GPTQ_FN(stem##_1, 1, bits, ordered)                                                            \
    GPTQ_FN(stem##_2, 2, bits, ordered)                                                            \
    GPTQ_FN(stem##_3, 3, bits, ordered)                                                            \
    GPTQ_FN(stem##_4, 4, bits, ordered)
#define GPTQ_LIST(stem) stem##_1, stem##_2, stem##_3, stem##_4
#else
#define GPTQ_FNS(stem, bits, ordered)                                                              \
    GPTQ_FN(stem##_1, 1, bits, ordered)                                                            \
    GPTQ_FN(stem##_2, 2, bits, ordered)
#define GPTQ_LIST(stem) stem##_1, stem##_2
#endif

typedef void gptq_columns_fn(const struct matmul_args *a, uint32_t n);

GPTQ_FNS(gptq_ordered, coded_kind(a->coded->dtype).bits, true)
static gptq_columns_fn *const gptq_ordered_fns[GPTQ_M] = {GPTQ_LIST(gptq_ordered)};

/* Computes the columns from @n0 on that fill whole strips. Returns the first column that is left.
 * @plain is the function for matrices without an order. */
static uint32_t gptq_few(const struct matmul_args *a, uint32_t n0, uint32_t n1,
                         gptq_columns_fn *plain)
{
    const struct coded *c = a->coded;
    gptq_columns_fn *columns = c->order ? gptq_ordered_fns[a->M - 1] : plain;

    if (c->group % 32 != 0 && c->group != c->cols)
        return n0;
    for (; n0 + GPTQ_COLUMNS <= n1; n0 += GPTQ_COLUMNS)
        columns(a, n0);
    return n0;
}

#define GPTQ_FEW(bits)                                                                             \
    GPTQ_FNS(gptq##bits, bits, false)                                                              \
    static uint32_t TILE_NAME(few_gptq##bits)(const struct matmul_args *a, uint32_t n0,            \
                                              uint32_t n1)                                         \
    {                                                                                              \
        static gptq_columns_fn *const fns[GPTQ_M] = {GPTQ_LIST(gptq##bits)};                       \
                                                                                                   \
        return gptq_few(a, n0, n1, fns[a->M - 1]);                                                 \
    }
GPTQ_FEW(2)
GPTQ_FEW(3)
GPTQ_FEW(4)
