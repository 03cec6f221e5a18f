/* SPDX-License-Identifier: Apache-2.0 */
/* Finds scales and offsets with AVX2. */
#include <immintrin.h>

#include "core/cpu.h"

#define LANES 8u

typedef __m256 lanes;

#define lanes_set(x)      _mm256_set1_ps(x)
#define lanes_load(p)     _mm256_loadu_ps(p)
#define lanes_store(p, x) _mm256_storeu_ps(p, x)
#define lanes_add(a, b)   _mm256_add_ps(a, b)
#define lanes_sub(a, b)   _mm256_sub_ps(a, b)
#define lanes_mul(a, b)   _mm256_mul_ps(a, b)
#define lanes_div(a, b)   _mm256_div_ps(a, b)
#define lanes_sqrt(a)     _mm256_sqrt_ps(a)
#define lanes_min(a, b)   _mm256_min_ps(a, b)
#define lanes_max(a, b)   _mm256_max_ps(a, b)

/* Stores whole numbers from 0 to 255. */
static inline void lanes_store_bytes(uint8_t *to, lanes x)
{
    const __m256i q = _mm256_cvtps_epi32(x);
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));

    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(half, half));
}

/* Gives x where a < b, and y elsewhere. */
static inline lanes lanes_less(lanes a, lanes b, lanes x, lanes y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

#define lanes_nearest lanes_nearest_by_steps

#include "quant/fit-search.h"

const struct fit_ops fit_avx2 = {.name = "avx2", .flags = CPU_AVX2, FIT_OPS};
