// SPDX-License-Identifier: Apache-2.0
#ifndef CHUNK_GLSL
#define CHUNK_GLSL

// Defines the reading of weights in chunks.
//
// A row of w consists of blocks of SUPER_ELEMS weights and SUPER_BYTES bytes, a block has CHUNKS chunks, and a chunk
// has QUADS groups of 4 weights, called quads. The products of a chunk are added up in SUMS sums, each of which has a
// scale of its own. The file of the format (lib/weight.glsl) defines what belongs to a chunk:
//
//   read_head(second, at)         what all chunks of the block at byte @at need
//   read_chunk(second, h, at, c)  chunk c of that block
//   chunk_quad(c), QUAD_OFFSET(j) quad j of chunk c is multiplied by quad chunk_quad(c) + QUAD_OFFSET(j) of x,
//                                 counted from the beginning of the block
//   quad(chunk, j)                quad j as floats, still to be multiplied by QUAD_UNIT
//   scaled(chunk, s, dot, plain)  sum s of the products of w and x. @dot: of the bytes of w and x; @plain: sum of x
//   chunk.words, DOT_UNIT         formats with blocks: quad j as 4 signed bytes; the factor of their products
//   single(second, at, k)         one weight, in formats whose rows need not be whole blocks
//
// Loops over rows, quads and columns are unrolled, so that arrays are in registers.

// The numbers of rows of x, and of rows of each matrix, that a lane multiplies
layout(constant_id = 1) const uint tile = 1;
layout(constant_id = 2) const uint columns = 1;

// The number of rows of w that a lane has. The rows of the second matrix come after those of the first.
const uint n_rows = is_glu ? 2 * columns : columns;

// Returns the number of blocks of a row that are multiplied in chunks. It is 0 if the rows of x are not whole
// quads; then all products are computed element by element.
uint n_supers()
{
    return (push.K & 3) == 0 ? push.K / SUPER_ELEMS : 0;
}

#endif
