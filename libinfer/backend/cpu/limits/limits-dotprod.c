/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h for DotProd: loads of 16 bytes, and sdot on 16 pairs. */

#include <arm_neon.h>

#define LIMIT_BYTES    16
#define LIMIT_NAME(op) op##_dotprod

#include "backend/cpu/limits/limits-kernels.h"
#include "core/cpu.h"

static void limit_dot_dotprod(unsigned n_rounds)
{
    int8x16_t s0 = vdupq_n_s8(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    int8x16_t s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const int8x16_t a = vdupq_n_s8(0x2b), b = vdupq_n_s8(0x5d);

#define DOT(s) __asm__ volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(a), "w"(b))
    LIMIT_DOTS(DOT, n_rounds)
#undef DOT
}

const struct limits_ops limits_dotprod = {
    .name = "dotprod",
    .flags = CPU_NEON | CPU_DOTPROD,
    .read = limit_read_dotprod,
    .dot_name = "sdot",
    .dot_ops = LIMIT_N_DOTS * 16 * 2,
    .dot = limit_dot_dotprod,
};
