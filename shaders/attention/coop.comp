// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_memory_scope_semantics : require

// Computes attention of tiles of rows with the matrix units of a GPU.
//
// A workgroup computes a tile of rows for some of the heads that read one KV head. Each pair of a row and a head
// is a query, and each subgroup has up to FRAGMENT queries. All subgroups pass over the context together, in
// blocks of TOKENS tokens. They copy the keys of a block to shared memory as binary16, multiply their queries by
// them, and compute the weights of the softmax. Then they copy the values of the block to the place of the keys,
// and add the products of weights and values to their results. An invocation reads what it will copy next while
// the matrix units multiply. The extension does not specify which elements of a matrix a lane has. Therefore
// queries, scores, weights and results pass through shared memory, of which each subgroup has a part, its strip.
//
// Queries, keys, values and weights are multiplied as binary16, and sums are floats. Nothing overflows: each
// query, and the keys and values of a block in formats with larger numbers than binary16, are scaled by powers
// of two. The weight of a token is 2^(score - base), where scores are multiplied by log2 e, and the base of a
// query is an integer. The base changes only when a weight would exceed 2^WEIGHT_MOST. The new base makes the
// largest weight at most 2^WEIGHT_FIRST, and the earlier results of the query are scaled by a power of two, which
// is exact. These scalings depend on nothing but the query and its context.
//
// The sums of a query have the same order, whatever else is in the tile. Tiles of fewer rows than
// ROWS_FROM are skipped.
//
// Subgroups have 16, 32 or 64 lanes. Workgroups: x counts groups of HEADS heads within each KV head; y
// counts tiles. Slots: 0 keys, 1 values, 2 q, 3 y, 5 sinks.

#include "attention/fold.glsl"
#include "lib/kv.glsl"
#include "lib/push.glsl"
#include "matmul/coopmat.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 16;
layout(constant_id = 2) const uint HEADS = 4;
layout(constant_id = 3) const uint HEAD_DIM = 128;
layout(constant_id = 4) const uint FORMAT = KV_F16;
layout(constant_id = 5) const uint ROWS_FROM = 2;
layout(constant_id = 6) const uint LANES = 32; // of a subgroup
layout(constant_id = 7) const uint N_SUBGROUPS = 4;
layout(constant_id = 8) const uint TOKENS = 32; // of a block: 32 or 64
layout(constant_id = 9) const uint VALUE_FORMAT = KV_F16;

#include "attention/store.glsl"

const uint THREADS = LANES * N_SUBGROUPS;
const uint DIM_FRAGS = (HEAD_DIM + FRAGMENT - 1) / FRAGMENT; // fragments of a head; at most 16
const uint TOKEN_FRAGS = TOKENS / FRAGMENT;
// Chunks of a head that is padded to whole fragments; chunks that an invocation copies.
const uint PADDED = DIM_FRAGS * FRAGMENT / E;
const uint COPIES = (TOKENS * PADDED + THREADS - 1) / THREADS;
// Whether keys and values can be larger than the numbers of binary16
const bool SCALED = FORMAT != KV_F16;

// Pitches of matrices in shared memory: of a block in vectors of 4 binary16, of a strip in pairs of floats. Rows
// are padded, so that they begin in different banks.
const uint BLOCK_LD = DIM_FRAGS * FRAGMENT / 4 + 2;
const uint STRIP_LD = TOKENS / 2 + 4;
// A row of a strip first has the scores of a query. Later it has the weights, which take half as much space, and
// then a row of the matrix of factors. The last pair of the padding is for the divisor of the result.
const uint FACTORS_AT = TOKENS / 4, DIVISOR_AT = STRIP_LD - 1;

const uint TEAM = LANES / FRAGMENT; // lanes that compute the weights of a query
const uint FOURS = TOKENS / 4 / TEAM; // groups of 4 scores that a lane has

const float WEIGHT_FIRST = 7, WEIGHT_MOST = 15;
const float LOG2_E = 1.44269504;

IN_F32(2, q)
OUT_F32(3, y)
IN_F32(5, sinks)
PUSH(push_attention)

shared f16vec4 block[TOKENS * BLOCK_LD];
shared vec2 strips[N_SUBGROUPS * FRAGMENT * STRIP_LD];
// Largest magnitudes of what the subgroups copy. Matrices must begin at multiples of 16 bytes in any order of the
// arrays, so the size is such a multiple.
shared float peaks[(N_SUBGROUPS + 3) / 4 * 4];

uvec4 tile;
uint self, first_head, kv_head;
uint low, last;  // first and last token that any row of the tile sees
uint strip;      // the beginning of the subgroup's strip
uint query, at;  // query of the lane, and its row of the strip
uint member;     // the lane's number in the team of the query
uvec2 sight;     // first and last token that the query sees
float factor;    // multiplies the products of the query and the keys
float base, sum; // base of the weights, and the sum of those that the lane has computed
float rescale;   // multiplies the earlier results of the query
// Exponents of the largest magnitudes of the query and of the values. The largest magnitude becomes 2^14 … 2^15.
// Formats that need no scaling have the exponent 14.
int query_exponent, values_exponent = SCALED ? -112 : 14;

// The chunks that the invocation copies
uvec4 chunks[COPIES];
float scales[COPIES];

// Returns the row of query @m within the tile. Queries that do not exist have the row of another query.
uint row_of(uint m)
{
    return min(m / HEADS, tile.y - 1);
}

uint head_of(uint m)
{
    return min(first_head + m % HEADS, push.n_heads - 1);
}

// Returns the first and the last token that query @m sees.
uvec2 sight_of(uint m)
{
    const uint pos = tile.w + row_of(m);

    return uvec2(push.window == 0 || pos < push.window ? 0 : pos - push.window + 1, pos);
}

// Returns |x|, or 0 if x is not finite.
float magnitude(float x)
{
    return is_finite(x) ? abs(x) : 0.0;
}

// Returns the exponent of a magnitude, so that 2^(14 - exponent) and its reciprocal are normal numbers.
int exponent_of(float magnitude)
{
    return max(int(floatBitsToUint(magnitude) >> 23) - 127, -112);
}

uint query_from(uint m)
{
    return (tile.x + row_of(m)) * push.q_ld + head_of(m) * HEAD_DIM;
}

// Writes elements 4 × four … of the lane's row of the strip as binary16.
void put_halves(uint four, vec4 x)
{
    strips[at + four] = uintBitsToFloat(
        uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw))));
}

// Finds the scale of the lane's query.
void scale_query()
{
    float mine = 0;

    for (uint i = 0; i < FRAGMENT; i++) {
        const uint from = query_from(gl_SubgroupID * FRAGMENT + i);
        float peak = 0;

        for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += LANES)
            peak = max(peak, magnitude(q[from + d]));
        peak = subgroupMax(peak);
        mine = i == gl_SubgroupInvocationID / TEAM ? peak : mine;
    }
    query_exponent = exponent_of(mine);
    factor = power_of_2(query_exponent - 14) * push.scale;
}

// Writes elements d0 … d0 + FRAGMENT - 1 of the queries to the strip.
void put_queries(uint d0)
{
    const uint from = query_from(query);

    subgroupBarrier();
    [[unroll]] for (uint i = 0; i < FRAGMENT / 4 / TEAM; i++) {
        const uint four = i * TEAM + member, d = d0 + 4 * four;
        vec4 x;

        [[unroll]] for (uint k = 0; k < 4; k++)
            x[k] = d + k < HEAD_DIM ? q[from + min(d + k, HEAD_DIM - 1)] : 0.0;
        put_halves(four, x * power_of_2(14 - query_exponent));
    }
    subgroupBarrier();
}

// Reads the chunks of keys or values that the invocation copies. Tokens that no row sees are 0, because the
// stored numbers may be NaN.
void read_chunks(uint token, bool is_keys)
{
    const uint head = head_at(step_block(push.group, step_seq_first(tile.z) + token / KV_TOKENS),
                              push.n_kv_heads, kv_head);

    [[unroll]] for (uint i = 0; i < COPIES; i++) {
        const uint to = self + i * THREADS, t = to / PADDED, c = to % PADDED;
        const uint t_block = token % KV_TOKENS + t;
        const bool there = t < TOKENS && c < CHUNKS && token + t >= low && token + t <= last;

        chunks[i] = uvec4(0);
        scales[i] = 1;
        if (there && is_keys) {
            chunks[i] = key_chunk(token_at(head, t_block), c);
            scales[i] = key_scale(head, t_block, c);
        } else if (there) {
            chunks[i] = value_chunk(value_at(head, t_block), c);
            scales[i] = value_scale(head, t_block, c);
        }
    }
}

// Returns the exponent of the largest magnitude of the chunks of all invocations.
int chunks_exponent()
{
    float peak = 0;

    [[unroll]] for (uint i = 0; i < COPIES; i++)
        [[unroll]] for (uint e = 0; e < E / 2; e++) {
            const vec2 x = pair_of(chunks[i], e) * scales[i];

            peak = max(peak, max(magnitude(x.x), magnitude(x.y)));
        }
    peak = subgroupMax(peak);
    if (subgroupElect())
        peaks[gl_SubgroupID] = peak;
    barrier();
    [[unroll]] for (uint i = 0; i < N_SUBGROUPS; i++)
        peak = max(peak, peaks[i]);
    return exponent_of(peak);
}

// Copies the chunks to `block`, divided by 2^(exponent - 14).
void write_chunks(int exponent)
{
    const float scale = power_of_2(14 - exponent);

    [[unroll]] for (uint i = 0; i < COPIES; i++) {
        const uint to = self + i * THREADS, t = to / PADDED, c = to % PADDED;

        if (t >= TOKENS)
            continue;
        [[unroll]] for (uint e = 0; e < E / 4; e++) {
            const uint at = t * BLOCK_LD + c * (E / 4) + e;

            if (SCALED) {
                const vec4 x = vec4(pair_of(chunks[i], 2 * e), pair_of(chunks[i], 2 * e + 1));

                block[at] = f16vec4(x * scales[i] * scale);
            } else {
                block[at] = f16vec4(unpackFloat2x16(chunks[i][2 * e]),
                                    unpackFloat2x16(chunks[i][2 * e + 1]));
            }
        }
    }
    barrier();
}

// Copies the keys, and returns their exponent.
int share_keys()
{
    int exponent = 14;

    if (SCALED)
        exponent = chunks_exponent();
    else
        barrier();
    write_chunks(exponent);
    return exponent;
}

// Writes the matrix of factors, whose rows contain the factor of a query.
void put_factors()
{
    [[unroll]] for (uint i = 0; i < FRAGMENT / 2 / TEAM; i++)
        strips[at + FACTORS_AT + i * TEAM + member] = vec2(rescale);
}

// Copies the values, and writes the factors. The exponent of the values never decreases; when it increases, the
// earlier results are scaled.
void share_values()
{
    if (SCALED) {
        const int grown = max(values_exponent, chunks_exponent());

        rescale *= grown - values_exponent > 126 ? 0.0 : power_of_2(values_exponent - grown);
        values_exponent = grown;
    } else {
        barrier();
    }
    put_factors();
    write_chunks(values_exponent);
}

// Returns the largest of the numbers @x of the team's lanes.
float team_max(float x)
{
    [[unroll]] for (uint i = 1; i < TEAM; i <<= 1)
        x = max(x, subgroupShuffleXor(x, i));
    return x;
}

// Moves the base if the weight of a token with the score @peak would exceed 2^WEIGHT_MOST.
void move_base(float peak)
{
    const float moved = ceil(peak) - WEIGHT_FIRST;

    if (!(peak > base + WEIGHT_MOST))
        return;
    if (base != NOTHING)
        rescale *= base - moved < -126.0 ? 0.0 : power_of_2(int(base - moved));
    sum *= rescale;
    base = moved;
}

// Converts the scores of the lane's query to weights. @edge: the query may not see some of the tokens from
// @token on.
void weigh(uint token, int keys_exponent, bool edge)
{
    const float scale = power_of_2(keys_exponent - 14) * (push.softcap > 0.0 ? 1.0 : LOG2_E);
    vec4 x[FOURS];
    float peak = NOTHING;

    rescale = 1;
    [[unroll]] for (uint i = 0; i < FOURS; i++) {
        const uint four = i * TEAM + member;

        x[i] = vec4(strips[at + 2 * four], strips[at + 2 * four + 1]) * factor * scale;
        [[unroll]] for (uint k = 0; k < 4; k++) {
            const uint t = token + 4 * four + k;

            if (push.softcap > 0.0)
                x[i][k] = fold_capped(x[i][k], push.softcap) * LOG2_E;
            if (edge && (t < sight.x || t > sight.y))
                x[i][k] = NOTHING;
            peak = max(peak, x[i][k]);
        }
    }
    move_base(team_max(peak));
    // All lanes have read their scores.
    subgroupBarrier();
    [[unroll]] for (uint i = 0; i < FOURS; i++) {
        vec4 p;

        [[unroll]] for (uint k = 0; k < 4; k++)
            p[k] = x[i][k] == NOTHING ? 0.0 : exp2(x[i][k] - fold_base(base));
        sum += (p.x + p.y) + (p.z + p.w);
        put_halves(i * TEAM + member, p);
    }
}

// Writes the divisor of the query's results: the sum of the weights, with the weight of the sink.
void put_divisor()
{
    [[unroll]] for (uint i = 1; i < TEAM; i <<= 1)
        sum += subgroupShuffleXor(sum, i);
    if (push.has_sinks != 0)
        sum += exp2(sinks[head_of(query)] * LOG2_E - fold_base(base));
    // The matrix units have read the weights.
    subgroupBarrier();
    strips[at + DIVISOR_AT].x = sum;
}

// Writes the results that are in the strip: the dimensions of two fragments, from d0 on.
void write_dims(uint d0)
{
    const uint width = 2 * FRAGMENT;
    const float scale = power_of_2(values_exponent - 14);
    const uint group = push.n_heads / push.n_kv_heads;

    subgroupBarrier();
    [[unroll]] for (uint e = 0; e < FRAGMENT * width / LANES; e++) {
        const uint i = (e * LANES + gl_SubgroupInvocationID) / width;
        const uint d = (e * LANES + gl_SubgroupInvocationID) % width;
        const uint m = gl_SubgroupID * FRAGMENT + i, n = first_head + m % HEADS;
        const uint from = strip + i * STRIP_LD;

        if (m / HEADS < tile.y && m < ROWS * HEADS && n < (kv_head + 1) * group && d0 + d < HEAD_DIM)
            y[(tile.x + m / HEADS) * push.y_ld + n * HEAD_DIM + d0 + d] =
                strips[from + d / 2][d % 2] / strips[from + DIVISOR_AT].x * scale;
    }
    subgroupBarrier();
}

void begin()
{
    const uint group = push.n_heads / push.n_kv_heads, n = (group + HEADS - 1) / HEADS;

    self = gl_LocalInvocationIndex;
    kv_head = gl_WorkGroupID.x / n;
    first_head = kv_head * group + gl_WorkGroupID.x % n * HEADS;
    low = sight_of(0).x;
    last = tile.w + tile.y - 1;
    strip = gl_SubgroupID * FRAGMENT * STRIP_LD;
    query = gl_SubgroupID * FRAGMENT + gl_SubgroupInvocationID / TEAM;
    member = gl_SubgroupInvocationID % TEAM;
    at = strip + gl_SubgroupInvocationID / TEAM * STRIP_LD;
    sight = sight_of(query);
    base = NOTHING;
    sum = 0;
    scale_query();
}

// Indices of arrays of matrices must be constants; matmul/coop explains why.
#define OUT(i)                                                                                     \
    if (2 * i < DIM_FRAGS) {                                                                       \
        coopmat_store2(strips[strip], sums[min(2 * i, DIM_FRAGS - 1)], COOPMAT_ROWS, STRIP_LD);    \
        if (2 * i + 1 < DIM_FRAGS)                                                                 \
            coopmat_store2(strips[strip + FRAGMENT / 2], sums[min(2 * i + 1, DIM_FRAGS - 1)], COOPMAT_ROWS,   \
                           STRIP_LD);                                                              \
        write_dims(2 * FRAGMENT * i);                                                                      \
    }

void main()
{
    if (gl_WorkGroupID.y >= step_n_tiles(push.group))
        return;
    tile = step_tile(push.group, gl_WorkGroupID.y);
    if (tile.y < ROWS_FROM)
        return;
    begin();

    coopmat_a queries[DIM_FRAGS];
    coopmat_sum sums[DIM_FRAGS];

    [[unroll]] for (uint j = 0; j < DIM_FRAGS; j++) {
        put_queries(j * FRAGMENT);
        queries[j] = coopmat_load_a2(strips[strip], COOPMAT_ROWS, STRIP_LD);
        sums[j] = coopmat_fill(0.0);
    }
    read_chunks(low / TOKENS * TOKENS, true);
    for (uint token = low / TOKENS * TOKENS; token <= last; token += TOKENS) {
        const int keys_exponent = share_keys();
        coopmat_sum products[TOKEN_FRAGS];

        read_chunks(token, false);
        [[unroll]] for (uint i = 0; i < TOKEN_FRAGS; i++)
            products[i] = coopmat_fill(0.0);
        [[unroll]] for (uint j = 0; j < DIM_FRAGS; j++)
            [[unroll]] for (uint i = 0; i < TOKEN_FRAGS; i++)
                products[i] = coopmat_add(
                    queries[j],
                    coopmat_load_b4(block[i * FRAGMENT * BLOCK_LD + j * (FRAGMENT / 4)],
                                    COOPMAT_COLUMNS, BLOCK_LD),
                    products[i]);
        [[unroll]] for (uint i = 0; i < TOKEN_FRAGS; i++)
            coopmat_store2(strips[strip + i * (FRAGMENT / 2)], products[i], COOPMAT_ROWS,
                           STRIP_LD);
        subgroupBarrier();
        if (token + TOKENS > tile.w || token < sight_of(N_SUBGROUPS * FRAGMENT - 1).x)
            weigh(token, keys_exponent, true);
        else
            weigh(token, keys_exponent, false);
        share_values();
        if (token + TOKENS <= last)
            read_chunks(token + TOKENS, true);
        if (subgroupMin(rescale) < 1.0) {
            const coopmat_sum factors =
                coopmat_load_sum2(strips[strip + FACTORS_AT], COOPMAT_ROWS, STRIP_LD);

            [[unroll]] for (uint j = 0; j < DIM_FRAGS; j++)
                sums[j] = coopmat_multiply(sums[j], factors);
        }
        [[unroll]] for (uint i = 0; i < TOKEN_FRAGS; i++) {
            const coopmat_a weights = coopmat_load_a2(strips[strip + i * (FRAGMENT / 4)],
                                                      COOPMAT_ROWS, STRIP_LD);

            [[unroll]] for (uint j = 0; j < DIM_FRAGS; j++)
                sums[j] = coopmat_add(
                    weights,
                    coopmat_load_b4(block[i * FRAGMENT * BLOCK_LD + j * (FRAGMENT / 4)],
                                    COOPMAT_ROWS, BLOCK_LD),
                    sums[j]);
        }
    }
    put_divisor();
    OUT(0) OUT(1) OUT(2) OUT(3) OUT(4) OUT(5) OUT(6) OUT(7)
}
