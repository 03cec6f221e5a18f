/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of AWQ (quant/coded.h) by one or two prepared rows without a panel, with
 * AVX-512. Include it after matmul-coded.h.
 *
 * A cache line has the codes of 128 columns of y for one k. The lines of 4 consecutive k are
 * interleaved byte by byte, so that 32-bit lanes have 4 codes of a column, which a dot instruction
 * multiplies. Lane 4 l + b of vector 2 t + h, one of 8 vectors, then belongs to column 8 (4 l + t)
 * + place[h][b]. Scales, zeros and sums are in the same order; only results are written in the
 * order of columns. The float arithmetic is that of the tiles.
 */

#define AWQ_COLUMNS 128u /* columns of a cache line */
#define AWQ_LINES   4u   /* neighboring lines multiplied together, which memory delivers faster */
#define AWQ_M       2u   /* maximum number of prepared rows */

static const uint8_t awq_place[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};

/* Holds the scales and zeros of the columns of a line in one group, and their float sums. */
struct awq_line {
    __m512 scale[8];
    __m512i zero[8];
    __m512 acc[AWQ_M][8];
};

/* Returns the column of lane @lane of vector @i. */
INLINE unsigned awq_column(unsigned i, unsigned lane)
{
    return 8 * (lane / 4 * 4 + i / 2) + awq_place[i % 2][lane % 4];
}

/* Interleaves the bytes of the same places of 4 vectors. */
INLINE void awq_interleave(__m512i a, __m512i b, __m512i c, __m512i d, __m512i v[4])
{
    const __m512i ab = _mm512_unpacklo_epi8(a, b), ab2 = _mm512_unpackhi_epi8(a, b);
    const __m512i cd = _mm512_unpacklo_epi8(c, d), cd2 = _mm512_unpackhi_epi8(c, d);

    v[0] = _mm512_unpacklo_epi16(ab, cd);
    v[1] = _mm512_unpackhi_epi16(ab, cd);
    v[2] = _mm512_unpacklo_epi16(ab2, cd2);
    v[3] = _mm512_unpackhi_epi16(ab2, cd2);
}

/* Adds the products of 4 k to the integer sums of @m_n rows. */
INLINE void awq_dots(const uint8_t *w, uint64_t stride, const int8_t *const x[AWQ_M],
                     const unsigned m_n, __m512i sum[AWQ_M][8])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i even[4], odd[4], v[8];

    UNROLL for (unsigned t = 0; t < 4; t++)
    {
        const __m512i row = _mm512_loadu_si512(w + t * stride);

        even[t] = _mm512_and_si512(row, low);
        odd[t] = _mm512_and_si512(_mm512_srli_epi16(row, 4), low);
    }
    awq_interleave(even[0], even[1], even[2], even[3], v);
    awq_interleave(odd[0], odd[1], odd[2], odd[3], v + 4);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const __m512i four = v_bcast(x[m]);

        UNROLL for (unsigned i = 0; i < 8; i++) sum[m][i] =
            v_dot(sum[m][i], v[i / 2 + i % 2 * 4], four);
    }
}

/* Loads the scales and zeros of a group. */
INLINE void awq_group(const struct coded *c, uint32_t n, uint32_t g, struct awq_line *line)
{
    const uint8_t *words = (const uint8_t *)c->zeros + ((uint64_t)g * c->rows + n) / 2;
    const __m512i zeros = _mm512_loadu_si512(words);
    const __m512i bytes = _mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24);
    const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    float scale[AWQ_COLUMNS] __attribute__((aligned(64)));
    uint32_t at[16] __attribute__((aligned(64)));

    for (unsigned i = 0; i < AWQ_COLUMNS; i += PANEL_N)
        coded_scales(c, n + i, g, scale + i);
    for (unsigned i = 0; i < 8; i++) {
        const __m512i word =
            _mm512_permutexvar_epi32(_mm512_add_epi32(first, _mm512_set1_epi32((int)i / 2)), zeros);
        const __m512i shift = _mm512_add_epi32(bytes, _mm512_set1_epi32((int)(i % 2 * 4)));

        for (unsigned lane = 0; lane < 16; lane++)
            at[lane] = awq_column(i, lane);
        line->scale[i] = _mm512_i32gather_ps(_mm512_load_si512(at), scale, 4);
        line->zero[i] = _mm512_and_si512(_mm512_srlv_epi32(word, shift), _mm512_set1_epi32(15));
    }
}

/* Adds the products of 32 k of a line, from the block @x of each row on. Also prefetches one of @n
 * equal parts, part @i, of the lines of the next 32 k, which begin at @ahead. */
INLINE void awq_block(const uint8_t *w, uint64_t stride, const struct matmul_q8 *const x[AWQ_M],
                      const unsigned m_n, const uint8_t *ahead, const unsigned n, const unsigned i,
                      struct awq_line *line)
{
    const int8_t *q[AWQ_M];
    __m512i sum[AWQ_M][8];

    ahead += i * (32 / n) * stride;
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        q[m] = x[m]->q;
        UNROLL for (unsigned v = 0; v < 8; v++) sum[m][v] = _mm512_setzero_si512();
    }
    for (unsigned k = 0; k < 32; k += 4, w += 4 * stride, ahead += 4 / n * stride) {
        UNROLL for (unsigned t = 0; t < 4; t++) prefetch_line(ahead + t / n * stride + t % n * 64);
        awq_dots(w, stride, q, m_n, sum);
        UNROLL for (unsigned m = 0; m < m_n; m++) q[m] += 4;
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const __m512i nsum = _mm512_set1_epi32(x[m]->nsum[0] + x[m]->nsum[1]);

        UNROLL for (unsigned v = 0; v < 8; v++)
        {
            const __m512i s = _mm512_add_epi32(sum[m][v], _mm512_mullo_epi32(line->zero[v], nsum));
            const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(s), line->scale[v]);

            line->acc[m][v] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(x[m]->d), line->acc[m][v]);
        }
    }
}

/* Computes the columns of @n lines of y, from column @n0 on, for @m_n rows. */
INLINE void awq_columns(const struct matmul_args *a, uint32_t n0, const unsigned m_n,
                        const unsigned n)
{
    const struct coded *c = a->coded;
    const uint32_t row = a->coded_first + n0;
    const uint64_t stride = c->rows / 2;
    const uint8_t *w = (const uint8_t *)c->codes + row / 2;
    const struct matmul_q8 *x[AWQ_M];
    struct awq_line line[AWQ_LINES];
    uint32_t g = 0;

    for (unsigned m = 0; m < m_n; m++) {
        x[m] = (const void *)((const uint8_t *)a->act + m * a->act_stride);
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < AWQ_COLUMNS; j++)
                ((float *)line[i].acc[m])[j] =
                    a->bias ? a->bias[n0 + AWQ_COLUMNS * i + awq_column(j / 16, j % 16)] : 0;
    }
    for (unsigned i = 0; i < n; i++)
        awq_group(c, row + AWQ_COLUMNS * i, 0, &line[i]);
    for (uint32_t k = 0; k < a->K; k += 32, w += 32 * stride) {
        const bool next = k / c->group != g;

        g = k / c->group;
        for (unsigned i = 0; i < n; i++) {
            if (next)
                awq_group(c, row + AWQ_COLUMNS * i, g, &line[i]);
            awq_block(w + 64 * i, stride, x, m_n, w + 32 * stride, n, i, &line[i]);
        }
        UNROLL for (unsigned m = 0; m < m_n; m++) x[m]++;
    }
    for (unsigned m = 0; m < m_n; m++)
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < AWQ_COLUMNS; j++)
                a->y[m * a->ldy + n0 + AWQ_COLUMNS * i + awq_column(j / 16, j % 16)] =
                    ((float *)line[i].acc[m])[j];
}

/* Computes all columns from @n0 on that fill whole lines. Returns the first of the remaining
 * columns. */
static uint32_t TILE_NAME(few_awq4)(const struct matmul_args *a, uint32_t n0, uint32_t n1)
{
    const struct coded *c = a->coded;

    if ((a->coded_first + n0) % 8 != 0 || (c->group % 32 != 0 && c->group != c->cols))
        return n0;
    for (; n0 + AWQ_LINES * AWQ_COLUMNS <= n1; n0 += AWQ_LINES * AWQ_COLUMNS)
        a->M == 1 ? awq_columns(a, n0, 1, AWQ_LINES) : awq_columns(a, n0, 2, AWQ_LINES);
    for (; n0 + AWQ_COLUMNS <= n1; n0 += AWQ_COLUMNS)
        a->M == 1 ? awq_columns(a, n0, 1, 1) : awq_columns(a, n0, 2, 1);
    return n0;
}
