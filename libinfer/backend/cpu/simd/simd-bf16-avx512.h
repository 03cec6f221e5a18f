/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies pairs of BF16 in each lane, on CPUs with AVX512_BF16. Include it after simd-avx512.h.
 * Subnormal numbers count as zero. */

/* Returns acc + a[0] × b[0] + a[1] × b[1] in each lane. */
static inline vf vf_dot_bf16(vf acc, vi a, vi b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

static inline void vf_to_bf16(uint16_t *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += VF_N) {
        const uint32_t k = n - i < VF_N ? n - i : VF_N;

        _mm256_mask_storeu_epi16(y + i, vf_mask(k),
                                 (__m256i)_mm512_cvtneps_pbh(vf_load_n(x + i, k)));
    }
}
