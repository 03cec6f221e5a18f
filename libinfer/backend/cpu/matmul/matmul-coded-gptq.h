/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of GPTQ (quant/coded.h) by up to GPTQ_M prepared rows without a panel, for
 * matmul-vec.h. Include it after matmul-coded-awq.h and matmul-direct-cols.h.
 *
 * A vector has the words of VEC_N columns of y. A unit is a vector with 4 codes of each column, one
 * per byte. Units are unpacked in the order that is simplest to compute. With fewer than 8 bits,
 * the codes of a unit are not neighbors in this order, so the block of x is brought to the same
 * order. A lane has the sum of its column, and nothing is transposed. The float arithmetic is that
 * of the tiles. Codes of 8 bits are multiplied without their zero, and scale × (128 - zero) is an
 * offset.
 *
 * matmul-coded-ordered.h multiplies matrices with an order.
 */

#define GPTQ_V       4u /* vectors that are computed together */
#define GPTQ_COLUMNS (GPTQ_V * VEC_N)
#define GPTQ_M       (VEC_N == 16 ? 4u : 2u)
#define GPTQ_AHEAD   12u /* rows of words from the row that is read to the row that is prefetched */

/* Holds the scales and zeros of the columns in one group, and the float sums of the columns. Only
 * codes of 8 bits have sums of offsets, which belong to the current chunk of k. */
struct gptq_strip {
    v_flt scale[GPTQ_V], offset[GPTQ_V];
    v_int zero[GPTQ_V];
    v_flt acc[GPTQ_M][GPTQ_V], offsets[GPTQ_M][GPTQ_V];
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
        s->offset[i] = v_mulf(s->scale[i],
                              v_to_float(v_add(v_xor(s->zero[i], v_set(UINT32_MAX)), v_set(129))));
    }
}

/* Writes the 32 numbers of a block of x in the order of units. The empty assembly makes compilers
 * broadcast these numbers from memory; gcc would extract them from a vector, which takes three
 * instructions more for each four. */
INLINE void gptq_order(const struct matmul_q8 *x, const unsigned bits, int8_t q[32])
{
    const __m128i order = bits == 2
                              ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                              : _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const __m256i v = _mm256_loadu_si256((const void *)x->q);

    _mm256_storeu_si256((void *)q, _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order)));
    __asm__("" : "+m"(*(int8_t(*)[32])q));
}

/* Splits words, whose lowest 24 bits are 8 codes of 3 bits, into two units: the bits 0 … 2 and 3 …
 * 5 of each byte. */
INLINE v_int gptq_split3(v_int v)
{
    const v_int four = v_or(v_and(v, v_set(0xfff)), v_and(v_shl(v, 4), v_set(0x0fff0000)));

    return v_or(v_and(four, v_set(0x003f003f)), v_and(v_shl(four, 2), v_set(0x3f003f00)));
}

/* Returns part @i of 32 codes of VEC_N columns, whose words begin at @w. With fewer than 8 bits,
 * its bytes have the codes of the units of the part, lowest bits first. */
INLINE v_int gptq_part(const uint8_t *w, uint64_t stride, const unsigned bits, const unsigned i)
{
    if (bits != 3)
        return v_load(w + i * stride);
    if (i == 0)
        return gptq_split3(v_load(w));
    if (i == 3)
        return gptq_split3(v_shr(v_load(w + 2 * stride), 8));
    return gptq_split3(v_or(v_shr(v_load(w + (i - 1) * stride), 32 - 8 * i),
                            v_shl(v_load(w + i * stride), 8 * i)));
}

/* Adds the products of 4 codes of each column to integer sums. With VEC_PAIRS and codes of fewer
 * bits, lanes have 16 bits (awq_dot()). */
INLINE v_int gptq_dot(v_int sum, v_int w, v_int x, const unsigned bits)
{
    if (bits == 8 && VEC_S8)
        return v_dot_s8(sum, w, x);
    return bits == 8 ? v_dot(sum, w, x) : awq_dot(sum, w, x);
}

/* Adds the integer sums of a block to the float sums. */
INLINE void gptq_add(const struct matmul_q8 *x, const unsigned bits, const unsigned m,
                     const unsigned i, v_int sum, struct gptq_strip *s)
{
    const int32_t nsum = x->nsum[0] + x->nsum[1];
    const v_int all = bits < 8 ? v_add(sum, v_mul(s->zero[i], v_set(nsum)))
                               : v_add(sum, v_set(VEC_S8 ? 0 : nsum * 128));
    const v_flt scaled = v_mulf(v_to_float(all), s->scale[i]);

    s->acc[m][i] = v_fma(scaled, v_bcastf(&x->d), s->acc[m][i]);
    if (bits == 8)
        s->offsets[m][i] = v_fma(s->offset[i], v_bcastf(&x->s), s->offsets[m][i]);
}

/* Adds the sums of gptq_dot() for block @b to the float sums of @m_n rows. */
INLINE void gptq_add_block(const struct gptq_place *p, uint32_t b, const unsigned bits,
                           const unsigned m_n, v_int sum[GPTQ_M][GPTQ_V], struct gptq_strip *s)
{
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
    {
        const v_int all = VEC_PAIRS && bits < 8 ? v_widen(v_zero(), sum[m][i]) : sum[m][i];

        gptq_add(p->x[m] + b, bits, m, i, all, s);
    }
}

/* Adds the sums of offsets to the other sums if a chunk or the row ends at element @k. */
INLINE void gptq_chunk(const struct matmul_args *a, uint32_t k, const unsigned m_n,
                       struct gptq_strip *s)
{
    if (k % PANEL_K != 0 && k < a->K)
        return;
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
    {
        s->acc[m][i] = v_addf(s->acc[m][i], s->offsets[m][i]);
        s->offsets[m][i] = v_setf(0);
    }
}

/* Returns the place to prefetch while the words of row @row are read: a few rows below, or at the
 * top of the next columns. */
INLINE const uint8_t *gptq_ahead(const struct gptq_place *p, uint32_t row)
{
    return row + GPTQ_AHEAD < p->n_rows
               ? p->w + (row + GPTQ_AHEAD) * p->stride
               : p->w + (row + GPTQ_AHEAD - p->n_rows) * p->stride + 4 * GPTQ_COLUMNS;
}

/* Adds the products of a unit of @m_n rows to the integer sums. @x has the numbers of each row. */
INLINE void gptq_dots(const v_int part[GPTQ_V], const unsigned bits, const unsigned i_unit,
                      const int8_t *const x[GPTQ_M], const unsigned m_n, v_int sum[GPTQ_M][GPTQ_V])
{
    const v_int mask = v_set(((1u << bits) - 1) * 0x01010101);
    v_int unit[GPTQ_V];

    UNROLL for (unsigned i = 0; i < GPTQ_V; i++) unit[i] =
        bits == 8 ? v_xor(part[i], v_set(VEC_S8 ? 0x80808080 : 0))
                  : v_and(v_shr(part[i], bits * i_unit), mask);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const v_int four = cols_bcast(x[m]);

        UNROLL for (unsigned i = 0; i < GPTQ_V; i++) sum[m][i] =
            gptq_dot(sum[m][i], unit[i], four, bits);
    }
}

/* Adds the products of block @b. */
INLINE void gptq_block(const struct gptq_place *p, uint32_t b, const unsigned bits,
                       const unsigned m_n, struct gptq_strip *s)
{
    const unsigned n_parts = bits == 3 ? 4 : bits, n_units = 8 / n_parts;
    const uint8_t *w = p->w + (uint64_t)b * bits * p->stride;
    const uint8_t *ahead = gptq_ahead(p, b * bits);
    v_int sum[GPTQ_M][GPTQ_V];
    int8_t q[GPTQ_M][32];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        sum[m][i] = v_zero();
    if (bits < 8)
        UNROLL for (unsigned m = 0; m < m_n; m++) gptq_order(p->x[m] + b, bits, q[m]);
    UNROLL for (unsigned t = 0; t < n_parts; t++)
    {
        v_int part[GPTQ_V];

        UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        {
            if (t < bits && 4 * VEC_N * i % 64 == 0)
                prefetch_line(ahead + t * p->stride + 4 * VEC_N * i);
            part[i] = gptq_part(w + 4 * VEC_N * i, p->stride, bits, t);
        }
        UNROLL for (unsigned u = 0; u < n_units; u++)
        {
            const int8_t *x[GPTQ_M];

            UNROLL for (unsigned m = 0; m < m_n; m++) x[m] =
                (bits < 8 ? q[m] : p->x[m][b].q) + 4 * (n_units * t + u);
            gptq_dots(part, bits, u, x, m_n, sum);
        }
    }
    gptq_add_block(p, b, bits, m_n, sum, s);
}

#include "backend/cpu/matmul/matmul-coded-ordered.h"

/* Computes GPTQ_COLUMNS columns of y, from column @n on, for @m_n rows. @lines is memory for the
 * codes of a matrix with an order; NULL: the matrix has none. */
INLINE void gptq_columns(const struct matmul_args *a, uint32_t n, const unsigned m_n,
                         const unsigned bits, uint8_t *lines)
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
        UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        {
            s.acc[m][i] = a->bias ? v_loadf(a->bias + n + VEC_N * i) : v_setf(0);
            s.offsets[m][i] = v_setf(0);
        }
    }
    if (lines)
        ordered_lines(&p, lines);
    gptq_group(c, row, 0, &s);
    for (uint32_t b = 0; b < a->K / 32; b++) {
        if (32 * b / c->group != g)
            gptq_group(c, row, g = 32 * b / c->group, &s);
        if (lines)
            ordered_block(&p, lines, b, bits, m_n, &s);
        else
            gptq_block(&p, b, bits, m_n, &s);
        if (bits == 8)
            gptq_chunk(a, 32 * (b + 1), m_n, &s);
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        v_storef(a->y + m * a->ldy + n + VEC_N * i, s.acc[m][i]);
}

#define GPTQ_FN(m, bits)                                                                           \
    static                                                                                         \
        __attribute__((noinline)) void gptq##bits##_##m(const struct matmul_args *a, uint32_t n)   \
    {                                                                                              \
        gptq_columns(a, n, m, bits, NULL);                                                         \
    }                                                                                              \
    static __attribute__((noinline)) void ordered##bits##_##m(const struct matmul_args *a,         \
                                                              uint32_t n)                          \
    {                                                                                              \
        gptq_columns(a, n, m, bits, a->work);                                                      \
    }
#if VEC_N == 16
#define GPTQ_FNS(bits)  GPTQ_FN(1, bits) GPTQ_FN(2, bits) GPTQ_FN(3, bits) GPTQ_FN(4, bits)
#define GPTQ_LIST(stem) stem##_1, stem##_2, stem##_3, stem##_4
#else
#define GPTQ_FNS(bits)  GPTQ_FN(1, bits) GPTQ_FN(2, bits)
#define GPTQ_LIST(stem) stem##_1, stem##_2
#endif

/* Computes the columns from @n0 on that fill whole strips. Returns the first column that is left.
 */
static uint32_t gptq_few(const struct matmul_args *a, uint32_t n0, uint32_t n1,
                         void (*columns)(const struct matmul_args *a, uint32_t n))
{
    const struct coded *c = a->coded;

    if ((c->group % 32 != 0 && c->group != c->cols) ||
        (c->order && (!a->work || matmul_work_bytes(c) == 0)))
        return n0;
    for (; n0 + GPTQ_COLUMNS <= n1; n0 += GPTQ_COLUMNS)
        columns(a, n0);
    return n0;
}

#define GPTQ_FEW(bits)                                                                             \
    GPTQ_FNS(bits)                                                                                 \
    static uint32_t TILE_NAME(few_gptq##bits)(const struct matmul_args *a, uint32_t n0,            \
                                              uint32_t n1)                                         \
    {                                                                                              \
        static void (*const plain[GPTQ_M])(const struct matmul_args *,                             \
                                           uint32_t) = {GPTQ_LIST(gptq##bits)};                    \
        static void (*const ordered[GPTQ_M])(const struct matmul_args *,                           \
                                             uint32_t) = {GPTQ_LIST(ordered##bits)};               \
                                                                                                   \
        return gptq_few(a, n0, n1, (a->coded->order ? ordered : plain)[a->M - 1]);                 \
    }
GPTQ_FEW(2)
GPTQ_FEW(3)
GPTQ_FEW(4)
GPTQ_FEW(8)
