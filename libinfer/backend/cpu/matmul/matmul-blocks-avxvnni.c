/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies packed int16 weights with AVX-VNNI: one instruction multiplies 8 pairs of weights with
 * 8 pairs of inputs, and adds the two products of each pair to a sum. */
#define TILE_M 6u

#include "backend/cpu/matmul/matmul-ymm-blocks.h"

/* Uses assembly: with the intrinsic, gcc 12 copies sums, and there are not enough registers for the
 * copies. */
INLINE v_int v_dot(v_int acc, v_int w, v_int x)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    return acc;
}

void matmul_blocks_avxvnni(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    multiply_blocks(args, n0, n1);
}
