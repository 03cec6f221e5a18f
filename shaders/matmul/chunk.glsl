// SPDX-License-Identifier: Apache-2.0
#ifndef CHUNK_GLSL
#define CHUNK_GLSL

// Weights in chunks
//
// A row of w consists of blocks, and a block of CHUNKS chunks of QUADS times 4 weights. The files of the
// formats define how a chunk is read, which quads of x belong to it, and which of its SUMS sums has a scale
// of its own. Loops over rows, quads and columns are unrolled, so that arrays are in registers.

// Rows of x, and rows of each matrix, that a lane multiplies.
layout(constant_id = 1) const uint tile = 1;
layout(constant_id = 2) const uint columns = 1;

// Rows of w in a lane: those of the second matrix after those of the first.
const uint n_rows = is_glu ? 2 * columns : columns;

#include "matmul/words.glsl"
#if defined(DTYPE_F32) || defined(DTYPE_F16) || defined(DTYPE_BF16)
#include "matmul/chunk-float.glsl"
#elif defined(DTYPE_Q4_K) || defined(DTYPE_Q5_K)
#include "matmul/chunk-k.glsl"
#elif defined(DTYPE_Q6_K)
#include "matmul/chunk-q6_k.glsl"
#else
#include "matmul/chunk-block.glsl"
#endif

// Blocks that are multiplied in chunks. Rows of x that are not whole quads are multiplied element by element.
uint n_supers()
{
    return (push.K & 3) == 0 ? push.K / SUPER_ELEMS : 0;
}

#endif
