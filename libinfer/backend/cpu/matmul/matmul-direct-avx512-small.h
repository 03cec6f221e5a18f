/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies MXFP4 and TQ2_0, for matmul-direct-avx512.h. */

/* Loads 16 bytes at offset @at and 16 at offset @at + @next, of row @i and then of row @j. The
 * masked loads do not use the port for shuffles. */
INLINE __m512i direct_quarters(const struct direct_rows *r, const unsigned i, const unsigned j,
                               const size_t at, const size_t next)
{
    const uint8_t *a = direct_row(r, i) + at, *b = direct_row(r, j) + at;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)a));

    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const void *)(a + next)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00, _mm_loadu_si128((const void *)b));
    return _mm512_mask_broadcast_i32x4(v, 0xf000, _mm_loadu_si128((const void *)(b + next)));
}

/* Converts scales of MXFP4 to floats, as block_e8m0_half() does. */
INLINE __m512 direct_e8m0(__m512i e)
{
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 is_small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));

    return _mm512_castsi512_ps(
        _mm512_mask_sllv_epi32(normal, is_small, _mm512_set1_epi32(0x00200000), e));
}

/*
 * Reads the scales of four blocks of MXFP4 in each of 8 rows. They are at bytes 0, 17, 34 and 51 of
 * a row: if 64 bytes of a row are loaded, the scale of block i is byte i of 16-byte lane i.
 * ret_scale[0] gets the scales of the first two blocks. If @n is 2, there are only two blocks.
 */
INLINE void direct_mxfp4_scales(const struct direct_rows *r, uint32_t n, __m512 ret_scale[2])
{
    const __mmask64 there = n < 4 ? (1ull << 34) - 1 : UINT64_MAX;
    const __m512i byte = _mm512_set1_epi32(0xff);
    const __m512i shift = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24);
    __m512i v[8], four[2];

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = _mm512_maskz_loadu_epi8(there, direct_row(r, i));
    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        const __m512i a = _mm512_unpacklo_epi32(v[4 * i], v[4 * i + 1]);
        const __m512i b = _mm512_unpacklo_epi32(v[4 * i + 2], v[4 * i + 3]);

        four[i] = _mm512_and_si512(_mm512_srlv_epi32(_mm512_unpacklo_epi64(a, b), shift), byte);
    }
    ret_scale[0] = direct_e8m0(direct_lanes(four[0], four[1], 0, 1));
    ret_scale[1] = direct_e8m0(direct_lanes(four[0], four[1], 2, 3));
}

/* Adds the products of the two blocks at offset @at. */
INLINE void direct_mxfp4_two(const struct matmul_direct *d, const unsigned m_n,
                             const struct direct_rows *r, const unsigned at, __m512 scale,
                             uint32_t b, struct direct_acc *acc)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128((const void *)fp4_codes));
    __m512i low[4], high[4];

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const __m512i q = direct_quarters(r, i, i + 4, at + 1, sizeof(struct block_mxfp4));

        low[i] = _mm512_shuffle_epi8(table, _mm512_and_si512(q, nibble));
        high[i] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(q, 4), nibble));
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = direct_x(d, m, b);
        const __m512i both = direct_halves(x[0].q, x[1].q);
        const __m512i x0 = _mm512_shuffle_i64x2(both, both, 0x88);
        const __m512i x1 = _mm512_shuffle_i64x2(both, both, 0xdd);
        const __m512i first =
            _mm512_add_epi32(direct_first(x0, BLOCK_FP4_ZERO), direct_first(x1, BLOCK_FP4_ZERO));
        __m512i t[4], sum;

        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            t[i] = _mm512_dpbusd_epi32(first, low[i], x0);
            t[i] = _mm512_dpbusd_epi32(t[i], high[i], x1);
        }
        sum = direct_add4(t, DIRECT_BOTH);
        sum = _mm512_shuffle_i64x2(sum, sum, 0xd8);
        acc->v[m] = direct_add2(acc->v[m], sum, scale, &x[0], &x[1]);
    }
}

INLINE void direct_mxfp4(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_mxfp4);
    const uint32_t n_blocks = d->K / 32;
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < n_blocks; b += 4, direct_move(&r, 4 * size)) {
        __m512 scale[2];

        UNROLL for (unsigned i = 0; i < 8; i++) prefetch_turn(&ahead, i, 4 * size);
        direct_mxfp4_scales(&r, n_blocks - b, scale);
        direct_mxfp4_two(d, m_n, &r, 0, scale[0], b, &acc);
        if (b + 2 < n_blocks)
            direct_mxfp4_two(d, m_n, &r, 2 * size, scale[1], b + 2, &acc);
    }
    direct_end(d, m_n, &acc);
}

/* Loads the scales of super-blocks of 8 rows at offset @at; the other 8 lanes repeat them. */
INLINE __m512 direct_row_halfs(const struct direct_rows *r, const unsigned at)
{
    uint64_t d[4] = {0};

    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        uint16_t bits;

        memcpy(&bits, direct_row(r, i) + at, 2);
        d[i / 4] |= (uint64_t)bits << (i % 4 * 16);
    }
    d[2] = d[0];
    d[3] = d[1];
    return direct_halfs(d);
}

/* Each vector has codes of one row. Its lower half has 32 weights of the first half of a
 * super-block. Its upper half has the weights at the same places of the second half. */
INLINE void direct_tq2_0(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_tq2_0);
    const __m512i two = _mm512_set1_epi8(3);
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, direct_move(&r, size)) {
        const __m512 scale = direct_row_halfs(&r, offsetof(struct block_tq2_0, d));
        __m512 f[DIRECT_M][4];

        UNROLL for (unsigned i = 0; i < 8; i++) prefetch_turn(&ahead, i, size);
        UNROLL for (unsigned g = 0; g < 4; g++)
        {
            __m512i v[8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const __m512i q = _mm512_loadu_si512(direct_row(&r, i));

                v[i] = _mm512_and_si512(_mm512_srli_epi16(q, 2 * g), two);
            }
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b + g);
                const __m512i sum = direct_sum32(v, direct_halves(x[0].q, x[4].q), 1, DIRECT_BOTH);

                f[m][g] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
            }
        }
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);

            UNROLL for (unsigned g = 0; g < 4; g++) acc.v[m] =
                direct_fma(_mm512_castps512_ps256(f[m][g]), &x[g], acc.v[m]);
            UNROLL for (unsigned g = 0; g < 4; g++) acc.v[m] =
                direct_fma(_mm512_extractf32x8_ps(f[m][g], 1), &x[g + 4], acc.v[m]);
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(mxfp4, direct_mxfp4(d, m_n))
DIRECT(tq2_0, direct_tq2_0(d, m_n))
