/* SPDX-License-Identifier: Apache-2.0 */
/* Finds scales and offsets with AVX-512. */
#include <immintrin.h>

#include "core/cpu.h"
#include "quant/fit.h"

#define LANES 16u

typedef __m512 lanes;

#define lanes_set(x)      _mm512_set1_ps(x)
#define lanes_load(p)     _mm512_loadu_ps(p)
#define lanes_store(p, x) _mm512_storeu_ps(p, x)
#define lanes_add(a, b)   _mm512_add_ps(a, b)
#define lanes_sub(a, b)   _mm512_sub_ps(a, b)
#define lanes_mul(a, b)   _mm512_mul_ps(a, b)
#define lanes_div(a, b)   _mm512_div_ps(a, b)
#define lanes_sqrt(a)     _mm512_sqrt_ps(a)
#define lanes_min(a, b)   _mm512_min_ps(a, b)
#define lanes_max(a, b)   _mm512_max_ps(a, b)

/* Stores whole numbers from 0 to 255. */
static inline void lanes_store_bytes(uint8_t *to, lanes x)
{
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

/* Gives x where a < b, and y elsewhere. */
static inline lanes lanes_less(lanes a, lanes b, lanes x, lanes y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

/* Returns the value of a table that is nearest to each number. `at` is the number of the first
 * value that is still possible; each comparison leaves half of the values. */
static inline lanes lanes_nearest(const struct fit_table *t, lanes x)
{
    const __m512 middles = _mm512_maskz_loadu_ps(0x7fff, t->middle);
    const __m512i ones = _mm512_set1_epi32(1), threes = _mm512_set1_epi32(3);
    __m512i at =
        _mm512_maskz_set1_epi32(_mm512_cmp_ps_mask(_mm512_set1_ps(t->middle[7]), x, _CMP_LT_OQ), 8);
    __mmask16 above;

    above = _mm512_cmp_ps_mask(_mm512_permutexvar_ps(_mm512_add_epi32(at, threes), middles), x,
                               _CMP_LT_OQ);
    at = _mm512_mask_add_epi32(at, above, at, _mm512_set1_epi32(4));
    above = _mm512_cmp_ps_mask(_mm512_permutexvar_ps(_mm512_add_epi32(at, ones), middles), x,
                               _CMP_LT_OQ);
    at = _mm512_mask_add_epi32(at, above, at, _mm512_set1_epi32(2));
    above = _mm512_cmp_ps_mask(_mm512_permutexvar_ps(at, middles), x, _CMP_LT_OQ);
    at = _mm512_mask_add_epi32(at, above, at, ones);
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(t->value));
}

#include "quant/fit-search.h"

const struct fit_ops fit_avx512 = {.name = "avx512", .flags = CPU_AVX512, FIT_OPS};
