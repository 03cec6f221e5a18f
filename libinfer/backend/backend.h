/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How graphs are computed
 *
 * A backend is a device: it holds KV stores and compiles graphs into plans. A plan is made once
 * for a graph and a largest batch and then run for every step: a run allocates nothing, logs
 * nothing and builds nothing. Results of a row do not depend on the other rows of the batch, on
 * how a prompt was cut into steps, nor on the number of threads: bit for bit.
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

/* K and V of all layers in blocks: what a block holds is the backend's business. */
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
    bool many_rows;   /* steps of few rows are rare: units for many count */
};

/*
 * A device may be lost: run() or logits() then say -ENODEV. From then on until recover() succeeds
 * they say so again, and kv_copy(), kv_drop() and plan_rest() do nothing.
 */
/* Of the weights of a product. */
struct product_format {
    enum inf_dtype dtype;
    bool packed; /* as matmul_packs() has it (cpu/matmul.h) */
};

struct backend_ops {
    const char *name; /* "cpu", "null" */

    /* NULL: the host's memory is its own. Bytes that this device has free for weights, K and V and
     * its plans; UINT64_MAX: the host's. */
    uint64_t (*memory)(struct backend *b);
    /* NULL: all are. Whether keys and values of these formats are kept and read here; else
     * -EOPNOTSUPP with the reason, and kv_new() is not for them. On any thread. */
    int (*kv_check)(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr);
    /* The most blocks that this device holds; UINT32_MAX where nothing but memory bounds them. */
    uint64_t (*kv_max_blocks)(struct backend *b, const struct kv_layout *layout);
    /* A store of @n_blocks. Memory is reserved, and touched only as blocks are written. -ENOMEM. */
    int (*kv_new)(struct backend *b, const struct kv_layout *layout, uint32_t n_blocks,
                  struct kv_store **ret_store);
    void (*kv_free)(struct backend *b, struct kv_store *store);
    /* Copies block @src to block @dst, all layers. Cannot fail. */
    void (*kv_copy)(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src);
    /* Gives back the memory of @n blocks; what they held is lost. */
    void (*kv_drop)(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n);
    /* NULL: what blocks hold does not leave the device. The bytes of one. */
    uint64_t (*kv_size)(const struct backend *b, const struct kv_store *store);
    /* NULL: they do not lie in the host's memory in one piece. Where those of a block are; other
     * threads may write them while no step uses the block. */
    void *(*kv_bytes)(struct backend *b, struct kv_store *store, uint32_t block);
    /* NULL: see kv_bytes(). Between steps: copies a block to @to and from @from [kv_size()]. 0,
     * -ENOMEM; -ENODEV: the device is lost. */
    int (*kv_export)(struct backend *b, struct kv_store *store, uint32_t block, void *to);
    int (*kv_import)(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
    /* With kv_size(): what the bytes mean, in words. Devices of one text, numbers, name and rung
     * read and write the same bits. Lives as long as the backend. */
    const char *(*kv_format)(const struct backend *b);

    /* Compiles for steps over @store, which outlives the plan, as do the graph's weights; the graph
     * need not. -EOPNOTSUPP with the reason, -ENOMEM. */
    int (*compile)(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                   struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr);
    void (*plan_free)(struct backend *b, struct plan *plan);
    /* Between steps: gives back the memory that the next step would write first. */
    void (*plan_rest)(struct backend *b, struct plan *plan);
    /* One step over the plan's store. @logits: [n_logits, width of the output] floats, row i for
     * logit_rows[i].
     * @tops: NULL, or [n_logits]. A backend with logits() answers where a list is wanted with the
     * list, and leaves that row of @logits alone; others do not look at @tops.
     * The batch is valid (sched's business; asserted). 0, -ENODEV when the device was lost, or
     * another negative errno when it failed; the CPU never fails. */
    int (*run)(struct backend *b, struct plan *plan, struct kv_store *store,
               const struct batch *batch, float *logits, struct top_row *tops);
    /* NULL: as they are stored. The format in which products of many rows with weights of @dtype
     * are fastest here, of those that lose little beside it. @values: what they make are values of
     * attention, in which an error weighs most. */
    struct product_format (*product_format)(const struct backend *b, enum inf_dtype dtype,
                                            bool values);
    /* NULL: F32. The format of keys and values in which attention of many rows is fastest here, of
     * those that lose little beside F32. */
    enum codec (*many_codec)(const struct backend *b);
    /* NULL: steps are not interrupted. A piece of a step: from *@i_stage on (0: its beginning) to a
     * place where another plan with another store may run. *@i_stage becomes where to go on, 0 when
     * the step is over. Everything else, in each call of a step, as of run(). */
    int (*run_part)(struct backend *b, struct plan *plan, struct kv_store *store,
                    const struct batch *batch, float *logits, uint32_t *i_stage);
    /* NULL: this backend makes no lists. Until the next run: the whole row @i of the last one, for
     * which a list was not enough. As run(). */
    int (*logits)(struct backend *b, struct plan *plan, uint32_t i, float *ret_row);
    /* NULL: as many as the plan allows. Rows that the next step should have at most, so that the
     * device stays responsive for others; more are computed as well. At least 1. */
    uint32_t (*max_rows)(struct backend *b, const struct plan *plan);
    /* NULL: losing this device is final. Opens the device again. Plans and stores are what they
     * were, but all that blocks held is lost. The reason when it fails; may be tried again. */
    int (*recover)(struct backend *b, struct inf_err *reterr);
    void (*free)(struct backend *b);

    /* Between steps: calls @fn on the host's n_threads() threads that serve this device, the
     * caller's included, and returns when all are done. */
    void (*parallel)(struct backend *b, workers_fn fn, void *arg);
    unsigned (*n_threads)(const struct backend *b);
    const char *(*isa)(const struct backend *b); /* rung in use, static */
};

struct backend {
    const struct backend_ops *ops;
    char device[20]; /* its name in the list of devices: "cpu", "vulkan:0" */
};

struct backend_params {
    const char *device;    /* "auto", "cpu", "vulkan", "vulkan:N", "null"; NULL: "auto" */
    const char *isa;       /* NULL: best */
    uint32_t n_threads;    /* 0: all that we may use */
    bool many_rows;        /* of all plans, see plan_limits */
    bool exact;            /* sums of F16 products are floats, whatever a CPU's units offer */
    const char *cache_dir; /* for compiled kernels, made when missing; NULL: they are not kept */
    bool cache_read_only;  /* nothing is written there */
};

/* backend/backends.c. -EINVAL: unknown name; -EOPNOTSUPP: not here; -ENOMEM. */
int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *backend_free(struct backend *b);
DEFINE_CLEANUP(struct backend *, backend_free);

/* Bytes of one block, all layers, K and V. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout);

/* Of any backend with kv_size(): as kv_export() and kv_import(). */
int backend_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to);
int backend_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from);
