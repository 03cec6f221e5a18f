// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes attention on software devices, without shared memory.
//
// A workgroup is one subgroup. It computes a tile of rows for some of the heads that read one KV head. Each pair
// of a row and a head is a query. The workgroup processes its M queries together: it goes through their context in
// blocks of 64 tokens. In the computation of scores, each lane has 64 / LANES tokens of a block; in the sums of
// values, each lane has some chunks of 16 bytes of the head. Each element of a query and each weight of a token is
// in one lane, but all lanes need it. Lanes pass these numbers by shuffles, each of which costs one instruction.
// Arrays stay in registers only if every loop over them is unrolled. Compilers do not unroll loops with large
// bodies, so macros such as EACH_QUERY are used.
//
// Tiles of ROWS_FROM to ROWS rows are computed; other tiles are skipped. With SPLIT a workgroup computes one
// part of the context (z) and stores its result for attention/merge. Without SPLIT it computes all parts and
// merges them itself. The sums of a query have the same order in both cases, whatever else is in the tile.
//
// Workgroups: x counts groups of HEADS heads within each KV head; y counts tiles; z counts parts. Slots: 0
// keys, 1 values, 2 q, 3 y, 4 parts, 5 sinks.

#include "attention/fold.glsl"
#include "lib/kv.glsl"
#include "lib/push.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1; // rows of a tile
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint HEAD_DIM = 128;
layout(constant_id = 4) const uint FORMAT = KV_F16;
layout(constant_id = 5) const bool SPLIT = true; // only with ROWS = 1
layout(constant_id = 6) const uint ROWS_FROM = 1;
layout(constant_id = 7) const uint LANES = 8; // lanes of a subgroup; a power of 2, at most 64
layout(constant_id = 8) const uint VALUE_FORMAT = KV_F16;

#include "attention/store.glsl"

const uint M = ROWS * HEADS; // at most 8
const uint RUNS = KV_TOKENS / LANES;
const uint ROUNDS = (CHUNKS + LANES - 1) / LANES; // chunks that a lane has
const uint KEPT = ROUNDS * E;                     // elements of a query that a lane has

IN_F4(2, q4)
IN_F32(2, q1)
OUT_F4(3, y4)
OUT_F32(3, y1)
OUT_F32(4, parts)
IN_F32(5, sinks)
PUSH(push_attention)

#define EACH_QUERY(f)                                                                              \
    f(0);                                                                                          \
    if (M > 1)                                                                                     \
        f(1);                                                                                      \
    if (M > 2)                                                                                     \
        f(2);                                                                                      \
    if (M > 3)                                                                                     \
        f(3);                                                                                      \
    if (M > 4)                                                                                     \
        f(4);                                                                                      \
    if (M > 5)                                                                                     \
        f(5);                                                                                      \
    if (M > 6)                                                                                     \
        f(6);                                                                                      \
    if (M > 7)                                                                                     \
        f(7);

uvec4 tile; // first row, rows, sequence, position of the first row
uint lane, first_head, kv_head, first_block;
uint low, last; // first and last token that any row of the tile sees
uint head;  // offset of the KV head in a block, in words
uint token; // first token of the block
float q[M * KEPT], s[M * RUNS];
float o[M * KEPT], top[M], sum[M];             // results for the current part; each lane has its own sum
float all_o[M * KEPT], all_top[M], all_sum[M]; // results for the earlier parts

uint row_of(uint m)
{
    return tile.x + min(m / HEADS, tile.y - 1);
}

uint head_of(uint m)
{
    return min(first_head + m % HEADS, push.n_heads - 1);
}

uint pos_of(uint m)
{
    return tile.w + min(m / HEADS, tile.y - 1);
}

// Returns the oldest token that the row at position @pos sees.
uint oldest(uint pos)
{
    return push.window == 0 || pos < push.window ? 0 : pos - push.window + 1;
}

// Returns whether query @m exists; a tile may have fewer than M queries.
bool is_real(uint m)
{
    return m / HEADS < tile.y &&
           first_head + m % HEADS < (kv_head + 1) * (push.n_heads / push.n_kv_heads);
}

void load_query(uint m)
{
    const uint from = row_of(m) * push.q_ld + head_of(m) * HEAD_DIM;

    [[unroll]] for (uint i = 0; i < KEPT; i += 4) {
        const uint d = (i / E * LANES + lane) * E + i % E;
        vec4 x = vec4(0);

        if (WHOLE) {
            x = q4((from + min(d, HEAD_DIM - 4)) / 4);
        } else {
            [[unroll]] for (uint j = 0; j < 4; j++)
                x[j] = d + j < HEAD_DIM ? q1[from + d + j] : 0;
        }
        [[unroll]] for (uint j = 0; j < 4; j++)
            q[m * KEPT + i + j] = x[j] * push.scale;
    }
}

void clear_part(uint m)
{
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        o[m * KEPT + i] = 0;
    top[m] = NOTHING;
    sum[m] = 0;
}

void clear_all(uint m)
{
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        all_o[m * KEPT + i] = 0;
    all_top[m] = push.has_sinks != 0 ? sinks[head_of(m)] : NOTHING;
    all_sum[m] = push.has_sinks != 0 ? 1.0 : 0.0;
}

// Adds the products of chunk r × LANES + l to the scores of the lane's tokens.
void score_chunk(uint r, uint l)
{
    uvec4 k[RUNS];
    float d[M * RUNS];

    [[unroll]] for (uint t = 0; t < RUNS; t++)
        k[t] = key_chunk(token_at(head, LANES * t + lane), r * LANES + l);
    [[unroll]] for (uint i = 0; i < M * RUNS; i++)
        d[i] = INTS ? 0.0 : s[i];
    [[unroll]] for (uint e = 0; e < E / 2; e++) {
        vec2 x[RUNS];

        [[unroll]] for (uint t = 0; t < RUNS; t++)
            x[t] = pair_of(k[t], e);
        [[unroll]] for (uint m = 0; m < M; m++) {
            const float a = subgroupShuffle(q[m * KEPT + r * E + 2 * e], l);
            const float b = subgroupShuffle(q[m * KEPT + r * E + 2 * e + 1], l);

            [[unroll]] for (uint t = 0; t < RUNS; t++) {
                precise float y = d[m * RUNS + t] + a * x[t].x;

                y = y + b * x[t].y;
                d[m * RUNS + t] = y;
            }
        }
    }
    [[unroll]] for (uint t = 0; t < RUNS; t++) {
        const float scale = key_scale(head, LANES * t + lane, r * LANES + l);

        [[unroll]] for (uint m = 0; m < M; m++) {
            precise float y = s[m * RUNS + t] + d[m * RUNS + t] * scale;

            s[m * RUNS + t] = INTS ? y : d[m * RUNS + t];
        }
    }
}

void score_round(uint r)
{
    for (uint l = 0; l < min(LANES, CHUNKS - r * LANES); l++)
        score_chunk(r, l);
}

void score_late_rounds()
{
    score_round(8);
    if (ROUNDS > 9)
        score_round(9);
    if (ROUNDS > 10)
        score_round(10);
    if (ROUNDS > 11)
        score_round(11);
    if (ROUNDS > 12)
        score_round(12);
    if (ROUNDS > 13)
        score_round(13);
    if (ROUNDS > 14)
        score_round(14);
    if (ROUNDS > 15)
        score_round(15);
}

void score_block()
{
    [[unroll]] for (uint i = 0; i < M * RUNS; i++)
        s[i] = 0;
    score_round(0);
    if (ROUNDS > 1)
        score_round(1);
    if (ROUNDS > 2)
        score_round(2);
    if (ROUNDS > 3)
        score_round(3);
    if (ROUNDS > 4)
        score_round(4);
    if (ROUNDS > 5)
        score_round(5);
    if (ROUNDS > 6)
        score_round(6);
    if (ROUNDS > 7)
        score_round(7);
    if (ROUNDS > 8)
        score_late_rounds();
}

// Converts the scores of the block to weights: one step of the online softmax.
void weigh(uint m)
{
    const uint pos = pos_of(m), from = oldest(pos);
    float peak = top[m];

    [[unroll]] for (uint t = 0; t < RUNS; t++) {
        const uint at = token + LANES * t + lane, i = m * RUNS + t;

        s[i] = at <= pos && at >= from ? fold_capped(s[i], push.softcap) : NOTHING;
        peak = max(peak, s[i]);
    }
    [[unroll]] for (uint i = 1; i < LANES; i <<= 1)
        peak = max(peak, subgroupShuffleXor(peak, i));

    const float base = fold_base(peak), f = exp_down(top[m] - base);
    precise float total = sum[m] * f;

    [[unroll]] for (uint t = 0; t < RUNS; t++) {
        s[m * RUNS + t] = exp_down(s[m * RUNS + t] - base);
        total = total + s[m * RUNS + t];
    }
    top[m] = peak;
    sum[m] = total;
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        o[m * KEPT + i] *= f;
}

// Returns a mask for the bits of a value: zero if the row does not see the token @at, because the stored value
// may then be NaN. Tokens that no row sees are skipped, so a tile of one row needs no mask.
uint mask_of(uint row, uint at)
{
    const uint pos = tile.w + min(row, tile.y - 1);

    return ROWS == 1 || (at <= pos && at >= oldest(pos)) ? ~0u : 0u;
}

// Adds the weighted values of those tokens of the block whose weights lane @l has, one token per iteration.
void add_values(uint l)
{
    [[unroll]] for (uint t = 0; t < RUNS; t++) {
        const uint at = clamp(token + LANES * t + l, low, last);
        const uint there = value_at(head, at % KV_TOKENS);
        float p[M];
        uint mask[ROWS];

        [[unroll]] for (uint m = 0; m < M; m++)
            p[m] = subgroupShuffle(s[m * RUNS + t], l);
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            mask[i] = mask_of(i, at);
        [[unroll]] for (uint r = 0; r < ROUNDS; r++) {
            const uint c = min(r * LANES + lane, CHUNKS - 1);
            const uvec4 v = value_chunk(there, c);
            const float scale = value_scale(head, at % KV_TOKENS, c);

            [[unroll]] for (uint e = 0; e < E / 2; e++) {
                const uvec2 x = floatBitsToUint(pair_of(v, e) * scale);

                [[unroll]] for (uint m = 0; m < M; m++) {
                    const uint i = m * KEPT + r * E + 2 * e;
                    const vec2 y = uintBitsToFloat(x & mask[m / HEADS]);
                    precise float a = o[i] + p[m] * y.x;
                    precise float b = o[i + 1] + p[m] * y.y;

                    o[i] = a;
                    o[i + 1] = b;
                }
            }
        }
    }
}

// Processes the tokens from @begin to @end, in whole blocks.
void do_part(uint begin, uint end)
{
    for (token = begin; token < end; token += KV_TOKENS) {
        head = head_at(step_block(push.group, first_block + token / KV_TOKENS), push.n_kv_heads, kv_head);
        score_block();
        EACH_QUERY(weigh)
        for (uint l = 0; l < LANES; l++)
            add_values(l);
    }
}

void sum_lanes(uint m)
{
    [[unroll]] for (uint i = 1; i < LANES; i <<= 1)
        sum[m] += subgroupShuffleXor(sum[m], i);
}

void fold(uint m)
{
    const float both = max(all_top[m], top[m]), base = fold_base(both);
    const float f = exp_down(all_top[m] - base), g = exp_down(top[m] - base);

    sum_lanes(m);
    all_sum[m] = fold_sum(all_sum[m], f, sum[m], g);
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        all_o[m * KEPT + i] = fold_sum(all_o[m * KEPT + i], f, o[m * KEPT + i], g);
    all_top[m] = both;
}

void write_part(uint m)
{
    const uint to = ((gl_WorkGroupID.y * push.n_heads + head_of(m)) * push.n_parts + gl_WorkGroupID.z) *
        (HEAD_DIM + 2);

    sum_lanes(m);
    if (!is_real(m))
        return;
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        const uint d = (i / E * LANES + lane) * E + i % E;

        if (d < HEAD_DIM)
            parts[to + d] = o[m * KEPT + i];
    }
    if (lane == 0) {
        parts[to + HEAD_DIM] = top[m];
        parts[to + HEAD_DIM + 1] = sum[m];
    }
}

void write_y(uint m)
{
    const uint to = row_of(m) * push.y_ld + head_of(m) * HEAD_DIM;

    if (!is_real(m))
        return;
    [[unroll]] for (uint i = 0; i < KEPT; i += 4) {
        const uint d = (i / E * LANES + lane) * E + i % E, k = m * KEPT + i;
        const vec4 x = vec4(all_o[k], all_o[k + 1], all_o[k + 2], all_o[k + 3]) / all_sum[m];

        if (WHOLE) {
            if (d < HEAD_DIM)
                y4[(to + d) / 4] = x;
        } else {
            [[unroll]] for (uint j = 0; j < 4; j++)
                if (d + j < HEAD_DIM)
                    y1[to + d + j] = x[j];
        }
    }
}

void main()
{
    const uint group = push.n_heads / push.n_kv_heads, n = (group + HEADS - 1) / HEADS;

    if (gl_WorkGroupID.y >= step_n_tiles(push.group))
        return;
    tile = step_tile(push.group, gl_WorkGroupID.y);
    if (tile.y < ROWS_FROM || tile.y > ROWS)
        return;
    lane = gl_SubgroupInvocationID;
    kv_head = gl_WorkGroupID.x / n;
    first_head = kv_head * group + gl_WorkGroupID.x % n * HEADS;
    first_block = step_seq_first(tile.z);
    low = oldest(tile.w);
    last = tile.w + tile.y - 1;

    const uint begin = low / KV_TOKENS * KV_TOKENS;
    const uint size = push.part_tokens;

    EACH_QUERY(load_query)
    if (SPLIT) {
        const uint from = max(begin, gl_WorkGroupID.z * size);
        const uint to = min(last + 1, (gl_WorkGroupID.z + 1) * size);

        if (from >= to)
            return;
        EACH_QUERY(clear_part)
        do_part(from, to);
        EACH_QUERY(write_part)
    } else {
        EACH_QUERY(clear_all)
        for (uint part = begin / size; part * size <= last; part++) {
            EACH_QUERY(clear_part)
            do_part(max(begin, part * size), min(last + 1, (part + 1) * size));
            EACH_QUERY(fold)
        }
        EACH_QUERY(write_y)
    }
}
