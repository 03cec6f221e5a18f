/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the affine format of MLX with 2 bits, groups of 128 columns and planes in F16, for
 * matmul-direct-avx512.h.
 *
 * Byte j of a row has the codes of elements 4j … 4j + 3. The codes of elements 4j + t are masked
 * out together; the vector x[t] has these elements of x. So the products of 4 vectors add up in one
 * vector, in which two lanes belong to each block of x.
 */

#define DIRECT_MLX_K     256u /* elements in a vector of codes */
#define DIRECT_MLX_GROUP 128u

/* Loads 256 elements of a prepared row, those with the same remainder modulo 4 together. */
INLINE void direct_mlx_x(const struct matmul_q8 *x, __m512i v[4])
{
    const __m512i fours =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));

    /* 16-byte lane l of v[i] gets the elements from 16 × (4l + i) on. */
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const unsigned b = i / 2, at = i % 2 * 16;

        v[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(x[b].q + at)));
        v[i] = _mm512_mask_broadcast_i32x4(v[i], 0x00f0,
                                           _mm_loadu_si128((const void *)(x[b + 2].q + at)));
        v[i] = _mm512_mask_broadcast_i32x4(v[i], 0x0f00,
                                           _mm_loadu_si128((const void *)(x[b + 4].q + at)));
        v[i] = _mm512_mask_broadcast_i32x4(v[i], 0xf000,
                                           _mm_loadu_si128((const void *)(x[b + 6].q + at)));
        v[i] = _mm512_shuffle_epi8(v[i], fours);
    }
    transpose(v);
}

/* Loads two neighboring numbers of a plane of 8 rows: those of the first group go to ret[0]. */
INLINE void direct_mlx_plane(const struct direct_rows *r, size_t at, __m256 ret[2])
{
    const __m256i v = _mm256_set_m128i(direct_words4(r, 4, at), direct_words4(r, 0, at));

    ret[0] = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(v));
    ret[1] = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(v, 16)));
}

/* Adds the products of 8 blocks. v[i] has the sums of row i, in two lanes for each block. */
INLINE void direct_mlx_add(__m512i v[8], const struct matmul_q8 *x, const __m256 scale[2],
                           const __m256 offset[2], __m256 *acc, __m256 *sum)
{
    __m512i pairs[4], even[2], odd[2];

    UNROLL for (unsigned i = 0; i < 4; i++) pairs[i] = direct_pairs(v[2 * i], v[2 * i + 1]);
    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        even[i] = direct_shuffle(pairs[2 * i], pairs[2 * i + 1], 0x88);
        odd[i] = direct_shuffle(pairs[2 * i], pairs[2 * i + 1], 0xdd);
    }
    UNROLL for (unsigned g = 0; g < 2; g++, x += 4)
    {
        const __m512 all = _mm512_broadcast_f32x8(scale[g]);
        const __m512i a = direct_lanes(even[0], even[1], 2 * g, 2 * g + 1);
        const __m512i b = direct_lanes(odd[0], odd[1], 2 * g, 2 * g + 1);
        const __m512 fa = _mm512_mul_ps(_mm512_cvtepi32_ps(a), all);
        const __m512 fb = _mm512_mul_ps(_mm512_cvtepi32_ps(b), all);

        *acc = direct_fma(_mm512_castps512_ps256(fa), &x[0], *acc);
        *acc = direct_fma(_mm512_castps512_ps256(fb), &x[1], *acc);
        *acc = direct_fma(_mm512_extractf32x8_ps(fa, 1), &x[2], *acc);
        *acc = direct_fma(_mm512_extractf32x8_ps(fb, 1), &x[3], *acc);
        UNROLL for (unsigned j = 0; j < 4; j++) *sum =
            _mm256_fmadd_ps(offset[g], _mm256_set1_ps(x[j].s), *sum);
    }
}

INLINE void direct_mlx2(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = DIRECT_MLX_K / 4;
    const __m512i two = _mm512_set1_epi8(3);
    const size_t stride = d->planes.row_bytes;
    struct direct_rows r = direct_rows(d);
    struct direct_rows scales = {d->planes.scales, d->planes.scales + 4 * stride, stride,
                                 3 * stride};
    struct direct_rows offsets = {d->planes.offsets, d->planes.offsets + 4 * stride, stride,
                                  3 * stride};
    struct matmul_ahead ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, direct_move(&r, size)) {
        __m512i x[DIRECT_M][4], v[DIRECT_M][8];
        __m256 scale[2], offset[2];

        UNROLL for (unsigned m = 0; m < m_n; m++) direct_mlx_x(direct_x(d, m, b), x[m]);
        UNROLL for (unsigned i = 0; i < 8; i++)
        {
            const __m512i q = _mm512_loadu_si512(direct_row(&r, i));

            prefetch_turn(&ahead, i, size);
            UNROLL for (unsigned m = 0; m < m_n; m++) v[m][i] = _mm512_setzero_si512();
            UNROLL for (unsigned t = 0; t < 4; t++)
            {
                const __m512i codes = _mm512_and_si512(_mm512_srli_epi16(q, 2 * t), two);

                UNROLL for (unsigned m = 0; m < m_n; m++) v[m][i] =
                    _mm512_dpbusd_epi32(v[m][i], codes, x[m][t]);
            }
        }
        direct_mlx_plane(&scales, b / 4 * 2, scale);
        direct_mlx_plane(&offsets, b / 4 * 2, offset);
        UNROLL for (unsigned m = 0; m < m_n; m++)
            direct_mlx_add(v[m], direct_x(d, m, b), scale, offset, &acc.v[m], &acc.offset[m]);
        direct_chunk(d, m_n, &acc, b + 8);
    }
    direct_end(d, m_n, &acc);
}

DIRECT(mlx2, direct_mlx2(d, m_n))
