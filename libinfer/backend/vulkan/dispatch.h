/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes dispatches: each call appends the dispatches of an operation to the lists of all classes
 * of steps (enum vkb_class). */

#include "backend/vulkan/program.h"

#define SLOT_GRID 7u /* the slot of what emit_grid() binds, in kernels that read weights */

struct emit {
    struct plan *plan;
    const struct graph *g;
    const struct vkb_caps *caps;
    struct inf_err *reterr;
    bool joins;     /* the next dispatch does not wait for the previous dispatch */
    uint32_t layer; /* number of attention operations and delta rules so far */
    /* For each list and format: the value whose rows were packed last, plus one; 0: none. */
    uint32_t packed[VKB_CLASS_N][VKB_PACK_N];
    struct vkb_bind grids[INF_DTYPE_N]; /* what emit_grid() has added to the constants */
    /* The node whose constants emit_turn() has added last, and the bindings of these constants. */
    const struct graph_node *turned;
    struct vkb_bind turn_binds[6];
    const struct weight *tabled; /* the weight whose table emit_grid() added last, or NULL */
};

/* y = x · wᵀ + bias + add, or act(x · wᵀ) × (x · w2ᵀ) + add if there is a w2. */
struct emit_product {
    const struct weight *w, *w2, *bias;
    enum graph_act act;
    graph_ref src, add, dst; /* add: GRAPH_NONE if there is none */
    graph_ref route;         /* with experts: the route */
};

/* Where and how the device has a weight. */
struct emit_place {
    enum inf_dtype dtype;
    uint64_t row_bytes;
    uint64_t bytes;  /* of a matrix */
    uint64_t stride; /* bytes from one matrix to the next */
    uint32_t gather; /* the index of a vkb_gather, or UINT32_MAX: the weight has the layout of the
                        host's memory */
    bool aligned;    /* all rows start at multiples of 16 bytes */
};

/* An input of attention: a computed value, and the operations that its heads still need. */
struct emit_part {
    graph_ref src, norm, rope; /* norm, rope: the nodes, or GRAPH_NONE */
};

/* Writes q to dst, and k and v into the KV store. */
struct emit_heads {
    struct emit_part parts[3]; /* q, k, v */
    graph_ref dst;             /* equal to the source of q if q needs no further operation */
    const struct attn_params *attn;
};

/* Checks that the device can compute all attention of the graph, and chooses the plan's tiles and
 * the size of its buffer of parts. This function and the following functions return 0, -EOPNOTSUPP
 * with the reason, or -ENOMEM. */
int emit_begin(struct emit *e);
/* Returns whether one kernel computes a gated unit with these weights. */
bool emit_can_glu(const struct emit *e, const struct weight *w, const struct weight *w2);
int emit_matmul(struct emit *e, const struct emit_product *p);
int emit_heads(struct emit *e, const struct emit_heads *h);
int emit_attention(struct emit *e, const struct graph_node *n, graph_ref dst);
/* @only_products says that only products read @dst. */
int emit_norm(struct emit *e, const struct graph_node *n, graph_ref src, graph_ref dst, bool gather,
              bool only_products);
/* Emits a node that is neither a product nor attention nor a norm. */
int emit_plain(struct emit *e, const struct graph_node *n, graph_ref dst);
/* Emits the dispatches that find the largest logits and compute the sums for probabilities. */
int emit_tops(struct emit *e, graph_ref logits);

/* The next functions are shared by the files that emit dispatches. */

/* Appends a dispatch with the step buffer bound. Returns NULL if memory is short. */
struct vkb_dispatch *emit_add(struct emit *e, enum vkb_class class, const struct vkb_choice *choice,
                              const void *push, uint32_t push_size);
struct vkb_bind emit_value(graph_ref ref);
/* Returns whether all products that read @src in steps of @class need its rows as int8. */
bool emit_all_q8(const struct emit *e, graph_ref src, enum vkb_class class);
/* Packs @src for the products that follow. Does nothing if the value that this list packed last is
 * @src. *ret_new says whether a packing was emitted. The packing waits for the previous dispatch
 * unless e->joins is set, and the first product waits for the packing. */
int emit_pack(struct emit *e, enum vkb_class class, enum vkb_pack pack, graph_ref src,
              bool *ret_new);
/* Returns the number of pieces of @bytes bytes of a weight that fit into one binding, as a multiple
 * of @unit. */
uint32_t emit_per_range(const struct emit *e, const struct vkb_kernel *kernel, uint64_t bytes,
                        uint32_t unit);
/* dispatch-weights.c: returns the number format that @w has on the device. */
enum inf_dtype emit_dtype(const struct weight *w);
/* Finds out where the device has a weight. Also returns -EINVAL if the size of the weight cannot be
 * computed. */
int emit_place(struct plan *plan, const struct weight *w, struct emit_place *ret);
/* Binds @size bytes of a weight, from its byte @offset on. */
struct vkb_bind emit_weight(const struct weight *w, const struct emit_place *p, uint64_t offset,
                            uint64_t size, uint32_t push_at);
/* Binds the grid of a number format (quant/grid.h), or the table of @w (backend/joined.h), which
 * becomes constants of the plan. @dtype: the format of @w on the device. In other formats *ret_bind
 * is empty. Returns 0 or -ENOMEM. */
int emit_grid(struct emit *e, const struct weight *w, enum inf_dtype dtype,
              struct vkb_bind *ret_bind);
/* Notes that the list of @class packs @src now, and returns the buffer of packed rows. */
struct vkb_bind emit_packed(struct emit *e, enum vkb_class class, enum vkb_pack pack,
                            graph_ref src);
/* Returns how the rows of a value are counted. */
enum vkb_count_by emit_rows(const struct emit *e, graph_ref ref);
/* Sets specialization constant @i. Skipped constants before it are 0. */
void emit_spec(struct vkb_choice *choice, uint32_t i, uint32_t value);
/* Returns -EOPNOTSUPP with the reason "there is no Vulkan kernel for …". */
int emit_none(struct emit *e, const char *what);
int emit_rope(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
/* dispatch-experts.c */
int emit_experts(struct emit *e, const struct emit_product *p, enum vkb_class class,
                 const struct vkb_bind *bias);
int emit_route(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
int emit_mix(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
/* dispatch-streams.c: a scale with factors of columns; sums of streams; the preparation of rows;
 * the kernel @name, which computes a row from its mean of squares or its variance. */
int emit_scale_columns(struct emit *e, const struct graph_node *n, graph_ref dst,
                       enum vkb_class class);
int emit_blend(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
int emit_turn(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
int emit_statistics(struct emit *e, const char *name, const struct graph_node *n, graph_ref dst,
                    enum vkb_class class);
/* dispatch-state.c */
int emit_conv(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
int emit_delta(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class);
