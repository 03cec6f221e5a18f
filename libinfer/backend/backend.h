/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares backends, which compute graphs on devices.
 *
 * A backend is an open device: it holds KV stores and compiles graphs into plans. A plan is
 * compiled once, for one graph and a maximum batch, and then runs in every step. Running a plan
 * neither allocates nor logs nor compiles. A row is one token of one sequence. On the CPU, the bits
 * of the result of a row do not depend on the other rows of the batch, on how a prompt is split
 * into steps, or on the number of threads. On a GPU, the last bits can depend on the number of rows
 * of the step (docs/vulkan.md).
 *
 * All calls on one backend come from one thread, unless an operation says otherwise.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/top.h"
#include "core/workers.h"
#include "graph/batch.h"
#include "graph/graph.h"
#include "quant/codec.h"

struct backend; /* starts with `const struct backend_ops *ops` */
struct plan;
struct kv_store;

/* Tokens that a row sees in more bits, including its own (struct kv_layout). */
#define KV_RECENT 64u

/* The largest number of layers with keys and values in a layout with mixed formats. */
#define KV_MIXED_MAX 256u

/* The number formats of a layer in a layout with mixed formats. */
struct kv_mixed {
    uint8_t i_group; /* the i-th entry with this group belongs to layer i of the group */
    bool is_set;     /* false: the layer has the formats of a layout without mixed formats */
    uint8_t k, v;    /* enum codec */
};

/*
 * Describes a store of the states of sequences (graph/state.h). The store holds each group in
 * blocks: a block of a FULL or WINDOW group has K and V of block_tokens tokens in all layers of the
 * group; a block of a RECURRENT group has the whole state of one sequence, as floats. Blocks are
 * numbered through all groups: first the n_blocks[0] blocks of group 0, then those of group 1, and
 * so on. The layout inside a block is private to the backend.
 */
struct kv_layout {
    uint32_t n_groups; /* at least 1 */
    struct state_group groups[STATE_GROUPS_MAX];
    uint32_t n_blocks[STATE_GROUPS_MAX];
    uint32_t block_tokens; /* 64 */
    enum codec k, v;       /* head_dim must be a multiple of the head_unit of all codecs */
    /* Keys and values that attention reads most are kept in more bits: for the FULL group also the
     * first block and the newest KV_RECENT tokens, in Q8_0, in two groups of their own with as many
     * layers; and WINDOW groups in Q8_0, or in 4 bits (Q4_0, or TURBO4 if the format changes signs)
     * if keys of the FULL group have fewer than 4 bits. Groups in Q8_0 are `exact`. Heads in Q8_0
     * are turned like those of k and v, also in layers with formats of their own. */
    bool recent;
    uint32_t i_full;            /* the FULL group of which the two groups have copies */
    uint32_t i_recent, i_first; /* the two groups; 0: none, because there is no FULL group */
    /* The layers with keys and values, in the order of the model. 0: no layer has formats of its
     * own. */
    uint32_t n_mixed;
    struct kv_mixed mixed[KV_MIXED_MAX];
};

struct plan_limits {
    uint32_t max_rows;   /* tokens of one step */
    uint32_t max_logits; /* rows of logits of one step */
    uint32_t max_seqs;
    uint32_t max_ctx; /* positions of one sequence */
    bool many_rows;   /* most steps have many rows: use the instructions that are best for many
                         rows */
};

/* The format of the weights of a product. */
struct product_format {
    enum inf_dtype dtype;
    bool packed; /* packed as cpu/matmul/matmul.h describes it */
};

/*
 * Holds the operations of a backend. Some operations may be NULL; their comments say what NULL
 * means. A device can be lost: then run() and logits() return -ENODEV until recover() succeeds, and
 * meanwhile kv_copy(), kv_drop() and plan_rest() do nothing.
 */
struct backend_ops {
    const char *name; /* "cpu", "vulkan", "null" or "split" */

    /* Returns the bytes of device memory that are free for weights, K, V and plans. Devices that
     * use the host's memory return UINT64_MAX, or do not have this operation (NULL). */
    uint64_t (*memory)(struct backend *b);
    /* Returns 0 if the device supports keys and values of these formats, else -EOPNOTSUPP with the
     * reason. In this case kv_new() must not be called with these formats. Any thread may call
     * kv_check(). NULL: all formats are supported. */
    int (*kv_check)(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr);
    /* Returns the maximum number of blocks of group @i_group that this device can hold if it holds
     * n_blocks[i] blocks of each other group i, or UINT32_MAX if only memory limits them. */
    uint64_t (*kv_max_blocks)(struct backend *b, const struct kv_layout *layout, uint32_t i_group);
    /* Creates a store. A store in the host's memory only reserves addresses, and uses memory as
     * blocks are written. Returns 0 or -ENOMEM. */
    int (*kv_new)(struct backend *b, const struct kv_layout *layout, struct kv_store **ret_store);
    void (*kv_free)(struct backend *b, struct kv_store *store);
    /* Copies block @src to block @dst of the same group, in all layers. Cannot fail. */
    void (*kv_copy)(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src);
    /* Gives the memory of @n blocks, beginning with block @first, back to the system. All these
     * blocks belong to one group. Their content is lost. */
    void (*kv_drop)(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n);
    /* Returns the bytes of a block. NULL: the content of blocks cannot leave the device. */
    uint64_t (*kv_size)(const struct backend *b, const struct kv_store *store, uint32_t block);
    /* Returns the address of a block's bytes; other threads may write to them while no step uses
     * the block. NULL: a block is not one piece of host memory. */
    void *(*kv_bytes)(struct backend *b, struct kv_store *store, uint32_t block);
    /* kv_export() copies a block to @to; kv_import() copies a block from @from. @to and @from have
     * kv_size() bytes. Both functions may be called only between steps, and return 0, -ENOMEM, or
     * -ENODEV if the device is lost. NULL: callers use kv_bytes(). */
    int (*kv_export)(struct backend *b, struct kv_store *store, uint32_t block, void *to);
    int (*kv_import)(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
    /* Returns a text that identifies the meaning of a block's bytes. The text lives as long as the
     * backend. Two devices can read each other's blocks, and write blocks of the same bits, if
     * their texts, number formats, names and instruction sets are equal. Every backend with
     * kv_size() has kv_format(). */
    const char *(*kv_format)(const struct backend *b);

    /* Returns -EOPNOTSUPP, with the reason, if the device cannot compute an operation or a number
     * format of @g; else 0. compile() may find further reasons. NULL: there is nothing to check. */
    int (*check)(struct backend *b, const struct graph *g, struct inf_err *reterr);
    /* Compiles a plan for steps over @store. The store and the graph's weights must outlive the
     * plan; the graph need not. Returns 0, -EOPNOTSUPP with the reason, or -ENOMEM. */
    int (*compile)(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                   struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr);
    void (*plan_free)(struct backend *b, struct plan *plan);
    /* Gives memory of the plan back to the system, which is possible because each step writes to
     * this memory before it reads it. May be called only between steps. */
    void (*plan_rest)(struct backend *b, struct plan *plan);
    /* Runs one step over the plan's store. @logits: [n_logits, width of the output] floats; its row
     * i belongs to the row logit_rows[i] of the batch. @tops: NULL, or [n_logits] lists of the
     * largest logits of a row. If row i of @tops requests a list, a backend with logits() fills the
     * list, and the content of row i of @logits is undefined; other backends ignore @tops. The
     * batch must be valid; backends assert this. Returns 0; -ENODEV if the device was lost; another
     * negative errno if the step failed. The CPU never fails. */
    int (*run)(struct backend *b, struct plan *plan, struct kv_store *store,
               const struct batch *batch, float *logits, struct top_row *tops);
    /* Returns the fastest format for products of many rows with weights of @dtype, among the
     * formats that lose little precision. @values: the product computes values of attention, where
     * errors matter most. NULL: weights are used in the format in which they are stored. */
    struct product_format (*product_format)(const struct backend *b, enum inf_dtype dtype,
                                            bool values);
    /* Returns the fastest format of keys and values for attention of many rows, among the formats
     * that lose little precision compared with F32. NULL: callers use F32. */
    enum codec (*many_codec)(const struct backend *b);
    /* Runs a part of a step, from stage *@i_stage of the plan to a point where another plan with
     * another store may run. A plan divides its work into stages; the first call for a step has
     * stage 0. Sets *@i_stage to the next stage, or to 0 when the step is complete. The other
     * arguments are those of run(), and must be equal in all calls for one step. NULL: steps cannot
     * be interrupted. */
    int (*run_part)(struct backend *b, struct plan *plan, struct kv_store *store,
                    const struct batch *batch, float *logits, uint32_t *i_stage);
    /* Makes the first n_accepted[i] drafted rows of each sequence i of @batch, which was the batch
     * of the last run, part of its recurrent state. NULL: batches must not have drafted rows
     * (struct batch_seq). */
    void (*accept)(struct backend *b, struct plan *plan, struct kv_store *store,
                   const struct batch *batch, const uint32_t *n_accepted);
    /* Returns the largest number of drafted rows of a sequence. A backend with accept() has this
     * operation. */
    uint32_t (*max_drafted)(const struct plan *plan, const struct kv_store *store);
    /* Fetches the whole row @i of logits of the last run. Callers need it when the list of the row
     * is not sufficient. Returns 0, or an error that run() can return. NULL: this backend makes no
     * lists. */
    int (*logits)(struct backend *b, struct plan *plan, uint32_t i, float *ret_row);
    /* Returns the number of rows, at least 1, that the next step should not exceed, so that the
     * device stays responsive for other users. Steps with more rows also work. NULL: a step should
     * have as many rows as the plan allows. */
    uint32_t (*max_rows)(struct backend *b, const struct plan *plan);
    /* Opens a lost device again. Plans and stores stay valid, but the content of all blocks is
     * lost. If recover() fails, it sets *reterr to the reason, and may be called again. NULL: a
     * lost device of this kind cannot be opened again. */
    int (*recover)(struct backend *b, struct inf_err *reterr);
    void (*free)(struct backend *b);

    /* Calls @fn on each of the n_threads() host threads of this device, including the calling
     * thread, and returns when all calls have ended. May be called only between steps. */
    void (*parallel)(struct backend *b, workers_fn fn, void *arg);
    unsigned (*n_threads)(const struct backend *b);
    const char *(*isa)(const struct backend *b); /* returns the name of the instruction set in use,
                                                    a string constant */
};

struct backend {
    const struct backend_ops *ops;
    char device[20]; /* name of the device in the list of devices: "cpu", "vulkan:0" */
};

/* Receives the inputs of all products with weights. */
struct product_watch {
    /* Receives one row @x of @n numbers by which the weight @name is multiplied. If the weight
     * consists of the matrices of @n_experts experts, the row is multiplied by the matrix of expert
     * @i_expert. If the weight is one matrix, @i_expert and @n_experts are 0. Called during a step,
     * on the thread that called run(), in the order of the rows. */
    void (*row)(void *data, const char *name, uint32_t i_expert, uint32_t n_experts, const float *x,
                uint32_t n);
    void *data;
};

struct backend_params {
    const char *device;    /* "auto", "cpu", "vulkan", "vulkan:N" or "null"; NULL: "auto" */
    const char *isa;       /* NULL: the best */
    uint32_t n_threads;    /* 0: one thread for each CPU that the process may use */
    bool many_rows;        /* plan_limits.many_rows of all plans */
    bool exact;            /* F16 products are added up as floats, even if the CPU can add them up
                              as F16, or multiply them as int16 */
    const char *cache_dir; /* directory for compiled kernels, created if missing; NULL: they are not
                              stored */
    bool cache_read_only;  /* do not write to cache_dir */
    const struct product_watch *watch; /* only the CPU backend uses it; it must outlive the backend.
                                          NULL: none */
};

/* Opens a backend (backends.c). Returns 0; -EINVAL if a name in @params is unknown; -EOPNOTSUPP if
 * the device or instruction set is not available here; or -ENOMEM. */
int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *backend_free(struct backend *b);
DEFINE_CLEANUP(struct backend *, backend_free);

/* Returns a layout with one FULL group of @n_layers layers and @n_blocks blocks. */
struct kv_layout kv_layout_full(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                                uint32_t block_tokens, enum codec codec, uint32_t n_blocks);
/* Returns the number format of the keys (@k) or values of a layer. */
enum codec kv_layout_codec(const struct kv_layout *layout, struct state_place place, bool k);
/* Returns the number format whose heads are turned as those of the layer. This is another format
 * than kv_layout_codec() only for Q8_0 in a layout with `recent`. */
enum codec kv_layout_turned(const struct kv_layout *layout, struct state_place place, bool k);
/* Returns whether all layers of both layouts, which are for the same model, have the same
 * formats. */
bool kv_layout_equal(const struct kv_layout *a, const struct kv_layout *b);
/* Returns the layout of the layers @begin[i] … @end[i] - 1 of each group i. */
struct kv_layout kv_layout_part(const struct kv_layout *layout, const uint32_t *begin,
                                const uint32_t *end);
/* Returns whether the codecs of the FULL layers allow kv_layout_keep_recent(): they are codes
 * without residuals, or, in mixed formats, Q8_0. */
bool kv_layout_can_keep(const struct kv_layout *layout);
/* Makes a layout whose codecs are codes (quant/codec.h) keep what attention reads most in more
 * bits, as struct kv_layout describes. Returns false if it has several FULL groups, or would have
 * more than STATE_GROUPS_MAX groups. */
bool kv_layout_keep_recent(struct kv_layout *layout);
/* Returns the bytes of one block of group @i_group, with the data of all layers; UINT64_MAX if the
 * number overflows. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t i_group);
/* Returns the number of the first block of group @i_group. If @i_group is n_groups, returns the
 * number of all blocks. */
uint32_t kv_layout_first(const struct kv_layout *layout, uint32_t i_group);
/* Returns the group of block @block. */
uint32_t kv_layout_group(const struct kv_layout *layout, uint32_t block);

/* These functions do the work of kv_export() and kv_import() for every backend with kv_size(). If
 * the backend has kv_bytes() instead, they copy the bytes themselves. */
int backend_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to);
int backend_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
