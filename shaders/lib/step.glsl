// SPDX-License-Identifier: Apache-2.0
#ifndef STEP_GLSL
#define STEP_GLSL

// Reads the step: the data of a batch, which changes between two runs of a recorded plan. A plan is
// a graph that was compiled for a device. Its commands are recorded once, for all runs.
//
// The step is in slot 9. It begins with counts and with the offsets of its parts, in uints. The host writes
// the slot before each run, since the number of rows is not known when the plan is recorded.

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

// Returns the number of tiles of attention in a group of state.
uint step_n_tiles(uint group)
{
    return step_[step_[10] + group * step_[3]];
}

// Returns the length of the longest requested list of largest logits; 0: no list is requested.
uint step_n_top()
{
    return step_[12];
}

// Returns the number of rows of a value: all rows of the step, or with @rows_kept only the rows whose logits
// are requested.
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

// Returns the row of the step to which row i of the logits belongs.
uint step_logit_row(uint i)
{
    return step_[step_[7] + i];
}

// Returns the offset of a sequence's blocks in the block table of each group of state.
uint step_seq_first(uint seq)
{
    return step_[step_[8] + seq];
}

// Returns entry i of the block table of a group.
uint step_block(uint group, uint i)
{
    return step_[step_[9] + group * step_[13] + i];
}

// Returns the block with the recurrent state of a sequence.
uint step_state(uint group, uint seq)
{
    return step_block(group, seq);
}

// Returns tile i of attention in a group: first row, number of rows, sequence, position of the first row.
uvec4 step_tile(uint group, uint i)
{
    const uint at = step_[10] + group * step_[3] + 1 + 4 * i;

    return uvec4(step_[at], step_[at + 1], step_[at + 2], step_[at + 3]);
}

// Returns the first row and the number of rows of a sequence.
uvec2 step_seq_rows(uint seq)
{
    const uint at = step_[11] + 2 * seq;

    return uvec2(step_[at], step_[at + 1]);
}

#endif
