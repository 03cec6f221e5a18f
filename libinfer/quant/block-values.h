/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the values of the formats whose codes of 4 bits are indices of a table of numbers, and
 * converts scales of 8 bits. block.h shows the layouts. */

#include <stdint.h>

/* Twice the values of the 16 numbers in E2M1: a sign, 2 bits of exponent and 1 bit of fraction. */
#define BLOCK_FP4_VALUES                                                                           \
    {                                                                                              \
        0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12                                    \
    }
/* The largest magnitude in BLOCK_FP4_VALUES is below this power of two. */
#define BLOCK_FP4_ZERO 16

/* The 16 values of IQ4_NL and IQ4_XS, each as the argument of the macro F. Small values are closer
 * to each other than large ones. */
#define BLOCK_IQ4_VALUES(F)                                                                        \
    {                                                                                              \
        F(-127), F(-104), F(-83), F(-65), F(-49), F(-35), F(-22), F(-10), F(1), F(13), F(25),      \
            F(38), F(53), F(69), F(89), F(113)                                                     \
    }

/* Returns half of the scale @e of MXFP4 (E8M0), 2^(e - 128). For e < 2 it is subnormal. */
static inline float block_e8m0_half(uint8_t e)
{
    const union {
        uint32_t bits;
        float f;
    } d = {e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23};

    return d.f;
}

/* Returns half of the scale @e of NVFP4. */
static inline float block_nvfp4_half(uint8_t e)
{
    const unsigned exponent = e >> 3 & 15, fraction = e & 7;
    const union {
        uint32_t bits;
        float f;
    } power = {(exponent + (exponent == 0) + 116) << 23};

    /* The power is 2^-10 for the exponents 0 and 1. */
    return e == 127 ? 0 : power.f * (float)(fraction + (exponent > 0 ? 8 : 0));
}
