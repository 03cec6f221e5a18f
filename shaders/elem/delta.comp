// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes a gated delta rule (struct delta_params in libinfer/graph/params.h) along the rows of a sequence.
//
// The state S of a value head is a matrix [v_dim][K_DIM], whose rows do not depend on each other. A team of
// TEAM neighboring lanes keeps ROWS rows of S in registers, walks the rows of the sequence in order, and writes
// S back. Sums over k are added up by shuffles, in an order that depends only on TEAM. Workgroups: x counts
// parts of S, each with the rows of a workgroup's teams; y value heads; z sequences. Slots: 0 speed, that is
// -exp(A), by head; 1 dt; 2 the queries, keys and values; 3 y; 4 state; 5 a; 6 b.

#include "lib/access.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint K_DIM = 128;
layout(constant_id = 3) const uint TEAM = 8; // a power of 2, at most the size of a subgroup
layout(constant_id = 4) const uint ROWS = 1;

const uint PER = (K_DIM + TEAM - 1) / TEAM; // columns of S that a lane has: lane, lane + TEAM, …

IN_F32(0, speed)
IN_F32(1, dt)
IN_F32(2, x)
OUT_F32(3, y)
INOUT_F32(4, state)
IN_F32(5, a)
IN_F32(6, b)
PUSH(push_delta)

uint lane;
float s[ROWS * PER], q[PER], k[PER];

float team_sum(float v)
{
    [[unroll]] for (uint o = 1; o < TEAM; o <<= 1)
        v += subgroupShuffleXor(v, o);
    return v;
}

// Reads the vector of K_DIM elements from @at on, and divides it by sqrt(sum of squares + eps).
void read_unit(uint at, out float v[PER])
{
    float sum = 0;

    [[unroll]] for (uint i = 0; i < PER; i++) {
        const uint d = i * TEAM + lane;

        v[i] = d < K_DIM ? x[at + d] : 0.0;
        sum = fma(v[i], v[i], sum);
    }
    sum = sqrt(team_sum(sum) + push.eps);
    [[unroll]] for (uint i = 0; i < PER; i++)
        v[i] /= sum;
}

// Changes row @r of S by the value v, and returns S · q.
float step_row(uint r, float decay, float beta, float v)
{
    float kept = 0, sum = 0;

    [[unroll]] for (uint i = 0; i < PER; i++) {
        s[r * PER + i] *= decay;
        kept = fma(s[r * PER + i], k[i], kept);
    }

    const float change = beta * (v - team_sum(kept));

    [[unroll]] for (uint i = 0; i < PER; i++) {
        s[r * PER + i] = fma(change, k[i], s[r * PER + i]);
        sum = fma(s[r * PER + i], q[i], sum);
    }
    return team_sum(sum);
}

void main()
{
    const uint head = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;

    if (seq >= step_n_seqs())
        return;
    lane = gl_LocalInvocationIndex % TEAM;

    const uvec2 rows = step_seq_rows(seq);
    const bool fresh = step_pos(rows.x) == 0;
    const uint first = gl_GlobalInvocationID.x / TEAM * ROWS;
    const uint n_keys = push.n_k_heads * K_DIM, width = push.n_v_heads * push.v_dim;
    const uint k_head =
        push.interleaved != 0 ? head % push.n_k_heads : head / (push.n_v_heads / push.n_k_heads);
    const uint at = step_state(push.group, seq) * push.state_floats + push.state_first +
                    head * push.v_dim * K_DIM;

    // Rows beyond the end repeat the last row, and are not written.
    [[unroll]] for (uint i = 0; i < ROWS * PER; i++) {
        const uint d = i % PER * TEAM + lane, r = min(first + i / PER, push.v_dim - 1);

        s[i] = fresh || d >= K_DIM ? 0.0 : state[at + r * K_DIM + d];
    }
    for (uint t = rows.x; t < rows.x + rows.y; t++) {
        const uint from = t * (2 * n_keys + width), gate = t * push.n_v_heads + head;
        const float decay = exp_down(speed[head] * softplus(a[gate] + dt[head]));
        const float beta = 1.0 / (1.0 + exp_any(-b[gate]));

        read_unit(from + k_head * K_DIM, q);
        read_unit(from + n_keys + k_head * K_DIM, k);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint d = head * push.v_dim + min(first + r, push.v_dim - 1);
            const float sum = step_row(r, decay, beta, x[from + 2 * n_keys + d]);

            if (lane == 0 && first + r < push.v_dim)
                y[t * width + d] = push.scale * sum;
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS * PER; i++) {
        const uint d = i % PER * TEAM + lane, r = first + i / PER;

        if (d < K_DIM && r < push.v_dim)
            state[at + r * K_DIM + d] = s[i];
    }
}
