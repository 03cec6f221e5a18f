/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks shapes and types of graph nodes.
 *
 * Only this file checks them; backends rely on these checks and contain at most assertions. Sizes
 * come from model files, which may be hostile, so products of sizes are computed in 64 bits.
 */
#include "graph/shape.h"

#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "quant/dtype.h"

/* The largest width of a value. With this limit, backends can pad rows and count the bytes of a row
 * in 32 bits.
 */
#define MAX_WIDTH (1u << 28)

static const char *const op_names[] = {
    [GRAPH_EMBED] = "embed",   [GRAPH_RMS_NORM] = "rms_norm",   [GRAPH_MATMUL] = "matmul",
    [GRAPH_ROPE] = "rope",     [GRAPH_ATTENTION] = "attention", [GRAPH_GLU] = "glu",
    [GRAPH_ADD] = "add",       [GRAPH_SCALE] = "scale",         [GRAPH_ROWS] = "rows",
    [GRAPH_OUTPUT] = "output", [GRAPH_INPUT] = "input",         [GRAPH_LAYER_NORM] = "layer_norm",
    [GRAPH_ACT] = "act",       [GRAPH_POOL] = "pool",           [GRAPH_EXPORT] = "export",
    [GRAPH_STORE] = "store",   [GRAPH_COLS] = "cols",           [GRAPH_CAP] = "cap",
    [GRAPH_CONV] = "conv",     [GRAPH_DELTA] = "delta",         [GRAPH_ROUTE] = "route",
    [GRAPH_MIX] = "mix",       [GRAPH_BLEND] = "blend",         [GRAPH_LEVEL] = "level",
    [GRAPH_PEAKS] = "peaks",   [GRAPH_TURN] = "turn",           [GRAPH_SPREAD] = "spread",
};

const char *graph_op_name(enum graph_op op)
{
    return op_names[op];
}

/* Returns the number of inputs of a node. */
static unsigned n_inputs(const struct graph_node *node)
{
    switch (node->op) {
    case GRAPH_EMBED:
    case GRAPH_INPUT:
        return 0;
    case GRAPH_ATTENTION:
        return attn_has_keys(&node->attn) ? 3 : 1;
    case GRAPH_DELTA:
        return 3;
    case GRAPH_MATMUL:
        return node->w.n_experts > 0 ? 2 : 1;
    case GRAPH_BLEND:
        return node->src[2] >= 0 ? 3 : node->src[1] >= 0 ? 2 : 1;
    case GRAPH_STORE:
    case GRAPH_GLU:
    case GRAPH_ADD:
    case GRAPH_MIX:
    case GRAPH_SPREAD:
    case GRAPH_LEVEL:
        return 2;
    default:
        return 1;
    }
}

static const char *weight_name(const struct weight *w)
{
    return w->name ? w->name : "(unnamed)";
}

/* Checks the planes of a weight whose format has planes. */
static int check_planes(const struct graph_node *node, const struct weight *w,
                        const struct planes_info *info, struct inf_err *reterr)
{
    const char *op = graph_op_name(node->op);

    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        if (info->needed & 1u << p && !w->planes[p])
            return err_set(reterr, EINVAL, "%s: %s has no %s", op, weight_name(w),
                           p == WEIGHT_SCALES ? "scales" : "offsets");
    if ((unsigned)w->plane_type >= PLANE_TYPES || !(info->types & 1u << w->plane_type))
        return err_set(reterr, EINVAL, "%s: the scales of %s have a wrong type", op,
                       weight_name(w));
    if (info->group > 0 &&
        (w->group == 0 || w->group % info->group != 0 ||
         (info->group_most > 0 && w->group > info->group_most) || w->cols % w->group != 0))
        return err_set(reterr, EINVAL, "%s: rows of %s have %u columns, in groups of %u", op,
                       weight_name(w), w->cols, w->group);
    if (w->rows % info->places != 0)
        return err_set(reterr, EINVAL, "%s: the %u rows of %s are not %u equal parts", op, w->rows,
                       weight_name(w), info->places);
    if (w->n_experts > 0 && w->experts)
        return err_set(reterr, EINVAL, "%s: the experts of %s lie apart, but its planes do not", op,
                       weight_name(w));
    return 0;
}

static int check_weight(const struct graph_node *node, const struct weight *w,
                        struct inf_err *reterr)
{
    const char *op = graph_op_name(node->op);
    const struct planes_info *info;
    uint64_t row_bytes, bytes;

    if (!w->data)
        return err_set(reterr, EINVAL, "%s: its weight %s is missing", op, weight_name(w));
    if ((int)w->dtype < 0 || w->dtype >= INF_DTYPE_N)
        return err_set(reterr, EINVAL, "%s: %s has an unknown number format", op, weight_name(w));
    if (w->rows == 0 || w->cols == 0)
        return err_set(reterr, EINVAL, "%s: %s is empty", op, weight_name(w));
    if (!dtype_row_bytes(w->dtype, w->cols, &row_bytes) || !size_mul(row_bytes, w->rows, &bytes))
        return err_set(reterr, EINVAL,
                       "%s: rows of %s have %u columns, not a whole number of %s blocks", op,
                       weight_name(w), w->cols, dtype_info(w->dtype)->label);
    if (w->n_experts > 0 && !w->experts && w->n_experts > 1 && w->expert_bytes < bytes)
        return err_set(reterr, EINVAL, "%s: the matrices of %s overlap", op, weight_name(w));
    if (!w->coded != (coded_kind(w->dtype).bits == 0) ||
        (w->coded && (w->coded->cols != w->cols || w->coded->group == 0 ||
                      w->coded->rows < w->rows || w->coded_first > w->coded->rows - w->rows)))
        return err_set(reterr, EINVAL, "%s: %s is not a part of its coded matrix", op,
                       weight_name(w));
    info = dtype_info(w->dtype)->planes;
    if (w->row_step > 1 && !(info && info->steps))
        return err_set(reterr, EINVAL, "%s: the rows of %s are not adjacent", op, weight_name(w));
    if (info)
        return check_planes(node, w, info, reterr);
    return 0;
}

static int check_vector(const struct graph_node *node, const struct weight *w, uint32_t width,
                        struct inf_err *reterr)
{
    const int r = check_weight(node, w, reterr);

    if (r < 0)
        return r;
    if (w->rows != 1 || w->cols != width)
        return err_set(reterr, EINVAL, "%s: %s is %u x %u, expected a vector of %u",
                       graph_op_name(node->op), weight_name(w), w->rows, w->cols, width);
    return 0;
}

static int check_factor(const struct graph_node *node, float f, struct inf_err *reterr)
{
    if (!isfinite(f))
        return err_set(reterr, EINVAL, "%s: its factor is not finite", graph_op_name(node->op));
    return 0;
}

static int check_norm(struct graph_node *node, const struct graph_node *x, struct inf_err *reterr)
{
    if (node->group == 0)
        node->group = x->width;
    if (x->width % node->group != 0)
        return err_set(reterr, EINVAL, "rms_norm: groups of %u do not divide %u columns",
                       node->group, x->width);
    if (!(node->f >= 0) || !isfinite(node->f))
        return err_set(reterr, EINVAL, "rms_norm: epsilon is negative or not finite");
    if (node->bias.data && check_vector(node, &node->bias, node->group, reterr) < 0)
        return -EINVAL;
    return node->w.data ? check_vector(node, &node->w, node->group, reterr) : 0;
}

static int check_layer_norm(const struct graph_node *node, const struct graph_node *x,
                            struct inf_err *reterr)
{
    int r;

    if (!(node->f >= 0) || !isfinite(node->f))
        return err_set(reterr, EINVAL, "layer_norm: epsilon is negative or not finite");
    r = check_vector(node, &node->w, x->width, reterr);
    return r == 0 && node->bias.data ? check_vector(node, &node->bias, x->width, reterr) : r;
}

static int check_matmul(struct graph_node *node, const struct graph_node *x, struct inf_err *reterr)
{
    const int r = check_weight(node, &node->w, reterr);

    if (r < 0)
        return r;
    if (node->w.cols != x->width)
        return err_set(reterr, EINVAL, "matmul: %s has %u columns, its input %u",
                       weight_name(&node->w), node->w.cols, x->width);
    node->width = node->w.rows;
    return node->bias.data ? check_vector(node, &node->bias, node->width, reterr) : 0;
}

static int check_experts(struct graph_node *node, const struct graph_node *x,
                         const struct graph_node *route, struct inf_err *reterr)
{
    int r;

    if (route->op != GRAPH_ROUTE || route->rows_kept != x->rows_kept)
        return err_set(reterr, EINVAL, "matmul: %s has no route for its input",
                       weight_name(&node->w));
    if (x->slots > 0 && x->slots != route->slots)
        return err_set(reterr, EINVAL, "matmul: the input of %s has %u slots, not %u",
                       weight_name(&node->w), x->slots, route->slots);
    if (node->w.n_experts != route->width)
        return err_set(reterr, EINVAL, "matmul: %s has %u experts, its route %u",
                       weight_name(&node->w), node->w.n_experts, route->width);
    r = check_matmul(node, x, reterr);
    node->slots = route->slots;
    return r;
}

static int check_route(struct graph_node *node, const struct graph_node *x, struct inf_err *reterr)
{
    const struct route_params *p = &node->route;

    if (p->n_used == 0 || p->n_used > x->width || x->slots > 0)
        return err_set(reterr, EINVAL, "route: %u of %u experts cannot be chosen", p->n_used,
                       x->width);
    if (node->bias.data && check_vector(node, &node->bias, x->width, reterr) < 0)
        return -EINVAL;
    if (node->w.data && check_vector(node, &node->w, x->width, reterr) < 0)
        return -EINVAL;
    node->slots = p->n_used;
    return check_factor(node, p->scale, reterr);
}

static int check_mix(struct graph_node *node, const struct graph_node *x,
                     const struct graph_node *route, struct inf_err *reterr)
{
    if (route->op != GRAPH_ROUTE || x->slots != route->slots || x->op == GRAPH_ROUTE)
        return err_set(reterr, EINVAL, "mix: its input has %u slots, its route %u", x->slots,
                       route->slots);
    node->slots = 0;
    return 0;
}

static int check_spread(struct graph_node *node, const struct graph_node *x,
                        const struct graph_node *route, struct inf_err *reterr)
{
    const struct spread_params *p = &node->spread;

    if (route->op != GRAPH_ROUTE || x->slots != route->slots || x->op == GRAPH_ROUTE)
        return err_set(reterr, EINVAL, "spread: its input has %u slots, its route %u", x->slots,
                       route->slots);
    if (!p->places || (uint64_t)route->width * x->width > p->width)
        return err_set(reterr, EINVAL, "spread: %u x %u columns do not have places in %u",
                       route->width, x->width, p->width);
    node->width = p->width;
    node->slots = 0;
    return 0;
}

static int check_cols(struct graph_node *node, const struct graph_node *x, struct inf_err *reterr)
{
    const struct cols_params *p = &node->cols;
    uint64_t n = 0;

    if (p->stride == 0 || x->width % p->stride != 0 || p->n_parts == 0 ||
        p->n_parts > COLS_PARTS_MAX)
        return err_set(reterr, EINVAL, "cols: %u parts cannot be taken from each %u of %u columns",
                       p->n_parts, p->stride, x->width);
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const struct cols_part *part = &p->parts[i];

        if (part->n == 0 || part->n > p->stride || part->first > p->stride - part->n)
            return err_set(reterr, EINVAL,
                           "cols: %u columns from column %u on are not within each %u", part->n,
                           part->first, p->stride);
        n += part->n;
    }
    n *= x->width / p->stride;
    if (n > MAX_WIDTH)
        return err_set(reterr, EINVAL, "cols: %llu columns are too many", (unsigned long long)n);
    node->width = (uint32_t)n;
    return 0;
}

static int check_blend(struct graph_node *node, const struct graph_node *const src[3],
                       struct inf_err *reterr)
{
    const struct blend_params *p = &node->blend;
    const uint32_t n = p->n_in * p->n_out;

    if (p->n_in == 0 || p->n_in > BLEND_STREAMS_MAX || p->n_out == 0 ||
        p->n_out > BLEND_STREAMS_MAX || src[0]->width % p->n_in != 0 ||
        src[0]->width > MAX_WIDTH / BLEND_STREAMS_MAX)
        return err_set(reterr, EINVAL, "blend: %u columns cannot be %u streams that become %u",
                       src[0]->width, p->n_in, p->n_out);
    node->width = src[0]->width / p->n_in * p->n_out;
    if (src[1] && (src[1]->width != node->width || src[1]->rows_kept != src[0]->rows_kept))
        return err_set(reterr, EINVAL, "blend: its base has %u columns, not %u, or other rows",
                       src[1]->width, node->width);
    if (src[2] && (src[2]->width != n || src[2]->rows_kept != src[0]->rows_kept))
        return err_set(reterr, EINVAL, "blend: its factors have %u columns, not %u, or other rows",
                       src[2]->width, n);
    if (!src[2] && !node->w.data)
        return err_set(reterr, EINVAL, "blend: it has no factors");
    return node->w.data ? check_vector(node, &node->w, n, reterr) : 0;
}

static int check_conv(const struct graph_node *node, const struct graph_node *x,
                      struct inf_err *reterr)
{
    if (check_weight(node, &node->w, reterr) < 0)
        return -EINVAL;
    if (node->w.rows != x->width || x->slots > 0 || x->rows_kept)
        return err_set(reterr, EINVAL, "conv: %s is %u x %u, its input has %u columns",
                       weight_name(&node->w), node->w.rows, node->w.cols, x->width);
    return node->bias.data ? check_vector(node, &node->bias, x->width, reterr) : 0;
}

static int check_delta(struct graph_node *node, const struct graph_node *const src[3],
                       struct inf_err *reterr)
{
    const struct delta_params *p = &node->delta;
    const uint64_t keys = (uint64_t)p->n_k_heads * p->k_dim;
    const uint64_t values = (uint64_t)p->n_v_heads * p->v_dim;

    if (keys == 0 || values == 0 || p->n_v_heads % p->n_k_heads != 0 ||
        src[0]->width != 2 * keys + values)
        return err_set(reterr, EINVAL,
                       "delta: %u columns do not fit %u key heads of %u and %u value heads of %u",
                       src[0]->width, p->n_k_heads, p->k_dim, p->n_v_heads, p->v_dim);
    if (src[1]->width != p->n_v_heads || src[2]->width != p->n_v_heads)
        return err_set(reterr, EINVAL, "delta: its gates have %u and %u columns, not %u",
                       src[1]->width, src[2]->width, p->n_v_heads);
    for (unsigned i = 0; i < 3; i++)
        if (src[i]->rows_kept || src[i]->slots > 0)
            return err_set(reterr, EINVAL, "delta: its input has only the requested rows");
    if (check_vector(node, &node->w, p->n_v_heads, reterr) < 0 ||
        check_vector(node, &node->bias, p->n_v_heads, reterr) < 0)
        return -EINVAL;
    if (!(p->eps >= 0) || !isfinite(p->eps))
        return err_set(reterr, EINVAL, "delta: epsilon is negative or not finite");
    node->width = (uint32_t)values;
    return check_factor(node, p->scale, reterr);
}

static int check_rope(const struct graph_node *node, const struct graph_node *x,
                      struct inf_err *reterr)
{
    const struct rope_params *p = &node->rope;

    if (node->group == 0 || x->width % node->group != 0)
        return err_set(reterr, EINVAL, "rope: heads of %u do not divide %u columns", node->group,
                       x->width);
    if (p->n_dims == 0 || p->n_dims % 2 != 0 || p->n_dims > node->group)
        return err_set(reterr, EINVAL, "rope: %u rotated dimensions of a head of %u", p->n_dims,
                       node->group);
    if (!p->inv_freq)
        return err_set(reterr, EINVAL, "rope: no frequencies");
    if (x->rows_kept)
        return err_set(reterr, EINVAL, "rope: its input has only the requested rows");
    return check_factor(node, p->mscale, reterr);
}

static int check_keys(const struct graph_node *node, const struct graph_node *k,
                      const struct graph_node *v, struct inf_err *reterr)
{
    const struct attn_params *p = &node->attn;
    const char *op = graph_op_name(node->op);

    if (p->head_dim == 0 || k->width != (uint64_t)p->n_kv_heads * p->head_dim ||
        v->width != k->width)
        return err_set(reterr, EINVAL, "%s: keys and values have %u and %u columns, not %u x %u",
                       op, k->width, v->width, p->n_kv_heads, p->head_dim);
    if (k->rows_kept || v->rows_kept)
        return err_set(reterr, EINVAL, "%s: its input has only the requested rows", op);
    return 0;
}

static int check_attention(const struct graph_node *node, const struct graph_node *q,
                           const struct graph_node *k, const struct graph_node *v,
                           struct inf_err *reterr)
{
    const struct attn_params *p = &node->attn;

    if (p->head_dim == 0 || p->n_kv_heads == 0 || p->n_heads == 0 ||
        p->n_heads % p->n_kv_heads != 0)
        return err_set(reterr, EINVAL, "attention: %u heads cannot share %u key heads of %u",
                       p->n_heads, p->n_kv_heads, p->head_dim);
    if (q->width != (uint64_t)p->n_heads * p->head_dim)
        return err_set(reterr, EINVAL, "attention: queries have %u columns, not %u x %u", q->width,
                       p->n_heads, p->head_dim);
    if (q->rows_kept)
        return err_set(reterr, EINVAL, "attention: its input has only the requested rows");
    if (attn_has_keys(p) && check_keys(node, k, v, reterr) < 0)
        return -EINVAL;
    if (p->sinks.data && check_vector(node, &p->sinks, p->n_heads, reterr) < 0)
        return -EINVAL;
    if (!(p->softcap >= 0) || !isfinite(p->softcap))
        return err_set(reterr, EINVAL, "attention: its softcap is negative or not finite");
    return check_factor(node, p->scale, reterr);
}

static int check_pair(const struct graph_node *node, const struct graph_node *a,
                      const struct graph_node *b, struct inf_err *reterr)
{
    if (a->width != b->width || a->rows_kept != b->rows_kept || a->slots != b->slots)
        return err_set(reterr, EINVAL, "%s: its inputs have %u and %u columns%s",
                       graph_op_name(node->op), a->width, b->width,
                       a->rows_kept != b->rows_kept ? " and different rows" : "");
    return 0;
}

static int check_glu(struct graph_node *node, const struct graph_node *gate,
                     const struct graph_node *up, struct inf_err *reterr)
{
    if (gate->width == 1 && up->width != 1 && gate->slots == up->slots &&
        gate->rows_kept == up->rows_kept) {
        node->width = up->width;
        return 0;
    }
    return check_pair(node, gate, up, reterr);
}

static int check_turn(const struct graph_node *node, const struct graph_node *x,
                      struct inf_err *reterr)
{
    const struct turn_params *p = node->turn;

    if (!p || p->width != x->width || p->group == 0 || p->group > TURN_GROUP_MAX ||
        p->width % p->group != 0)
        return err_set(reterr, EINVAL, "turn: groups of %u columns do not divide %u columns",
                       p ? p->group : 0, x->width);
    if (p->n_rounds > TURN_ROUNDS_MAX ||
        (p->n_rounds > 0 && (p->group % 2 != 0 || !p->pairs || !p->turns)))
        return err_set(reterr, EINVAL, "turn: %u rounds of pairs are not possible in groups of %u",
                       p->n_rounds, p->group);
    return 0;
}

static bool has_op(const struct graph_node *nodes, size_t n, enum graph_op op)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i].op == op)
            return true;
    return false;
}

static int check_op(struct graph_node *node, const struct graph_node *const src[3],
                    struct inf_err *reterr)
{
    int r;

    switch (node->op) {
    case GRAPH_EMBED:
        r = check_weight(node, &node->w, reterr);
        node->width = node->w.cols;
        return r < 0 ? r : check_factor(node, node->f, reterr);
    case GRAPH_INPUT:
        if (node->width == 0)
            return err_set(reterr, EINVAL, "input: it has no columns");
        return 0;
    case GRAPH_RMS_NORM:
        return check_norm(node, src[0], reterr);
    case GRAPH_LAYER_NORM:
        return check_layer_norm(node, src[0], reterr);
    case GRAPH_ACT:
    case GRAPH_EXPORT:
        return 0;
    case GRAPH_MATMUL:
        return node->w.n_experts > 0 ? check_experts(node, src[0], src[1], reterr)
                                     : check_matmul(node, src[0], reterr);
    case GRAPH_COLS:
        return check_cols(node, src[0], reterr);
    case GRAPH_CAP:
        if (!(node->f > 0))
            return err_set(reterr, EINVAL, "cap: its limit is not positive");
        return check_factor(node, node->f, reterr);
    case GRAPH_CONV:
        return check_conv(node, src[0], reterr);
    case GRAPH_DELTA:
        return check_delta(node, src, reterr);
    case GRAPH_ROUTE:
        return check_route(node, src[0], reterr);
    case GRAPH_MIX:
        return check_mix(node, src[0], src[1], reterr);
    case GRAPH_SPREAD:
        return check_spread(node, src[0], src[1], reterr);
    case GRAPH_ROPE:
        return check_rope(node, src[0], reterr);
    case GRAPH_ATTENTION:
        return check_attention(node, src[0], src[1], src[2], reterr);
    case GRAPH_STORE:
        return check_keys(node, src[0], src[1], reterr);
    case GRAPH_GLU:
        return check_glu(node, src[0], src[1], reterr);
    case GRAPH_ADD:
        return check_pair(node, src[0], src[1], reterr);
    case GRAPH_SCALE:
        if (node->w.data && check_vector(node, &node->w, src[0]->width, reterr) < 0)
            return -EINVAL;
        return check_factor(node, node->f, reterr);
    case GRAPH_BLEND:
        return check_blend(node, src, reterr);
    case GRAPH_LEVEL:
        if (!(node->f > 0))
            return err_set(reterr, EINVAL, "level: the smallest mean of squares is not positive");
        r = check_pair(node, src[0], src[1], reterr);
        return r < 0 ? r : check_factor(node, node->f, reterr);
    case GRAPH_PEAKS:
        return check_factor(node, node->f, reterr);
    case GRAPH_TURN:
        return check_turn(node, src[0], reterr);
    case GRAPH_ROWS:
    case GRAPH_POOL:
        if (src[0]->rows_kept)
            return err_set(reterr, EINVAL, "%s: its input has lost rows already",
                           graph_op_name(node->op));
        node->rows_kept = true;
        return 0;
    case GRAPH_OUTPUT:
        if (!src[0]->rows_kept)
            return err_set(reterr, EINVAL,
                           "output: its input has all rows, not the requested ones");
        return 0;
    }
    return err_set(reterr, EINVAL, "unknown operation %d", (int)node->op);
}

/* Returns false if an input has slots (struct graph_node) and the operation does not support such
 * inputs. */
static bool slots_fit(const struct graph_node *node, const struct graph_node *const src[3])
{
    switch (node->op) {
    case GRAPH_MATMUL:
        return node->w.n_experts > 0 || src[0]->slots == 0;
    case GRAPH_GLU:
    case GRAPH_ACT:
    case GRAPH_COLS:
    case GRAPH_ADD:
    case GRAPH_SCALE:
    case GRAPH_TURN:
        return src[0]->op != GRAPH_ROUTE && (!src[1] || src[1]->op != GRAPH_ROUTE);
    case GRAPH_MIX:
    case GRAPH_SPREAD:
        return true;
    default:
        for (unsigned i = 0; i < 3; i++)
            if (src[i] && src[i]->slots > 0)
                return false;
        return true;
    }
}

int shape_check(const struct graph_node *nodes, size_t n, struct graph_node *node,
                struct inf_err *reterr)
{
    const struct graph_node *src[3] = {NULL, NULL, NULL};
    int r;

    for (unsigned i = 0; i < n_inputs(node); i++) {
        const graph_ref ref = node->src[i];

        if (ref < 0 || (size_t)ref >= n || nodes[ref].op == GRAPH_OUTPUT ||
            nodes[ref].op == GRAPH_EXPORT)
            return err_set(reterr, EINVAL, "%s: its input %u is not a value of this graph",
                           graph_op_name(node->op), i);
        src[i] = &nodes[ref];
    }
    if (src[0]) {
        node->width = src[0]->width;
        node->rows_kept = src[0]->rows_kept;
        node->slots = src[0]->slots;
    }
    if (!slots_fit(node, src))
        return err_set(reterr, EINVAL, "%s: its input has slots of experts",
                       graph_op_name(node->op));
    if ((node->op == GRAPH_INPUT || node->op == GRAPH_EXPORT) && has_op(nodes, n, node->op))
        return err_set(reterr, EINVAL, "%s: the graph has one already", graph_op_name(node->op));
    r = check_op(node, src, reterr);
    if (r == 0 && node->width > MAX_WIDTH)
        return err_set(reterr, EINVAL, "%s: %u columns are too many", graph_op_name(node->op),
                       node->width);
    return r;
}
