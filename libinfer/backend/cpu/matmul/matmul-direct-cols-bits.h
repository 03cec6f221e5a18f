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

/* Returns the codes of unit @u of part @part, where v is a transposed block of 16 bytes of codes.
 * The codes of Q1_0 are 0 and 2, and stand for -1 and 1. */
INLINE v_int cols_codes(const v_int v[4], const unsigned part, const unsigned u,
                        const unsigned bits)
{
    if (bits == 2)
        return v_and(v_shr(v[2 * part + u / 4], 2 * (u % 4)), v_set(0x03030303));
    return v_and(u == 0 ? v_shl(v[part], 1) : v_shr(v[part], u == 0 ? 0 : u - 1),
                 v_set(0x02020202));
}

/* Multiplies Q1_0 or Q2_0, whose codes have @bits bits. A block consists of parts of 32 weights. */
INLINE void cols_bits(struct matmul_direct *d, const unsigned m_n, const unsigned bits)
{
    const unsigned size = bits == 1 ? sizeof(struct block_q1_0) : sizeof(struct block_q2_0);
    const unsigned n_parts = 4 / bits;
    const uint32_t n_blocks = d->K / (32 * n_parts);
    const struct cols_kind kind = {.steps = 8, .zero = 1, .narrow = 8};
    float scale[COLS_BLOCKS][VEC_N] __attribute__((aligned(64)));
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t i = 0; i < n_blocks; i++, w += size) {
        v_int v[4];

        if (i % COLS_BLOCKS == 0)
            cols_fields(w, d->row_bytes, n_blocks - i, size, scale);
        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            prefetch_turn(&ahead, j, VEC_N * size / 4);
            v[j] = v_rows16(w + 2 + j * d->row_bytes, d->row_bytes);
        }
        transpose(v);
        UNROLL for (unsigned part = 0; part < n_parts; part++)
        {
            int8_t x[DIRECT_M][32] __attribute__((aligned(64)));
            const int8_t *xs[DIRECT_M];
            v_int q[8];

            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const int8_t *from = cols_x(d, m, n_parts * i + part)->q;

                bits == 1 ? cols_by_8(from, x[m]) : cols_by_4(from, x[m]);
                xs[m] = x[m];
            }
            UNROLL for (unsigned u = 0; u < 8; u++) q[u] = cols_codes(v, part, u, bits);
            cols_add(d, m_n, &acc, n_parts * i + part, 0, xs, q, v_loadf(scale[i % COLS_BLOCKS]),
                     kind);
        }
    }
    cols_end(d, m_n, &acc);
}

DIRECT(q1_0, cols_bits(d, m_n, 1))
DIRECT(q2_0, cols_bits(d, m_n, 2))
