/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements EmbeddingGemma (Vera et al. 2025), which is Gemma 3 as an encoder.
 *
 * Attention is bidirectional. In most layers attention is limited to a window, and in these layers
 * the rotation has another base. There are norms before and after attention, and before and after
 * the feed-forward layers.
 */
#include "model/arch.h"

static int bind_layer(struct binder *b, uint32_t i_layer)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n_embd = hp->n_embd, n_ff = hp->n_ff;
    const uint32_t n_q = hp->n_heads * hp->head_dim, n_kv = hp->n_kv_heads * hp->head_dim;
    const struct bind_slot slots[] = {
        BIND_SLOT("attn_norm.weight", attn_norm, 1, n_embd, true),
        BIND_SLOT("attn_q.weight", q, n_q, n_embd, true),
        BIND_SLOT("attn_k.weight", k, n_kv, n_embd, true),
        BIND_SLOT("attn_v.weight", v, n_kv, n_embd, true),
        BIND_SLOT("attn_q_norm.weight", q_norm, 1, hp->head_dim, true),
        BIND_SLOT("attn_k_norm.weight", k_norm, 1, hp->head_dim, true),
        BIND_SLOT("attn_output.weight", out, n_embd, n_q, true),
        BIND_SLOT("post_attention_norm.weight", attn_out_norm, 1, n_embd, true),
        BIND_SLOT("ffn_norm.weight", ffn_norm, 1, n_embd, true),
        BIND_SLOT("ffn_gate.weight", gate, n_ff, n_embd, true),
        BIND_SLOT("ffn_up.weight", up, n_ff, n_embd, true),
        BIND_SLOT("ffn_down.weight", down, n_embd, n_ff, true),
        BIND_SLOT("post_ffw_norm.weight", out_norm, 1, n_embd, true),
    };

    return bind_slots(b, i_layer, slots, ARRAY_SIZE(slots));
}

static int bind_gemma(struct model *m, struct inf_err *reterr)
{
    const struct bind_slot ends[] = {
        BIND_END("token_embd.weight", embd, m->hp->n_vocab, m->hp->n_embd, true),
        BIND_END("output_norm.weight", out_norm, 1, m->hp->n_embd, true),
    };

    return bind_encoder(m, ends, ARRAY_SIZE(ends), bind_layer, reterr);
}

static graph_ref build_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    const float eps = m->hp->norm_eps;
    graph_ref x = layer_embed(m, g), h;

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct model_layer *l = &m->layers[i];

        h = layer_attend(m, g, i, 0, graph_rms_norm(g, x, &l->attn_norm, eps, 0), true);
        if (layer_rows_end(m, i, pooling)) {
            h = graph_rows(g, h);
            x = graph_rows(g, x);
        }
        h = graph_matmul(g, h, &l->out, NULL);
        x = graph_add(g, x, graph_rms_norm(g, h, &l->attn_out_norm, eps, 0));
        h = graph_rms_norm(g, x, &l->ffn_norm, eps, 0);
        h = graph_glu(g, graph_matmul(g, h, &l->gate, NULL), graph_matmul(g, h, &l->up, NULL),
                      m->hp->act);
        h = graph_matmul(g, h, &l->down, NULL);
        x = graph_add(g, x, graph_rms_norm(g, h, &l->out_norm, eps, 0));
    }
    return graph_rms_norm(g, x, &m->out_norm, eps, 0);
}

const struct arch arch_gemma_embedding = {
    .name = "gemma-embedding", .bind = bind_gemma, .build_rows = build_rows};
