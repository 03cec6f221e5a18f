/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds graphs.
 *
 * A graph is an array of nodes in order of evaluation: every node has a higher index than its
 * inputs, so a backend may compute the nodes from first to last. shape.c checks each appended node.
 * The graph keeps the first error, and after it every builder function returns GRAPH_NONE.
 */
#include "graph/graph.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "graph/shape.h"

struct graph {
    struct graph_node *nodes;
    size_t n, cap;
    struct state_group groups[STATE_GROUPS_MAX];
    uint32_t n_groups;
    uint32_t layer; /* of the nodes that are appended next */
    bool has_output;
    int error; /* 0 or negative errno */
    struct inf_err err;
};

int graph_new(struct graph **ret_graph)
{
    struct graph *g = NEW(struct graph, 1);

    if (!g)
        return -ENOMEM;
    *ret_graph = g;
    return 0;
}

struct graph *graph_free(struct graph *g)
{
    if (g)
        free(g->nodes);
    free(g);
    return NULL;
}

static int nodes_reserve(struct graph *g)
{
    return g->n < INT32_MAX ? ARRAY_GROW(g->nodes, g->cap, g->n + 1) : -ENOMEM;
}

graph_ref graph_append(struct graph *g, struct graph_node node)
{
    int r;

    if (g->error < 0)
        return GRAPH_NONE;

    r = g->has_output ? err_set(&g->err, EINVAL, "the graph continues after its output")
                      : shape_check(g->nodes, g->n, &node, &g->err);
    if (r == 0) {
        r = nodes_reserve(g);
        if (r < 0)
            err_set(&g->err, ENOMEM, "out of memory");
    }
    if (r < 0) {
        g->error = r;
        return GRAPH_NONE;
    }

    node.layer = MAX(node.layer, g->layer);
    g->nodes[g->n++] = node;
    g->has_output = node.op == GRAPH_OUTPUT;
    return (graph_ref)(g->n - 1);
}

uint32_t graph_add_group(struct graph *g, const struct state_group *group)
{
    if (g->error == 0 && g->n_groups == STATE_GROUPS_MAX)
        g->error = err_set(&g->err, EINVAL, "the graph has more than %u groups of state",
                           STATE_GROUPS_MAX);
    if (g->error < 0)
        return 0;
    g->groups[g->n_groups] = *group;
    return g->n_groups++;
}

const struct state_group *graph_groups(const struct graph *g, uint32_t *ret_n)
{
    *ret_n = g->n_groups;
    return g->groups;
}

void graph_begin_layer(struct graph *g, uint32_t layer)
{
    g->layer = layer;
}

/* Makes a node of which only the operation and the inputs are set. */
static struct graph_node node_init(enum graph_op op, graph_ref a, graph_ref b, graph_ref c)
{
    return (struct graph_node){.op = op, .src = {a, b, c}};
}

graph_ref graph_embed(struct graph *g, const struct weight *table, float scale)
{
    struct graph_node node = node_init(GRAPH_EMBED, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);

    node.w = *table;
    node.f = scale;
    return graph_append(g, node);
}

graph_ref graph_embed_by(struct graph *g, const struct weight *table, enum graph_key key)
{
    struct graph_node node = node_init(GRAPH_EMBED, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);

    node.w = *table;
    node.key = key;
    node.f = 1;
    return graph_append(g, node);
}

graph_ref graph_input(struct graph *g, uint32_t width)
{
    struct graph_node node = node_init(GRAPH_INPUT, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);

    node.width = width;
    return graph_append(g, node);
}

graph_ref graph_rms_norm(struct graph *g, graph_ref x, const struct weight *w, float eps,
                         uint32_t group)
{
    struct graph_node node = node_init(GRAPH_RMS_NORM, x, GRAPH_NONE, GRAPH_NONE);

    node.w = *w;
    node.f = eps;
    node.group = group;
    return graph_append(g, node);
}

graph_ref graph_rms_norm_by(struct graph *g, graph_ref x, const struct weight *w,
                            const struct weight *factors, float eps, uint32_t group)
{
    struct graph_node node = node_init(GRAPH_RMS_NORM, x, GRAPH_NONE, GRAPH_NONE);

    node.w = *w;
    node.bias = *factors;
    node.f = eps;
    node.group = group;
    return graph_append(g, node);
}

graph_ref graph_layer_norm(struct graph *g, graph_ref x, const struct weight *w,
                           const struct weight *bias, float eps)
{
    struct graph_node node = node_init(GRAPH_LAYER_NORM, x, GRAPH_NONE, GRAPH_NONE);

    node.w = *w;
    if (bias)
        node.bias = *bias;
    node.f = eps;
    return graph_append(g, node);
}

graph_ref graph_matmul(struct graph *g, graph_ref x, const struct weight *w,
                       const struct weight *bias)
{
    struct graph_node node =
        node_init(GRAPH_MATMUL, w->turn ? graph_turn(g, x, w->turn) : x, GRAPH_NONE, GRAPH_NONE);

    node.w = *w;
    if (bias)
        node.bias = *bias;
    return graph_append(g, node);
}

graph_ref graph_matmul_experts(struct graph *g, graph_ref x, graph_ref route,
                               const struct weight *w, const struct weight *bias)
{
    struct graph_node node =
        node_init(GRAPH_MATMUL, w->turn ? graph_turn(g, x, w->turn) : x, route, GRAPH_NONE);

    node.w = *w;
    if (bias)
        node.bias = *bias;
    return graph_append(g, node);
}

graph_ref graph_route(struct graph *g, graph_ref scores, const struct weight *bias,
                      const struct weight *factors, const struct route_params *route)
{
    struct graph_node node = node_init(GRAPH_ROUTE, scores, GRAPH_NONE, GRAPH_NONE);

    if (bias)
        node.bias = *bias;
    if (factors)
        node.w = *factors;
    node.route = *route;
    return graph_append(g, node);
}

graph_ref graph_mix(struct graph *g, graph_ref x, graph_ref route)
{
    return graph_append(g, node_init(GRAPH_MIX, x, route, GRAPH_NONE));
}

graph_ref graph_spread(struct graph *g, graph_ref x, graph_ref route,
                       const struct spread_params *spread)
{
    struct graph_node node = node_init(GRAPH_SPREAD, x, route, GRAPH_NONE);

    node.spread = *spread;
    return graph_append(g, node);
}

graph_ref graph_cols(struct graph *g, graph_ref x, uint32_t stride, uint32_t first, uint32_t n)
{
    const struct cols_params cols = {.stride = stride, .n_parts = 1, .parts = {{first, n}}};

    return graph_cols_of(g, x, &cols);
}

graph_ref graph_cols_of(struct graph *g, graph_ref x, const struct cols_params *cols)
{
    struct graph_node node = node_init(GRAPH_COLS, x, GRAPH_NONE, GRAPH_NONE);

    node.cols = *cols;
    return graph_append(g, node);
}

graph_ref graph_cap(struct graph *g, graph_ref x, float cap)
{
    struct graph_node node = node_init(GRAPH_CAP, x, GRAPH_NONE, GRAPH_NONE);

    node.f = cap;
    return graph_append(g, node);
}

graph_ref graph_conv(struct graph *g, graph_ref x, const struct weight *w,
                     const struct weight *bias, const enum graph_act *act,
                     const struct state_place *place)
{
    struct graph_node node = node_init(GRAPH_CONV, x, GRAPH_NONE, GRAPH_NONE);

    node.w = *w;
    if (bias)
        node.bias = *bias;
    if (act) {
        node.has_act = true;
        node.act = *act;
    }
    node.place = *place;
    return graph_append(g, node);
}

graph_ref graph_delta(struct graph *g, graph_ref qkv, graph_ref a, graph_ref b,
                      const struct weight *w, const struct weight *dt,
                      const struct delta_params *delta)
{
    struct graph_node node = node_init(GRAPH_DELTA, qkv, a, b);

    node.w = *w;
    node.bias = *dt;
    node.delta = *delta;
    return graph_append(g, node);
}

graph_ref graph_rope(struct graph *g, graph_ref x, uint32_t head_dim,
                     const struct rope_params *rope)
{
    struct graph_node node = node_init(GRAPH_ROPE, x, GRAPH_NONE, GRAPH_NONE);

    node.group = head_dim;
    node.rope = *rope;
    return graph_append(g, node);
}

graph_ref graph_attention(struct graph *g, graph_ref q, graph_ref k, graph_ref v,
                          const struct attn_params *attn)
{
    struct graph_node node = node_init(GRAPH_ATTENTION, q, k, v);

    node.attn = *attn;
    return graph_append(g, node);
}

graph_ref graph_attention_memory(struct graph *g, graph_ref q, const struct attn_params *attn)
{
    struct graph_node node = node_init(GRAPH_ATTENTION, q, GRAPH_NONE, GRAPH_NONE);

    node.attn = *attn;
    node.attn.memory = true;
    return graph_append(g, node);
}

graph_ref graph_attention_shared(struct graph *g, graph_ref q, const struct attn_params *attn)
{
    struct graph_node node = node_init(GRAPH_ATTENTION, q, GRAPH_NONE, GRAPH_NONE);

    node.attn = *attn;
    node.attn.shared = true;
    return graph_append(g, node);
}

graph_ref graph_attention_past(struct graph *g, graph_ref q, const struct attn_params *attn)
{
    struct graph_node node = node_init(GRAPH_ATTENTION, q, GRAPH_NONE, GRAPH_NONE);

    node.attn = *attn;
    node.attn.past = true;
    return graph_append(g, node);
}

graph_ref graph_store(struct graph *g, graph_ref k, graph_ref v, const struct attn_params *attn)
{
    struct graph_node node = node_init(GRAPH_STORE, k, v, GRAPH_NONE);

    node.attn = *attn;
    return graph_append(g, node);
}

graph_ref graph_glu(struct graph *g, graph_ref gate, graph_ref up, enum graph_act act)
{
    struct graph_node node = node_init(GRAPH_GLU, gate, up, GRAPH_NONE);

    node.act = act;
    return graph_append(g, node);
}

graph_ref graph_act(struct graph *g, graph_ref x, enum graph_act act)
{
    struct graph_node node = node_init(GRAPH_ACT, x, GRAPH_NONE, GRAPH_NONE);

    node.act = act;
    return graph_append(g, node);
}

graph_ref graph_add(struct graph *g, graph_ref a, graph_ref b)
{
    return graph_append(g, node_init(GRAPH_ADD, a, b, GRAPH_NONE));
}

graph_ref graph_scale(struct graph *g, graph_ref x, float factor)
{
    struct graph_node node = node_init(GRAPH_SCALE, x, GRAPH_NONE, GRAPH_NONE);

    node.f = factor;
    return graph_append(g, node);
}

graph_ref graph_scale_columns(struct graph *g, graph_ref x, const struct weight *w)
{
    struct graph_node node = node_init(GRAPH_SCALE, x, GRAPH_NONE, GRAPH_NONE);

    node.f = 1;
    node.w = *w;
    return graph_append(g, node);
}

graph_ref graph_blend(struct graph *g, graph_ref x, graph_ref base, graph_ref factors,
                      const struct weight *w, const struct blend_params *blend)
{
    struct graph_node node = node_init(GRAPH_BLEND, x, base, factors);

    if (w)
        node.w = *w;
    node.blend = *blend;
    return graph_append(g, node);
}

graph_ref graph_level(struct graph *g, graph_ref x, graph_ref like, float least)
{
    struct graph_node node = node_init(GRAPH_LEVEL, x, like, GRAPH_NONE);

    node.f = least;
    return graph_append(g, node);
}

graph_ref graph_peaks(struct graph *g, graph_ref x, float f)
{
    struct graph_node node = node_init(GRAPH_PEAKS, x, GRAPH_NONE, GRAPH_NONE);

    node.f = f;
    return graph_append(g, node);
}

graph_ref graph_turn(struct graph *g, graph_ref x, const struct turn_params *turn)
{
    struct graph_node node = node_init(GRAPH_TURN, x, GRAPH_NONE, GRAPH_NONE);

    for (size_t i = x < 0 ? g->n : (size_t)x; i < g->n; i++)
        if (g->nodes[i].op == GRAPH_TURN && g->nodes[i].src[0] == x && g->nodes[i].turn == turn)
            return (graph_ref)i;
    node.turn = turn;
    return graph_append(g, node);
}

graph_ref graph_rows(struct graph *g, graph_ref x)
{
    return graph_append(g, node_init(GRAPH_ROWS, x, GRAPH_NONE, GRAPH_NONE));
}

graph_ref graph_pool(struct graph *g, graph_ref x)
{
    return graph_append(g, node_init(GRAPH_POOL, x, GRAPH_NONE, GRAPH_NONE));
}

graph_ref graph_export(struct graph *g, graph_ref x)
{
    return graph_append(g, node_init(GRAPH_EXPORT, x, GRAPH_NONE, GRAPH_NONE));
}

void graph_output(struct graph *g, graph_ref x)
{
    graph_append(g, node_init(GRAPH_OUTPUT, x, GRAPH_NONE, GRAPH_NONE));
}

int graph_error(const struct graph *g, struct inf_err *reterr)
{
    if (g->error < 0) {
        if (reterr)
            *reterr = g->err;
        return g->error;
    }
    if (!g->has_output)
        return err_set(reterr, EINVAL, "the graph has no output");
    return 0;
}

size_t graph_n_nodes(const struct graph *g)
{
    return g->n;
}

const struct graph_node *graph_node(const struct graph *g, graph_ref ref)
{
    assert(ref >= 0 && (size_t)ref < g->n);
    return &g->nodes[ref];
}
