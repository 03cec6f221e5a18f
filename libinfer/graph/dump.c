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
    [GRAPH_ACT_TANH] = "tanh",
};

static int dump_weight(const char *label, const struct weight *w, struct str *out)
{
    return str_printf(out, "%s %s %s %ux%u", label, w->name ? w->name : "(unnamed)",
                      dtype_info(w->dtype)->name, w->rows, w->cols);
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
        return str_printf(out, " layer %u heads %u/%u dim %u scale %.9g window %u%s%s",
                          n->attn.i_layer, n->attn.n_heads, n->attn.n_kv_heads, n->attn.head_dim,
                          (double)n->attn.scale, n->attn.window,
                          n->attn.both_ways ? " both ways" : "",
                          n->attn.memory ? " over memory" : "");
    case GRAPH_GLU:
    case GRAPH_ACT:
        return str_printf(out, " %s", act_names[n->act]);
    case GRAPH_SCALE:
        return str_printf(out, " by %.9g", (double)n->f);
    default:
        return 0;
    }
}

static int dump_node(graph_ref ref, const struct graph_node *n, struct str *out)
{
    int r = str_printf(out, "%%%d [%u%s] = %s", ref, n->width, n->rows_kept ? " kept" : "",
                       graph_op_name(n->op));

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
