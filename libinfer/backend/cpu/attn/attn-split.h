/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes attention with F16 keys and values in AMX tiles, which multiply BF16. Include it after
 * attn-simd.h and tiles.h.
 *
 * A number becomes the sum of two BF16, hi + lo. For F16 this sum is exact: hi has the upper 8 of
 * its 11 significant bits. Queries and weights are floats; lo is the rest after hi, rounded, so
 * the sum has at least 16 significant bits. A product becomes lo × hi + hi × hi + hi × lo, in this
 * order, for each 32 numbers that are summed. The part that is left out is below 2^-16 of the
 * product. matmul-amx.c describes the order of a tile's sums.
 *
 * A step is 32 numbers of the dimension that is summed. Keys or values of up to 64 tokens are
 * split together and are then multiplied by all rows. The rows of a tile may see different tokens:
 * tokens that a row does not see have the weight 0, which changes no bit of the row's sums. Tokens
 * that no row sees count as zeros. Tiles are configured for the number of rows that they hold, so
 * few rows cost little, and the bits of a row do not depend on the number of rows. Head sizes that
 * are not whole steps are computed with floats.
 */

#define SPLIT_TINY 0x1p-60f /* smaller queries and weights become 0; no product is subnormal */

#define TILE_N      16u  /* columns of a tile; also its rows, unless fewer are configured */
#define TILE_WORDS  256u /* 32-bit words of a tile; each has two BF16 */
#define SPLIT_TILES 16u  /* tiles of keys or values that are split together */

/* Holds keys or values in the order in which tiles load them: [step][16 columns][hi, lo]. */
struct split_tiles {
    uint32_t words[SPLIT_TILES][2][TILE_WORDS];
    uint32_t n_cols; /* tiles side by side */
    uint32_t n_rows; /* rows for which the tiles are configured */
} __attribute__((aligned(64)));

/* Splits 16 numbers. The numbers of @x must be 0 or at least SPLIT_TINY. */
ALWAYS_INLINE void split_floats(uint16_t *hi, uint16_t *lo, vf x)
{
    const __m256i h = (__m256i)_mm512_cvtneps_pbh(x);
    const vf rest = vf_sub(x, vf_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));

    _mm256_storeu_si256((__m256i *)hi, h);
    _mm256_storeu_si256((__m256i *)lo, (__m256i)_mm512_cvtneps_pbh(rest));
}

/* Replaces tiny numbers by 0. NaN stays NaN. */
ALWAYS_INLINE vf split_flush(vf x)
{
    const __mmask16 keeps = _mm512_cmp_ps_mask(_mm512_abs_ps(x), vf_set1(SPLIT_TINY), _CMP_NLT_UQ);

    return _mm512_maskz_mov_ps(keeps, x);
}

static bool split_fits(uint32_t head_dim)
{
    return head_dim % TILE_K == 0;
}

/* Writes the query as BF16: hi [head_dim], then lo [head_dim]. */
static void query_split(float *q, const float *x, float scale, uint32_t head_dim)
{
    uint16_t *to = (uint16_t *)q;

    if (!split_fits(head_dim)) {
        query_float(q, x, scale, head_dim);
        return;
    }
    for (uint32_t d = 0; d < head_dim; d += VF_N)
        split_floats(to + d, to + head_dim + d,
                     split_flush(vf_mul(vf_load(x + d), vf_set1(scale))));
}

/* Splits 16 columns of two rows, and stores them as pairs. */
ALWAYS_INLINE void split_pair(uint32_t *hi, uint32_t *lo, const uint16_t *row0,
                              const uint16_t *row1)
{
    const vi upper = vi_set1((int32_t)0xffff0000u);
    const vf x0 = vf_load_f16(row0), x1 = vf_load_f16(row1);
    const vi h0 = vi_and(vi_from_bits(x0), upper), h1 = vi_and(vi_from_bits(x1), upper);
    const vi l0 = vi_from_bits(vf_sub(x0, vf_from_bits(h0)));
    const vi l1 = vi_from_bits(vf_sub(x1, vf_from_bits(h1)));

    _mm512_store_si512(hi, _mm512_or_si512(_mm512_srli_epi32(h0, 16), h1));
    _mm512_store_si512(lo, _mm512_or_si512(_mm512_srli_epi32(l0, 16), l1));
}

/* Describes keys or values: rows of columns. For keys, rows are elements and columns are tokens;
 * values have rows of tokens. */
struct split_source {
    const uint16_t *from;
    const void *ahead; /* see struct attn_args */
    uint32_t n_rows, n_cols, turn;
    size_t ld;
    struct attn_range seen; /* other rows count as zeros */
};

/* Splits the rows @first + @begin … @first + @end - 1 of @source, and writes them to the tiles from
 * @tile on, which hold a step that begins at row @first. */
ALWAYS_INLINE void split_some(uint32_t (*tile)[2][TILE_WORDS], const struct split_source *source,
                              uint32_t first, uint32_t begin, uint32_t end, const uint32_t n_cols)
{
    static const uint16_t zeros[SPLIT_TILES * TILE_N];

    for (uint32_t r = first + begin; r < first + end; r += 2) {
        const struct attn_range seen = source->seen;
        const size_t at = r * source->ld;
        const uint16_t *row0 = r >= seen.lo && r < seen.hi ? source->from + at : zeros;
        const uint16_t *row1 =
            r + 1 >= seen.lo && r + 1 < seen.hi ? source->from + at + source->ld : zeros;

        if (source->ahead)
            turn_prefetch(source->ahead, (size_t)source->n_rows * source->n_cols * 2,
                          source->turn + r / 2, 256);
        for (uint32_t j = 0; j < n_cols; j++) {
            const uint32_t i = (r - first) / 2 * TILE_N;

            split_pair(tile[j][0] + i, tile[j][1] + i, row0 + j * TILE_N, row1 + j * TILE_N);
        }
    }
}

/* Splits the rows @first … @first + 31 as step @i_step of @to. */
ALWAYS_INLINE void split_step(struct split_tiles *to, uint32_t i_step,
                              const struct split_source *source, uint32_t first,
                              const uint32_t n_cols)
{
    split_some(to->words + (size_t)i_step * n_cols, source, first, 0, TILE_K, n_cols);
}
