// SPDX-License-Identifier: Apache-2.0
#ifndef PUSH_GLSL
#define PUSH_GLSL

// Declares the push constants of all kernels. libinfer/backend/vulkan/push.h has the same structures in C.

// y[m][n] (+)= x[m] · w[n] for the columns n0 … n0 + N - 1 of y.
struct push_matmul {
    uint K;             // columns of x
    uint N;             // columns of y that this dispatch computes
    uint n0;            // the first of these columns
    uint w_offset;      // byte offset of the row of w for column n0; even
    uint w2_offset;     // byte offset of that row in the second matrix; even
    uint row_bytes;     // size of a row of w; even
    uint row_bytes2;    // size of a row of the second matrix
    uint ld_y;          // width of y
    uint rows_kept;     // 1: only the rows whose logits are requested
    uint act;           // enum graph_act; used with two matrices
    uint has_bias;
    uint has_add;       // y = add + …, element by element
    // Only with EXPERTS:
    uint slots;         // slots of a row, that is, experts selected for it
    uint x_slots;       // 1: x has a row for each slot; 0: the slots share the row
    uint first_expert;  // the first expert whose matrix is bound
    uint n_experts;     // experts whose matrices are bound
    uint expert_bytes;  // distance between the matrices of two experts
    uint expert_bytes2; // the same in the second matrix
    // Only with ternary weights: factors of the sums of both matrices
    float factor, factor2;
};

// y[m] = scale × row tokens[m] of the table, for tokens first … first + count - 1.
struct push_embed {
    uint width;
    uint row_bytes;
    uint w_offset;      // byte offset of row `first`; even
    float scale;
    uint first;
    uint count;
    uint rows;          // rows of the whole table; other tokens read row 0
};

// Conversion of rows of x to the number format that a kernel of products reads.
struct push_pack {
    uint width;
    uint rows_kept;
    uint slots;         // rows of x for each row of the step
};

// y = f(x, b), element by element; or copies of rows of x.
struct push_elem {
    uint width;         // width of all operands
    uint rows_kept;
    float factor;       // the factor of elem/scale, or the limit of elem/cap, elem/level or elem/peaks
    uint period;        // elem/glu with gates of one column: number of columns that share a gate;
                        // elem/scale with factors of columns: number of these factors
};

// Sums of streams of columns, with factors for each pair of streams.
struct push_blend {
    uint width;         // of a stream
    uint n_in, n_out;   // streams of x and of y
    uint rows_kept;
};

// Some columns of x become one part of y: of each run of `stride` columns, the n columns from
// `first` on.
struct push_cols {
    uint width;         // width of y
    uint rows_kept;
    uint stride, first, n;
    uint at, columns;   // the part has this many columns of y, from column `at` on
    uint x_width;
};

// Preparation of rows for products: order, factors and rotations of columns.
struct push_turn {
    uint width, group;
    uint n_rounds;
    uint rows_kept;
    uint slots;         // rows of x for each row of the step
};

// Selection of experts for each row of scores.
struct push_route {
    uint n_experts, n_used;
    uint rows_kept;
    uint score;         // enum route_score
    uint normalized;
    uint has_bias, has_factors;
    float scale;
};

// The weighted sum of the slots of each row.
struct push_mix {
    uint width, slots;
    uint rows_kept;
};

// Convolution along the rows of a sequence.
struct push_conv {
    uint width, n_taps;
    uint group;         // the group of state
    uint state_floats;  // floats of a block in one layer
    uint has_bias;
};

// Gated delta rule along the rows of a sequence.
struct push_delta {
    uint n_k_heads, n_v_heads, v_dim;
    uint group;         // the group of state
    uint state_floats;  // floats of a block in one layer
    uint state_first;   // the first float of the matrices in the block
    uint interleaved;
    float scale, eps;
};

// RMS norm of each group of `group` columns.
struct push_norm {
    uint width;
    uint group;
    uint rows_kept;
    float eps;
};

// Heads of q, k and v: norm, rotary embedding, destination.
struct push_heads {
    uint n_heads;
    uint n_kv_heads;
    uint head_dim;
    uint n_dims;        // rotated elements of a head
    uint q_ld, k_ld, v_ld;          // widths of the values that contain the heads as columns
    uint q_first, k_first, v_first; // columns of the first heads of q, k and v in these values
    uint y_ld;
    float q_eps, k_eps; // epsilons of the norms
    uint group;         // the group of state
};

// y = softmax(q · kᵀ × scale) · v for each head of each row.
struct push_attention {
    uint n_heads, n_kv_heads, head_dim;
    uint window;        // number of positions that a row sees, including its own; 0: all
    float scale;        // scale of the scores
    uint q_ld, y_ld;    // widths of q and y
    uint part_tokens;   // a multiple of a block's tokens
    uint n_parts;       // largest number of parts of a context
    uint group;         // the group of state
    uint has_sinks;     // 1: heads have sinks
    float softcap;      // limit of the scores; 0: none
};

// The largest values of rows of logits.
struct push_tops {
    uint width;
    uint stride;        // size of a list in uints
};

#endif
