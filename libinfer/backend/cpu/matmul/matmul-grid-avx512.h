/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the operations of matmul-direct-grid.h with AVX-512. */

typedef __mmask64 v_signs;

/* Sets 8-byte lane @i of @v to the 8 bytes at @p. Compilers choose instructions that also occupy
 * the port for shuffles. */
INLINE __m256i grid_long(__m256i v, const unsigned i, const uint64_t *p)
{
    __asm__("vpbroadcastq %1, %0%{%2%}" : "+v"(v) : "m"(*p), "Yk"((__mmask8)(1u << i)));
    return v;
}

/* Loads point @l, which has 8 bytes, of the 4 rows at @row. */
INLINE __m256i grid_longs4(const struct grid_row *row, const unsigned l, const uint64_t *table)
{
    __m256i v = _mm256_zextsi128_si256(_mm_loadl_epi64((const void *)&table[row[0].index[l]]));

    v = grid_long(v, 1, &table[row[1].index[l]]);
    v = grid_long(v, 2, &table[row[2].index[l]]);
    return grid_long(v, 3, &table[row[3].index[l]]);
}

INLINE const uint8_t *grid_half(const struct grid_row *row, const unsigned i, const uint32_t *table)
{
    return (const uint8_t *)&table[row->index[i]];
}

/* Loads points of 4 bytes of two rows, two points of each. */
INLINE __m128i grid_halves2(const struct grid_row *row, const unsigned l, const uint32_t *table)
{
    __m128i v = _mm_loadu_si32(grid_half(row, 2 * l, table));

    v = direct_word(v, 1, grid_half(row, 2 * l + 1, table));
    v = direct_word(v, 2, grid_half(row + 1, 2 * l, table));
    return direct_word(v, 3, grid_half(row + 1, 2 * l + 1, table));
}

INLINE v_int grid_points(const struct grid_row *row, const unsigned l, const struct grid_kind kind)
{
    __m256i a, b;

    if (kind.is_half) {
        a = _mm256_set_m128i(grid_halves2(row + 2, l, kind.table),
                             grid_halves2(row, l, kind.table));
        b = _mm256_set_m128i(grid_halves2(row + 6, l, kind.table),
                             grid_halves2(row + 4, l, kind.table));
    } else {
        a = grid_longs4(row, l, kind.table);
        b = grid_longs4(row + 4, l, kind.table);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

INLINE v_signs grid_signs(const uint8_t *signs)
{
    uint64_t bits;

    memcpy(&bits, signs, sizeof(bits));
    return _cvtu64_mask64(bits);
}

INLINE v_int grid_negate(v_int x, v_signs signs)
{
    return _mm512_mask_sub_epi8(x, signs, _mm512_setzero_si512(), x);
}

INLINE v_int grid_less2(v_int w, v_signs signs)
{
    return _mm512_mask_sub_epi8(w, signs, w, _mm512_set1_epi8(2));
}

INLINE v_int grid_x(const int8_t *q)
{
    int64_t u;

    memcpy(&u, q, sizeof(u));
    return _mm512_set1_epi64(u);
}

INLINE __m256i grid_sums(const v_int sum[1])
{
    return _mm512_cvtepi64_epi32(_mm512_add_epi64(sum[0], _mm512_srli_epi64(sum[0], 32)));
}
