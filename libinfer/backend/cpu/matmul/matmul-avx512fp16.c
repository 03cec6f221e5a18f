/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies F16 weights with AVX-512 FP16: pairs of products per lane, F16 sums.
 *
 * A lane of 32 bits holds two F16 sums of a block of 32 k: one adds the products with even k, the
 * other adds the products with odd k. Each sum is a chain of 16 multiply-adds. Both sums are then
 * added, and the result is added to a float. The sum of a block is rounded 17 times, each time by
 * at most 2^-11 of a partial sum. With random signs the mean square error is 1.7 × 2^-22 of the
 * mean square of the sums. This is a seventh of the error of rounding x to bfloat16.
 *
 * In each block, x and the weights are multiplied by powers of two, so that no sum overflows or
 * loses precision as a subnormal number. The rows of x are scaled to less than 2^-6 when they are
 * prepared. The weights are scaled to less than 2^16 when they are loaded; they are never scaled
 * down, so their scaling is exact. The sum of 32 products of such numbers stays below 2^15, about
 * half of the largest F16 number.
 */

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-direct-avx512-float.h"
#include "core/cpu.h"
#include "core/half.h"

static void prepare_f16(const float *x, uint32_t K, struct matmul_f16 *dst)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);

    for (uint32_t k = 0; k < K; k += 32, dst++) {
        const __mmask32 some = K - k < 32 ? (1u << (K - k)) - 1 : UINT32_MAX;
        const __m512 a = _mm512_maskz_loadu_ps((__mmask16)some, x + k);
        const __m512 b = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + k + 16);
        const uint32_t top = _mm512_reduce_max_epu32(
            _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                             _mm512_and_si512(_mm512_castps_si512(b), magnitude)));
        const int exp = (int)(top >> 23) - 127;
        const __m512 scale = _mm512_set1_ps((float)(-7 - exp));

        memset(dst, 0, sizeof(*dst));
        if (exp > 127)
            dst->d = NAN;
        if (exp > 127 || exp < -100)
            continue;
        dst->d = half_from_bits_f32(top & 0x7f800000);
        _mm256_storeu_si256((__m256i *)dst->h,
                            _mm512_cvtps_ph(_mm512_scalef_ps(a, scale), _MM_FROUND_TO_NEAREST_INT));
        _mm256_storeu_si256((__m256i *)(dst->h + 16),
                            _mm512_cvtps_ph(_mm512_scalef_ps(b, scale), _MM_FROUND_TO_NEAREST_INT));
    }
}

/* Multiplies the weights of each lane by the power of two that brings the largest of them to 2^15 …
 * 2^16 (at least to 2^5 if it is subnormal). Returns for each lane the factor by which the products
 * must be multiplied. */
INLINE __m512 scale_up(__m512i v[16])
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i top = _mm512_and_si512(v[0], magnitude), exp;
    __m512h up;

    UNROLL for (unsigned i = 1; i < 16; i++) top =
        _mm512_max_epu16(top, _mm512_and_si512(v[i], magnitude));
    top = _mm512_max_epu16(top, _mm512_rol_epi32(top, 16));
    exp = _mm512_max_epu16(_mm512_srli_epi16(top, 10), _mm512_set1_epi16(1));
    up = _mm512_cvtepi16_ph(_mm512_sub_epi16(_mm512_set1_epi16(30), exp));
    UNROLL for (unsigned i = 0; i < 16; i++) v[i] =
        _mm512_castph_si512(_mm512_scalef_ph(_mm512_castsi512_ph(v[i]), up));
    exp = _mm512_add_epi32(_mm512_srli_epi32(exp, 16), _mm512_set1_epi32(127 + 7 - 30));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exp, 23));
}

/* Adds the two F16 sums in each lane of @acc. Returns @sum + the result × @scale × the scale of the
 * prepared block @act. */
INLINE __m512 add_block(__m512 sum, __m512h acc, __m512 scale, const uint8_t *act)
{
    const __m512i lanes = _mm512_castph_si512(acc);
    const __m512h both = _mm512_add_ph(acc, _mm512_castsi512_ph(_mm512_rol_epi32(lanes, 16)));
    const __m512 wide = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_castph_si512(both)));
    const float *d = &((const struct matmul_f16 *)act)->d;

    return _mm512_fmadd_ps(_mm512_mul_ps(wide, scale), _mm512_set1_ps(*d), sum);
}

INLINE __m512h pair(const uint8_t *act, unsigned i)
{
    int32_t two;

    memcpy(&two, act + 4 * i, sizeof(two));
    return _mm512_castsi512_ph(_mm512_set1_epi32(two));
}

static void decode_f16(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                       uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        __m512i v[16];

        load_lines(w, row_bytes, ahead, 64, v);
        _mm512_store_ps(&p->scale[k / 32][16 * half], scale_up(v));
        UNROLL for (unsigned i = 0; i < 16; i++)
            _mm512_store_si512(&p->pairs[k / 2 + i][16 * half], v[i]);
    }
}

#define TILE_M 6

INLINE void tile(const struct matmul_tile *t, uint32_t m0, const unsigned m_n)
{
    const struct matmul_panel *p = t->panel;
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *init = t->init + m0 * t->init_stride;
    float *y = t->y + m0 * t->ldy;
    struct tile_ahead ahead = tile_ahead(t, m0, m_n, DIV_UP(t->kc, 32u) * 16);
    __m512 sum[TILE_M][2];

    UNROLL for (unsigned m = 0; m < m_n; m++) sum[m][0] = sum[m][1] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < t->kc; k += 32, act += sizeof(struct matmul_f16)) {
        __m512h acc[TILE_M][2];

        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m][0] = acc[m][1] = _mm512_setzero_ph();
        for (unsigned i = 0; i < 16; i++) {
            const __m512h w0 = _mm512_load_ph(&p->pairs[k / 2 + i][0]);
            const __m512h w1 = _mm512_load_ph(&p->pairs[k / 2 + i][16]);

            tile_prefetch(&ahead);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const __m512h x = pair(act + m * t->act_stride, i);

                acc[m][0] = _mm512_fmadd_ph(w0, x, acc[m][0]);
                acc[m][1] = _mm512_fmadd_ph(w1, x, acc[m][1]);
            }
        }
        UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < 2; v++)
        {
            const __m512 scale = _mm512_load_ps(&p->scale[k / 32][16 * v]);

            sum[m][v] = add_block(sum[m][v], acc[m][v], scale, act + m * t->act_stride);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < 2; v++)
    {
        const __m512 first = _mm512_loadu_ps(init + m * t->init_stride + 16 * v);

        _mm512_storeu_ps(y + m * t->ldy + 16 * v, _mm512_add_ps(first, sum[m][v]));
    }
}

static void multiply_f16(const struct matmul_tile *t)
{
    uint32_t m = 0;

    for (; m + TILE_M <= t->M; m += TILE_M)
        tile(t, m, TILE_M);
    for (; m + 3 <= t->M; m += 3)
        tile(t, m, 3);
    for (; m < t->M; m++)
        tile(t, m, 1);
}

INLINE void direct_block(struct matmul_direct *d, struct direct_lines *lines, const uint8_t *act,
                         const unsigned m_n, __m512 sum[DIRECT_M])
{
    __m512h acc[DIRECT_M];
    __m512 scale;

    transpose16(lines->v);
    scale = scale_up(lines->v);
    UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = _mm512_setzero_ph();
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        const __m512h w = _mm512_castsi512_ph(lines->v[i]);

        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] =
            _mm512_fmadd_ph(w, pair(act + m * d->act_stride, i), acc[m]);
        direct_next(d, lines, i);
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) sum[m] =
        add_block(sum[m], acc[m], scale, act + m * d->act_stride);
}

#define AT_F16(k) ((size_t)(k) / 32 * sizeof(struct matmul_f16))

DIRECT_FLOAT(direct_f16, direct_block, 2, AT_F16, PANEL_K_PAIRS, 2, 32)

const struct matmul_ops matmul_avx512fp16 = {
    .name = "avx512fp16",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AVX512_FP16,
    .base = &matmul_avx512bf16,
    .prepare_f16 = prepare_f16,
    .kernels = {[INF_DTYPE_F16] = {decode_f16, multiply_f16, direct_f16, 16, DIRECT_M}},
};
