/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes graphs as text.
 *
 *   %3 [2048] = matmul %2 blk.0.attn_q.weight q4_k 2048x1024 bias blk.0.attn_q.bias
 *
 * Each line is one node: its name, its columns (with "kept" if it has only the rows whose logits
 * are requested), the operation, its inputs, its weights, and parameters that differ from the
 * default. Numbers are printed with %.9g, which distinguishes all floats.
 */
#include <errno.h>

#include "core/str.h"
#include "graph/shape.h"
#include "quant/dtype.h"

static const char *const act_names[] = {
    [GRAPH_ACT_SILU] = "silu",         [GRAPH_ACT_GELU_TANH] = "gelu_tanh",
    [GRAPH_ACT_GELU_ERF] = "gelu_erf", [GRAPH_ACT_RELU2] = "relu2",
    [GRAPH_ACT_TANH] = "tanh",         [GRAPH_ACT_SIGMOID] = "sigmoid",
    [GRAPH_ACT_LINEAR] = "linear",     [GRAPH_ACT_SWIGLU_LIMITED] = "swiglu_limited",
};

static const char *const score_names[] = {
    [ROUTE_SOFTMAX] = "softmax",
    [ROUTE_SOFTMAX_SELECTED] = "softmax of selected",
    [ROUTE_SIGMOID] = "sigmoid",
};

static int dump_weight(const char *label, const struct weight *w, struct str *out)
{
    const int r = str_printf(out, "%s %s %s %ux%u", label, w->name ? w->name : "(unnamed)",
                             dtype_info(w->dtype)->name, w->rows, w->cols);

    return r >= 0 && w->n_experts > 0 ? str_printf(out, "x%u", w->n_experts) : r;
}

static int dump_attention(const struct attn_params *p, struct str *out)
{
    int r = str_printf(out, " layer %u heads %u/%u dim %u scale %.9g window %u%s%s%s%s", p->i_layer,
                       p->n_heads, p->n_kv_heads, p->head_dim, (double)p->scale, p->window,
                       p->both_ways ? " both ways" : "", p->memory ? " over memory" : "",
                       p->shared ? " shared" : "", p->past ? " past" : "");

    if (r >= 0 && p->i_group > 0)
        r = str_printf(out, " group %u", p->i_group);
    if (r >= 0 && p->softcap > 0)
        r = str_printf(out, " softcap %.9g", (double)p->softcap);
    return r >= 0 && p->sinks.data ? dump_weight(" sinks", &p->sinks, out) : r;
}

static int dump_cols(const struct cols_params *p, struct str *out)
{
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < p->n_parts; i++)
        r = str_printf(out, "%s%u + %u", i > 0 ? ", " : " ", p->parts[i].first, p->parts[i].n);
    return r < 0 ? r : str_printf(out, " of %u", p->stride);
}

static int dump_params(const struct graph_node *n, struct str *out)
{
    switch (n->op) {
    case GRAPH_EMBED:
        if (n->key != GRAPH_KEY_TOKEN)
            return str_puts(out, n->key == GRAPH_KEY_POSITION ? " by position" : " by type");
        return n->f != 1.0f ? str_printf(out, " scale %.9g", (double)n->f) : 0;
    case GRAPH_RMS_NORM:
        return str_printf(out, " group %u eps %.9g", n->group, (double)n->f);
    case GRAPH_LAYER_NORM:
        return str_printf(out, " eps %.9g", (double)n->f);
    case GRAPH_ROPE:
        return str_printf(out, " %s head %u dims %u mscale %.9g",
                          n->rope.style == ROPE_HALF ? "half" : "pairs", n->group, n->rope.n_dims,
                          (double)n->rope.mscale);
    case GRAPH_STORE:
        return str_printf(out, " layer %u heads %u dim %u", n->attn.i_layer, n->attn.n_kv_heads,
                          n->attn.head_dim);
    case GRAPH_ATTENTION:
        return dump_attention(&n->attn, out);
    case GRAPH_COLS:
        return dump_cols(&n->cols, out);
    case GRAPH_CAP:
        return str_printf(out, " at %.9g", (double)n->f);
    case GRAPH_CONV:
        return str_printf(out, " group %u layer %u%s%s", n->place.i_group, n->place.i_layer,
                          n->has_act ? " " : "", n->has_act ? act_names[n->act] : "");
    case GRAPH_DELTA:
        return str_printf(
            out, " group %u layer %u heads %u/%u dims %u, %u scale %.9g eps %.9g%s%s",
            n->delta.place.i_group, n->delta.place.i_layer, n->delta.n_v_heads, n->delta.n_k_heads,
            n->delta.k_dim, n->delta.v_dim, (double)n->delta.scale, (double)n->delta.eps,
            n->delta.interleaved ? " interleaved" : "", n->delta.negated ? " negated" : "");
    case GRAPH_ROUTE:
        return str_printf(out, " %s %u%s scale %.9g", score_names[n->route.score], n->route.n_used,
                          n->route.normalized ? " normalized" : "", (double)n->route.scale);
    case GRAPH_GLU:
    case GRAPH_ACT:
        return str_printf(out, " %s", act_names[n->act]);
    case GRAPH_SCALE:
        return n->w.data ? 0 : str_printf(out, " by %.9g", (double)n->f);
    case GRAPH_BLEND:
        return str_printf(out, " %u streams to %u", n->blend.n_in, n->blend.n_out);
    case GRAPH_LEVEL:
        return str_printf(out, " least %.9g", (double)n->f);
    case GRAPH_PEAKS:
        return str_printf(out, " above %.9g", (double)n->f);
    case GRAPH_TURN:
        return str_printf(out, " %u rounds in groups of %u%s%s", n->turn->n_rounds, n->turn->group,
                          n->turn->factors ? " scaled" : "", n->turn->order ? " ordered" : "");
    default:
        return 0;
    }
}

static int dump_node(graph_ref ref, const struct graph_node *n, struct str *out)
{
    int r = n->slots > 0 ? str_printf(out, "%%%d [%u slots of %u%s] = %s", ref, n->slots, n->width,
                                      n->rows_kept ? " kept" : "", graph_op_name(n->op))
                         : str_printf(out, "%%%d [%u%s] = %s", ref, n->width,
                                      n->rows_kept ? " kept" : "", graph_op_name(n->op));

    for (unsigned i = 0; r >= 0 && i < ARRAY_SIZE(n->src); i++)
        if (n->src[i] >= 0)
            r = str_printf(out, " %%%d", n->src[i]);
    if (r >= 0 && n->w.data)
        r = dump_weight("", &n->w, out);
    if (r >= 0 && n->bias.data)
        r = dump_weight(" bias", &n->bias, out);
    if (r >= 0)
        r = dump_params(n, out);
    if (r >= 0)
        r = str_putc(out, '\n');
    return r < 0 ? r : 0;
}

int graph_dump(const struct graph *g, struct str *out)
{
    const size_t len = out->len;

    for (size_t i = 0; i < graph_n_nodes(g); i++) {
        const int r = dump_node((graph_ref)i, graph_node(g, (graph_ref)i), out);

        if (r < 0) {
            out->len = len;
            if (out->data)
                out->data[len] = 0;
            return r;
        }
    }
    return 0;
}
