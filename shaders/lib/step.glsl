// SPDX-License-Identifier: Apache-2.0
#ifndef STEP_GLSL
#define STEP_GLSL

// The step: what of a batch changes between two runs of one recorded plan
//
// Slot 9 begins with counts and with where its parts are, in uints. The host writes it before each
// run; kernels never know the number of rows beforehand.

#include "lib/access.glsl"

IN_U32(9, step_)

uint step_n_rows()
{
    return step_[0];
}

uint step_n_logits()
{
    return step_[1];
}

uint step_n_seqs()
{
    return step_[2];
}

uint step_n_tiles()
{
    return step_[3];
}

// How long the longest list of the largest logits is that is wanted; 0: there is none.
uint step_n_top()
{
    return step_[12];
}

// Rows of a value: those of the step, or those whose logits are wanted.
uint step_rows(uint rows_kept)
{
    return step_[min(rows_kept, 1)];
}

uint step_token(uint row)
{
    return step_[step_[4] + row];
}

uint step_pos(uint row)
{
    return step_[step_[5] + row];
}

uint step_seq(uint row)
{
    return step_[step_[6] + row];
}

// The row of the step that row i of the logits is for.
uint step_logit_row(uint i)
{
    return step_[step_[7] + i];
}

// Where the blocks of a sequence begin in the table of blocks.
uint step_seq_first(uint seq)
{
    return step_[step_[8] + seq];
}

uint step_block(uint i)
{
    return step_[step_[9] + i];
}

// Work of attention: first row, number of rows, sequence, position of the first row.
uvec4 step_tile(uint i)
{
    const uint at = step_[10] + 4 * i;

    return uvec4(step_[at], step_[at + 1], step_[at + 2], step_[at + 3]);
}

// First row and number of rows of a sequence.
uvec2 step_seq_rows(uint seq)
{
    const uint at = step_[11] + 2 * seq;

    return uvec2(step_[at], step_[at + 1]);
}

#endif
