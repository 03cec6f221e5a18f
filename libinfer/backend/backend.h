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
#include "core/workers.h"
#include "graph/batch.h"
#include "graph/graph.h"

struct backend; /* starts with `const struct backend_ops *ops` */
struct plan;
struct kv_store;

/* K and V of all layers in blocks: what a block holds is the backend's business. */
struct kv_layout {
    uint32_t n_layers, n_kv_heads, head_dim;
    uint32_t block_tokens; /* 64 */
    enum inf_dtype dtype;  /* of K and V: F16, BF16, F32; Q8_0 when head_dim is a multiple of 32 */
};

struct plan_limits {
    uint32_t max_rows;   /* tokens of one step */
    uint32_t max_logits; /* rows of logits of one step */
    uint32_t max_seqs;
    uint32_t max_ctx; /* positions of one sequence */
};

struct backend_ops {
    const char *name; /* "cpu", "null" */

    /* @max_bytes bounds nothing here: the store holds @n_blocks. Memory is reserved, and touched
     * only as blocks are written. -ENOMEM. */
    int (*kv_new)(struct backend *b, const struct kv_layout *layout, uint32_t n_blocks,
                  struct kv_store **ret_store);
    void (*kv_free)(struct backend *b, struct kv_store *store);
    /* Copies block @src to block @dst, all layers. Cannot fail. */
    void (*kv_copy)(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src);
    /* Gives back the memory of @n blocks; what they held is lost. */
    void (*kv_drop)(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n);

    /* Compiles. The graph's weights must outlive the plan, the graph need not.
     * -EOPNOTSUPP with the reason, -ENOMEM. */
    int (*compile)(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                   struct plan **ret_plan, struct inf_err *reterr);
    void (*plan_free)(struct backend *b, struct plan *plan);
    /* Between steps: gives back the memory that the next step would write first. */
    void (*plan_rest)(struct backend *b, struct plan *plan);
    /* One step. @logits: [n_logits, width of the output] floats, row i for logit_rows[i].
     * The batch is valid (sched's business; asserted). 0, or a negative errno when the device
     * failed; the CPU never fails. */
    int (*run)(struct backend *b, struct plan *plan, struct kv_store *store,
               const struct batch *batch, float *logits);
    void (*free)(struct backend *b);

    /* Between steps: calls @fn on the host's n_threads() threads that serve this device, the
     * caller's included, and returns when all are done. */
    void (*parallel)(struct backend *b, workers_fn fn, void *arg);
    unsigned (*n_threads)(const struct backend *b);
    const char *(*isa)(const struct backend *b); /* rung in use, static */
};

struct backend {
    const struct backend_ops *ops;
};

struct backend_params {
    const char *device; /* "auto", "cpu", "null"; NULL: "auto" */
    const char *isa;    /* NULL: best */
    uint32_t n_threads; /* 0: all that we may use */
};

/* backend/backends.c. -EINVAL: unknown name; -EOPNOTSUPP: not here; -ENOMEM. */
int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *backend_free(struct backend *b);
DEFINE_CLEANUP(struct backend *, backend_free);

/* Bytes of one block, all layers, K and V. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout);
