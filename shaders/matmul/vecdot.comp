// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// Computes y = x · wᵀ with quantized weights, for few rows of x, which matmul/quantise has converted to int8.
//
// The kernel works like matmul/vec, but uses an instruction that multiplies 4 pairs of bytes and
// adds the products. The integer sums are exact; only the scaling rounds. Workgroups: dimension x
// counts sets of `groups` times `columns` rows of w, each of which gives as many columns of the
// result; dimension y counts tiles of rows of the input.

#include "matmul/product.glsl"
#include "matmul/chunk.glsl"

layout(local_size_x_id = 0) in;
// The number of groups of rows of w; a subgroup processes one group at a time.
layout(constant_id = 5) const uint groups = 1;

IN_U4(2, x)
IN_F32(2, x_words)

// OpSDotKHR on packed bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4450) int dot_bytes(uint a, uint b, spirv_literal int format);

int dot16(uvec4 a, uvec4 b)
{
    return dot_bytes(a.x, b.x, 0) + dot_bytes(a.y, b.y, 0) + dot_bytes(a.z, b.z, 0) +
           dot_bytes(a.w, b.w, 0);
}

// Adds the products of chunk @c of the blocks at bytes @at to @sums. The quads of x that belong to these
// blocks begin at @x_at, and their scales at @scale_at.
void add_dots(const uint at[n_rows], uint c, const uint x_at[tile], const uint scale_at[tile],
              inout float sums[n_rows][tile])
{
    chunk chunks[n_rows];

    [[unroll]] for (uint r = 0; r < n_rows; r++)
        chunks[r] = read_chunk(r >= columns, read_head(r >= columns, at[r]), at[r], c);
    [[unroll]] for (uint s = 0; s < SUMS; s++) {
        // All quads of a sum belong to one block of x.
        const uint first = chunk_quad(c) + QUAD_OFFSET(s * QUADS / SUMS);

        [[unroll]] for (uint t = 0; t < tile; t++) {
            const float d = x_words[scale_at[t] + first / 8];
            int dots[n_rows], plain = 0;

            [[unroll]] for (uint r = 0; r < n_rows; r++)
                dots[r] = 0;
            [[unroll]] for (uint j = s * QUADS / SUMS; j < (s + 1) * QUADS / SUMS; j += 4) {
                const uvec4 q = x((x_at[t] + chunk_quad(c) + QUAD_OFFSET(j)) / 4);

                plain += dot16(uvec4(0x01010101), q);
                [[unroll]] for (uint r = 0; r < n_rows; r++)
                    dots[r] += dot16(uvec4(chunks[r].words[j], chunks[r].words[j + 1],
                                           chunks[r].words[j + 2], chunks[r].words[j + 3]),
                                     q);
            }
            [[unroll]] for (uint r = 0; r < n_rows; r++)
                sums[r][t] +=
                    d * scaled(chunks[r], s, float(dots[r]) * DOT_UNIT, float(plain));
        }
    }
}

// Adds the products of the chunks of one lane, for rows of w from @n on and rows of x from @m on.
void add_lane(uint n, uint m, uint M, inout float sums[n_rows][tile])
{
    const uint n_chunks = n_supers() * CHUNKS, n_x = rows_of_x();
    uint first[n_rows], at[n_rows], row[tile], x_at[tile], scale_at[tile];

    [[unroll]] for (uint r = 0; r < n_rows; r++)
        first[r] = row_at(r >= columns, min(n + r % columns, push.N - 1));
    [[unroll]] for (uint t = 0; t < tile; t++)
        row[t] = rows_from(min(m + t, M - 1));

    for (uint i = gl_SubgroupInvocationID; i < n_chunks; i += gl_SubgroupSize) {
        const uint i_super = i / CHUNKS;

        [[unroll]] for (uint r = 0; r < n_rows; r++)
            at[r] = first[r] + i_super * SUPER_BYTES;
        [[unroll]] for (uint t = 0; t < tile; t++) {
            x_at[t] = row[t] * (push.K / 4) + i_super * (SUPER_ELEMS / 4);
            scale_at[t] = n_x * (push.K / 4) + row[t] * (push.K / 32) + i_super * (SUPER_ELEMS / 32);
        }
        add_dots(at, i % CHUNKS, x_at, scale_at, sums);
    }
}

void main()
{
    const uint M = rows_of_y(), m = gl_WorkGroupID.y * tile;

    if (!rows_begin(m))
        return;
    for (uint g = gl_SubgroupID; g < groups; g += gl_NumSubgroups) {
        const uint n = (gl_WorkGroupID.x * groups + g) * columns;
        float sums[n_rows][tile];

        [[unroll]] for (uint r = 0; r < n_rows; r++)
            [[unroll]] for (uint t = 0; t < tile; t++)
                sums[r][t] = 0;
        add_lane(n, m, M, sums);
        [[unroll]] for (uint r = 0; r < n_rows; r++)
            [[unroll]] for (uint t = 0; t < tile; t++)
                sums[r][t] = subgroupAdd(sums[r][t]);
        if (subgroupElect())
            [[unroll]] for (uint r = 0; r < columns; r++)
                [[unroll]] for (uint t = 0; t < tile; t++)
                    if (n + r < push.N && m + t < M)
                        finish(m + t, n + r, sums[r][t], sums[n_rows - columns + r][t]);
    }
}
