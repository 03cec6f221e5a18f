/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Push constants and specialization constants of kernels
 *
 * The structs are those of shaders/lib/push.glsl, member by member. Constant 0 is always the size
 * of a workgroup, and 1 the rows that an invocation or a tile takes; what follows is a kernel's
 * own, and is listed here by its place.
 */

#include <stdint.h>

/* matmul/…: slots 0 w, 1 the second matrix of a gated unit, 2 x, 3 y, 4 bias, 5 what is added;
 * groups (columns, rows). */
struct push_matmul {
    uint32_t K, N, n0;
    uint32_t w_offset, w2_offset; /* bytes before the row of column n0; even */
    uint32_t row_bytes, row_bytes2;
    uint32_t ld_y;
    uint32_t rows_kept;
    uint32_t act; /* enum graph_act */
    uint32_t has_bias, has_add;
};

/* Constants of products beside 0. */
enum {
    SPEC_PRODUCT_TILE = 1, /* rows of x of a lane or a workgroup */
    SPEC_PRODUCT_GLU = 3,
    SPEC_PRODUCT_ALIGNED = 4, /* rows of w start at multiples of 16 bytes */

    SPEC_ROWS_COLUMNS = 2, /* rows of w of a lane, of each matrix */
    SPEC_ROWS_SHARED = 5,  /* subgroups have 8 lanes, which share what they read of x */
    SPEC_ROWS_N,

    SPEC_VEC_COLUMNS = 2, /* rows of w of a subgroup at a time, of each matrix; vec, vecdot */
    SPEC_VEC_GROUPS = 5,  /* of those of a workgroup */
    SPEC_VEC_N,

    SPEC_TILE_WIDTH = 2, /* rows of w of a workgroup, of each matrix */
    SPEC_TILE_N = 5,

    SPEC_COOP_WIDTH = 2, /* rows of w of a workgroup, of both matrices */
    SPEC_COOP_X_FRAGS = 5,
    SPEC_COOP_W_FRAGS, /* of a subgroup */
    SPEC_COOP_LANES,
    SPEC_COOP_SUBGROUPS,
    SPEC_COOP_DEPTH, /* of a step along k */
    SPEC_COOP_N,
};

/* matmul/quantise, matmul/halve: slots 2 x, 3 packed rows; groups (columns, rows). */
struct push_pack {
    uint32_t width;
    uint32_t rows_kept;
};

/* elem/embed: slots 0 table, 3 y; groups (columns, rows). */
struct push_embed {
    uint32_t width, row_bytes;
    uint32_t w_offset; /* bytes before row `first`; even */
    float scale;
    uint32_t first, count; /* rows of the table that this dispatch has */
};

/* elem/add, scale, rows, glu: x is in slot 2, the other operand in 5, y in 3. A workgroup does
 * 4 columns an invocation of one row: groups are (columns, rows). Operands may be the same. */
struct push_elem {
    uint32_t width;
    uint32_t rows_kept; /* 1: as many rows as logits are wanted */
    float factor;       /* scale */
};

enum {
    SPEC_ELEM_WHOLE = 2, /* 1: width is a multiple of 4 */
    SPEC_GLU_ACT = 3,    /* enum graph_act; glu alone */
};

/* elem/norm: slots 0 w (floats), 2 x, 3 y; groups (width / group, rows). */
struct push_norm {
    uint32_t width, group;
    uint32_t rows_kept;
    float eps;
};

enum {
    SPEC_NORM_WHOLE = 2,  /* 1: group is a multiple of 4 */
    SPEC_NORM_HAS_W = 3,  /* 0: no weights */
    SPEC_NORM_GATHER = 4, /* 1: row i of y is that of the i-th logits; with rows_kept */
};

/*
 * elem/heads: a part is the heads of q, k or v. Slots 0 norm of q, 5 norm of k (floats); 1 cos and
 * sin, [row][n_dims], a pair for each pair of elements; 2 q, 6 k, 7 v; 3 y, where the heads of q
 * go, and of the only other part when nothing is stored; 4 keys, 8 values of the layer. Groups
 * (heads of all its parts, rows). y must not be what it is made from, unless nothing is rotated.
 */
struct push_heads {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_dims;                    /* of a head that are rotated */
    uint32_t q_ld, k_ld, v_ld;          /* widths of the values that the parts are columns of */
    uint32_t q_first, k_first, v_first; /* where their first heads begin in these */
    uint32_t y_ld;
    float q_eps, k_eps;
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

/* How K and V are stored: in blocks of so many tokens. */
#define STORE_TOKENS 64u
enum {
    STORE_F32,
    STORE_F16,
    STORE_BF16,
    STORE_Q8_0,
};

enum {
    SPEC_HEADS_WHOLE = 2,  /* 1: head_dim, n_dims (n_dims / 2 with ROPE_HALF), widths and first
                              columns are multiples of 4 */
    SPEC_HEADS_PARTS = 3,  /* HEADS_… that are there */
    SPEC_HEADS_NORMS = 4,  /* HEADS_… with a norm */
    SPEC_HEADS_ROPE = 5,   /* HEADS_ROPE_… of q and k */
    SPEC_HEADS_FORMAT = 6, /* STORE_… */
    SPEC_HEADS_STORE = 7,  /* 0: parts go to y */
};

/*
 * attention/…: slots 0 keys, 1 values of the layer, 2 q, 3 y, 4 parts, which is room for
 * [tiles of one row][n_heads][n_parts][head_dim + 2] floats: such tiles come first. ref looks at
 * the first five members alone; its groups are (n_heads, rows).
 *
 * lanes, for texel devices: workgroups of one subgroup; tiles of ROWS_FROM to TILE_ROWS rows and
 * HEADS of the heads of one KV head, 8 queries together at most. With SPLIT, and TILE_ROWS 1, parts
 * go to merge. Groups (n_kv_heads × ⌈heads of a KV head / HEADS⌉, tiles, parts or 1).
 *
 * row, for GPUs: tiles of one row, HEADS of the heads of one KV head, parts of PART tokens for
 * merge; finishes contexts of one part. Subgroups have at least 8 lanes. Shared memory: PART ×
 * HEADS floats, and 4 (of Q8_0: 16) for each of THREADS invocations, which is also constant 0.
 * Groups (n_kv_heads × ⌈heads of a KV head / HEADS⌉, tiles, parts).
 *
 * tiles, for GPUs: tiles of ROWS_FROM to TILE_ROWS rows, 32 queries together at most, 128
 * invocations. Subgroups have at least 4 lanes. Shared memory: 24 KiB. Groups (n_kv_heads × ⌈heads
 * of a KV head / HEADS⌉, tiles).
 *
 * merge: of tiles of one row. Groups (n_heads × head_dim columns, tiles).
 */
struct push_attention {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t window; /* 0: none */
    float scale;
    uint32_t q_ld, y_ld;  /* widths of q and y */
    uint32_t part_tokens; /* contexts are cut at its multiples; a multiple of a block's */
    uint32_t n_parts;     /* that there is room for */
};

enum {
    SPEC_TILE_ROWS = 1,

    SPEC_REF_FORMAT = 2, /* STORE_… */

    SPEC_LANES_HEADS = 2,
    SPEC_LANES_HEAD_DIM = 3,
    SPEC_LANES_FORMAT = 4, /* STORE_… */
    SPEC_LANES_SPLIT = 5,
    SPEC_LANES_ROWS_FROM = 6,
    SPEC_LANES_LANES = 7, /* the size of a subgroup, as constant 0 */

    SPEC_ROW_HEADS = 2,
    SPEC_ROW_HEAD_DIM = 3,
    SPEC_ROW_FORMAT = 4,  /* STORE_… */
    SPEC_ROW_PART = 5,    /* part_tokens */
    SPEC_ROW_THREADS = 6, /* as constant 0 */

    SPEC_TILES_HEADS = 2,
    SPEC_TILES_HEAD_DIM = 3,
    SPEC_TILES_FORMAT = 4, /* STORE_… */
    SPEC_TILES_ROWS_FROM = 5,

    SPEC_MERGE_HEAD_DIM = 2,
    SPEC_MERGE_LONE_PARTS = 3, /* 0: contexts of one part are finished already */
};

/*
 * sample/runs and then sample/tops: slots 2 logits, 3 lists, 4 room for [rows][⌈width / 256⌉][2]
 * floats. Nothing is done where step_n_top() is 0. Groups of runs (any number, about ⌈width / 256⌉
 * subgroups; rows of logits), of tops (rows of logits), whose workgroups are of one subgroup.
 */
struct push_tops {
    uint32_t width;
    uint32_t stride; /* uints of a list: at least 2 and a pair for each value */
};

enum {
    SPEC_TOPS_WHOLE = 2, /* 1: width is a multiple of 4 */
};

#define TOPS_RUN 256u /* logits that a subgroup looks at together */
