/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies formats with blocks of 32 weights, for matmul-direct-avx512.h. */

/* Sets lane @i of @v to the 4 bytes at @p. Without assembly, compilers choose the instruction
 * vpinsrd, which also occupies the port for shuffles. */
INLINE __m128i direct_word(__m128i v, const unsigned i, const uint8_t *p)
{
    __asm__("vpbroadcastd %1, %0%{%2%}"
            : "+v"(v)
            : "m"(*(const uint8_t(*)[4])p), "Yk"((__mmask8)(1u << i)));
    return v;
}

/* Loads the 4 bytes at offset @at of rows @i … @i + 3. */
INLINE __m128i direct_words4(const struct direct_rows *r, const unsigned i, const size_t at)
{
    __m128i v = _mm_loadu_si32(direct_row(r, i) + at);

    v = direct_word(v, 1, direct_row(r, i + 1) + at);
    v = direct_word(v, 2, direct_row(r, i + 2) + at);
    return direct_word(v, 3, direct_row(r, i + 3) + at);
}

/* Loads the 4 bytes at offset @at0 of the 8 rows into the first 8 lanes, and the 4 bytes at offset
 * @at1 into the other lanes. */
INLINE __m512i direct_words(const struct direct_rows *r, const size_t at0, const size_t at1)
{
    const __m256i a = _mm256_set_m128i(direct_words4(r, 4, at0), direct_words4(r, 0, at0));
    const __m256i b = _mm256_set_m128i(direct_words4(r, 4, at1), direct_words4(r, 0, at1));

    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/*
 * Two blocks of a row are 68 bytes: scale, 32 weights, scale, 32 weights. Bytes 4 … 67 make a
 * vector: the last 30 weights of the first block and the second scale, then the second block. The
 * first two weights and their scale are loaded separately, with one lane for each row. The first 4
 * bytes of the second block are loaded in the same way, but only their scale is used.
 */
INLINE void direct_q8_0(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q8_0);
    const __m512i sign = _mm512_set1_epi8(-128);
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 2, direct_move(&r, 2 * size)) {
        __m512i v[8], words;
        __m512 scale;

        UNROLL for (unsigned i = 0; i < 8; i++)
        {
            prefetch_turn(&ahead, i, 2 * size);
            v[i] = _mm512_xor_si512(_mm512_loadu_si512(direct_row(&r, i) + 4), sign);
        }
        words = direct_words(&r, 0, size);
        scale = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
        words = _mm512_xor_si512(words, sign);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const __m256i x0 = _mm256_maskz_loadu_epi8(0x3fffffff, x[0].q + 2);
            const __m512i xv = _mm512_inserti64x4(_mm512_castsi256_si512(x0),
                                                  _mm256_loadu_si256((const void *)x[1].q), 1);
            uint16_t two;
            __m512i sum, xw;

            memcpy(&two, x[0].q, sizeof(two));
            xw = _mm512_maskz_set1_epi32(0xff, (int32_t)((uint32_t)two << 16));
            sum = direct_sum32(v, xv, 128, DIRECT_WIDE);
            sum = _mm512_add_epi32(sum, _mm512_dpbusd_epi32(direct_first(xw, 128), words, xw));
            acc.v[m] = direct_add2(acc.v[m], sum, scale, &x[0], &x[1]);
        }
    }
    direct_end(d, m_n, &acc);
}

/* Picks 16 bytes of nibble pairs, or 4 bytes of high bits, from each of four blocks: two of one row
 * in @a, and two of another row in @b. */
INLINE __m512i direct_pick(__m512i a, __m512i b, const unsigned at, const unsigned step,
                           const unsigned n)
{
    const int64_t all = 0x0001000100010001, u0 = n == 8 ? 0x0003000200010000 : 0x0001000000010000;
    const int64_t u1 = n == 8 ? 0x0007000600050004 : u0, t = at * all, s = (at + step) * all;
    const __m512i index =
        _mm512_setr_epi64(t + u0, t + u1, s + u0, s + u1, t + 32 * all + u0, t + 32 * all + u1,
                          s + 32 * all + u0, s + 32 * all + u1);

    return _mm512_permutex2var_epi16(a, index, b);
}

/* Returns a vector of zeros, except that in each group of 16 bytes, bit 4 of byte i is a copy of
 * bit i + 16 × @half of the same group of @bits. */
INLINE __m512i direct_spread(__m512i bits, const unsigned half)
{
    const __m512i bytes = _mm512_add_epi8(_mm512_set4_epi32(0x01010101, 0x01010101, 0, 0),
                                          _mm512_set1_epi8((char)(2 * half)));
    const __m512i bit = _mm512_set1_epi64((int64_t)0x8040201008040201);

    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, bytes), bit),
                                  0x10);
}

/* Multiplies Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL. Blocks of these formats have 16 bytes of nibble
 * pairs, with or without high bits and an offset. The nibbles of IQ4_NL are replaced by values. */
INLINE void direct_32(struct matmul_direct *d, const unsigned m_n, const bool has_offset,
                      const bool has_high, const bool is_iq4)
{
    const unsigned high_at = 2 + 2 * has_offset, q_at = high_at + 4 * has_high, size = q_at + 16;
    const enum direct_size sums = is_iq4                   ? DIRECT_WIDE
                                  : has_high && has_offset ? DIRECT_ONE
                                                           : DIRECT_BOTH;
    const unsigned zero = is_iq4 ? 128 : has_offset ? 0 : has_high ? 16 : 8;
    const __mmask32 two_blocks = (uint32_t)((1ull << size) - 1); /* 2-byte units */
    const __m512i nibble = _mm512_set1_epi8(15);
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 2, direct_move(&r, 2 * size)) {
        __m512i v[8], low[4], high[4];
        __m512 scale, offset = _mm512_setzero_ps();

        UNROLL for (unsigned i = 0; i < 8; i++)
        {
            prefetch_turn(&ahead, i, 2 * size);
            v[i] = _mm512_maskz_loadu_epi16(two_blocks, direct_row(&r, i));
        }
        scale = direct_fields(v, 0, size / 2);
        if (has_offset)
            offset = direct_fields(v, 1, size / 2);
        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            const __m512i q = direct_pick(v[i], v[i + 4], q_at / 2, size / 2, 8);

            low[i] = _mm512_and_si512(q, nibble);
            high[i] = _mm512_and_si512(_mm512_srli_epi16(q, 4), nibble);
            if (has_high) {
                const __m512i bits = direct_pick(v[i], v[i + 4], high_at / 2, size / 2, 2);

                low[i] = _mm512_or_si512(low[i], direct_spread(bits, 0));
                high[i] = _mm512_or_si512(high[i], direct_spread(bits, 1));
            }
            if (is_iq4) {
                low[i] = v_table16(low[i], iq4_codes);
                high[i] = v_table16(high[i], iq4_codes);
            }
        }
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const __m512i both = direct_halves(x[0].q, x[1].q);
            const __m512i x0 = _mm512_shuffle_i64x2(both, both, 0x88);
            const __m512i x1 = _mm512_shuffle_i64x2(both, both, 0xdd);
            const __m512i first = _mm512_add_epi32(direct_first(x0, zero), direct_first(x1, zero));
            __m512i t[4], sum;
            __m512 f;

            UNROLL for (unsigned i = 0; i < 4; i++)
            {
                t[i] = _mm512_dpbusd_epi32(first, low[i], x0);
                t[i] = _mm512_dpbusd_epi32(t[i], high[i], x1);
            }
            sum = direct_add4(t, sums);
            sum = _mm512_shuffle_i64x2(sum, sum, 0xd8);
            f = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
            acc.v[m] = direct_fma(_mm512_castps512_ps256(f), &x[0], acc.v[m]);
            if (has_offset)
                acc.offset[m] = _mm256_fmadd_ps(_mm512_castps512_ps256(offset),
                                                _mm256_set1_ps(x[0].s), acc.offset[m]);
            acc.v[m] = direct_fma(_mm512_extractf32x8_ps(f, 1), &x[1], acc.v[m]);
            if (has_offset)
                acc.offset[m] = _mm256_fmadd_ps(_mm512_extractf32x8_ps(offset, 1),
                                                _mm256_set1_ps(x[1].s), acc.offset[m]);
        }
        if (has_offset)
            direct_chunk(d, m_n, &acc, b + 2);
    }
    direct_end(d, m_n, &acc);
}

DIRECT(q8_0, direct_q8_0(d, m_n))
DIRECT(q4_0, direct_32(d, m_n, false, false, false))
DIRECT(q4_1, direct_32(d, m_n, true, false, false))
DIRECT(q5_0, direct_32(d, m_n, false, true, false))
DIRECT(q5_1, direct_32(d, m_n, true, true, false))
DIRECT(iq4_nl, direct_32(d, m_n, false, false, true))
