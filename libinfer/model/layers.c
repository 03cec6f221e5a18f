/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds parts of graphs that architectures share. A weight that a model does not have (a bias, a
 * norm) is zeroed, and the graph gets no node for it.
 */
#include <math.h>

#include "model/head.h"

graph_ref layer_embed(const struct model *m, struct graph *g)
{
    const graph_ref x =
        graph_embed(g, model_w(m, SLOT_EMBD), m->hp->embd_scale > 0 ? m->hp->embd_scale : 1.0f);

    return layer_norm(m, g, m->hp->n_layers, x, SLOT_EMBD_NORM);
}

void layer_begin(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x)
{
    graph_begin_layer(g, i_layer);
    if (m->taps)
        head_tap(m->taps, g, i_layer, x);
}

/* Returns the matrices that the task adds to @w; NULL: there is no task, or it adds no matrices to
 * @w. */
static const struct model_lora *lora_of(const struct model *m, const struct weight *w)
{
    const size_t n = model_n_loras(m) - 1;
    const struct model_lora *lora;

    if (!m->task_loras)
        return NULL;
    if (w == &m->multi)
        lora = &m->task_loras[n];
    else if (w >= m->weights && w < m->weights + n)
        lora = &m->task_loras[w - m->weights];
    else
        return NULL;
    return lora->a.data ? lora : NULL;
}

graph_ref layer_product(const struct model *m, struct graph *g, graph_ref x, const struct weight *w,
                        const struct weight *bias)
{
    const struct model_lora *lora = lora_of(m, w);
    const graph_ref y = graph_matmul(g, x, w, bias);
    graph_ref h;

    if (!lora)
        return y;
    h = graph_matmul(g, x, &lora->a, NULL);
    if (m->hp->embed.lora_scale != 1)
        h = graph_scale(g, h, m->hp->embed.lora_scale);
    return graph_add(g, y, graph_matmul(g, h, &lora->b, NULL));
}

/* Returns the slot of the factor of the results of a matrix, or SLOT_ABSENT. */
static enum slot factor_of(enum slot w)
{
    switch (w) {
    case SLOT_Q:
        return SLOT_Q_FACTOR;
    case SLOT_K:
        return SLOT_K_FACTOR;
    case SLOT_V:
        return SLOT_V_FACTOR;
    case SLOT_OUT:
        return SLOT_OUT_FACTOR;
    case SLOT_GATE:
        return SLOT_GATE_FACTOR;
    case SLOT_UP:
        return SLOT_UP_FACTOR;
    case SLOT_DOWN:
        return SLOT_DOWN_FACTOR;
    default:
        return SLOT_ABSENT;
    }
}

graph_ref layer_linear(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                       enum slot w, enum slot bias)
{
    const struct weight *factor = layer_w(m, i_layer, factor_of(w));
    const graph_ref y = layer_product(m, g, x, layer_w(m, i_layer, w), layer_w(m, i_layer, bias));

    return factor->data ? graph_scale(g, y, *(const float *)factor->data) : y;
}

graph_ref layer_norm(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                     enum slot norm)
{
    const struct weight *w = layer_w(m, i_layer, norm);

    if (!w->data)
        return x;
    if (!m->arch->desc.layer_norms)
        return graph_rms_norm(g, x, w, m->hp->norm_eps, 0);
    return graph_layer_norm(g, x, w, layer_w(m, i_layer, norm + 1), m->hp->norm_eps);
}

graph_ref layer_heads(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                      enum slot norm)
{
    const struct rope_params rope = rope_of_layer(m, i_layer);
    const uint32_t head_dim = hparams_head_dim(m->hp, i_layer);

    if (layer_w(m, i_layer, norm)->data)
        x = graph_rms_norm(g, x, layer_w(m, i_layer, norm), m->hp->norm_eps, head_dim);
    return graph_rope(g, x, head_dim, &rope);
}

struct attn_params layer_attn_params(const struct model *m, uint32_t i_layer)
{
    const struct hparams *hp = m->hp;
    const uint32_t head_dim = hparams_head_dim(hp, i_layer);
    const struct state_place place = group_place(m, i_layer);

    return (struct attn_params){
        .i_group = place.i_group,
        .i_layer = place.i_layer,
        .n_heads = hparams_n_heads(hp, i_layer),
        .n_kv_heads = hparams_n_kv_heads(hp, i_layer),
        .head_dim = head_dim,
        .scale = hp->attn_scale > 0 ? hp->attn_scale : (float)(1.0 / sqrt((double)head_dim)),
        .window = hparams_window(hp, i_layer),
        .both_ways = hp->embed.encoder,
        .shared = hp->layers[i_layer].shared > 0,
        .softcap = hp->attn_softcap,
        .sinks = *layer_w(m, i_layer, SLOT_SINKS),
    };
}

struct attn_params layer_attn_once(const struct model *m, uint32_t i_layer)
{
    struct attn_params attn = layer_attn_params(m, i_layer);

    attn.i_group = attn.i_layer = 0;
    return attn;
}

graph_ref layer_attend(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h,
                       const struct attn_params *attn)
{
    graph_ref q, k, v;

    q = layer_linear(m, g, i_layer, h, SLOT_Q, SLOT_Q_BIAS);
    q = layer_heads(m, g, i_layer, q, SLOT_Q_NORM);
    if (attn->shared)
        return graph_attention_shared(g, q, attn);
    k = layer_linear(m, g, i_layer, h, SLOT_K, SLOT_K_BIAS);
    k = layer_heads(m, g, i_layer, k, SLOT_K_NORM);
    v = layer_linear(m, g, i_layer, h, SLOT_V, SLOT_V_BIAS);
    return graph_attention(g, q, k, v, attn);
}

graph_ref layer_ff(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h)
{
    return m->hp->layers[i_layer].sparse ? layer_experts(m, g, i_layer, h)
                                         : layer_gated_ff(m, g, i_layer, h);
}

graph_ref layer_gated_ff(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h)
{
    graph_ref up, y;

    if (layer_w(m, i_layer, SLOT_GATE)->data) {
        const graph_ref gate = layer_linear(m, g, i_layer, h, SLOT_GATE, SLOT_GATE_BIAS);

        up = layer_linear(m, g, i_layer, h, SLOT_UP, SLOT_UP_BIAS);
        y = graph_glu(g, gate, up, m->hp->act);
    } else {
        y = graph_act(g, layer_linear(m, g, i_layer, h, SLOT_UP, SLOT_UP_BIAS), m->hp->act);
    }
    y = layer_norm(m, g, i_layer, y, SLOT_FFN_SUB_NORM);
    return layer_linear(m, g, i_layer, y, SLOT_DOWN, SLOT_DOWN_BIAS);
}

graph_ref layer_add(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                    graph_ref h, enum slot norm)
{
    return graph_add(g, x, layer_norm(m, g, i_layer, h, norm));
}

/* Computes x + attention(norm(x)). If @ends, only rows with requested logits remain after
 * attention, because rows do not depend on each other there. */
static graph_ref layer_attention(const struct model *m, struct graph *g, uint32_t i_layer,
                                 graph_ref x, const struct attn_params *attn, bool ends)
{
    graph_ref h = layer_norm(m, g, i_layer, x, SLOT_ATTN_NORM);

    h = layer_attend(m, g, i_layer, h, attn);
    if (ends) {
        h = graph_rows(g, h);
        x = graph_rows(g, x);
    }
    h = layer_norm(m, g, i_layer, h, SLOT_ATTN_SUB_NORM);
    h = layer_linear(m, g, i_layer, h, SLOT_OUT, SLOT_OUT_BIAS);
    return layer_add(m, g, i_layer, x, h, SLOT_ATTN_POST_NORM);
}

/* Computes x + feed_forward(norm(x)). */
static graph_ref layer_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer,
                                    graph_ref x)
{
    const graph_ref h = layer_norm(m, g, i_layer, x, SLOT_FFN_NORM);

    return layer_add(m, g, i_layer, x, layer_ff(m, g, i_layer, h), SLOT_FFN_POST_NORM);
}

graph_ref layer_whole(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                      const struct attn_params *attn, bool ends)
{
    return layer_feed_forward(m, g, i_layer, layer_attention(m, g, i_layer, x, attn, ends));
}

void layer_head(const struct model *m, struct graph *g, graph_ref x)
{
    x = layer_norm(m, g, m->hp->n_layers, x, SLOT_OUT_NORM);
    if (m->exports || m->assisted)
        graph_export(g, x);
    if (m->exports)
        x = graph_rows(g, x);
    x = graph_matmul(g, x, model_w(m, SLOT_HEAD), NULL);
    if (m->hp->final_softcap > 0)
        x = graph_cap(g, x, m->hp->final_softcap);
    graph_output(g, x);
}

void layer_decoder(const struct model *m, struct graph *g)
{
    graph_ref x = layer_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct attn_params attn = layer_attn_params(m, i);

        layer_begin(m, g, i, x);
        x = layer_whole(m, g, i, x, &attn, i == m->hp->n_layers - 1);
    }
    layer_head(m, g, x);
}

graph_ref layer_decoder_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    graph_ref x = layer_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct attn_params attn = layer_attn_once(m, i);

        x = layer_whole(m, g, i, x, &attn, layer_rows_end(m, i, pooling));
    }
    return layer_norm(m, g, m->hp->n_layers, x, SLOT_OUT_NORM);
}
