/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Backends: the devices that compute graphs
 *
 * A backend is a device: it holds KV stores and compiles graphs into plans. A plan is compiled once
 * for a graph and a largest batch and then run for every step. A run allocates nothing, logs
 * nothing and builds nothing. The results of a row are bit-identical whatever other rows the batch
 * has, however a prompt is split into steps, and for any number of threads.
 *
 * All calls on one backend come from one thread.
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

/* K and V of all layers in blocks. The layout inside a block is private to the backend. */
struct kv_layout {
    uint32_t n_layers, n_kv_heads, head_dim;
    uint32_t block_tokens; /* 64 */
    enum codec k, v;       /* head_dim is a multiple of both units */
};

struct plan_limits {
    uint32_t max_rows;   /* tokens of one step */
    uint32_t max_logits; /* rows of logits of one step */
    uint32_t max_seqs;
    uint32_t max_ctx; /* positions of one sequence */
    bool many_rows;   /* most steps have many rows: use the units that compute many rows best */
};

/*
 * A device may be lost: then run() and logits() return -ENODEV. They keep doing so until recover()
 * succeeds, and meanwhile kv_copy(), kv_drop() and plan_rest() do nothing.
 */
/* The format of the weights of a product. */
struct product_format {
    enum inf_dtype dtype;
    bool packed; /* as matmul_packs() defines it (cpu/matmul.h) */
};

struct backend_ops {
    const char *name; /* "cpu", "null" */

    /* Bytes of device memory that are free for weights, K, V and plans; UINT64_MAX: the device uses
     * the host's memory. NULL: it does so too. */
    uint64_t (*memory)(struct backend *b);
    /* Whether keys and values of these formats are supported; if not, -EOPNOTSUPP with the
     * reason, and kv_new() must not be called with them. Any thread may call it. NULL: all are
     * supported. */
    int (*kv_check)(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr);
    /* The maximum number of blocks that this device can hold; UINT32_MAX if only memory limits
     * them. */
    uint64_t (*kv_max_blocks)(struct backend *b, const struct kv_layout *layout);
    /* Creates a store of @n_blocks. Its memory is reserved and used only as blocks are written.
     * -ENOMEM. */
    int (*kv_new)(struct backend *b, const struct kv_layout *layout, uint32_t n_blocks,
                  struct kv_store **ret_store);
    void (*kv_free)(struct backend *b, struct kv_store *store);
    /* Copies block @src to block @dst, all layers. Cannot fail. */
    void (*kv_copy)(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src);
    /* Returns the memory of @n blocks to the system; their content is lost. */
    void (*kv_drop)(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n);
    /* The bytes of one block. NULL: the content of blocks cannot leave the device. */
    uint64_t (*kv_size)(const struct backend *b, const struct kv_store *store);
    /* The address of a block's bytes; other threads may write them while no step uses the block.
     * NULL: a block is not one piece of host memory. */
    void *(*kv_bytes)(struct backend *b, struct kv_store *store, uint32_t block);
    /* Between steps: kv_export() copies a block to @to, kv_import() from @from, each [kv_size()].
     * Return 0 or -ENOMEM; -ENODEV: the device is lost. NULL: use kv_bytes(). */
    int (*kv_export)(struct backend *b, struct kv_store *store, uint32_t block, void *to);
    int (*kv_import)(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
    /* A text that identifies the meaning of a block's bytes. Exists with kv_size(). Devices with
     * the same text, number formats, name and instruction set read and write the same bits. Lives
     * as long as the backend. */
    const char *(*kv_format)(const struct backend *b);

    /* Compiles a plan for steps over @store. The store and the graph's weights must outlive the
     * plan; the graph need not. -EOPNOTSUPP with the reason, -ENOMEM. */
    int (*compile)(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                   struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr);
    void (*plan_free)(struct backend *b, struct plan *plan);
    /* Between steps: returns memory to the system that the next step overwrites before reading
     * it. */
    void (*plan_rest)(struct backend *b, struct plan *plan);
    /* Runs one step over the plan's store. @logits: [n_logits, width of the output] floats, row i
     * for logit_rows[i].
     * @tops: NULL, or [n_logits]. Where a list is requested, a backend with logits() fills the list
     * and does not touch that row of @logits; other backends ignore @tops. The batch must be valid
     * (sched ensures it; asserted). Returns 0; -ENODEV if the device was lost; another negative
     * errno if it failed; the CPU never fails. */
    int (*run)(struct backend *b, struct plan *plan, struct kv_store *store,
               const struct batch *batch, float *logits, struct top_row *tops);
    /* The fastest format for products of many rows with weights of @dtype, among the formats that
     * lose little precision. @values: the product computes values of attention, where errors matter
     * most. NULL: the stored format. */
    struct product_format (*product_format)(const struct backend *b, enum inf_dtype dtype,
                                            bool values);
    /* The fastest format of keys and values for attention of many rows, among those that lose
     * little compared with F32. NULL: F32. */
    enum codec (*many_codec)(const struct backend *b);
    /* Runs a part of a step: from stage *@i_stage on (0: the beginning) to a point where another
     * plan with another store may run. Sets *@i_stage to the next stage, or to 0 when the step is
     * complete. All other arguments are as of run(), the same in each call of a step. NULL: steps
     * cannot be interrupted. */
    int (*run_part)(struct backend *b, struct plan *plan, struct kv_store *store,
                    const struct batch *batch, float *logits, uint32_t *i_stage);
    /* Fetches the whole row @i of the last run, for which a list was not sufficient. Errors as of
     * run(). NULL: this backend makes no lists. */
    int (*logits)(struct backend *b, struct plan *plan, uint32_t i, float *ret_row);
    /* Most rows that the next step should have, at least 1, so that the device stays responsive for
     * other users. More rows also work. NULL: as many as the plan allows. */
    uint32_t (*max_rows)(struct backend *b, const struct plan *plan);
    /* Opens a lost device again. Plans and stores stay valid, but the content of all blocks is
     * lost. On failure gives the reason, and may be called again. NULL: the loss of this device is
     * final. */
    int (*recover)(struct backend *b, struct inf_err *reterr);
    void (*free)(struct backend *b);

    /* Between steps: calls @fn on the n_threads() host threads of this device, including the
     * caller's, and returns when all are done. */
    void (*parallel)(struct backend *b, workers_fn fn, void *arg);
    unsigned (*n_threads)(const struct backend *b);
    const char *(*isa)(const struct backend *b); /* instruction set in use, static */
};

struct backend {
    const struct backend_ops *ops;
    char device[20]; /* its name in the list of devices: "cpu", "vulkan:0" */
};

struct backend_params {
    const char *device;    /* "auto", "cpu", "vulkan", "vulkan:N" or "null"; NULL: "auto" */
    const char *isa;       /* NULL: the best */
    uint32_t n_threads;    /* 0: all that the process may use */
    bool many_rows;        /* of all plans, see plan_limits */
    bool exact;            /* sums of F16 products are floats, even if the CPU offers F16 sums */
    const char *cache_dir; /* for compiled kernels, created if missing; NULL: they are not stored */
    bool cache_read_only;  /* do not write to cache_dir */
};

/* Implemented in backends.c. -EINVAL: unknown name; -EOPNOTSUPP: not available here; -ENOMEM. */
int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *backend_free(struct backend *b);
DEFINE_CLEANUP(struct backend *, backend_free);

/* Bytes of one block, with all layers, K and V. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout);

/* For any backend with kv_size(): like kv_export() and kv_import(). */
int backend_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to);
int backend_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
