/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the layers, and builds the parts of graphs, that Gemma 3n, Gemma 4 and the assistants of
 * Gemma 4 share. */
#include "model/gemma.h"

#include <errno.h>
#include <math.h>

#include "core/err.h"

int gemma_share_layers(struct hparams *hp, struct inf_err *reterr)
{
    const uint32_t n = MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS),
                   n_shared = hp->gemma.n_shared;
    uint32_t owner[2] = {0, 0}; /* 1 + the last layer of each kind that does not share */

    if (n_shared >= n)
        return err_set(reterr, EBADMSG, "%u of %u layers share keys and values", n_shared, n);
    for (uint32_t i = 0; i < n; i++) {
        const bool full = hp->layers[i].kind == LAYER_FULL;

        if (i < n - n_shared) {
            owner[full] = i + 1;
            continue;
        }
        if (owner[full] == 0)
            return err_set(reterr, EBADMSG,
                           "layer %u shares keys and values, but no earlier layer %s a window has "
                           "its own",
                           i, full ? "without" : "with");
        hp->layers[i].shared = (uint16_t)owner[full];
    }
    return 0;
}

const struct arch_window gemma4_window = {
    .absent = 512, .every = 6, .theta = 10000, .hf_theta_key = "rope_local_base_freq"};

void gemma4_set_heads(struct hparams *hp, enum arch_source source)
{
    const struct hparams_gemma *p = &hp->gemma;
    const uint32_t n = MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS);

    hp->attn_scale = 1;
    hp->head_dim = p->head_dim_full;
    hp->rope_dims = p->head_dim_full;
    hp->rope_dims_window = p->head_dim_window;
    if (hp->rope_proportional)
        hp->rope_pairs = (uint32_t)(hp->rope_partial * (float)p->head_dim_full / 2);
    for (uint32_t i = 0; i < n; i++) {
        struct hparams_layer *l = &hp->layers[i];
        const bool full = l->kind == LAYER_FULL;

        l->head_dim = full ? p->head_dim_full : p->head_dim_window;
        l->sparse = hp->experts.n > 0;
        if (source == ARCH_HF && full && p->k_is_v && p->n_kv_heads_full > 0)
            l->n_kv_heads = p->n_kv_heads_full;
        if (source == ARCH_HF && l->shared > 0 && p->double_shared)
            l->n_ff = 2 * hp->n_ff;
    }
}

graph_ref gemma_attention(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h)
{
    static const struct weight none;
    const struct attn_params attn = layer_attn_params(m, i_layer);
    graph_ref q, k, v, raw;

    q = layer_linear(m, g, i_layer, h, SLOT_Q, SLOT_ABSENT);
    q = layer_heads(m, g, i_layer, q, SLOT_Q_NORM);
    if (attn.shared)
        return graph_attention_shared(g, q, &attn);
    raw = layer_linear(m, g, i_layer, h, SLOT_K, SLOT_ABSENT);
    k = layer_heads(m, g, i_layer, raw, SLOT_K_NORM);
    v = layer_w(m, i_layer, SLOT_V)->data ? layer_linear(m, g, i_layer, h, SLOT_V, SLOT_ABSENT)
                                          : raw;
    v = graph_rms_norm(g, v, &none, m->hp->norm_eps, attn.head_dim);
    return graph_attention(g, q, k, v, &attn);
}

graph_ref gemma_inputs(const struct model *m, struct graph *g, graph_ref x)
{
    const uint32_t width = m->hp->gemma.per_layer;
    const struct weight *table = model_w(m, SLOT_PER_LAYER_EMBD);
    graph_ref y;

    y = graph_matmul(g, x, model_w(m, SLOT_PER_LAYER_PROJ), NULL);
    y = graph_scale(g, y, (float)(1 / sqrt((double)m->hp->n_embd)));
    y = graph_rms_norm(g, y, model_w(m, SLOT_PER_LAYER_NORM), m->hp->norm_eps, width);
    y = graph_add(g, y, graph_embed(g, table, sqrtf((float)width)));
    return graph_scale(g, y, (float)sqrt(0.5));
}

graph_ref gemma_apply_inputs(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                             graph_ref inputs)
{
    graph_ref h;

    h = graph_glu(g, layer_linear(m, g, i_layer, x, SLOT_PER_LAYER_GATE, SLOT_ABSENT), inputs,
                  m->hp->act);
    return layer_linear(m, g, i_layer, h, SLOT_PER_LAYER_OUT, SLOT_ABSENT);
}
