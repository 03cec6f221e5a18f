// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y[t][c] = bias[c] + the sum over j of w[c][j] × x[t - K + 1 + j][c] along the rows of a sequence.
//
// The state of a sequence has the newest K - 1 rows of x, [K - 1][width], the oldest first. An invocation
// computes one column of all rows of one sequence, and then updates its column of the state. Workgroups: x
// counts columns, y sequences. Slots: 0 w, [width][K]; 1 bias; 2 x; 3 y; 4 state.

#include "lib/act.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool HAS_ACT = false;
layout(constant_id = 3) const uint ACT = ACT_SILU;

IN_F32(0, w)
IN_F32(1, bias)
IN_F32(2, x)
OUT_F32(3, y)
INOUT_F32(4, state)
PUSH(push_conv)

uint column, at; // at: this column in the oldest row of the state
uvec2 rows;      // first row and number of rows
bool fresh;      // the sequence begins, so its state is zero

// Returns the input @back rows before the row @t of the sequence's rows in this step.
float input_of(uint t, uint back)
{
    if (t >= back)
        return x[(rows.x + t - back) * push.width + column];
    return fresh ? 0.0 : state[at + (push.n_taps - 1 + t - back) * push.width];
}

void main()
{
    const uint seq = gl_WorkGroupID.y;

    column = gl_GlobalInvocationID.x;
    if (seq >= step_n_seqs() || column >= push.width)
        return;
    rows = step_seq_rows(seq);
    fresh = step_pos(rows.x) == 0;
    at = step_state(push.group, seq) * push.state_floats + column;
    for (uint t = 0; t < rows.y; t++) {
        float sum = push.has_bias != 0 ? bias[column] : 0.0;

        for (uint j = 0; j < push.n_taps; j++)
            sum = fma(w[column * push.n_taps + j], input_of(t, push.n_taps - 1 - j), sum);
        y[(rows.x + t) * push.width + column] = HAS_ACT ? act_apply(ACT, sum) : sum;
    }
    // Rows of the state move toward the oldest, so a row is read before it is overwritten.
    for (uint j = 0; j + 1 < push.n_taps; j++)
        state[at + j * push.width] = input_of(rows.y, push.n_taps - 1 - j);
}
