// SPDX-License-Identifier: Apache-2.0
#ifndef CHUNK_GLSL
#define CHUNK_GLSL

// Defines the reading of weights in chunks.
//
// A row of w consists of blocks, a block has CHUNKS chunks, and a chunk has QUADS groups of 4 weights, called
// quads. The products of a chunk are added up in SUMS sums, each of which has a scale of its own. The files of
// the formats (chunk-*.glsl) define how a chunk is read, which quads of x belong to it, and how its sums are
// scaled. Loops over rows, quads and columns are unrolled, so that arrays are in registers.

// The numbers of rows of x, and of rows of each matrix, that a lane multiplies
layout(constant_id = 1) const uint tile = 1;
layout(constant_id = 2) const uint columns = 1;

// The number of rows of w that a lane has. The rows of the second matrix come after those of the first.
const uint n_rows = is_glu ? 2 * columns : columns;

#include "matmul/words.glsl"
#if defined(DTYPE_F32) || defined(DTYPE_F16) || defined(DTYPE_BF16)
#include "matmul/chunk-float.glsl"
#elif defined(DTYPE_Q4_K) || defined(DTYPE_Q5_K)
#include "matmul/chunk-k.glsl"
#elif defined(DTYPE_Q6_K)
#include "matmul/chunk-q6_k.glsl"
#elif defined(DTYPE_TQ2_0) || defined(DTYPE_TQ1_0)
#include "matmul/chunk-ternary.glsl"
#elif defined(DTYPE_MLX2) || defined(DTYPE_BITNET)
#include "matmul/chunk-joined.glsl"
#else
#include "matmul/chunk-block.glsl"
#endif

// Returns the number of blocks of a row that are multiplied in chunks. It is 0 if the rows of x are not whole
// quads; then all products are computed element by element.
uint n_supers()
{
    return (push.K & 3) == 0 ? push.K / SUPER_ELEMS : 0;
}

#endif
