/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h for NEON: loads of 16 bytes, and smull and smlal2 on 16 pairs with
 * a pairwise sum. */

#include <arm_neon.h>

#define LIMIT_BYTES    16
#define LIMIT_NAME(op) op##_neon

#include "backend/cpu/limits/limits-kernels.h"
#include "core/cpu.h"

static void limit_dot_neon(unsigned n_rounds)
{
    int8x16_t s0 = vdupq_n_s8(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    int8x16_t s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const int8x16_t a = vdupq_n_s8(0x2b), b = vdupq_n_s8(0x5d);

#define DOT(s)                                                                                     \
    __asm__ volatile("smull v30.8h, %1.8b, %2.8b\n\tsmlal2 v30.8h, %1.16b, %2.16b\n\t"             \
                     "sadalp %0.4s, v30.8h"                                                        \
                     : "+w"(s)                                                                     \
                     : "w"(a), "w"(b)                                                              \
                     : "v30")
    LIMIT_DOTS(DOT, n_rounds)
#undef DOT
}

const struct limits_ops limits_neon = {
    .name = "neon",
    .flags = CPU_NEON,
    .read = limit_read_neon,
    .dot_name = "smull, smlal2 and sadalp",
    .dot_ops = LIMIT_N_DOTS * 16 * 2,
    .dot = limit_dot_neon,
};
