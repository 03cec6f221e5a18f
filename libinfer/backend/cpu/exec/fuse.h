/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what the files that make stages (fuse.c, fuse-*.c) share. */

#include "backend/cpu/exec/program.h"
#include "graph/users.h"

struct fuser {
    struct plan *plan;
    const struct graph *g;
    const struct cpu_backend *cpu;
    struct inf_err *reterr;
    uint32_t n;
    struct graph_users users;
    bool *done;   /* [n]: the node needs no further stage of its own */
    bool *late;   /* [n]: a norm or selection of rows, done when products prepare their input */
    bool *stored; /* [n]: k or v that a product stores in the KV store */
};

static inline const struct graph_node *fuser_node(const struct fuser *f, graph_ref ref)
{
    return graph_node(f->g, ref);
}

/* Returns the only reader of @ref if its operation is @op, else GRAPH_NONE. */
graph_ref fuser_only_user(const struct fuser *f, graph_ref ref, enum graph_op op);
/* Converts a small vector to floats, in memory of the plan. Returns NULL if memory is short. */
const float *fuser_floats(struct fuser *f, const struct weight *w);
/* Returns the weight of the norm @n, which is all ones if the model has none. Returns NULL if
 * memory is short. */
const float *fuser_norm(struct fuser *f, const struct graph_node *n);
/* Appends a stage to the plan. */
struct stage *fuser_stage(struct fuser *f, enum stage_kind kind);
/* Records that the newest stage computes @ref. */
void fuser_made(struct fuser *f, graph_ref ref);
/* Returns the index of the rope table for these parameters, or -ENOMEM. Nodes with equal parameters
 * share a table. */
int fuser_rope(struct fuser *f, const struct rope_params *p);
/* Returns the input of node @n that has the keys or the values. Keys and values are the last two
 * inputs of the nodes that store them. */
graph_ref fuser_source(const struct graph_node *n, enum kv_part part);
/* Returns which of the inputs of node @n the value @ref is: the keys, the values, or neither
 * (KV_NONE). */
enum kv_part fuser_part(const struct graph_node *n, graph_ref ref);

/* These functions make the stage of a node. They return 0, -ENOMEM, or -EOPNOTSUPP with the reason.
 * fuse_products() adds all products with the same input and the same route to the stage. */
int fuse_products(struct fuser *f, graph_ref ref);
int fuse_route(struct fuser *f, graph_ref ref);
int fuse_conv(struct fuser *f, graph_ref ref);
int fuse_delta(struct fuser *f, graph_ref ref);
