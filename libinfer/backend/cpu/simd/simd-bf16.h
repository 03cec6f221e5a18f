/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies pairs of BF16 in each lane, for instruction sets without BF16 products. Converts the
 * pairs to floats, and uses the operations of a simd-<isa>.h that must be included before this
 * file. */

#include "core/half.h"

/* Returns acc + a[0] × b[0] + a[1] × b[1] in each lane. */
static inline vf vf_dot_bf16(vf acc, vi a, vi b)
{
    const vi high = vi_set1((int32_t)0xffff0000u);

    acc = vf_fma(vf_from_bits(vi_shift8(vi_shift8(a))), vf_from_bits(vi_shift8(vi_shift8(b))), acc);
    return vf_fma(vf_from_bits(vi_and(a, high)), vf_from_bits(vi_and(b, high)), acc);
}

static inline void vf_to_bf16(uint16_t *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_from_f32(x[i]);
}
