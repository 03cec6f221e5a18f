/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies F32, F16 and BF16 with float arithmetic, for matmul-direct-avx512.h. */

#include "backend/cpu/matmul/matmul-direct-avx512-float.h"

INLINE void direct_chain(const struct matmul_direct *d, const uint8_t *act, const unsigned k,
                         const unsigned m_n, __m512 w, __m512 sum[DIRECT_M])
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const float *x = (const float *)(act + m * d->act_stride);

        sum[m] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[k]), sum[m]);
    }
}

INLINE void direct_block_f32(struct matmul_direct *d, struct direct_lines *lines,
                             const uint8_t *act, const unsigned m_n, __m512 sum[DIRECT_M])
{
    transpose16(lines->v);
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        direct_chain(d, act, i, m_n, _mm512_castsi512_ps(lines->v[i]), sum);
        direct_next(d, lines, i);
    }
}

INLINE void direct_block_bf16(struct matmul_direct *d, struct direct_lines *lines,
                              const uint8_t *act, const unsigned m_n, __m512 sum[DIRECT_M])
{
    const __m512i high = _mm512_set1_epi32((int32_t)0xffff0000);

    transpose16(lines->v);
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        const __m512i v = lines->v[i];

        direct_chain(d, act, 2 * i, m_n, _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)), sum);
        direct_chain(d, act, 2 * i + 1, m_n, _mm512_castsi512_ps(_mm512_and_si512(v, high)), sum);
        direct_next(d, lines, i);
    }
}

/* Transposes 8 rows of 32 units of 2 bytes: on return 16-byte lane q of v[j] is unit 8 q + j of
 * each row. */
INLINE void transpose8_16(__m512i v[8])
{
    __m512i a[8], b[8];

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        a[i] = _mm512_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
        a[4 + i] = _mm512_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        b[i + j] = _mm512_unpacklo_epi32(a[i + 2 * j], a[i + 2 * j + 1]);
        b[i + 2 + j] = _mm512_unpackhi_epi32(a[i + 2 * j], a[i + 2 * j + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 2)
    {
        v[i] = _mm512_unpacklo_epi64(b[i], b[i + 1]);
        v[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 1]);
    }
}

INLINE void direct_block_f16(struct matmul_direct *d, struct direct_lines *lines,
                             const uint8_t *act, const unsigned m_n, __m512 sum[DIRECT_M])
{
    __m512i *v = lines->v;

    transpose8_16(v);
    transpose8_16(v + 8);
    UNROLL for (unsigned h = 0; h < 2; h++)
    {
        const __m512i pick = _mm512_setr_epi64(4 * h, 4 * h + 1, 4 * h + 8, 4 * h + 9, 4 * h + 2,
                                               4 * h + 3, 4 * h + 10, 4 * h + 11);
        __m512i both[8]; /* units 16 h + j and 16 h + 8 + j of the 16 rows */

        UNROLL for (unsigned j = 0; j < 8; j++) both[j] =
            _mm512_permutex2var_epi64(v[j], pick, v[8 + j]);
        UNROLL for (unsigned j = 0; j < 8; j++)
        {
            direct_chain(d, act, 16 * h + j, m_n, _mm512_cvtph_ps(_mm512_castsi512_si256(both[j])),
                         sum);
            if (h == 1)
                direct_next(d, lines, j);
        }
        UNROLL for (unsigned j = 0; j < 8; j++)
        {
            direct_chain(d, act, 16 * h + 8 + j, m_n,
                         _mm512_cvtph_ps(_mm512_extracti64x4_epi64(both[j], 1)), sum);
            if (h == 1)
                direct_next(d, lines, 8 + j);
        }
    }
}

#define AT_FLOAT(k) ((size_t)(k) * sizeof(float))

DIRECT_FLOAT(direct_f32_avx512, direct_block_f32, 4, AT_FLOAT, PANEL_K_F32, 4, 16)
DIRECT_FLOAT(direct_f16_avx512, direct_block_f16, 2, AT_FLOAT, PANEL_K_F32, 4, 32)
DIRECT_FLOAT(direct_bf16_avx512, direct_block_bf16, 2, AT_FLOAT, PANEL_K_F32, 4, 32)
