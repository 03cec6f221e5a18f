/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds feed-forward parts with experts (Shazeer et al. 2017; Fedus et al. 2022).
 *
 * A row uses only some experts, which its scores select. Some models also have an expert that all
 * rows use (Dai et al. 2024); its weight is 1, or a sigmoid of another score.
 */
#include "model/arch.h"

static graph_ref experts_route(const struct model *m, struct graph *g, uint32_t i_layer,
                               graph_ref scores)
{
    const struct hparams_experts *e = &m->hp->experts;
    const struct route_params route = {
        .score = e->score,
        .n_used = e->n_used,
        .normalized = e->norm_topk,
        .scale = e->scale != 0 ? e->scale : 1,
    };

    return graph_route(g, scores, layer_w(m, i_layer, SLOT_ROUTER_CHOICE),
                       layer_w(m, i_layer, SLOT_ROUTER_FACTORS), &route);
}

static graph_ref experts_shared(const struct model *m, struct graph *g, uint32_t i_layer,
                                graph_ref h)
{
    graph_ref y =
        graph_glu(g, layer_linear(m, g, i_layer, h, SLOT_SHARED_GATE, SLOT_ABSENT),
                  layer_linear(m, g, i_layer, h, SLOT_SHARED_UP, SLOT_ABSENT), m->hp->act);

    y = layer_linear(m, g, i_layer, y, SLOT_SHARED_DOWN, SLOT_ABSENT);
    if (!layer_w(m, i_layer, SLOT_SHARED_ROUTER)->data)
        return y;
    return graph_glu(g, layer_linear(m, g, i_layer, h, SLOT_SHARED_ROUTER, SLOT_ABSENT), y,
                     GRAPH_ACT_SIGMOID);
}

graph_ref layer_experts(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h)
{
    return layer_experts_of(m, g, i_layer, h,
                            layer_linear(m, g, i_layer, h, SLOT_ROUTER, SLOT_ROUTER_BIAS));
}

graph_ref layer_experts_of(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h,
                           graph_ref scores)
{
    const graph_ref route = experts_route(m, g, i_layer, scores);
    const graph_ref gate = graph_matmul_experts(g, h, route, layer_w(m, i_layer, SLOT_GATE_EXPERTS),
                                                layer_w(m, i_layer, SLOT_GATE_EXPERTS_BIAS));
    const graph_ref up = graph_matmul_experts(g, h, route, layer_w(m, i_layer, SLOT_UP_EXPERTS),
                                              layer_w(m, i_layer, SLOT_UP_EXPERTS_BIAS));
    graph_ref y = graph_glu(g, gate, up, m->hp->act);

    y = graph_matmul_experts(g, y, route, layer_w(m, i_layer, SLOT_DOWN_EXPERTS),
                             layer_w(m, i_layer, SLOT_DOWN_EXPERTS_BIAS));
    y = graph_mix(g, y, route);
    return layer_w(m, i_layer, SLOT_SHARED_DOWN)->data
               ? graph_add(g, y, experts_shared(m, g, i_layer, h))
               : y;
}
