// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes attention of single rows on GPUs.
//
// A workgroup computes one part of the context of one row, for some of the heads that read one KV head, so
// that keys and values are read once for all of them. Eight neighboring lanes read the key of a token
// together, 128 bytes at a time, and add their products with shuffles, so subgroups must have at least 8
// lanes. When all scores of the part are complete, they are converted to weights. In the sums of values, an
// invocation has one chunk of the head, and reads it for every n-th token, where n is GROUPS.
//
// If the context has one part, this kernel writes the final result; otherwise attention/merge merges the
// parts.
//
// Workgroups: x counts groups of HEADS heads within each KV head; y counts tiles; z counts parts. Slots: 0
// keys, 1 values, 2 q, 3 y, 4 parts, 5 sinks.

#include "attention/fold.glsl"
#include "lib/kv.glsl"
#include "lib/push.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint HEAD_DIM = 128;
layout(constant_id = 4) const uint FORMAT = KV_F16;
layout(constant_id = 5) const uint PART = 256;    // push.part_tokens
layout(constant_id = 6) const uint THREADS = 256; // invocations of a workgroup
layout(constant_id = 7) const uint VALUE_FORMAT = KV_F16;

#include "attention/store.glsl"

const uint TEAM = 8; // invocations that read a key together
const uint ROUNDS = (CHUNKS + TEAM - 1) / TEAM; // chunks of a key that each of them reads
const uint KEPT = ROUNDS * E;
const uint GROUPS = THREADS / CHUNKS; // tokens whose values are read at the same time
const uint AHEAD = 4;                 // tokens whose values are read before the first is used

IN_F4(2, q4)
IN_F32(2, q1)
OUT_F32(3, y)
OUT_F32(4, parts)
IN_F32(5, sinks)
PUSH(push_attention)

shared float weights[PART * HEADS]; // scores, then weights: [token][head]
shared float tops[HEADS], sums[HEADS];
shared float found[GROUPS * CHUNKS * E];

uvec4 tile;
uint self, first_head, kv_head, n_heads; // n_heads: heads that exist
uint from, end;                          // tokens of the part that the row sees
float q[HEADS * KEPT], o[HEADS * E];

void load_query(uint m)
{
    const uint at = tile.x * push.q_ld + min(first_head + m, push.n_heads - 1) * HEAD_DIM;

    [[unroll]] for (uint i = 0; i < KEPT; i += 4) {
        const uint d = (i / E * TEAM + self % TEAM) * E + i % E;
        vec4 x = vec4(0);

        if (WHOLE) {
            x = d < HEAD_DIM ? q4((at + d) / 4) : vec4(0);
        } else {
            [[unroll]] for (uint j = 0; j < 4; j++)
                x[j] = d + j < HEAD_DIM ? q1[at + d + j] : 0;
        }
        [[unroll]] for (uint j = 0; j < 4; j++)
            q[m * KEPT + i + j] = x[j] * push.scale;
    }
}

// Returns the offset in words of the KV head in the block of a token.
uint head_of_token(uint token)
{
    return head_at(step_block(push.group, step_seq_first(tile.z) + token / KV_TOKENS), push.n_kv_heads,
                   kv_head);
}

// Computes this invocation's share of the products of the key of a token with the queries.
void multiply(uint token, uint head, const uvec4 k[ROUNDS], out float s[HEADS])
{
    [[unroll]] for (uint m = 0; m < HEADS; m++)
        s[m] = 0;
    [[unroll]] for (uint r = 0; r < ROUNDS; r++) {
        const uint c = min(r * TEAM + self % TEAM, CHUNKS - 1);
        const float scale = key_scale(head, token % KV_TOKENS, c);

        [[unroll]] for (uint e = 0; e < E / 2; e++) {
            const vec2 x = pair_of(k[r], e) * scale;

            [[unroll]] for (uint m = 0; m < HEADS; m++) {
                s[m] = fma(q[m * KEPT + r * E + 2 * e], x.x, s[m]);
                s[m] = fma(q[m * KEPT + r * E + 2 * e + 1], x.y, s[m]);
            }
        }
    }
}

void score_tokens()
{
    const uint stride = THREADS / TEAM;

    for (uint first = from; first < end; first += AHEAD * stride) {
        uvec4 k[AHEAD][ROUNDS];
        uint heads[AHEAD];

        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            const uint t = min(first + self / TEAM + i * stride, end - 1);

            heads[i] = head_of_token(t);
            [[unroll]] for (uint r = 0; r < ROUNDS; r++)
                k[i][r] = key_chunk(token_at(heads[i], t % KV_TOKENS),
                                    min(r * TEAM + self % TEAM, CHUNKS - 1));
        }
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            const uint t = first + self / TEAM + i * stride;
            float s[HEADS];

            multiply(min(t, end - 1), heads[i], k[i], s);
            [[unroll]] for (uint m = 0; m < HEADS; m++) {
                [[unroll]] for (uint j = 1; j < TEAM; j <<= 1)
                    s[m] += subgroupShuffleXor(s[m], j);
                if (t < end && self % TEAM == m % TEAM)
                    weights[(t - from) * HEADS + m] = fold_capped(s[m], push.softcap);
            }
        }
    }
}

// Converts scores to weights. A subgroup processes one head at a time.
void weigh_tokens()
{
    for (uint m = gl_SubgroupID; m < HEADS; m += gl_NumSubgroups) {
        float top = NOTHING, sum = 0;

        for (uint t = gl_SubgroupInvocationID; t < end - from; t += gl_SubgroupSize)
            top = max(top, weights[t * HEADS + m]);
        top = subgroupMax(top);
        for (uint t = gl_SubgroupInvocationID; t < end - from; t += gl_SubgroupSize) {
            const float p = exp_down(weights[t * HEADS + m] - fold_base(top));

            weights[t * HEADS + m] = p;
            sum += p;
        }
        sum = subgroupAdd(sum);
        if (subgroupElect()) {
            tops[m] = top;
            sums[m] = sum;
        }
    }
}

void add_values()
{
    const uint c = self % CHUNKS;

    [[unroll]] for (uint i = 0; i < HEADS * E; i++)
        o[i] = 0;
    if (self >= GROUPS * CHUNKS)
        return;
    for (uint t0 = from + self / CHUNKS; t0 < end; t0 += AHEAD * GROUPS) {
        uvec4 v[AHEAD];
        float scales[AHEAD];

        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            const uint t = min(t0 + i * GROUPS, end - 1), head = head_of_token(t);

            v[i] = value_chunk(value_at(head, t % KV_TOKENS), c);
            scales[i] = value_scale(head, t % KV_TOKENS, c);
        }
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            const uint t = t0 + i * GROUPS;

            if (t >= end)
                continue;
            [[unroll]] for (uint m = 0; m < HEADS; m++) {
                const float p = weights[(t - from) * HEADS + m];

                [[unroll]] for (uint e = 0; e < E / 2; e++) {
                    const vec2 x = pair_of(v[i], e) * scales[i];

                    o[m * E + 2 * e] = fma(p, x.x, o[m * E + 2 * e]);
                    o[m * E + 2 * e + 1] = fma(p, x.y, o[m * E + 2 * e + 1]);
                }
            }
        }
    }
}

// Returns the result for a sum of values, if the part is the whole context.
float finished(uint m, float x)
{
    if (push.has_sinks == 0)
        return x / sums[m];

    const float sink = sinks[first_head + m], base = fold_base(max(tops[m], sink));
    const float f = exp_down(tops[m] - base);

    return x * f / fold_sum(sums[m], f, 1.0, exp_down(sink - base));
}

// Writes element @d of head @m: the sum over the GROUPS groups of invocations.
void write_element(uint m, uint d, bool only_part)
{
    const uint head = first_head + m;
    const uint at = ((gl_WorkGroupID.y * push.n_heads + head) * push.n_parts + gl_WorkGroupID.z) *
                    (HEAD_DIM + 2);
    float x = 0;

    for (uint g = 0; g < GROUPS; g++)
        x += found[g * CHUNKS * E + d];
    if (only_part) {
        y[tile.x * push.y_ld + head * HEAD_DIM + d] = finished(m, x);
        return;
    }
    parts[at + d] = x;
    if (d == 0) {
        parts[at + HEAD_DIM] = tops[m];
        parts[at + HEAD_DIM + 1] = sums[m];
    }
}

void write(bool only_part)
{
    [[unroll]] for (uint m = 0; m < HEADS; m++) {
        barrier();
        if (self < GROUPS * CHUNKS)
            [[unroll]] for (uint e = 0; e < E; e++)
                found[self * E + e] = o[m * E + e];
        barrier();
        if (m < n_heads)
            for (uint d = self; d < HEAD_DIM; d += THREADS)
                write_element(m, d, only_part);
    }
}

void main()
{
    const uint group = push.n_heads / push.n_kv_heads, n = (group + HEADS - 1) / HEADS;

    if (gl_WorkGroupID.y >= step_n_tiles(push.group))
        return;
    tile = step_tile(push.group, gl_WorkGroupID.y);
    if (tile.y > 1)
        return;

    const uint oldest = push.window == 0 || tile.w < push.window ? 0 : tile.w - push.window + 1;

    from = max(oldest, gl_WorkGroupID.z * PART);
    end = min(tile.w + 1, (gl_WorkGroupID.z + 1) * PART);
    if (from >= end)
        return;
    self = gl_LocalInvocationIndex;
    kv_head = gl_WorkGroupID.x / n;
    first_head = kv_head * group + gl_WorkGroupID.x % n * HEADS;
    n_heads = min(HEADS, (kv_head + 1) * group - first_head);
    [[unroll]] for (uint m = 0; m < HEADS; m++)
        load_query(m);
    score_tokens();
    barrier();
    weigh_tokens();
    barrier();
    add_values();
    write(oldest / PART == tile.w / PART);
}
