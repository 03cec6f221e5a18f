/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies Q1_0 and Q2_0, for matmul-direct-cols.h.
 *
 * A shift and a mask take one code out of each byte, so a vector of codes has elements that are
 * not neighbors. The numbers of x are brought into the same order.
 */

/* Brings the 32 numbers of a block into the order in which Q1_0 needs them: number i of unit u is
 * element u + 8i. */
INLINE void cols_by_8(const int8_t q[32], int8_t dst[32])
{
    const __m128i a = _mm_loadu_si128((const void *)q), b = _mm_loadu_si128((const void *)(q + 16));
    const __m128i low = _mm_unpacklo_epi8(a, _mm_srli_si128(a, 8));
    const __m128i high = _mm_unpacklo_epi8(b, _mm_srli_si128(b, 8));

    _mm_store_si128((void *)dst, _mm_unpacklo_epi16(low, high));
    _mm_store_si128((void *)(dst + 16), _mm_unpackhi_epi16(low, high));
}

/* Does the same for Q2_0: number i of unit 4h + u is element 16h + u + 4i. */
INLINE void cols_by_4(const int8_t q[32], int8_t dst[32])
{
    const __m128i fours = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);

    UNROLL for (unsigned h = 0; h < 2; h++)
        _mm_store_si128((void *)(dst + 16 * h),
                        _mm_shuffle_epi8(_mm_loadu_si128((const void *)(q + 16 * h)), fours));
}

INLINE void cols_q1_0(struct matmul_direct *d, const unsigned m_n, const bool once)
{
    const unsigned size = sizeof(struct block_q1_0);
    const struct cols_kind kind = {.steps = 8, .zero = 1, .narrow = 8};
    const v_int mask = v_set(0x02020202);
    float scale[COLS_BLOCKS][VEC_N] __attribute__((aligned(64)));
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t i = 0; i < d->K / 128; i++, w += size) {
        v_int v[4];

        if (i % COLS_BLOCKS == 0)
            cols_fields(w, d->row_bytes, d->K / 128 - i, size, scale);
        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            prefetch_turn(&ahead, j, VEC_N * size / 4, once);
            v[j] = v_rows16(w + 2 + j * d->row_bytes, d->row_bytes);
        }
        transpose(v);
        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            int8_t x[DIRECT_M][32] __attribute__((aligned(64)));
            const int8_t *xs[DIRECT_M];
            v_int q[8];

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                cols_by_8(cols_x(d, m, 4 * i + j)->q, x[m]);
                xs[m] = x[m];
            }
            /* The codes are 0 and 2, and stand for -1 and 1. */
            UNROLL for (unsigned u = 0; u < 8; u++) q[u] =
                v_and(u == 0 ? v_shl(v[j], 1) : v_shr(v[j], u == 0 ? 0 : u - 1), mask);
            cols_add(d, m_n, &acc, 4 * i + j, 0, xs, q, v_loadf(scale[i % COLS_BLOCKS]), kind);
        }
    }
    cols_end(d, m_n, &acc);
}

INLINE void cols_q2_0(struct matmul_direct *d, const unsigned m_n, const bool once)
{
    const unsigned size = sizeof(struct block_q2_0);
    const struct cols_kind kind = {.steps = 8, .zero = 1, .narrow = 8};
    const v_int mask = v_set(0x03030303);
    float scale[COLS_BLOCKS][VEC_N] __attribute__((aligned(64)));
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t i = 0; i < d->K / 64; i++, w += size) {
        v_int v[4];

        if (i % COLS_BLOCKS == 0)
            cols_fields(w, d->row_bytes, d->K / 64 - i, size, scale);
        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            prefetch_turn(&ahead, j, VEC_N * size / 4, once);
            v[j] = v_rows16(w + 2 + j * d->row_bytes, d->row_bytes);
        }
        transpose(v);
        UNROLL for (unsigned h = 0; h < 2; h++)
        {
            int8_t x[DIRECT_M][32] __attribute__((aligned(64)));
            const int8_t *xs[DIRECT_M];
            v_int q[8];

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                cols_by_4(cols_x(d, m, 2 * i + h)->q, x[m]);
                xs[m] = x[m];
            }
            UNROLL for (unsigned u = 0; u < 8; u++) q[u] =
                v_and(v_shr(v[2 * h + u / 4], 2 * (u % 4)), mask);
            cols_add(d, m_n, &acc, 2 * i + h, 0, xs, q, v_loadf(scale[i % COLS_BLOCKS]), kind);
        }
    }
    cols_end(d, m_n, &acc);
}

DIRECT(q1_0, cols_q1_0(d, m_n, once))
DIRECT(q2_0, cols_q2_0(d, m_n, once))
