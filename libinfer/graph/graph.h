/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares graphs, which hold the operations of a model's forward pass.
 *
 * A graph describes one forward pass over the rows (tokens) of a batch; the number of rows is not
 * part of the graph. Values are float matrices [rows, width]; a graph_ref stands for a value. The
 * functions that append nodes check shapes and types. The graph keeps the first error, and
 * graph_error() returns it, so a model can build its graph without checking each call. Weights are
 * borrowed and must outlive the graph.
 *
 * A backend compiles a graph into a plan (backend/backend.h) and may fuse operations there.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "graph/params.h"

typedef int32_t graph_ref; /* index of a value; negative: none */

#define GRAPH_NONE ((graph_ref)-1)

/* The number of a batch row that selects a row of a table. */
enum graph_key {
    GRAPH_KEY_TOKEN,
    GRAPH_KEY_POSITION,
    GRAPH_KEY_TYPE, /* the token type: the segment in a pair of texts */
};

enum graph_op {
    GRAPH_EMBED,      /* table rows by token, position or type */
    GRAPH_INPUT,      /* rows given in the batch */
    GRAPH_RMS_NORM,   /* x / sqrt(mean(x²) + eps) × w, over groups of `group` columns */
    GRAPH_LAYER_NORM, /* (x - mean) / sqrt(variance + eps) × w + bias */
    GRAPH_MATMUL,     /* x · Wᵀ + bias */
    GRAPH_ROPE,
    GRAPH_ATTENTION, /* stores k and v, then computes softmax(q·kᵀ × scale) · v over the sequence
                        so far */
    GRAPH_STORE,     /* stores k and v, as memory for other sequences or for attention nodes of
                        another graph with the same store */
    GRAPH_GLU,       /* act(gate) × up */
    GRAPH_ACT,       /* act(x) */
    GRAPH_ADD,
    GRAPH_SCALE,  /* x × constant, or each column × its element of w */
    GRAPH_ROWS,   /* keeps only the rows whose logits the batch requests */
    GRAPH_EXPORT, /* copies x to `exported` of the batch */
    GRAPH_POOL,   /* the mean of the rows of each sequence */
    GRAPH_COLS,   /* some of the columns of x */
    GRAPH_CAP,    /* c × tanh(x / c) */
    GRAPH_CONV,   /* convolution of each column along the rows of its sequence */
    GRAPH_DELTA,  /* gated delta rule along the rows of a sequence */
    GRAPH_ROUTE,  /* selects experts for each row */
    GRAPH_MIX,    /* the weighted sum of the slots of each row */
    GRAPH_SPREAD, /* the columns of all slots of a row, put to their places in a wider row */
    GRAPH_BLEND,  /* sums of the streams of each row, with factors for each pair */
    GRAPH_LEVEL,  /* x, scaled to the magnitude of another row */
    GRAPH_PEAKS, /* by how much x exceeds the mean of its row plus some standard deviations, or 0 */
    GRAPH_TURN,  /* columns in another order, scaled and rotated (struct turn_params) */
    GRAPH_OUTPUT,
};

struct graph_node {
    enum graph_op op;
    graph_ref src[3];   /* inputs */
    uint32_t width;     /* columns of the result */
    bool rows_kept;     /* the result has only the n_logits rows whose logits are requested, not
                           n_rows; for POOL, one row per sequence */
    uint32_t slots;     /* 0: the result has `width` columns in each row; else each row has this
                           many slots of `width` columns, one for each selected expert */
    uint32_t layer;     /* the layer of the model to which the node belongs */
    struct weight w;    /* EMBED, the norms, MATMUL, CONV; DELTA: A [n_v_heads]; ROUTE: factors of
                           the experts' weights; SCALE, BLEND: factors */
    struct weight bias; /* LAYER_NORM, MATMUL, CONV; DELTA: dt [n_v_heads]; ROUTE: is added to
                           the experts' weights only for their selection; RMS_NORM: factors of w */
    float f;            /* norms: eps; EMBED, SCALE: factor; CAP: c; LEVEL: the smallest mean of
                           squares; PEAKS: number of standard deviations */
    uint32_t group;     /* RMS_NORM, ROPE: columns of a group (head_dim, or width) */
    enum graph_key key; /* EMBED */
    enum graph_act act;
    bool has_act; /* CONV: act is applied to the result */
    struct rope_params rope;
    struct attn_params attn;
    struct cols_params cols;
    struct state_place place; /* CONV */
    struct delta_params delta;
    struct route_params route;
    struct blend_params blend;
    struct spread_params spread;
    const struct turn_params *turn; /* TURN */
};

struct graph;

int graph_new(struct graph **ret_graph);
struct graph *graph_free(struct graph *g);
DEFINE_CLEANUP(struct graph *, graph_free);

/* Adds a group of state (graph/state.h), and returns its number. The numbers of groups follow the
 * order of these calls. Graphs whose store has a single group do not need to add it. */
uint32_t graph_add_group(struct graph *g, const struct state_group *group);
/* Returns the groups, *ret_n of them. */
const struct state_group *graph_groups(const struct graph *g, uint32_t *ret_n);
/* Says that the nodes that follow belong to layer @layer of the model. */
void graph_begin_layer(struct graph *g, uint32_t layer);

/* A token without a row in the table reads row 0. */
graph_ref graph_embed(struct graph *g, const struct weight *table, float scale);
/* Looks up rows of a table by position or token type. A batch for such a graph must not have a
 * position or type beyond the table. */
graph_ref graph_embed_by(struct graph *g, const struct weight *table, enum graph_key key);
/* Makes `input` of the batch, [rows, width], a value of the graph. A graph can have only one such
 * node. */
graph_ref graph_input(struct graph *g, uint32_t width);
/* Normalizes each group of @group columns (usually a head) by itself. @group 0: the whole width is
 * one group. A @w without data counts as all ones; @group must then be given. */
graph_ref graph_rms_norm(struct graph *g, graph_ref x, const struct weight *w, float eps,
                         uint32_t group);
/* Does this with the weights @w × @factors, two vectors of @group columns. @factors without data
 * counts as all ones. */
graph_ref graph_rms_norm_by(struct graph *g, graph_ref x, const struct weight *w,
                            const struct weight *factors, float eps, uint32_t group);
/* @bias may be NULL or have no data. */
graph_ref graph_layer_norm(struct graph *g, graph_ref x, const struct weight *w,
                           const struct weight *bias, float eps);
/* @bias may be NULL or have no data. If @w has a member `turn`, the product reads graph_turn() of
 * @x; this also holds for graph_matmul_experts(). */
graph_ref graph_matmul(struct graph *g, graph_ref x, const struct weight *w,
                       const struct weight *bias);
/* Multiplies by the matrices of the experts that @route, a ROUTE node, selects for each row. The
 * result has one slot for each of these experts. @x has no slots, or the slots of @route. @bias:
 * [n_experts, rows of w] as a weight with n_experts vectors; may be NULL or have no data. */
graph_ref graph_matmul_experts(struct graph *g, graph_ref x, graph_ref route,
                               const struct weight *w, const struct weight *bias);
/* @scores: [rows, n_experts]. The result may only be used as the route of other nodes. @bias and
 * @factors, [n_experts], may be NULL or have no data. The weight of each expert is finally
 * multiplied by the expert's factor. */
graph_ref graph_route(struct graph *g, graph_ref scores, const struct weight *bias,
                      const struct weight *factors, const struct route_params *route);
/* Adds up the slots of each row, multiplied by the weights of @route. The slots are added in their
 * order. */
graph_ref graph_mix(struct graph *g, graph_ref x, graph_ref route);
/* Puts the columns of the slots of each row to their places in a row of spread->width columns. All
 * other columns of this row are -infinity. */
graph_ref graph_spread(struct graph *g, graph_ref x, graph_ref route,
                       const struct spread_params *spread);
/* Selects one part (struct cols_params). */
graph_ref graph_cols(struct graph *g, graph_ref x, uint32_t stride, uint32_t first, uint32_t n);
graph_ref graph_cols_of(struct graph *g, graph_ref x, const struct cols_params *cols);
graph_ref graph_cap(struct graph *g, graph_ref x, float cap);
/* Computes y[t][c] = bias[c] + the sum over j of w[c][j] × x[t - K + 1 + j][c], with w: [columns of
 * x, K]. Rows before the beginning of the sequence are 0. @bias may be NULL or have no data. @act:
 * the function that is applied to the result; NULL: none. The newest K - 1 rows of x are kept at
 * @place. */
graph_ref graph_conv(struct graph *g, graph_ref x, const struct weight *w,
                     const struct weight *bias, const enum graph_act *act,
                     const struct state_place *place);
/* @qkv: [rows, 2 × n_k_heads × k_dim + n_v_heads × v_dim]; @a and @b: [rows, n_v_heads]. */
graph_ref graph_delta(struct graph *g, graph_ref qkv, graph_ref a, graph_ref b,
                      const struct weight *w, const struct weight *dt,
                      const struct delta_params *delta);
graph_ref graph_rope(struct graph *g, graph_ref x, uint32_t head_dim,
                     const struct rope_params *rope);
/* q: [rows, n_heads × head_dim]; k, v: [rows, n_kv_heads × head_dim]; the result has the shape of
 * q. */
graph_ref graph_attention(struct graph *g, graph_ref q, graph_ref k, graph_ref v,
                          const struct attn_params *attn);
/* Computes attention over the memory of each sequence. Earlier steps have stored the k and v of the
 * memory. */
graph_ref graph_attention_memory(struct graph *g, graph_ref q, const struct attn_params *attn);
/* Computes attention over the k and v of another layer (attn_params.shared). */
graph_ref graph_attention_shared(struct graph *g, graph_ref q, const struct attn_params *attn);
/* Computes attention over the k and v that another graph has stored (attn_params.past). */
graph_ref graph_attention_past(struct graph *g, graph_ref q, const struct attn_params *attn);
/* Stores k and v of all rows as the k and v of layer attn->i_layer. The result must not be
 * read. */
graph_ref graph_store(struct graph *g, graph_ref k, graph_ref v, const struct attn_params *attn);
/* @gate has the columns of @up, or one column that applies to all columns of @up. */
graph_ref graph_glu(struct graph *g, graph_ref gate, graph_ref up, enum graph_act act);
graph_ref graph_act(struct graph *g, graph_ref x, enum graph_act act);
graph_ref graph_add(struct graph *g, graph_ref a, graph_ref b);
graph_ref graph_scale(struct graph *g, graph_ref x, float factor);
/* Multiplies each column by its element of @w, a vector. */
graph_ref graph_scale_columns(struct graph *g, graph_ref x, const struct weight *w);
/* Adds up streams (struct blend_params). The factors of a row are its row of @factors, [rows, n_out
 * × n_in], plus @w, a vector [n_out × n_in] that all rows share. @base and @factors may be
 * GRAPH_NONE; if @base is GRAPH_NONE, @factors must be GRAPH_NONE too. If there are @factors, @w
 * may be NULL. */
graph_ref graph_blend(struct graph *g, graph_ref x, graph_ref base, graph_ref factors,
                      const struct weight *w, const struct blend_params *blend);
/* Computes x × sqrt(mean(like²)) / sqrt(max(mean(x²), least)) for each row. */
graph_ref graph_level(struct graph *g, graph_ref x, graph_ref like, float least);
/* Computes max(x - mean - f × deviation, 0), with the mean and the standard deviation (divided by
 * the number of columns) of the row. */
graph_ref graph_peaks(struct graph *g, graph_ref x, float f);
/* Prepares rows as @turn describes; @turn must outlive the graph. If the graph has the same node
 * already, returns it. */
graph_ref graph_turn(struct graph *g, graph_ref x, const struct turn_params *turn);
graph_ref graph_rows(struct graph *g, graph_ref x);
/* Copies the rows of @x to the memory `exported` of the batch, unless this is NULL. @x has all
 * rows or the requested ones. The result must not be read. A graph can have only one such node. */
graph_ref graph_export(struct graph *g, graph_ref x);
/* Computes the mean of the rows of each sequence. A batch for a graph with this node requests the
 * logits of exactly one row of each sequence. It does not matter which row this is. */
graph_ref graph_pool(struct graph *g, graph_ref x);
/* Makes @x, the logits, the output of the graph. This must be the last node. */
void graph_output(struct graph *g, graph_ref x);
/* Appends any node, for code that rewrites graphs. Fills in `width`, `rows_kept` and `slots`,
 * except that an input node already has its width. */
graph_ref graph_append(struct graph *g, struct graph_node node);

/* Returns 0 if the graph is valid, else -EINVAL or -ENOMEM with the first error in *reterr. */
int graph_error(const struct graph *g, struct inf_err *reterr);
size_t graph_n_nodes(const struct graph *g);
const struct graph_node *graph_node(const struct graph *g, graph_ref ref);

/*
 * Finds the border before layer @i_layer of the model: the position where the graph can be cut
 * (cut.c). *ret_last is the last node before the border. *ret_value is the only value that is
 * computed before the border and read after it; it has all rows of the batch. After the last
 * layer there is a border only if the value there still has all rows. Returns 0; -EOPNOTSUPP if
 * there is no border or several values cross it; or -ENOMEM.
 */
int graph_border(const struct graph *g, uint32_t i_layer, graph_ref *ret_last, graph_ref *ret_value,
                 struct inf_err *reterr);
/* Returns the number of layers of the model that have state, that is, one more than the highest
 * layer number of a node with state; 0 if no node has state. */
uint32_t graph_n_layers(const struct graph *g);
/* Counts the layers of each group of state below the border before layer @i_layer, as graph_cut()
 * divides them. Sets the numbers of groups that the graph does not have to 0. */
void graph_layers_below(const struct graph *g, uint32_t i_layer,
                        uint32_t ret_n_low[STATE_GROUPS_MAX]);
/*
 * Cuts a valid graph at the border before layer @i_layer. The output of the lower part is the value
 * that crosses the border; a batch that needs all its rows requests the logits of all rows. The
 * value that crosses the border is the input of the upper part. The layers of the upper part count
 * from 0 again, also in each group of state. Both parts use the weights of @g, and have all its
 * groups; a group may have no layer in one of them. Returns 0, or an error of graph_border() or
 * graph_error().
 */
int graph_cut(const struct graph *g, uint32_t i_layer, struct graph **ret_low,
              struct graph **ret_high, struct inf_err *reterr);

/* Writes the graph as text, one node per line, for golden tests. Returns 0 or -ENOMEM. */
struct str;
int graph_dump(const struct graph *g, struct str *out);
