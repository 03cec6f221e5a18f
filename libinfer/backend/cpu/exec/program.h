/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares programs: graphs compiled for the CPU.
 *
 * A program is a list of stages. All threads go through the list together, with a barrier after
 * each stage, except between stages that are joined. Within a stage they claim pieces from a
 * counter. No bit of a result depends on the thread that computes it. fuse.c makes stages,
 * program.c places values, exec.c runs stages. */

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/attn/attn.h"
#include "backend/cpu/elem/elem.h"
#include "backend/cpu/exec/store.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/recur/recur.h"
#include "core/arena.h"
#include "core/workers.h"

/* KV blocks in a stretch: the online softmax starts anew for each stretch, and the results of the
 * stretches are merged. The bits of a result depend on where stretches begin. This number is
 * constant, so the bits are the same whether or not threads share a long sequence. */
#define ATTN_STRETCH_BLOCKS 16u
/* Floats that a softmax keeps per query row besides its result: the maximum and the sums. */
#define ATTN_STATS (1 + ATTN_LANES)
/* Query rows (tokens × heads of a group) that share one pass over a KV block. */
#define ATTN_TILE_ROWS 64u
/* Columns of a piece of a product, unless heads need more. */
#define PRODUCT_COLUMNS 128u
/* Threads divide the rows of a product with packed weights if each gets at least this many. */
#define PART_ROWS 64u
/* With this many pieces per thread, it does not matter if some threads compute one piece more. */
#define EVEN_PIECES 8u
/* Wider heads are not fused into products. */
#define FUSED_HEAD_MAX 512u
/* With at most this many rows, which have at most this many elements together, each thread prepares
 * all rows itself instead of waiting for other threads. */
#define PRIVATE_ROWS  4u
#define PRIVATE_ELEMS 8192u
/* The minimum and the maximum number of tokens of a KV block. */
#define KV_BLOCK_MIN 16u
#define KV_BLOCK_MAX ATTN_TOKENS_MAX
/* A product with at most AHEAD_ROWS rows mostly waits for memory. Therefore a thread that waits for
 * others prefetches up to AHEAD_BYTES of its next weights; they fit in a second-level cache. */
#define AHEAD_ROWS  4u
#define AHEAD_BYTES (192u << 10)
/* Rows whose queries, keys and gates a delta rule prepares together. */
#define DELTA_ROWS 32u
/* If there are fewer attention tasks than this per thread, threads share sequences. */
#define SHARED_TASKS 16u

enum stage_kind {
    STAGE_EMBED,
    STAGE_PRODUCT, /* one or more matrix products with one input */
    STAGE_ATTENTION,
    STAGE_ROUTE,
    STAGE_EXPERTS, /* one or more products with the matrices of experts, with one input and route */
    STAGE_CONV,
    STAGE_DELTA,
    STAGE_NODE, /* one operation that is not fused, computed by rows */
};

struct matrix {
    const void *data;
    const char *name; /* name of the weight, or NULL */
    enum inf_dtype dtype;
    enum matmul_act act;
    bool packed;
    uint64_t row_bytes;
    const float *bias; /* or NULL */
    /* Planes (quant/planes.h), and bytes from a row of a plane to the next. They are 0 if the
     * planes have one element for the whole matrix, or if there are no planes. */
    const unsigned char *planes[WEIGHT_PLANES];
    uint64_t plane_bytes[WEIGHT_PLANES];
    enum plane_type plane_type;
    uint32_t group;
    /* Packed ternary (quant/bitnet.h): the number of rows divided by four. Rows are then counted as
     * packed rows, and the scale is the factor of the matrix. 0: another format. */
    uint32_t quarter;
    /* Coded matrices (quant/coded.h): one, or one for each expert. Row 0 of this struct's matrix is
     * row coded_first of the coded matrix. NULL: another format. */
    const struct coded *coded;
    uint32_t coded_first;
    /* Only for experts; as in struct weight. */
    const void *const *experts;
    uint64_t expert_bytes, plane_expert_bytes[WEIGHT_PLANES];
    struct weight expert_bias;
};

/* Describes a product, and the operations that are done on each piece of it while the piece is in
 * the cache. The members are in the order of the operations. */
struct product {
    struct matrix m[2];         /* m[1] only for gated units: then m[0] is the gate and m[1] up */
    uint32_t n_matrices, width; /* width: columns */
    uint32_t chunk; /* columns per piece: whole heads, or packed rows of packed ternary weights */
    uint32_t n_chunks;
    enum graph_act act;  /* of gated units, or if has_act is set */
    bool has_act;        /* never set for gated units */
    float cap;           /* as in GRAPH_CAP; 0: none */
    const float *norm_w; /* per head, or NULL */
    float norm_eps;
    int i_rope;        /* or -1 */
    uint32_t head_dim; /* for norm, rope and kv */
    graph_ref add;     /* value to add, or none */
    graph_ref dst;     /* none if the result goes only to the KV store */
    enum kv_part kv;
    struct state_place place; /* where keys or values are stored */
    bool late;                /* attention may store the keys (exec_keys_late()) */
};

struct stage {
    enum stage_kind kind;
    graph_ref dst;
    graph_ref src[3];

    /* Products: input rows → gathered → norm → prepared. */
    bool gather;         /* src has all rows; select the rows with logits */
    bool rows_kept;      /* works on n_logits rows */
    const float *norm_w; /* over the whole width, or NULL; STAGE_ROUTE: factors of the experts */
    float norm_eps;
    uint32_t K;
    const uint32_t *order;   /* [K]: column of the input at each place (quant/coded.h); or NULL */
    bool acts[MATMUL_ACT_N]; /* kinds of preparation needed */
    size_t act_bytes[MATMUL_ACT_N];     /* bytes per row */
    uint64_t act_offset[MATMUL_ACT_N];  /* in scratch */
    uint64_t act_private[MATMUL_ACT_N]; /* in a thread's own memory */
    struct product *products;
    uint32_t n_products, n_chunks;
    bool packed; /* all weights are packed */

    struct attn_params attn;
    bool joined;            /* threads go on to the next stage without waiting for each other */
    bool wanted_only, late; /* attention: only rows with logits are read; see struct product */
    enum graph_op op;       /* STAGE_NODE; SPREAD has its places in `order` */
    enum kv_part kv;        /* what a STAGE_NODE with GRAPH_ATTENTION stores: keys or values */
    uint32_t width, group;
    enum graph_act act;
    enum graph_key key; /* STAGE_EMBED */
    const float *bias;  /* LAYER_NORM; or NULL */
    const float *sinks; /* STAGE_ATTENTION: [n_heads]; or NULL */
    struct cols_params cols;
    struct blend_params blend;
    const float *factors; /* SCALE, BLEND: the factors of the node; or NULL */
    const struct turn_params *turn;
    struct route_params route;
    bool has_act;             /* STAGE_CONV */
    struct state_place place; /* STAGE_CONV */
    uint32_t n_taps;
    const float *taps; /* [n_taps, width] */
    struct delta_params delta;
    const float *speeds; /* STAGE_DELTA: [n_v_heads] -exp(A); its dt is in `bias` */
    float f;
    int i_rope;
    struct weight table; /* STAGE_EMBED */
};

/* Returns the address of row @n of a matrix. */
static inline const unsigned char *matrix_row(const struct matrix *m, uint32_t n)
{
    return (const unsigned char *)m->data + n * (uint64_t)m->row_bytes;
}

/* Returns the address of the plane @p of expert @expert, from row @n on. */
static inline const unsigned char *matrix_plane(const struct matrix *m, enum weight_plane p,
                                                uint32_t expert, uint32_t n)
{
    return m->planes[p] ? m->planes[p] + expert * m->plane_expert_bytes[p] + n * m->plane_bytes[p]
                        : NULL;
}

/* Returns the product that piece *@i_piece of a stage belongs to. *@i_piece becomes the index of
 * the piece within the product. */
static inline const struct product *stage_product(const struct stage *s, uint32_t *i_piece)
{
    const struct product *p = s->products;

    for (; *i_piece >= p->n_chunks; p++)
        *i_piece -= p->n_chunks;
    return p;
}

struct value {
    uint32_t width;
    uint32_t ld;    /* floats from one row to the next */
    uint32_t slots; /* rows of memory for each row: the slots of experts, or 1 */
    bool rows_kept;
    /* ROUTE: `width` is the number of experts. A row has the weights of the slots, then their
     * experts. The slots of the step, sorted by expert, follow the rows and take sorted_bytes
     * bytes. */
    uint64_t sorted_bytes;
    bool made;      /* a stage stores the value; values between fused nodes are never stored */
    bool is_output; /* its memory is the caller's logits */
    bool is_input;  /* its memory is the `input` of the batch */
    uint32_t first, last; /* first and last stage that needs the value */
    uint64_t offset;      /* in scratch */
};

/* Holds sin and cos for each row of a step: [max_rows][2][n_dims], see elem.h. */
struct rope_table {
    struct rope_params params; /* inv_freq points to a copy that the plan owns */
    float *data;
};

/* Counts the claimed pieces of a thread's share, on a cache line of its own. */
struct claim {
    _Alignas(64) _Atomic uint32_t n;
};

/* Holds the addresses of the weights that a thread reads next and prefetches while it waits. */
struct ahead {
    _Alignas(64) const unsigned char *at[2];
    const unsigned char *end[2];
};

/* Describes rows of one sequence that attention computes together. */
struct attn_tile {
    const struct batch_seq *seq;
    uint32_t i_row, n_rows, pos;
    bool wanted; /* the tile has rows with logits, or has only one row */
};

/* Describes a thread's own memory by the offsets of its parts, which are multiples of 64. */
struct thread_layout {
    uint64_t row;         /* [2 × max_width]: one row after its norm, then in another order */
    uint64_t tile[2];     /* [max_rows, max_chunk]: pieces of products */
    uint64_t act;         /* rows that the thread prepares for itself, if they are few */
    uint64_t bias;        /* [max_chunk]: biases of a piece of an expert */
    uint64_t work;        /* [max_work] bytes: for products with coded matrices */
    uint64_t route;       /* [max_width]: two lists of floats and one of bool */
    uint64_t taps;        /* [max_taps]: addresses of the rows that a convolution adds */
    uint64_t delta;       /* [DELTA_ROWS]: 2 × max_k_dim floats and the gates of a row */
    uint64_t delta_copy;  /* [max_k_dim + 1, DELTA_LANES]: for drafted rows */
    uint64_t half;        /* [max_head_dim]: a head in the KV store's format */
    uint64_t q, o, total; /* [tile_rows × group, head_dim] */
    uint64_t s;           /* [tile_rows × group, block_tokens ≤ 256] */
    uint64_t stats;       /* [2][tile_rows × group, ATTN_STATS]: of a stretch and of the total */
    uint64_t range;       /* [tile_rows × group] */
    uint64_t size;
};

struct plan {
    struct arena arena; /* stages, products, vectors */
    struct plan_limits limits;
    const struct matmul_ops *matmul;
    const struct attn_fns *attn;
    const struct recur_fns *recur;
    struct value *values; /* [n_values], by graph_ref */
    uint32_t n_values;
    bool has_input;
    struct stage *stages;
    struct rope_table *ropes;
    uint32_t n_stages, n_ropes, max_width; /* max_width: largest width of a value */
    uint32_t max_chunk, max_head_dim, max_group, tile_rows;
    uint32_t max_taps, max_k_dim, max_conv_width;
    uint32_t drafted_floats; /* kept inputs of a drafted row in a recurrent layer, at most */

    unsigned char *scratch; /* values and prepared rows, shared */
    uint64_t scratch_size;
    unsigned char *threads; /* [n_threads], each mem.size */
    struct thread_layout mem;
    uint64_t act_private_size, max_work; /* max_work: the most matmul_work_bytes() of a matrix */
    unsigned n_threads;
    float *parts; /* [tasks, max_stretches, part_floats]: results of stretches, or NULL */
    uint64_t parts_size;
    uint32_t max_stretches, late_width;
    size_t part_floats;
    uint16_t *late_keys; /* [max_seqs, late_width]: keys in F16 that attention will store */

    _Atomic unsigned n_routed; /* threads that have routed their rows of the stage */
    struct claim *claims;      /* [3 sets, n_threads], see claims_of() in exec.c */
    struct ahead *aheads;      /* [n_threads] */
    /* The thread that calls run() writes the next members before the other threads start. */
    uint32_t *row_pos, *row_offset; /* [max_rows]: position, place in block */
    uint32_t *row_seq;              /* [max_rows]: number of the sequence in the batch */
    struct attn_tile *tiles;
    uint32_t max_tiles;
    uint64_t *stage_nsec; /* [n_stages] sums of the times of all runs; NULL: off */
};

struct cpu_backend {
    struct backend backend; /* must be first */
    unsigned flags;
    unsigned flags_many; /* for plans with many rows, and for attention in all plans */
    bool fuse;           /* for tests that compare fused and unfused plans */
    const struct elem_fns *elem;
    struct workers *workers;
    const struct product_watch *watch; /* NULL: none */
};

/* fuse.c: makes plan->stages. Returns 0, -ENOMEM, or -EOPNOTSUPP with the reason. */
int fuse_graph(struct plan *plan, const struct graph *g, const struct cpu_backend *cpu,
               struct inf_err *reterr);
/* program.c */
int program_compile(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                    struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr);
void program_free(struct backend *b, struct plan *plan);
void program_rest(struct backend *b, struct plan *plan);
