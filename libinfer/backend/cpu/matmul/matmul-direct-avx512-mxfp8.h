/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies MXFP8, and coded matrices in FP8 (quant/coded.h), by rows of floats, for
 * matmul-direct-avx512.h. Include it after matmul-direct-avx512-fma.h.
 *
 * The bits of a number in E4M3 are moved to the places that they have in F16, separately for the
 * even and for the odd elements of a line. The resulting F16 numbers of 16 rows are transposed in
 * the same way as weights in F16. Such a number is 2^-8 of the number in E4M3, so the scales are
 * multiplied by 256.
 */

#include "quant/coded.h"

/* The scales of 32 elements in 16 rows. */
struct direct_fp8 {
    __m512 scale;
    bool large; /* a scale times 256 is not finite */
};

INLINE struct direct_fp8 direct_e8m0_load(const struct matmul_planes *p, size_t at)
{
    uint32_t e[16] __attribute__((aligned(64)));
    __m512i v;

    for (unsigned i = 0; i < 16; i++)
        e[i] = p->scales[i * p->row_bytes + at];
    v = _mm512_load_si512(e);
    return (struct direct_fp8){
        _mm512_castsi512_ps(_mm512_mask_mov_epi32(
            _mm512_slli_epi32(v, 23), _mm512_testn_epi32_mask(v, v), _mm512_set1_epi32(1 << 22))),
        _mm512_cmpgt_epu32_mask(v, _mm512_set1_epi32(246)) != 0};
}

/* Loads the scales of column @k of a coded matrix. */
INLINE struct direct_fp8 direct_coded_scales(const struct matmul_direct *d, uint32_t k)
{
    const struct coded *c = d->coded;
    const uint32_t n_groups = coded_groups(c), g = k / c->group;
    uint32_t bits[16] __attribute__((aligned(64)));
    __m512i v;

    for (unsigned i = 0; i < 16; i++) {
        const uint64_t at = (uint64_t)((d->coded_row + i) / c->group_rows) * n_groups + g;
        uint16_t half;

        if (c->scale_type == INF_DTYPE_F32) {
            memcpy(&bits[i], (const uint8_t *)c->scales + 4 * at, 4);
        } else {
            memcpy(&half, (const uint8_t *)c->scales + 2 * at, 2);
            bits[i] = c->scale_type == INF_DTYPE_F16 ? half : (uint32_t)half << 16;
        }
    }
    v = _mm512_load_si512(bits);
    if (c->scale_type == INF_DTYPE_F16)
        v = _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)));
    return (struct direct_fp8){
        _mm512_castsi512_ps(v),
        _mm512_cmpgt_epu32_mask(_mm512_slli_epi32(v, 1), _mm512_set1_epi32((int)0xf6ffffff)) != 0};
}

/* Converts the halves of 16 rows to weights. If @odd is set, halves may be NaN, or scales may be
 * large (struct direct_fp8). */
INLINE __m512 direct_e4m3(__m256i half, const struct direct_fp8 *g, const bool odd)
{
    const __m256i nan = _mm256_set1_epi16(0x3f80);
    __m512 f;

    if (odd) {
        const __mmask16 is_nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, nan), nan);

        half = _mm256_or_si256(half, _mm256_maskz_mov_epi16(is_nan, _mm256_set1_epi16(0x7e00)));
    }
    f = _mm512_cvtph_ps(half);
    return odd ? _mm512_mul_ps(_mm512_mul_ps(f, _mm512_set1_ps(256)), g->scale)
               : _mm512_mul_ps(f, g->scale);
}

/* Adds the elements 32 h … 32 h + 31 of a block. @even and @odd are transposed. */
INLINE void direct_half_mxfp8(const struct matmul_direct *d, const __m512i even[16],
                              const __m512i odd[16], const unsigned h, const uint8_t *act,
                              const unsigned m_n, struct direct_fp8 g, const bool rare,
                              __m512 sum[DIRECT_M])
{
    const __m512i pick = _mm512_setr_epi64(4 * h, 4 * h + 1, 4 * h + 8, 4 * h + 9, 4 * h + 2,
                                           4 * h + 3, 4 * h + 10, 4 * h + 11);
    __m512i a[8], b[8];

    if (!rare)
        g.scale = _mm512_mul_ps(g.scale, _mm512_set1_ps(256));
    UNROLL for (unsigned j = 0; j < 8; j++)
    {
        a[j] = _mm512_permutex2var_epi64(even[j], pick, even[8 + j]);
        b[j] = _mm512_permutex2var_epi64(odd[j], pick, odd[8 + j]);
    }
    UNROLL for (unsigned q = 0; q < 2; q++) UNROLL for (unsigned j = 0; j < 8; j++)
    {
        const unsigned k = 32 * h + 16 * q + 2 * j;
        const __m256i x =
            q == 0 ? _mm512_castsi512_si256(a[j]) : _mm512_extracti64x4_epi64(a[j], 1);
        const __m256i y =
            q == 0 ? _mm512_castsi512_si256(b[j]) : _mm512_extracti64x4_epi64(b[j], 1);

        direct_chain(d, act, k, m_n, direct_e4m3(x, &g, rare), sum);
        direct_chain(d, act, k + 1, m_n, direct_e4m3(y, &g, rare), sum);
    }
}

/* Adds a block of 64 elements, with the scales @g0 and @g1 of its halves. */
INLINE void direct_block_e4m3(struct matmul_direct *d, struct direct_lines *lines,
                              const uint8_t *act, const unsigned m_n, struct direct_fp8 g0,
                              struct direct_fp8 g1, __m512 sum[DIRECT_M])
{
    const __m512i places = _mm512_set1_epi16((short)0xbf80), seven = _mm512_set1_epi8(0x7f);
    __m512i even[16], odd[16], most = _mm512_setzero_si512();

    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        const __m512i v = lines->v[i];

        most = _mm512_max_epu8(most, _mm512_and_si512(v, seven));
        even[i] = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 1), places);
        odd[i] = _mm512_and_si512(_mm512_srai_epi16(v, 1), places);
        direct_next(d, lines, i);
    }
    transpose8_16(even);
    transpose8_16(even + 8);
    transpose8_16(odd);
    transpose8_16(odd + 8);
    if (UNLIKELY(_mm512_cmpeq_epi8_mask(most, seven) != 0 || g0.large || g1.large)) {
        direct_half_mxfp8(d, even, odd, 0, act, m_n, g0, true, sum);
        direct_half_mxfp8(d, even, odd, 1, act, m_n, g1, true, sum);
    } else {
        direct_half_mxfp8(d, even, odd, 0, act, m_n, g0, false, sum);
        direct_half_mxfp8(d, even, odd, 1, act, m_n, g1, false, sum);
    }
}

INLINE void direct_block_mxfp8(struct matmul_direct *d, struct direct_lines *lines,
                               const uint8_t *act, const unsigned m_n, __m512 sum[DIRECT_M])
{
    const size_t at = (size_t)(act - d->act) / sizeof(float) / 32;

    direct_block_e4m3(d, lines, act, m_n, direct_e8m0_load(&d->planes, at),
                      direct_e8m0_load(&d->planes, at + 1), sum);
}

INLINE void direct_block_fp8(struct matmul_direct *d, struct direct_lines *lines,
                             const uint8_t *act, const unsigned m_n, __m512 sum[DIRECT_M])
{
    const uint32_t k = (uint32_t)((size_t)(act - d->act) / sizeof(float));

    direct_block_e4m3(d, lines, act, m_n, direct_coded_scales(d, k), direct_coded_scales(d, k + 32),
                      sum);
}

DIRECT_FLOAT(direct_mxfp8_avx512, direct_block_mxfp8, 1, AT_FLOAT, PANEL_K_F32, 2, 64)
DIRECT_FLOAT(direct_fp8_avx512, direct_block_fp8, 1, AT_FLOAT, PANEL_K_F32, 2, 64)
