/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the operations of matmul-direct-grid.h with AVX2. */

typedef __m256i v_signs;

INLINE __m128i grid_longs2(const struct grid_row *row, const unsigned l, const uint64_t *table)
{
    const __m128i v = _mm_loadl_epi64((const void *)&table[row[0].index[l]]);

    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(v), (const void *)&table[row[1].index[l]]));
}

/* Loads points of 4 bytes of two rows, two points of each. */
INLINE __m128i grid_halves2(const struct grid_row *row, const unsigned l, const uint32_t *table)
{
    __m128i v = _mm_cvtsi32_si128((int)table[row[0].index[2 * l]]);

    v = _mm_insert_epi32(v, (int)table[row[0].index[2 * l + 1]], 1);
    v = _mm_insert_epi32(v, (int)table[row[1].index[2 * l]], 2);
    return _mm_insert_epi32(v, (int)table[row[1].index[2 * l + 1]], 3);
}

INLINE v_int grid_points(const struct grid_row *row, const unsigned l, const struct grid_kind kind)
{
    if (kind.is_half)
        return _mm256_set_m128i(grid_halves2(row + 2, l, kind.table),
                                grid_halves2(row, l, kind.table));
    return _mm256_set_m128i(grid_longs2(row + 2, l, kind.table), grid_longs2(row, l, kind.table));
}

/* Returns bytes of ones where signs are set. */
INLINE v_signs grid_signs(const uint8_t *signs)
{
    const __m256i bytes =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i all = _mm256_shuffle_epi8(v_bcast(signs), bytes);

    return _mm256_cmpeq_epi8(_mm256_and_si256(all, bit), bit);
}

INLINE v_int grid_negate(v_int x, v_signs signs)
{
    return _mm256_sign_epi8(x, _mm256_or_si256(signs, _mm256_set1_epi8(1)));
}

INLINE v_int grid_less2(v_int w, v_signs signs)
{
    return _mm256_add_epi8(w, _mm256_add_epi8(signs, signs));
}

INLINE v_int grid_x(const int8_t *q)
{
    int64_t u;

    memcpy(&u, q, sizeof(u));
    return _mm256_set1_epi64x(u);
}

INLINE __m256i grid_sums(const v_int sum[2])
{
    const __m256i all = _mm256_add_epi32(v_even(sum[0], sum[1]), v_odd(sum[0], sum[1]));

    return _mm256_permute4x64_epi64(all, 0xd8);
}
