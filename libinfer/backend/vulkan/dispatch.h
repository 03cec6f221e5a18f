/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writing dispatches: each call appends what an operation needs to the lists of all classes. */

#include "backend/vulkan/program.h"

struct emit {
    struct plan *plan;
    const struct graph *g;
    const struct vkb_caps *caps;
    struct inf_err *reterr;
    bool joins;     /* what comes next does not wait for what was written last */
    uint32_t layer; /* of attention, counted */
    /* What was packed last, for each list: the value and one more. */
    uint32_t packed[VKB_CLASS_N][VKB_PACK_N];
};

/* y = x · wᵀ + bias + add, or act(x · wᵀ) × (x · w2ᵀ) + add when there is a w2. */
struct emit_product {
    const struct weight *w, *w2, *bias;
    enum graph_act act;
    graph_ref src, add, dst; /* add: GRAPH_NONE for nothing */
};

/* One of attention's inputs: a value that is there, and what its heads still need. */
struct emit_part {
    graph_ref src, norm, rope; /* norm, rope: the nodes, or GRAPH_NONE */
};

/* q to dst, k and v into the KV store. */
struct emit_heads {
    struct emit_part parts[3]; /* q, k, v */
    graph_ref dst;             /* equal to the source of q when nothing is to be done to it */
    const struct attn_params *attn;
};

/* Looks at what all lists share. All of these: -EOPNOTSUPP with the reason, -ENOMEM. */
int emit_begin(struct emit *e);
/* Whether one kernel computes a gated unit with these weights. */
bool emit_can_glu(const struct emit *e, const struct weight *w, const struct weight *w2);
int emit_matmul(struct emit *e, const struct emit_product *p);
int emit_heads(struct emit *e, const struct emit_heads *h);
int emit_attention(struct emit *e, const struct graph_node *n, graph_ref dst);
int emit_norm(struct emit *e, const struct graph_node *n, graph_ref src, graph_ref dst,
              bool gather);
/* EMBED, GLU, ADD, SCALE, ROWS, ROPE. */
int emit_plain(struct emit *e, const struct graph_node *n, graph_ref dst);
/* The largest logits and what their probabilities need. */
int emit_tops(struct emit *e, graph_ref logits);

/* What the files of emit share. */

/* A dispatch with the step bound; NULL when out of memory. */
struct vkb_dispatch *emit_add(struct emit *e, enum vkb_class class, const struct vkb_choice *choice,
                              const void *push, uint32_t push_size);
struct vkb_bind emit_value(graph_ref ref);
/* How the rows of a value are counted. */
enum vkb_count_by emit_rows(const struct emit *e, graph_ref ref);
/* Sets specialization constant @i; those between that were not set are 0. */
void emit_spec(struct vkb_choice *choice, uint32_t i, uint32_t value);
/* -EOPNOTSUPP: "there is no Vulkan kernel for …" */
int emit_none(struct emit *e, const char *what);
int emit_rope(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
