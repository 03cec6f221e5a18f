/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h for AVX2: loads of 32 bytes, and vpmaddubsw on 32 pairs, whose
 * results are added up in 16 bits. */

#include <immintrin.h>

#define LIMIT_BYTES    32
#define LIMIT_NAME(op) op##_avx2

#include "backend/cpu/limits/limits-kernels.h"
#include "core/cpu.h"

static void limit_dot_avx2(unsigned n_rounds)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    __m256i s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const __m256i a = _mm256_set1_epi32(0x2b1d3a13), b = _mm256_set1_epi32(0x5da30b71);

#define DOT(s)                                                                                     \
    __asm__ volatile("vpmaddubsw %2, %1, %%ymm15\n\tvpaddw %%ymm15, %0, %0"                        \
                     : "+x"(s)                                                                     \
                     : "x"(a), "x"(b)                                                              \
                     : "xmm15")
    LIMIT_DOTS(DOT, n_rounds)
#undef DOT
}

const struct limits_ops limits_avx2 = {
    .name = "avx2",
    .flags = CPU_AVX2,
    .read = limit_read_avx2,
    .dot_name = "vpmaddubsw and vpaddw, 256 bits",
    .dot_ops = LIMIT_N_DOTS * 32 * 2,
    .dot = limit_dot_avx2,
};
