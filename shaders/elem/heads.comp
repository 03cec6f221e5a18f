// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Prepares heads of queries, keys and values for attention. Matrix products have computed these heads.
//
// An RMS norm over the head and a rotary embedding may be applied to q and k. Then q is written to y, and k
// and v to the KV store. With QUERY_TURN, or for formats of turned heads, the head is turned (KV_ROTATED,
// KV_SIGNED) before it is written. With BACK, it is turned back. Each of the parts q, k and v is optional, so one
// dispatch can process all heads of a step, or a single part. With STORE off, the single part is written to y instead
// of the store.
//
// A workgroup processes one head of one row: x counts the heads of the enabled parts, in the
// order q, k, v; y counts rows. Slots: 0 norm of q, 5 norm of k, 1 cos and sin, [row][n_dims];
// 2, 6, 7 q, k, v; 3 y; 4, 8 stores of K and V.

#include "lib/half.glsl"
#include "lib/kv.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

const uint PART_Q = 0, PART_K = 1, PART_V = 2;
const uint ROPE_NONE = 0, ROPE_HALF = 1, ROPE_PAIRS = 2;

layout(local_size_x_id = 0) in;
// True if the sizes of heads, rows and rotated parts are multiples of 4 elements (of 8 with ROPE_HALF).
layout(constant_id = 2) const bool WHOLE = true;
layout(constant_id = 3) const uint PARTS = 7; // 1 << PART_…
layout(constant_id = 4) const uint NORMS = 0; // the parts that have a norm
layout(constant_id = 5) const uint ROPE = ROPE_NONE;
layout(constant_id = 6) const uint FORMAT = KV_F16; // of keys
layout(constant_id = 7) const bool STORE = true;
layout(constant_id = 8) const uint VALUE_FORMAT = KV_F16;
layout(constant_id = 9) const uint QUERY_TURN = KV_PLAIN;
layout(constant_id = 10) const bool BACK = false;

// Limits of heads that are turned
const uint HEAD_MAX = 1024, GROUP_MIN = 32;

IN_F4(0, q_norm4)
IN_F32(0, q_norm1)
IN_F4(5, k_norm4)
IN_F32(5, k_norm1)
IN_F4(1, turn4)
IN_F32(1, turn1)
IN_F4(2, q4)
IN_F32(2, q1)
IN_F4(6, k4)
IN_F32(6, k1)
IN_F4(7, v4)
IN_F32(7, v1)
OUT_F32(3, y1)
OUT_F4(3, y4)
INOUT_U32(4, k_store)
INOUT_U32(8, v_store)
PUSH(push_heads)

shared float turned[HEAD_MAX];
shared float inverses[HEAD_MAX / GROUP_MIN];

// One head of one row of q, k or v
struct head {
    uint part, head, row;
    uint from;    // index of its first element
    float factor; // factor of the norm
};

bool has_part(uint part)
{
    return (PARTS >> part & 1u) != 0;
}

bool has_norm(uint part)
{
    return (NORMS >> part & 1u) != 0;
}

float load1(head h, uint d)
{
    const uint i = h.from + d;

    if (has_part(PART_Q) && h.part == PART_Q)
        return q1[i];
    if (has_part(PART_K) && h.part == PART_K)
        return k1[i];
    return has_part(PART_V) ? v1[i] : 0;
}

vec4 load4(head h, uint d)
{
    const uint i = (h.from + d) / 4;

    if (has_part(PART_Q) && h.part == PART_Q)
        return q4(i);
    if (has_part(PART_K) && h.part == PART_K)
        return k4(i);
    return has_part(PART_V) ? v4(i) : vec4(0);
}

float normed1(head h, uint d)
{
    const float x = load1(h, d);

    if (has_norm(PART_Q) && h.part == PART_Q)
        return x * h.factor * q_norm1[d];
    if (has_norm(PART_K) && h.part == PART_K)
        return x * h.factor * k_norm1[d];
    return x;
}

vec4 normed4(head h, uint d)
{
    const vec4 x = load4(h, d);

    if (has_norm(PART_Q) && h.part == PART_Q)
        return x * h.factor * q_norm4(d / 4);
    if (has_norm(PART_K) && h.part == PART_K)
        return x * h.factor * k_norm4(d / 4);
    return x;
}

// Returns element d of the head after norm and rotary embedding.
float value1(head h, uint d)
{
    const float x = normed1(h, d);

    if (ROPE == ROPE_NONE || h.part == PART_V || d >= push.n_dims)
        return x;

    const uint n = push.n_dims / 2;
    const uint pair = ROPE == ROPE_HALF ? d % n : d / 2;
    const bool second = ROPE == ROPE_HALF ? d >= n : d % 2 == 1;
    const uint other = ROPE == ROPE_HALF ? (second ? d - n : d + n) : d ^ 1;
    const uint at = h.row * push.n_dims + 2 * pair;
    const float s = turn1[at + 1];

    return fma(normed1(h, other), second ? s : -s, x * turn1[at]);
}

// Returns elements d … d + 3 of the head after norm and rotary embedding.
vec4 value4(head h, uint d)
{
    if (!WHOLE)
        return vec4(value1(h, d), value1(h, min(d + 1, push.head_dim - 1)),
                    value1(h, min(d + 2, push.head_dim - 1)),
                    value1(h, min(d + 3, push.head_dim - 1)));

    const vec4 x = normed4(h, d);

    if (ROPE == ROPE_NONE || h.part == PART_V || d >= push.n_dims)
        return x;

    const uint n = push.n_dims / 2, row = h.row * push.n_dims;

    if (ROPE == ROPE_PAIRS) {
        const vec4 turn = turn4((row + d) / 4);

        return fma(x.yxwz, vec4(-turn.y, turn.y, -turn.w, turn.w), x * turn.xxzz);
    }

    const bool second = d >= n;
    const uint pair = second ? d - n : d;
    const vec4 a = turn4((row + 2 * pair) / 4), b = turn4((row + 2 * pair) / 4 + 1);
    const vec4 c = vec4(a.xz, b.xz), s = vec4(a.yw, b.yw);

    return fma(normed4(h, second ? pair : d + n), second ? s : -s, x * c);
}

void store_word(head h, uint i, uint word)
{
    if (has_part(PART_K) && h.part == PART_K)
        k_store[i] = word;
    if (has_part(PART_V) && h.part == PART_V)
        v_store[i] = word;
}

// Writes half of a word. Another workgroup writes the other half.
void store_half(head h, uint i, uint bits, uint shift)
{
    if (has_part(PART_K) && h.part == PART_K) {
        atomicAnd(k_store[i], ~(0xffffu << shift));
        atomicOr(k_store[i], bits << shift);
    }
    if (has_part(PART_V) && h.part == PART_V) {
        atomicAnd(v_store[i], ~(0xffffu << shift));
        atomicOr(v_store[i], bits << shift);
    }
}

// Returns the format in which the head is stored.
uint format_of(head h)
{
    return h.part == PART_K ? FORMAT : VALUE_FORMAT;
}

// Returns where the head is stored: the first word of the head in its block, and the token in the block.
uvec2 store_place(head h)
{
    const uint pos = step_pos(h.row);
    const uint block = step_block(push.group, step_seq_first(step_seq(h.row)) + pos / KV_TOKENS);

    return uvec2((block * push.n_kv_heads + h.head) * kv_head_words(format_of(h), push.head_dim),
                 pos % KV_TOKENS);
}

void store_floats(head h)
{
    const uint format = format_of(h);
    const uvec2 place = store_place(h);
    const uint to = place.x + place.y * kv_token_words(format, push.head_dim);

    for (uint d = 4 * gl_LocalInvocationIndex; d < push.head_dim; d += 4 * gl_WorkGroupSize.x) {
        const vec4 x = value4(h, d);
        const bool both = WHOLE || d + 2 < push.head_dim;

        if (format == KV_F32) {
            [[unroll]] for (uint j = 0; j < 4; j++)
                if (both || j < 2)
                    store_word(h, to + d + j, floatBitsToUint(x[j]));
        } else {
            store_word(h, to + d / 2, format == KV_F16 ? f16_pair(x.xy) : bf16_pair(x.xy));
            if (both)
                store_word(h, to + d / 2 + 1, format == KV_F16 ? f16_pair(x.zw) : bf16_pair(x.zw));
        }
    }
}

float f16_rounded(float x)
{
    return unpackHalf2x16(f16_bits(x)).x;
}

// Stores the head as blocks of 32 int8 with a scale. A block that contains NaN, or whose scale overflows, gets
// zeros and the scale NaN. A block whose values are all close to zero gets zeros.
void store_q8(head h)
{
    const uvec2 place = store_place(h);
    const uint n = push.head_dim / 32;

    for (uint b = gl_LocalInvocationIndex; b < n; b += gl_WorkGroupSize.x) {
        vec4 x[8];
        float top = 0, rest = 0;

        [[unroll]] for (uint i = 0; i < 8; i++) {
            x[i] = value4(h, 32 * b + 4 * i);
            [[unroll]] for (uint j = 0; j < 4; j++) {
                top = abs(x[i][j]) > top ? abs(x[i][j]) : top;
                rest = is_finite(x[i][j]) ? rest : 1.0;
            }
        }

        const uint bits = rest > 0.0 ? 0x7e00u : f16_bits(top / 127.0);
        const float scale = unpackHalf2x16(bits).x;
        const bool zero = (bits & 0x7c00u) == 0x7c00u || bits == 0u;
        const float inverse = zero ? 0.0 : 1.0 / scale;
        const uint i = place.y * n + b;

        [[unroll]] for (uint i = 0; i < 8; i++) {
            const ivec4 q = clamp(ivec4(roundEven(zero ? vec4(0) : x[i] * inverse)), -127, 127);
            const uvec4 u = uvec4(q) & 0xffu;

            store_word(h, place.x + place.y * (push.head_dim / 4) + 8 * b + i,
                       u.x | u.y << 8 | u.z << 16 | u.w << 24);
        }
        store_half(h, place.x + KV_TOKENS * push.head_dim / 4 + i / 2,
                   (bits & 0x7c00u) == 0x7c00u ? 0x7e00u : bits, 16 * (i & 1u));
    }
}

// Returns the product of two numbers of 64 bits, the lower words first.
uvec2 product64(uvec2 a, uvec2 b)
{
    uint high, low;

    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

uvec2 shifted64(uvec2 a, uint n)
{
    return uvec2(a.x >> n | a.y << (32 - n), a.y >> n);
}

// Returns the @i-th number of splitmix64 with the seed CODE_SEED (libinfer/quant/code.h).
uvec2 random64(uint i)
{
    const uvec2 step = product64(uvec2(i + 1, 0), uvec2(0x7f4a7c15u, 0x9e3779b9u));
    uint carry;
    uvec2 x;

    x.x = uaddCarry(step.x, 42u, carry);
    x.y = step.y + carry;
    x = product64(x ^ shifted64(x, 30), uvec2(0x1ce4e5b9u, 0xbf58476du));
    x = product64(x ^ shifted64(x, 27), uvec2(0x133111ebu, 0x94d049bbu));
    return x ^ shifted64(x, 31);
}

// Returns -1 for elements whose signs are changed.
float sign_of(uint d)
{
    const uvec2 bits = random64(d / 64);

    return (bits[d / 32 % 2] >> d % 32 & 1u) != 0 ? -1.0 : 1.0;
}

// Turns the head, or turns it back, and writes it to turned[].
void turn(head h, uint how)
{
    const uint n = push.head_dim, run = n & -n;
    const float factor = 1.0 / sqrt(float(run));

    for (uint d = gl_LocalInvocationIndex; d < n; d += gl_WorkGroupSize.x) {
        const float x = value1(h, d);

        turned[d] = how == KV_SIGNED && !BACK ? x * sign_of(d) : x;
    }
    for (uint stride = run / 2; stride > 0; stride /= 2) {
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < n / 2; i += gl_WorkGroupSize.x) {
            const uint j = i / stride * 2 * stride + i % stride;
            const float a = turned[j], b = turned[j + stride];

            turned[j] = a + b;
            turned[j + stride] = a - b;
        }
    }
    barrier();
    for (uint d = gl_LocalInvocationIndex; d < n; d += gl_WorkGroupSize.x)
        turned[d] *= how == KV_SIGNED && BACK ? factor * sign_of(d) : factor;
    barrier();
}

// Returns the code of the level that is nearest to x × @inverse (libinfer/quant/code.c).
uint code_of(uint format, float x, float inverse)
{
    const uint bits = kv_bits(format), half_levels = 1u << (bits - 1);
    const float y = x * inverse;
    uint k = 0;

    if (bits > 4) {
        const float last = float((1u << bits) - 1u);

        return uint(clamp(roundEven((y + last) / 2.0), 0.0, last));
    }
    for (uint j = 0; j + 1 < half_levels; j++)
        k += abs(y) > float(kv_level(format, half_levels + j) + kv_level(format, half_levels + j + 1)) / 2.0
                 ? 1u
                 : 0u;
    return (floatBitsToUint(y) >> 31) != 0 ? half_levels - 1 - k : half_levels + k;
}

// Returns the scale of a group before it is rounded.
float scale_of(uint format, uint first, uint n)
{
    const uint bits = kv_bits(format);
    float sum = 0, top = 0, scale, products = 0;
    int squares = 0;

    for (uint i = first; i < first + n; i++) {
        sum += turned[i] * turned[i];
        top = abs(turned[i]) > top ? abs(turned[i]) : top;
    }
    if (kv_scaling(format) == KV_SCALE_TOP)
        return top / (bits > 4 ? float((1u << bits) - 1u) : 127.0);
    scale = sqrt(sum / float(n)) * (KV_TOPS[bits] / 127.0);
    if (kv_scaling(format) == KV_SCALE_ROOT || scale < 7.9e-31)
        return scale;
    for (uint i = first; i < first + n; i++) {
        const int level = kv_level(format, code_of(format, turned[i], 1.0 / scale));

        products += turned[i] * float(level);
        squares += level * level;
    }
    return products / float(squares);
}

// Returns the code of an element.
uint code_at(uint format, uint d)
{
    return code_of(format, turned[d], inverses[d / kv_group(format, push.head_dim)]);
}

// Returns byte @i of a plane with @n bits of each code, from bit @shift on, of the codes from @first on.
uint plane_byte(uint format, uint first, uint i, uint n, uint shift)
{
    uint x = 0;

    for (uint j = 0; j < 8 / n; j++)
        x |= (code_at(format, first + i / 16 * (128 / n) + j * 16 + i % 16) >> shift & ((1u << n) - 1u))
             << j * n;
    return x;
}

// Returns byte @i of the codes of the head.
uint codes_byte(uint format, uint i)
{
    const uint bits = kv_bits(format);

    if (bits > 4) {
        const uint run = 128 / (bits - 4), bytes = run / 2 + 16, first = i / bytes * run;

        return i % bytes < run / 2 ? plane_byte(format, first, i % bytes, 4, 0)
                                   : plane_byte(format, first, i % bytes - run / 2, bits - 4, 4);
    }
    if (bits == 3) {
        const uint first = i / 48 * 128, k = i % 48;

        return code_at(format, first + k) | code_at(format, first + 48 + k) << 4 |
               (code_at(format, first + 96 + k % 16) >> k / 16 & 1u) << 3 |
               (code_at(format, first + 112 + k % 16) >> k / 16 & 1u) << 7;
    }
    return plane_byte(format, 0, i, bits, 0);
}

// Stores the turned head as codes. The scale of a group that contains NaN, or whose scale overflows, is NaN.
void store_codes(head h)
{
    const uint format = format_of(h), group = kv_group(format, push.head_dim), n = push.head_dim / group;
    const uint words = kv_token_words(format, push.head_dim);
    const uvec2 place = store_place(h);

    for (uint g = gl_LocalInvocationIndex; g < n; g += gl_WorkGroupSize.x) {
        const uint i = place.y * n + g;
        uint bits;
        bool good = true;

        for (uint d = g * group; d < (g + 1) * group; d++)
            good = good && is_finite(turned[d]);
        bits = good ? f16_bits(scale_of(format, g * group, group)) : 0x7e00u;
        bits = (bits & 0x7c00u) == 0x7c00u ? 0x7e00u : bits;
        inverses[g] = bits == 0x7e00u || bits == 0u ? 0.0 : 1.0 / unpackHalf2x16(bits).x;
        store_half(h, place.x + KV_TOKENS * words + i / 2, bits, 16 * (i & 1u));
    }
    barrier();
    for (uint w = gl_LocalInvocationIndex; w < words; w += gl_WorkGroupSize.x)
        store_word(h, place.x + place.y * words + w,
                   codes_byte(format, 4 * w) | codes_byte(format, 4 * w + 1) << 8 |
                       codes_byte(format, 4 * w + 2) << 16 | codes_byte(format, 4 * w + 3) << 24);
}

void write_turned(head h)
{
    const uint to = h.row * push.y_ld + h.head * push.head_dim;

    for (uint d = gl_LocalInvocationIndex; d < push.head_dim; d += gl_WorkGroupSize.x)
        y1[to + d] = turned[d];
}

void write_y(head h)
{
    const uint to = h.row * push.y_ld + h.head * push.head_dim;

    for (uint d = 4 * gl_LocalInvocationIndex; d < push.head_dim; d += 4 * gl_WorkGroupSize.x) {
        const vec4 x = value4(h, d);

        if (WHOLE) {
            y4[(to + d) / 4] = x;
        } else {
            for (uint j = 0; j < min(4, push.head_dim - d); j++)
                y1[to + d + j] = x[j];
        }
    }
}

// Returns the sum of squares of this invocation's elements.
float squares(head h)
{
    vec4 sum = vec4(0);

    if (WHOLE) {
        for (uint d = 4 * gl_LocalInvocationIndex; d < push.head_dim; d += 4 * gl_WorkGroupSize.x) {
            const vec4 x = load4(h, d);

            sum = fma(x, x, sum);
        }
    } else {
        for (uint d = gl_LocalInvocationIndex; d < push.head_dim; d += gl_WorkGroupSize.x) {
            const float x = load1(h, d);

            sum.x = fma(x, x, sum.x);
        }
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// Returns 1 / root mean square of the head, with the epsilon of its part (q or k).
float norm_factor(head h)
{
    return 1.0 / sqrt(team_sum(squares(h)) / float(push.head_dim) +
                      (h.part == PART_Q ? push.q_eps : push.k_eps));
}

void main()
{
    const uint n_q = has_part(PART_Q) ? push.n_heads : 0;
    const uint n_k = has_part(PART_K) ? push.n_kv_heads : 0;
    const uint i = gl_WorkGroupID.x;
    head h;

    h.row = gl_WorkGroupID.y;
    if (h.row >= step_n_rows())
        return;
    h.part = i < n_q ? PART_Q : i < n_q + n_k ? PART_K : PART_V;
    h.head = i < n_q ? i : i < n_q + n_k ? i - n_q : i - n_q - n_k;
    h.from = h.part == PART_Q   ? h.row * push.q_ld + push.q_first
             : h.part == PART_K ? h.row * push.k_ld + push.k_first
                                : h.row * push.v_ld + push.v_first;
    h.from += h.head * push.head_dim;
    h.factor = NORMS != 0 ? norm_factor(h) : 1.0;

    const bool is_y = has_part(PART_Q) && h.part == PART_Q || !STORE;
    const uint how = is_y ? QUERY_TURN : kv_turn(format_of(h));

    if (how != KV_PLAIN) {
        turn(h, how);
        if (is_y)
            write_turned(h);
        else
            store_codes(h);
    } else if (is_y) {
        write_y(h);
    } else if (format_of(h) == KV_Q8_0) {
        store_q8(h);
    } else {
        store_floats(h);
    }
}
