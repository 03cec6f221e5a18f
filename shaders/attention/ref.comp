// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes softmax(q · kᵀ × scale) · v over the context of the sequence: the reference kernel.
//
// Tests compare the other kernels with this one. An invocation computes one head of one row. It reads the
// context twice: for the largest score, then for the sums. Workgroups: x counts heads, y rows.

#include "attention/fold.glsl"
#include "lib/kv.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint FORMAT = KV_F16; // of keys
layout(constant_id = 3) const uint VALUE_FORMAT = KV_F16;

PUSH(push_attention)

IN_U32(0, k_store)
IN_U32(1, v_store)
IN_F32(2, q)
INOUT_F32(3, y)
IN_F32(5, sinks)

// Defines a function that returns bit @i, of the lowest @n bits of code @d, of the plane that begins at word @at.
#define PLANE(name, store)                                                                         \
    uint name(uint at, uint n, uint d)                                                             \
    {                                                                                              \
        const uint per_run = 128 / n, byte = d / per_run * 16 + d % 16;                            \
                                                                                                   \
        return store[at + byte / 4] >> (byte % 4 * 8 + d % per_run / 16 * n) & ((1u << n) - 1u);   \
    }

PLANE(plane_k, k_store)
PLANE(plane_v, v_store)

// Defines a function that returns code @d of the codes of @bits bits that begin at word @at.
#define CODE(name, plane, store)                                                                   \
    uint name(uint at, uint bits, uint d)                                                          \
    {                                                                                              \
        const uint c = d % 128, from = at + d / 128 * 12, shift = c < 112 ? 3 : 7;                 \
                                                                                                   \
        if (bits > 4) {                                                                            \
            const uint run = 128 / (bits - 4), there = at + d / run * (run / 8 + 4);               \
                                                                                                   \
            return plane(there, 4, d % run) | plane(there + run / 8, bits - 4, d % run) << 4;      \
        }                                                                                          \
        if (bits != 3)                                                                             \
            return plane(at, bits, d);                                                             \
        if (c < 96)                                                                                \
            return store[from + c % 48 / 4] >> (c % 4 * 8 + c / 48 * 4) & 7u;                      \
        return (store[from + c % 16 / 4] >> (c % 4 * 8 + shift) & 1u) |                            \
               (store[from + 4 + c % 16 / 4] >> (c % 4 * 8 + shift) & 1u) << 1 |                   \
               (store[from + 8 + c % 16 / 4] >> (c % 4 * 8 + shift) & 1u) << 2;                    \
    }

CODE(code_k, plane_k, k_store)
CODE(code_v, plane_v, v_store)

// Defines a function that returns element d of token `token`, in the head of a block that begins at word `head`.
#define STORED(name, store, code, format)                                                          \
    float name(uint head, uint token, uint d)                                                      \
    {                                                                                              \
        const uint at = head + token * kv_token_words(format, push.head_dim);                      \
                                                                                                   \
        if (format == KV_F32)                                                                      \
            return uintBitsToFloat(store[at + d]);                                                 \
        if (format == KV_F16)                                                                      \
            return unpackHalf2x16(store[at + d / 2])[d & 1u];                                      \
        if (format == KV_BF16)                                                                     \
            return uintBitsToFloat((store[at + d / 2] >> 16 * (d & 1u)) << 16);                    \
                                                                                                   \
        const uint group = kv_group(format, push.head_dim);                                        \
        const uint i = token * (push.head_dim / group) + d / group;                                \
        const uint scales = head + KV_TOKENS * kv_token_words(format, push.head_dim);              \
        const int value = kv_kind(format) == KV_CODES                                              \
                              ? kv_level(format, code(at, kv_bits(format), d))                     \
                              : bitfieldExtract(int(store[at + d / 4]), int(8 * (d & 3u)), 8);     \
                                                                                                   \
        return unpackHalf2x16(store[scales + i / 2])[i & 1u] * float(value);                       \
    }

STORED(stored_k, k_store, code_k, FORMAT)
STORED(stored_v, v_store, code_v, VALUE_FORMAT)

uint head_at(uint seq, uint pos, uint kv_head, uint format)
{
    return (step_block(push.group, step_seq_first(seq) + pos / KV_TOKENS) * push.n_kv_heads + kv_head) *
           kv_head_words(format, push.head_dim);
}

float score(uint from, uint head, uint token)
{
    float sum = 0;

    for (uint d = 0; d < push.head_dim; d++)
        sum = fma(q[from + d], stored_k(head, token, d), sum);
    return fold_capped(sum * push.scale, push.softcap);
}

void main()
{
    const uint i_head = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (row >= step_n_rows() || i_head >= push.n_heads)
        return;

    const uint seq = step_seq(row), last = step_pos(row);
    const uint first = push.window > 0 && last >= push.window ? last - push.window + 1 : 0;
    const uint kv_head = i_head / (push.n_heads / push.n_kv_heads);
    const uint at = (row * push.n_heads + i_head) * push.head_dim;
    const float sink = push.has_sinks != 0 ? sinks[i_head] : NOTHING;
    float top = sink, sum = 0;

    for (uint p = first; p <= last; p++)
        top = max(top, score(at, head_at(seq, p, kv_head, FORMAT), p % KV_TOKENS));
    if (push.has_sinks != 0)
        sum = exp(sink - top);
    for (uint d = 0; d < push.head_dim; d++)
        y[at + d] = 0;
    for (uint p = first; p <= last; p++) {
        const uint head = head_at(seq, p, kv_head, VALUE_FORMAT);
        const float f = exp(score(at, head_at(seq, p, kv_head, FORMAT), p % KV_TOKENS) - top);

        sum += f;
        for (uint d = 0; d < push.head_dim; d++)
            y[at + d] = fma(f, stored_v(head, p % KV_TOKENS, d), y[at + d]);
    }
    for (uint d = 0; d < push.head_dim; d++)
        y[at + d] /= sum;
}
