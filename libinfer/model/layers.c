/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds parts of graphs that architectures share. A weight that a model does not have (a bias, a
 * norm of q or k) is zeroed and gives no node.
 */
#include <math.h>

#include "model/arch.h"

graph_ref layer_embed(const struct model *m, struct graph *g)
{
    return graph_embed(g, &m->embd, m->hp->embd_scale > 0 ? m->hp->embd_scale : 1.0f);
}

/* Returns the matrices that the task adds to @w; NULL: there is no task, or it adds no matrices to
 * @w. */
static const struct model_lora *lora_of(const struct model *m, const struct weight *w)
{
    const struct weight *first = (const struct weight *)m->layers;
    const size_t n = MODEL_LORAS(m->hp->n_layers) - 1;
    const struct model_lora *lora;

    if (!m->task_loras)
        return NULL;
    if (w == &m->multi)
        lora = &m->task_loras[n];
    else if (w >= first && w < first + n)
        lora = &m->task_loras[w - first];
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

/* Applies the norm per head, if the model has one, and then the rotation. */
static graph_ref rotate_heads(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                              const struct weight *norm)
{
    const struct rope_params rope = rope_of_layer(m, i_layer);

    if (norm->data)
        x = graph_rms_norm(g, x, norm, m->hp->norm_eps, m->hp->head_dim);
    return graph_rope(g, x, m->hp->head_dim, &rope);
}

graph_ref layer_attend(const struct model *m, struct graph *g, uint32_t i_layer, uint32_t i_store,
                       graph_ref h, bool both_ways)
{
    const struct model_layer *l = &m->layers[i_layer];
    const struct hparams *hp = m->hp;
    const struct attn_params attn = {
        .i_layer = i_store,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .scale = hp->attn_scale > 0 ? hp->attn_scale : (float)(1.0 / sqrt((double)hp->head_dim)),
        .window = hparams_window(hp, i_layer),
        .both_ways = both_ways,
    };
    graph_ref q, k, v;

    q = rotate_heads(m, g, i_layer, layer_product(m, g, h, &l->q, &l->q_bias), &l->q_norm);
    k = rotate_heads(m, g, i_layer, layer_product(m, g, h, &l->k, &l->k_bias), &l->k_norm);
    v = layer_product(m, g, h, &l->v, &l->v_bias);
    return graph_attention(g, q, k, v, &attn);
}

/* Computes x + attention(norm(x)). After the last layer only rows with requested logits remain. */
static graph_ref layer_attention(const struct model *m, struct graph *g, uint32_t i_layer,
                                 graph_ref x)
{
    const struct model_layer *l = &m->layers[i_layer];
    graph_ref h = graph_rms_norm(g, x, &l->attn_norm, m->hp->norm_eps, 0);

    h = layer_attend(m, g, i_layer, i_layer, h, false);
    /* From here on rows do not depend on each other, so rows without requested logits can be
     * dropped. */
    if (i_layer == m->hp->n_layers - 1) {
        h = graph_rows(g, h);
        x = graph_rows(g, x);
    }
    return graph_add(g, x, layer_product(m, g, h, &l->out, &l->out_bias));
}

/* Computes x + feed_forward(norm(x)). */
static graph_ref layer_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer,
                                    graph_ref x)
{
    const struct model_layer *l = &m->layers[i_layer];
    graph_ref h, gate, up;

    h = graph_rms_norm(g, x, &l->ffn_norm, m->hp->norm_eps, 0);
    gate = layer_product(m, g, h, &l->gate, &l->gate_bias);
    up = layer_product(m, g, h, &l->up, &l->up_bias);
    h = graph_glu(g, gate, up, m->hp->act);
    return graph_add(g, x, layer_product(m, g, h, &l->down, &l->down_bias));
}

/* Appends the final norm, the head and the output. */
static void layer_head(const struct model *m, struct graph *g, graph_ref x)
{
    x = graph_rms_norm(g, x, &m->out_norm, m->hp->norm_eps, 0);
    graph_output(g, graph_matmul(g, x, &m->head, NULL));
}

void layer_decoder(const struct model *m, struct graph *g)
{
    graph_ref x = layer_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        graph_begin_layer(g, i);
        x = layer_attention(m, g, i, x);
        x = layer_feed_forward(m, g, i, x);
    }
    layer_head(m, g, x);
}

graph_ref layer_decoder_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    graph_ref x = layer_embed(m, g), h;

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct model_layer *l = &m->layers[i];

        h = graph_rms_norm(g, x, &l->attn_norm, m->hp->norm_eps, 0);
        h = layer_attend(m, g, i, 0, h, false);
        if (layer_rows_end(m, i, pooling)) {
            h = graph_rows(g, h);
            x = graph_rows(g, x);
        }
        x = graph_add(g, x, layer_product(m, g, h, &l->out, &l->out_bias));
        x = layer_feed_forward(m, g, i, x);
    }
    return graph_rms_norm(g, x, &m->out_norm, m->hp->norm_eps, 0);
}
