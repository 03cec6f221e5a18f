/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h for AVX-512: loads of 64 bytes, and vpdpbusd on 64 pairs. */

#include <immintrin.h>

#define LIMIT_BYTES    64
#define LIMIT_NAME(op) op##_avx512

#include "backend/cpu/limits/limits-kernels.h"
#include "core/cpu.h"

static void limit_dot_avx512(unsigned n_rounds)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    __m512i s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const __m512i a = _mm512_set1_epi32(0x2b1d3a13), b = _mm512_set1_epi32(0x5da30b71);

#define DOT(s) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b))
    LIMIT_DOTS(DOT, n_rounds)
#undef DOT
}

const struct limits_ops limits_avx512 = {
    .name = "avx512",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI,
    .read = limit_read_avx512,
    .dot_name = "vpdpbusd, 512 bits",
    .dot_ops = LIMIT_N_DOTS * 64 * 2,
    .dot = limit_dot_avx512,
};
