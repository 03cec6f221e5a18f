// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes attention of tiles of rows on GPUs.
//
// A workgroup computes a tile of rows for some of the heads that read one KV head. Each pair of a row and a head
// is a query. The workgroup processes its queries, up to M, together: it goes through their context in blocks of
// 64 tokens, with the online softmax. The products of queries and keys, and those of weights and values, are
// products of small matrices, parts of which are copied to shared memory as floats. An invocation computes 4 × 4
// scores, and 4 queries × some groups of 4 elements of the result. Four neighboring lanes compute the softmax of a
// query, so subgroups must have at least 4 lanes.
//
// The sums of a query have the same order, whatever else is in the tile. Tiles of fewer rows than
// ROWS_FROM are skipped.
//
// Workgroups: x counts groups of HEADS heads within each KV head; y counts tiles. Slots: 0 keys, 1 values,
// 2 q, 3 y.

#include "attention/fold.glsl"
#include "lib/kv.glsl"
#include "lib/push.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 8;
layout(constant_id = 2) const uint HEADS = 4;
layout(constant_id = 3) const uint HEAD_DIM = 128;
layout(constant_id = 4) const uint FORMAT = KV_F16;
layout(constant_id = 5) const uint ROWS_FROM = 2;
layout(constant_id = 9) const uint VALUE_FORMAT = KV_F16;

#include "attention/store.glsl"

const uint M = 32;        // maximum number of queries of a workgroup: at least ROWS × HEADS
const uint THREADS = 128; // M × 4 for the softmax; M / 4 × 16 for the products
const uint SLICE = 32;    // elements of each query and key in shared memory at a time
const uint FOURS = (HEAD_DIM + 3) / 4;      // groups of 4 elements of a head
const uint MINE = (FOURS + 15) / 16;        // groups in the result of an invocation
const uint TOKENS = HEAD_DIM > 256 ? 4 : HEAD_DIM > 128 ? 8 : 16; // tokens whose values are in shared memory at a time

// Pitches of matrices in shared memory, in vec4: rows are padded by 4 floats, so that neighboring lanes read
// from different banks.
const uint SLICE_LD = SLICE / 4 + 1, WEIGHTS_LD = KV_TOKENS / 4 + 1;
const uint KEYS_AT = M * SLICE_LD;
const uint SHARED_KEYS = (M + KV_TOKENS) * SLICE_LD, SHARED_VALUES = TOKENS * MINE * 16;

IN_F4(2, q4)
IN_F32(2, q1)
OUT_F32(3, y)
IN_F32(5, sinks)
PUSH(push_attention)

// Contains a slice of the queries and one of the keys, or the values of some tokens.
shared vec4 slices[SHARED_KEYS > SHARED_VALUES ? SHARED_KEYS : SHARED_VALUES];
shared vec4 weights[M * WEIGHTS_LD]; // scores, then weights
shared float factors[M];             // factors of the earlier results, then divisors of the final result

uvec4 tile;
uint self, first_head, kv_head, group, last;
uint token, head;              // first token of a block, and offset of its KV head
float scores[16];              // 4 queries × tokens across, across + 16, …
vec4 o[4 * MINE];
float top, sum;                // largest score and sum of weights of the query self / 4

uint row_of(uint m)
{
    return min(m / HEADS, tile.y - 1);
}

// Returns the first and the last token that query @m sees.
uvec2 sight_of(uint m)
{
    const uint pos = tile.w + row_of(m);

    return uvec2(push.window == 0 || pos < push.window ? 0 : pos - push.window + 1, pos);
}

vec4 query_four(uint m, uint d)
{
    const uint at = (tile.x + row_of(m)) * push.q_ld +
                    min(first_head + m % HEADS, push.n_heads - 1) * HEAD_DIM + d;

    if (HEAD_DIM % 4 == 0)
        return d < HEAD_DIM ? q4(at / 4) * push.scale : vec4(0);
    return vec4(d < HEAD_DIM ? q1[at] : 0, d + 1 < HEAD_DIM ? q1[at + 1] : 0,
                d + 2 < HEAD_DIM ? q1[at + 2] : 0, d + 3 < HEAD_DIM ? q1[at + 3] : 0) *
           push.scale;
}

// Returns elements 4i … 4i + 3 of a chunk.
vec4 four_of(uvec4 chunk, uint i, float scale)
{
    return vec4(pair_of(chunk, 2 * i), pair_of(chunk, 2 * i + 1)) * scale;
}

void share_slice(uint d0)
{
    for (uint i = self; i < M * (SLICE / 4); i += THREADS)
        slices[i / (SLICE / 4) * SLICE_LD + i % (SLICE / 4)] =
            query_four(i / (SLICE / 4), d0 + i % (SLICE / 4) * 4);
    for (uint i = self; i < KV_TOKENS * (SLICE / E); i += THREADS) {
        const uint t = i / (SLICE / E), j = i % (SLICE / E), c = d0 / E + j;
        const bool there = c < CHUNKS && token + t <= last;
        const uvec4 k = there ? key_chunk(token_at(head, t), c) : uvec4(0);
        const float scale = there ? key_scale(head, t, c) : 1.0;

        [[unroll]] for (uint e = 0; e < E / 4; e++)
            slices[KEYS_AT + t * SLICE_LD + j * (E / 4) + e] = four_of(k, e, scale);
    }
}

void multiply_slice()
{
    const uint across = self % 16, down = self / 16;

    for (uint d = 0; d < SLICE / 4; d++) {
        vec4 a[4], b[4];

        [[unroll]] for (uint i = 0; i < 4; i++) {
            a[i] = slices[(4 * down + i) * SLICE_LD + d];
            b[i] = slices[KEYS_AT + (across + 16 * i) * SLICE_LD + d];
        }
        [[unroll]] for (uint i = 0; i < 16; i++) {
            const vec4 x = a[i / 4], z = b[i % 4];

            scores[i] = fma(x.w, z.w, fma(x.z, z.z, fma(x.y, z.y, fma(x.x, z.x, scores[i]))));
        }
    }
}

void score_block()
{
    [[unroll]] for (uint i = 0; i < 16; i++)
        scores[i] = 0;
    for (uint d0 = 0; d0 < HEAD_DIM; d0 += SLICE) {
        barrier();
        share_slice(d0);
        barrier();
        multiply_slice();
    }
    [[unroll]] for (uint i = 0; i < 16; i++) {
        const uint m = self / 16 * 4 + i / 4, t = self % 16 + 16 * (i % 4);
        const uvec2 sight = sight_of(m);
        const bool seen = token + t >= sight.x && token + t <= sight.y;

        weights[m * WEIGHTS_LD + t / 4][t % 4] =
            seen ? fold_capped(scores[i], push.softcap) : NOTHING;
    }
    barrier();
}

// Converts scores of the block to weights: those of query self / 4, for every fourth group of 4 tokens.
void weigh_block()
{
    const uint m = self / 4, at = m * WEIGHTS_LD + self % 4;
    float peak = top;

    [[unroll]] for (uint i = 0; i < 16; i += 4) {
        const vec4 x = weights[at + i];

        peak = max(max(peak, max(x.x, x.y)), max(x.z, x.w));
    }
    peak = max(peak, subgroupShuffleXor(peak, 1));
    peak = max(peak, subgroupShuffleXor(peak, 2));

    const float base = fold_base(peak), f = exp_down(top - base);

    sum *= f;
    [[unroll]] for (uint i = 0; i < 16; i += 4) {
        const vec4 x = weights[at + i] - base;
        const vec4 p = vec4(exp_down(x.x), exp_down(x.y), exp_down(x.z), exp_down(x.w));

        weights[at + i] = p;
        sum += (p.x + p.y) + (p.z + p.w);
    }
    top = peak;
    if (self % 4 == 0)
        factors[m] = f;
    barrier();
}

void share_values(uint t0)
{
    for (uint i = self; i < TOKENS * CHUNKS; i += THREADS) {
        const uint t = i / CHUNKS, c = i % CHUNKS;
        const bool there = token + t0 + t <= last;
        const uvec4 v = there ? value_chunk(value_at(head, t0 + t), c) : uvec4(0);
        const float scale = there ? value_scale(head, t0 + t, c) : 1.0;

        [[unroll]] for (uint e = 0; e < E / 4; e++)
            slices[t * (MINE * 16) + c * (E / 4) + e] = four_of(v, e, scale);
    }
}

// Adds the weighted values of TOKENS tokens from @t0 on. @edge: some queries do not see some of these tokens,
// whose stored values may be NaN.
void multiply_values(uint t0, bool edge)
{
    const uint across = self % 16, down = self / 16;

    for (uint t = 0; t < TOKENS; t += 4) {
        vec4 p[4];

        [[unroll]] for (uint i = 0; i < 4; i++)
            p[i] = weights[(4 * down + i) * WEIGHTS_LD + (t0 + t) / 4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            bool seen[4];

            [[unroll]] for (uint i = 0; i < 4; i++) {
                const uvec2 sight = sight_of(4 * down + i);
                const uint at = token + t0 + t + k;

                seen[i] = !edge || (at >= sight.x && at <= sight.y);
            }
            [[unroll]] for (uint j = 0; j < MINE; j++) {
                const vec4 v = slices[(t + k) * (MINE * 16) + across + 16 * j];

                [[unroll]] for (uint i = 0; i < 4; i++)
                    o[i * MINE + j] = fma(vec4(p[i][k]), seen[i] ? v : vec4(0), o[i * MINE + j]);
            }
        }
    }
}

void add_values()
{
    const bool edge = token + KV_TOKENS > tile.w || token < sight_of(M - 1).x;

    [[unroll]] for (uint i = 0; i < 4 * MINE; i++)
        o[i] *= factors[self / 16 * 4 + i / MINE];
    for (uint t0 = 0; t0 < KV_TOKENS && token + t0 <= last; t0 += TOKENS) {
        barrier();
        share_values(t0);
        barrier();
        if (edge)
            multiply_values(t0, true);
        else
            multiply_values(t0, false);
    }
}

// Returns the divisor of the sums of values of query self / 4: the sum of its weights, with the weight of the
// sink.
float divisor()
{
    if (push.has_sinks == 0)
        return sum;

    const float sink = sinks[min(first_head + self / 4 % HEADS, push.n_heads - 1)];
    const float base = fold_base(max(top, sink));
    const float f = exp_down(top - base);

    return fold_sum(sum, f, 1.0, exp_down(sink - base)) / f;
}

void write_y()
{
    barrier();
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    if (self % 4 == 0)
        factors[self / 4] = divisor();
    barrier();
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint m = self / 16 * 4 + i, n = first_head + m % HEADS;

        if (m / HEADS >= tile.y || m >= ROWS * HEADS || n >= (kv_head + 1) * group)
            continue;
        [[unroll]] for (uint j = 0; j < MINE; j++) {
            const uint d = 4 * (self % 16 + 16 * j);
            const vec4 x = o[i * MINE + j] / factors[m];

            [[unroll]] for (uint k = 0; k < 4; k++)
                if (d + k < HEAD_DIM)
                    y[(tile.x + m / HEADS) * push.y_ld + n * HEAD_DIM + d + k] = x[k];
        }
    }
}

void main()
{
    if (gl_WorkGroupID.y >= step_n_tiles(push.group))
        return;
    tile = step_tile(push.group, gl_WorkGroupID.y);
    if (tile.y < ROWS_FROM)
        return;
    group = push.n_heads / push.n_kv_heads;

    const uint n = (group + HEADS - 1) / HEADS;

    self = gl_LocalInvocationIndex;
    kv_head = gl_WorkGroupID.x / n;
    first_head = kv_head * group + gl_WorkGroupID.x % n * HEADS;
    last = tile.w + tile.y - 1;
    top = NOTHING;
    sum = 0;
    [[unroll]] for (uint i = 0; i < 4 * MINE; i++)
        o[i] = vec4(0);
    for (token = sight_of(0).x / KV_TOKENS * KV_TOKENS; token <= last; token += KV_TOKENS) {
        head = head_at(step_block(push.group, step_seq_first(tile.z) + token / KV_TOKENS), push.n_kv_heads,
                       kv_head);
        score_block();
        weigh_block();
        add_values();
    }
    write_y();
}
