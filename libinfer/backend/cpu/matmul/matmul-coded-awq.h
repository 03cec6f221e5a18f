/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of AWQ (quant/coded.h) by up to AWQ_M prepared rows without a panel, for
 * matmul-vec.h. Include it after matmul-coded.h.
 *
 * A vector has the codes of AWQ_COLUMNS columns of y for one k. The vectors of 4 consecutive k are
 * interleaved byte by byte, so that 32-bit lanes have two codes of 4 k: of one column in the lower
 * halves of the bytes, of another in the higher halves. Lane 4 l + b of vector 2 t + h, one of 8
 * vectors of codes, then belongs to column 8 (4 l + t) + place[h][b]. Scales, zeros and sums are in
 * the same order; only results are written in the order of columns. The float arithmetic is that of
 * the tiles.
 */

#define AWQ_COLUMNS (8 * VEC_N) /* columns of a vector */
#define AWQ_STRIP   512u        /* columns computed together, whose lines memory delivers fast */
#define AWQ_SIDE    (VEC_N == 16 ? 2u : 1u) /* prepared rows whose sums fit in registers */
#define AWQ_M       4u                      /* maximum number of prepared rows */

static const uint8_t awq_place[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};

/* Holds the scales and zeros of the columns of a vector in one group, and their float sums. */
struct awq_line {
    v_flt scale[8];
    v_int zero[8];
    v_flt acc[AWQ_M][8];
};

/* Returns the column of lane @lane of vector @i. */
INLINE unsigned awq_column(unsigned i, unsigned lane)
{
    return 8 * (lane / 4 * 4 + i / 2) + awq_place[i % 2][lane % 4];
}

/* Interleaves the bytes of the same places of 4 vectors. */
INLINE void awq_interleave(const v_int row[4], v_int v[4])
{
    const v_int ab = v_low8(row[0], row[1]), ab2 = v_high8(row[0], row[1]);
    const v_int cd = v_low8(row[2], row[3]), cd2 = v_high8(row[2], row[3]);

    v[0] = v_low16(ab, cd);
    v[1] = v_high16(ab, cd);
    v[2] = v_low16(ab2, cd2);
    v[3] = v_high16(ab2, cd2);
}

/* Adds products to @sum. With VEC_PAIRS, lanes have 16 bits, in which the sums of 32 k fit: 15 ×
 * 127 × 16 is 30480. */
INLINE v_int awq_dot(v_int sum, v_int w, v_int x)
{
    return VEC_PAIRS ? v_add16(sum, v_pairs(w, x)) : v_dot(sum, w, x);
}

/* Adds the products of 4 k to the integer sums of @m_n rows. */
INLINE void awq_dots(const uint8_t *w, uint64_t stride, const int8_t *const x[AWQ_SIDE],
                     const unsigned m_n, v_int sum[AWQ_SIDE][8])
{
    v_int row[4], v[4];

    UNROLL for (unsigned t = 0; t < 4; t++) row[t] = v_load(w + t * stride);
    awq_interleave(row, v);
    UNROLL for (unsigned t = 0; t < 4; t++)
    {
        const v_int low = LOW_NIBBLES(v[t]), high = HIGH_NIBBLES(v[t]);

        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int four = v_bcast(x[m]);

            sum[m][2 * t] = awq_dot(sum[m][2 * t], low, four);
            sum[m][2 * t + 1] = awq_dot(sum[m][2 * t + 1], high, four);
        }
    }
}

/* Loads the scales and zeros of a group. */
INLINE void awq_group(const struct coded *c, uint32_t n, uint32_t g, struct awq_line *line)
{
    const v_int zeros = v_load((const uint8_t *)c->zeros + ((uint64_t)g * c->rows + n) / 2);
    float scale[AWQ_COLUMNS] __attribute__((aligned(64)));
    coded_u32 bytes;

    UNROLL for (unsigned lane = 0; lane < VEC_N; lane++) bytes[lane] = lane % 4 * 8;
    for (unsigned i = 0; i < AWQ_COLUMNS; i += PANEL_N)
        coded_scales(c, n + i, g, scale + i);
    UNROLL for (unsigned t = 0; t < 4; t++)
    {
        /* The columns 8 (4 l + t) … 8 (4 l + t) + 7, for all l. */
        const v_int first = v_rows16((const uint8_t *)(scale + 8 * t), 32);
        const v_int last = v_rows16((const uint8_t *)(scale + 8 * t + 4), 32);
        const coded_u32 word = (coded_u32)v_quad(zeros, t) >> bytes;

        line->scale[2 * t] = v_bits(v_low32(first, last));
        line->scale[2 * t + 1] = v_bits(v_high32(first, last));
        line->zero[2 * t] = v_and((v_int)word, v_set(15));
        line->zero[2 * t + 1] = v_and((v_int)(word >> 4), v_set(15));
    }
}

/* Adds the float products of 32 k to the sums of row @m, whose block is @x. */
INLINE void awq_add(const struct matmul_q8 *x, const v_int sum[8], struct awq_line *line,
                    const unsigned m)
{
    const v_int nsum = v_set(x->nsum[0] + x->nsum[1]);

    UNROLL for (unsigned v = 0; v < 8; v++)
    {
        const v_int all = VEC_PAIRS ? v_widen(v_zero(), sum[v]) : sum[v];
        const v_int s = v_add(all, v_mul(line->zero[v], nsum));
        const v_flt scaled = v_mulf(v_to_float(s), line->scale[v]);

        line->acc[m][v] = v_fma(scaled, v_bcastf(&x->d), line->acc[m][v]);
    }
}

/* Adds the products of 32 k of a vector, from the block @x of each row on. Also prefetches one of
 * @n equal parts, part @i, of the lines of the next 32 k, which begin at @ahead. */
INLINE void awq_block(const uint8_t *w, uint64_t stride, const struct matmul_q8 *const x[AWQ_M],
                      const unsigned m_n, const uint8_t *ahead, const unsigned n, const unsigned i,
                      struct awq_line *line)
{
    const unsigned lines = n * VEC_N * 4 <= 64 ? 1 : n * VEC_N * 4 / 64; /* of a k */
    const unsigned each = 4 * lines / n;                                 /* in each step */

    UNROLL for (unsigned m0 = 0; m0 < m_n; m0 += AWQ_SIDE)
    {
        const unsigned side = m_n - m0 < AWQ_SIDE ? m_n - m0 : AWQ_SIDE;
        const int8_t *q[AWQ_SIDE];
        v_int sum[AWQ_SIDE][8];

        UNROLL for (unsigned m = 0; m < side; m++)
        {
            q[m] = x[m0 + m]->q;
            UNROLL for (unsigned v = 0; v < 8; v++) sum[m][v] = v_zero();
        }
        for (unsigned s = 0; s < 8; s++) {
            UNROLL for (unsigned t = 0; t < 4; t++) if (t < each && m0 == 0)
            {
                const unsigned at = (i * 8 + s) * each + t;

                prefetch_line(ahead + at / lines * stride + at % lines * 64);
            }
            awq_dots(w + 4 * s * stride, stride, q, side, sum);
            UNROLL for (unsigned m = 0; m < side; m++) q[m] += 4;
        }
        UNROLL for (unsigned m = 0; m < side; m++) awq_add(x[m0 + m], sum[m], line, m0 + m);
    }
}

/* Computes the columns of @n vectors of y, from column @n0 on, for @m_n rows. */
INLINE void awq_columns(const struct matmul_args *a, uint32_t n0, const unsigned m_n,
                        const unsigned n)
{
    const struct coded *c = a->coded;
    const uint32_t row = a->coded_first + n0;
    const uint64_t stride = c->rows / 2;
    const uint8_t *w = (const uint8_t *)c->codes + row / 2;
    const struct matmul_q8 *x[AWQ_M];
    struct awq_line line[AWQ_STRIP / AWQ_COLUMNS];
    uint32_t g = 0;

    for (unsigned m = 0; m < m_n; m++) {
        x[m] = (const void *)((const uint8_t *)a->act + m * a->act_stride);
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < AWQ_COLUMNS; j++)
                ((float *)line[i].acc[m])[j] =
                    a->bias ? a->bias[n0 + AWQ_COLUMNS * i + awq_column(j / VEC_N, j % VEC_N)] : 0;
    }
    for (unsigned i = 0; i < n; i++)
        awq_group(c, row + AWQ_COLUMNS * i, 0, &line[i]);
    for (uint32_t k = 0; k < a->K; k += 32, w += 32 * stride) {
        const bool next = k / c->group != g;

        g = k / c->group;
        for (unsigned i = 0; i < n; i++) {
            if (next)
                awq_group(c, row + AWQ_COLUMNS * i, g, &line[i]);
            awq_block(w + AWQ_COLUMNS / 2 * i, stride, x, m_n, w + 32 * stride, n, i, &line[i]);
        }
        UNROLL for (unsigned m = 0; m < m_n; m++) x[m]++;
    }
    for (unsigned m = 0; m < m_n; m++)
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < AWQ_COLUMNS; j++)
                a->y[m * a->ldy + n0 + AWQ_COLUMNS * i + awq_column(j / VEC_N, j % VEC_N)] =
                    ((float *)line[i].acc[m])[j];
}

#define AWQ_FN(m)                                                                                  \
    static __attribute__((noinline)) void awq_strip_##m(const struct matmul_args *a, uint32_t n)   \
    {                                                                                              \
        awq_columns(a, n, m, AWQ_STRIP / AWQ_COLUMNS);                                             \
    }                                                                                              \
    static __attribute__((noinline)) void awq_one_##m(const struct matmul_args *a, uint32_t n)     \
    {                                                                                              \
        awq_columns(a, n, m, 1);                                                                   \
    }
AWQ_FN(1)
AWQ_FN(2)
AWQ_FN(3)
AWQ_FN(4)

/* Computes all columns from @n0 on that fill whole vectors. Returns the first of the remaining
 * columns. */
static uint32_t TILE_NAME(few_awq4)(const struct matmul_args *a, uint32_t n0, uint32_t n1)
{
    static void (*const strips[AWQ_M])(const struct matmul_args *, uint32_t) = {
        awq_strip_1, awq_strip_2, awq_strip_3, awq_strip_4};
    static void (*const ones[AWQ_M])(const struct matmul_args *, uint32_t) = {awq_one_1, awq_one_2,
                                                                              awq_one_3, awq_one_4};
    const struct coded *c = a->coded;

    if ((a->coded_first + n0) % 8 != 0 || (c->group % 32 != 0 && c->group != c->cols))
        return n0;
    for (; n0 + AWQ_STRIP <= n1; n0 += AWQ_STRIP)
        strips[a->M - 1](a, n0);
    for (; n0 + AWQ_COLUMNS <= n1; n0 += AWQ_COLUMNS)
        ones[a->M - 1](a, n0);
    return n0;
}
