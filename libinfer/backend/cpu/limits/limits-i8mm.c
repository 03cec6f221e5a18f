/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h for I8MM: loads of 16 bytes, and smmla on 32 pairs. */

#include <arm_neon.h>

#define LIMIT_BYTES    16
#define LIMIT_NAME(op) op##_i8mm

#include "backend/cpu/limits/limits-kernels.h"
#include "core/cpu.h"

static void limit_dot_i8mm(unsigned n_rounds)
{
    int8x16_t s0 = vdupq_n_s8(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    int8x16_t s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const int8x16_t a = vdupq_n_s8(0x2b), b = vdupq_n_s8(0x5d);

#define DOT(s) __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(a), "w"(b))
    LIMIT_DOTS(DOT, n_rounds)
#undef DOT
}

const struct limits_ops limits_i8mm = {
    .name = "i8mm",
    .flags = CPU_NEON | CPU_DOTPROD | CPU_I8MM,
    .read = limit_read_i8mm,
    .dot_name = "smmla",
    .dot_ops = LIMIT_N_DOTS * 32 * 2,
    .dot = limit_dot_i8mm,
};
