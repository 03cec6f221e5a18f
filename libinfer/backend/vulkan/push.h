/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the push constants and the specialization constants of kernels.
 *
 * The structs match those of shaders/lib/push.glsl member by member. Constant 0 is always the size
 * of a workgroup, and constant 1 the rows per invocation or tile. Further constants are specific to
 * a kernel and are listed here by number. The comments list the slots of each kernel, and in
 * parentheses what each dimension of its workgroups (groups) counts. */

#include <stdint.h>

#include "backend/vulkan/push-store.h"

/* matmul/…: slots 0 w, 1 the second matrix of a gated unit, 2 x, 3 y, 4 bias, 5 the value to add, 7
 * the grid of the number format; groups (columns, rows). */
struct push_matmul {
    uint32_t K, N, n0;
    uint32_t w_offset, w2_offset; /* bytes before the row of column n0; even */
    uint32_t row_bytes, row_bytes2;
    uint32_t ld_y;
    uint32_t rows_kept;
    uint32_t act; /* enum graph_act */
    uint32_t has_bias, has_add;
    /* Only for products by experts, which also have slot 6, the route. A dispatch computes the rows
     * whose experts are first_expert … first_expert + n_experts - 1. */
    uint32_t slots;
    uint32_t x_slots; /* 1: x has a row for each slot */
    uint32_t first_expert, n_experts;
    uint32_t expert_bytes, expert_bytes2;
    float factor, factor2; /* of the sums of both matrices; only for ternary weights */
};

/* Specialization constants of products besides constant 0. */
enum {
    SPEC_PRODUCT_TILE = 1, /* rows of x per lane or workgroup */
    SPEC_PRODUCT_GLU = 3,
    SPEC_PRODUCT_ALIGNED = 4, /* rows of w start at multiples of 16 bytes */

    SPEC_ROWS_COLUMNS = 2, /* rows of w per lane, of each matrix */
    SPEC_ROWS_SHARED = 5,  /* subgroups have 8 lanes, which share their reads of x */
    SPEC_ROWS_N,

    SPEC_VEC_COLUMNS = 2, /* vec, vecdot: rows of w per subgroup at a time, of each matrix */
    SPEC_VEC_GROUPS = 5,  /* how many such groups a workgroup has */
    SPEC_VEC_N,

    SPEC_TILE_WIDTH = 2, /* rows of w per workgroup, of each matrix */
    SPEC_TILE_N = 5,

    SPEC_COOP_WIDTH = 2, /* rows of w per workgroup, of both matrices */
    SPEC_COOP_X_FRAGS = 5,
    SPEC_COOP_W_FRAGS, /* per subgroup */
    SPEC_COOP_LANES,
    SPEC_COOP_SUBGROUPS,
    SPEC_COOP_DEPTH, /* per step along k */
    SPEC_COOP_N,
};

/* matmul/quantise, halve, round: slots 2 x, 3 packed rows; groups (columns, rows). SPEC_ROUND_FORM:
 * packed rows are floats (0), or have the form of quantise (1) or halve (2). */
struct push_pack {
    uint32_t width;
    uint32_t rows_kept;
    uint32_t slots; /* rows of x for each row of the step; at least 1 */
};

enum { SPEC_ROUND_FORM = 2 };

/* elem/embed: slots 0 table, 3 y, 7 the grid of the number format; groups (columns, rows). */
struct push_embed {
    uint32_t width, row_bytes;
    uint32_t w_offset; /* bytes before row `first`; even */
    float scale;
    uint32_t first, count; /* rows of the table in this dispatch */
    uint32_t rows;         /* of the whole table; other tokens read row 0 */
};

/* elem/add, scale, cap, rows, glu: x is in slot 2, the other operand in 5, y in 3. An invocation
 * computes 4 columns of one row: groups are (columns, rows). Operands may be the same buffer. scale
 * with COLUMNS has factors (floats) in slot 5. For level and peaks, a workgroup computes a row:
 * groups (1, rows). */
struct push_elem {
    uint32_t width;
    uint32_t rows_kept; /* 1: as many rows as requested logits */
    float factor;       /* scale, cap; level: the smallest mean of squares; peaks: the number of
                           standard deviations */
    uint32_t period;    /* glu with ONE_GATE: columns that share a gate; scale with COLUMNS: number
                           of factors */
};

enum {
    SPEC_ELEM_WHOLE = 2, /* 1: width is a multiple of 4 */
    SPEC_GLU_ACT = 3,    /* enum graph_act; only for glu */
    SPEC_GLU_ONE_GATE = 4,
    SPEC_SCALE_COLUMNS = 3,
};

/* elem/blend: slots 0 fixed factors (floats), 2 x, 3 y, 5 base, 6 factors of rows; an invocation
 * computes 4 columns; groups (columns, rows). SPEC_ELEM_WHOLE: width is a multiple of 4. */
struct push_blend {
    uint32_t width, n_in, n_out; /* columns of a stream; streams of x and of y */
    uint32_t rows_kept;
};

enum { SPEC_BLEND_HAS_BASE = 3, SPEC_BLEND_HAS_ROWS = 4, SPEC_BLEND_HAS_FIXED = 5 };

/* elem/cols, for one part: slots 2 x, 3 y; groups (columns of the part, rows). SPEC_ELEM_WHOLE: all
 * counts of columns are multiples of 4. */
struct push_cols {
    uint32_t width; /* of y */
    uint32_t rows_kept;
    uint32_t stride, first, n;
    uint32_t at, columns; /* the part has this many columns of y, from column `at` on */
    uint32_t x_width;
};

/* elem/conv: slots 0 w, 1 bias (floats), 2 x, 3 y, 4 state; groups (columns, sequences). */
struct push_conv {
    uint32_t width, n_taps;
    uint32_t group;        /* the group of state */
    uint32_t state_floats; /* floats of a block in one layer */
    uint32_t has_bias;
};

enum { SPEC_CONV_HAS_ACT = 2, SPEC_CONV_ACT = 3 };

/* elem/delta: slots 0 -exp(A) and 1 dt (floats, by head), 2 x, 3 y, 4 state, 5 a, 6 b; groups
 * (parts of a state matrix, of constant 0 ÷ TEAM × ROWS rows each; value heads; sequences). */
struct push_delta {
    uint32_t n_k_heads, n_v_heads, v_dim;
    uint32_t group;
    uint32_t state_floats, state_first; /* floats of a block in one layer; floats before the
                                           matrices */
    uint32_t interleaved;
    float scale, eps;
};

enum {
    SPEC_DELTA_K_DIM = 2,
    SPEC_DELTA_TEAM = 3, /* lanes that share a row; a power of 2, at most a subgroup */
    SPEC_DELTA_ROWS = 4, /* rows of a lane */
};

/* experts/route: slots 0 bias (floats), 2 scores, 5 factors (floats), 3 y: the weights of the slots
 * of a row, then their experts as uints. Groups (1, rows), with workgroups of one subgroup. */
struct push_route {
    uint32_t n_experts, n_used;
    uint32_t rows_kept;
    uint32_t score; /* enum route_score */
    uint32_t normalized, has_bias, has_factors;
    float scale;
};

/* experts/mix: slots 2 x, 3 y, 5 route; an invocation computes 4 columns; groups (columns, rows).
 * SPEC_ELEM_WHOLE: width is a multiple of 4. */
struct push_mix {
    uint32_t width, slots;
    uint32_t rows_kept;
};

/* elem/norm: slots 0 w (floats), 2 x, 3 y, 5 packed rows; groups (width / group, rows). */
struct push_norm {
    uint32_t width, group;
    uint32_t rows_kept;
    float eps;
};

enum {
    SPEC_NORM_WHOLE = 2,  /* 1: group is a multiple of 4 */
    SPEC_NORM_HAS_W = 3,  /* 0: no weights */
    SPEC_NORM_GATHER = 4, /* 1: row i of y is for the i-th logits; requires rows_kept */
    SPEC_NORM_PACK = 5,   /* 1: packed rows are written instead of y; requires group = width */
};

/*
 * elem/heads: a part is all heads of q, of k or of v. Slots: 0 and 5 are the norms of q and k
 * (floats). 1 is cos and sin, [row][n_dims], a pair for each pair of elements. 2, 6 and 7 are q, k
 * and v. 3 is y: the result for the heads of q, or, with STORE off, for the heads of the only part
 * that is processed. 4 and 8 are the keys and values of the layer. Groups (heads of all processed
 * parts, rows). y must not be one of the inputs, unless nothing is rotated.
 */
struct push_heads {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_dims;                    /* rotated dimensions of a head */
    uint32_t q_ld, k_ld, v_ld;          /* widths of the values that contain the parts */
    uint32_t q_first, k_first, v_first; /* columns of the parts' first heads in these values */
    uint32_t y_ld;
    float q_eps, k_eps;
    uint32_t group; /* the group of state */
};

enum {
    HEADS_Q = 1,
    HEADS_K = 2,
    HEADS_V = 4,
};

enum {
    HEADS_ROPE_NONE,
    HEADS_ROPE_HALF,
    HEADS_ROPE_PAIRS,
};

enum {
    SPEC_HEADS_WHOLE = 2,  /* 1: head_dim, n_dims (n_dims / 2 with ROPE_HALF), widths and first
                              columns are multiples of 4 */
    SPEC_HEADS_PARTS = 3,  /* HEADS_… of the parts that are processed */
    SPEC_HEADS_NORMS = 4,  /* HEADS_… of the parts that have a norm */
    SPEC_HEADS_ROPE = 5,   /* HEADS_ROPE_… of q and k */
    SPEC_HEADS_FORMAT = 6, /* of keys: STORE_… */
    SPEC_HEADS_STORE = 7,  /* 0: parts go to y */
    SPEC_HEADS_VALUE_FORMAT = 8, /* STORE_… */
    SPEC_HEADS_TURN = 9,         /* of what goes to y: STORE_PLAIN, STORE_ROTATED, STORE_SIGNED */
    SPEC_HEADS_BACK = 10,        /* 1: heads are turned back */
};

/*
 * attention/…: slots 0 keys, 1 values of the layer, 2 q, 3 y, 4 parts, 5 sinks (floats, by head).
 * Slot 4 has room for [tiles of one row][n_heads][n_parts][head_dim + 2] floats; tiles of one row
 * come before others. ref uses only the first five members of the push constants; its groups are
 * (n_heads, rows).
 * lanes is for devices with vkb_caps.texel. A workgroup is one subgroup. It computes a tile of
 * ROWS_FROM to TILE_ROWS rows for HEADS of the heads of one KV head, at most 8 queries in all. With
 * SPLIT, which requires that TILE_ROWS is 1, it computes one part of the context, and merge merges
 * the parts. Groups (n_kv_heads × ⌈heads of a KV head / HEADS⌉, tiles, parts or 1).
 *
 * row is for GPUs. A workgroup computes a tile of one row, for HEADS of the heads of one KV head,
 * over a part of PART tokens; merge merges the parts. If a context has only one part, row writes
 * the final result. Subgroups must have at least 8 lanes. Shared memory: PART × HEADS floats, and 4
 * floats (for Q8_0: 16) for each of THREADS invocations. THREADS is equal to constant 0. Groups
 * (n_kv_heads × ⌈heads of a KV head / HEADS⌉, tiles, parts).
 *
 * tiles is for GPUs. A workgroup of 128 invocations computes a tile of ROWS_FROM to TILE_ROWS rows
 * for HEADS of the heads of one KV head, at most 32 queries in all. Subgroups must have at least 4
 * lanes. Shared memory: 24 KiB. Groups (n_kv_heads × ⌈heads of a KV head / HEADS⌉, tiles).
 *
 * coop replaces tiles on GPUs with matrix units. A subgroup has LANES lanes and 16 queries, and a
 * block of context has TOKENS tokens. merge is for tiles of one row; groups (columns of y, tiles).
 */
struct push_attention {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t window; /* 0: none */
    float scale;
    uint32_t q_ld, y_ld;  /* widths of q and y */
    uint32_t part_tokens; /* contexts are split at multiples of this number of tokens, which is a
                             multiple of a block's tokens */
    uint32_t n_parts;     /* largest number of parts of a context */
    uint32_t group;       /* the group of state */
    uint32_t has_sinks;
    float softcap; /* 0: none */
};

enum {
    SPEC_TILE_ROWS = 1,

    SPEC_REF_FORMAT = 2, /* of keys: STORE_… */
    SPEC_REF_VALUE_FORMAT = 3,

    SPEC_LANES_HEADS = 2,
    SPEC_LANES_HEAD_DIM = 3,
    SPEC_LANES_FORMAT = 4, /* of keys: STORE_… */
    SPEC_LANES_SPLIT = 5,
    SPEC_LANES_ROWS_FROM = 6,
    SPEC_LANES_LANES = 7, /* the size of a subgroup; equal to constant 0 */
    SPEC_LANES_VALUE_FORMAT = 8,

    SPEC_ROW_HEADS = 2,
    SPEC_ROW_HEAD_DIM = 3,
    SPEC_ROW_FORMAT = 4,  /* of keys: STORE_… */
    SPEC_ROW_PART = 5,    /* part_tokens */
    SPEC_ROW_THREADS = 6, /* equal to constant 0 */
    SPEC_ROW_VALUE_FORMAT = 7,

    SPEC_TILES_HEADS = 2,
    SPEC_TILES_HEAD_DIM = 3,
    SPEC_TILES_FORMAT = 4, /* of keys: STORE_… */
    SPEC_TILES_ROWS_FROM = 5,
    SPEC_FLASH_LANES = 6, /* attention/coop; its other constants are those of tiles */
    SPEC_FLASH_SUBGROUPS = 7,
    SPEC_FLASH_TOKENS = 8,
    SPEC_TILES_VALUE_FORMAT = 9,

    SPEC_MERGE_HEAD_DIM = 2,
    SPEC_MERGE_LONE_PARTS = 3, /* 0: contexts of one part are finished already */
};

/*
 * sample/runs and then sample/tops: slots 2 logits, 3 lists, 4 room for [rows][⌈width / 256⌉][2]
 * floats. Nothing is done if step_n_top() is 0. Groups of runs: (any number, about ⌈width / 256⌉
 * subgroups; rows of logits). Groups of tops: (rows of logits), with workgroups of one subgroup.
 */
struct push_tops {
    uint32_t width;
    uint32_t stride; /* uints per list: at least 2 plus a pair for each value */
};

enum { SPEC_TOPS_WHOLE = 2 }; /* 1: width is a multiple of 4 */
#define TOPS_RUN 256u         /* logits that a subgroup processes together */
