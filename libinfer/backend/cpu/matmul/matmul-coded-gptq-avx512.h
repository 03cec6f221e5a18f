/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies GPTQ's codes of 4 bits (quant/coded.h) by up to GPTQ_M prepared rows without a panel,
 * with AVX-512. Include it after matmul-coded.h.
 *
 * A vector has the words of 16 columns of y: 8 codes each. The lower halves of the bytes are the
 * codes of the even k and the higher halves those of the odd k, and x is brought to the same order.
 * So a lane has the sum of its column, and nothing is transposed. The float arithmetic is that of
 * the tiles.
 */

#define GPTQ_M       4u
#define GPTQ_COLUMNS 64u /* columns that are computed together, in 4 vectors */

/* Holds the scales and zeros of the columns in one group, and the float sums of the columns. */
struct gptq_strip {
    __m512 scale[4];
    __m512i zero[4];
    __m512 acc[GPTQ_M][4];
};

/* A block of a prepared row: for each 8 k, the 4 even ones, then the 4 odd ones. */
struct gptq_x {
    uint32_t q[4][2];
};

INLINE void gptq_group(const struct coded *c, uint32_t n, uint32_t g, struct gptq_strip *s)
{
    float scale[GPTQ_COLUMNS] __attribute__((aligned(64)));
    uint32_t zero[GPTQ_COLUMNS] __attribute__((aligned(64)));

    for (unsigned i = 0; i < GPTQ_COLUMNS; i += PANEL_N) {
        coded_scales(c, n + i, g, scale + i);
        coded_zeros(c, n + i, g, zero + i);
    }
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        s->scale[i] = _mm512_load_ps(scale + 16 * i);
        s->zero[i] = _mm512_load_si512(zero + 16 * i);
    }
}

INLINE struct gptq_x gptq_order(const struct matmul_q8 *x)
{
    const __m256i places = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    const __m256i q = _mm256_loadu_si256((const void *)x->q);
    struct gptq_x y;

    _mm256_storeu_si256((void *)y.q, _mm256_shuffle_epi8(q, places));
    return y;
}

/* Adds the products of 32 k, whose words begin at @w, from the blocks @x on. */
INLINE void gptq_block(const uint8_t *w, uint64_t stride, const struct matmul_q8 *const x[GPTQ_M],
                       const unsigned m_n, struct gptq_strip *s)
{
    const __m512i low = _mm512_set1_epi8(15);
    struct gptq_x q[GPTQ_M];
    __m512i sum[GPTQ_M][4];

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        q[m] = gptq_order(x[m]);
        UNROLL for (unsigned i = 0; i < 4; i++) sum[m][i] = _mm512_setzero_si512();
    }
    UNROLL for (unsigned t = 0; t < 4; t++, w += stride) UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const __m512i v = _mm512_loadu_si512(w + 64 * i);
        const __m512i even = _mm512_and_si512(v, low);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);

        prefetch_line(w + 12 * stride + 64 * i, false);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            sum[m][i] = v_dot(sum[m][i], even, v_bcast(&q[m].q[t][0]));
            sum[m][i] = v_dot(sum[m][i], odd, v_bcast(&q[m].q[t][1]));
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const __m512i nsum = _mm512_set1_epi32(x[m]->nsum[0] + x[m]->nsum[1]);

        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            const __m512i all = _mm512_add_epi32(sum[m][i], _mm512_mullo_epi32(s->zero[i], nsum));
            const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(all), s->scale[i]);

            s->acc[m][i] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(x[m]->d), s->acc[m][i]);
        }
    }
}

/* Computes GPTQ_COLUMNS columns of y, from column @n on, for @m_n rows. */
INLINE void gptq_columns(const struct matmul_args *a, uint32_t n, const unsigned m_n)
{
    const struct coded *c = a->coded;
    const uint32_t row = a->coded_first + n;
    const uint64_t stride = 4 * (uint64_t)c->rows;
    const uint8_t *w = (const uint8_t *)c->codes + 4 * (uint64_t)row;
    const struct matmul_q8 *x[GPTQ_M];
    struct gptq_strip s;
    uint32_t g = 0;

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        x[m] = (const void *)((const uint8_t *)a->act + m * a->act_stride);
        UNROLL for (unsigned i = 0; i < 4; i++) s.acc[m][i] =
            a->bias ? _mm512_loadu_ps(a->bias + n + 16 * i) : _mm512_setzero_ps();
    }
    gptq_group(c, row, 0, &s);
    for (uint32_t k = 0; k < a->K; k += 32, w += 4 * stride) {
        if (k / c->group != g)
            gptq_group(c, row, g = k / c->group, &s);
        gptq_block(w, stride, x, m_n, &s);
        UNROLL for (unsigned m = 0; m < m_n; m++) x[m]++;
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < 4; i++)
        _mm512_storeu_ps(a->y + m * a->ldy + n + 16 * i, s.acc[m][i]);
}

/* Computes columns from @n0 on, as many as fill whole strips, and returns the first of the
 * others. */
static uint32_t TILE_NAME(few_gptq4)(const struct matmul_args *a, uint32_t n0, uint32_t n1)
{
    const struct coded *c = a->coded;

    if (c->order || (c->group % 32 != 0 && c->group != c->cols))
        return n0;
    for (; n0 + GPTQ_COLUMNS <= n1; n0 += GPTQ_COLUMNS)
        UNROLL for (unsigned m = 1; m <= GPTQ_M; m++) if (m == a->M) gptq_columns(a, n0, m);
    return n0;
}
