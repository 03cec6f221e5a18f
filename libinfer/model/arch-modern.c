/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements ModernBERT (Warner et al. 2024).
 *
 * The model is an encoder with norms before attention and before gated units. The first attention
 * has no norm, because its input is the normalized embedding. In every third layer, attention
 * covers the whole text. In the other layers attention is limited to a window, and the rotation has
 * another base.
 */
#include "model/arch.h"

static int bind_layer(struct binder *b, uint32_t i_layer)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n_embd = hp->n_embd, n_ff = hp->n_ff, n = hp->n_heads * hp->head_dim;
    const struct bind_slot slots[] = {
        BIND_SLOT("attn_norm.weight", attn_norm, 1, n_embd, i_layer > 0),
        BIND_SLOT("attn_norm.bias", attn_norm_bias, 1, n_embd, false),
        BIND_SLOT("attn_output.weight", out, n_embd, n, true),
        BIND_SLOT("attn_output.bias", out_bias, 1, n_embd, false),
        BIND_SLOT("ffn_norm.weight", ffn_norm, 1, n_embd, true),
        BIND_SLOT("ffn_norm.bias", ffn_norm_bias, 1, n_embd, false),
        BIND_SLOT("ffn_up.weight", up_gate, 2 * n_ff, n_embd, true),
        BIND_SLOT("ffn_up.bias", up_gate_bias, 1, 2 * n_ff, false),
        BIND_SLOT("ffn_down.weight", down, n_embd, n_ff, true),
        BIND_SLOT("ffn_down.bias", down_bias, 1, n_embd, false),
    };
    struct model_layer *l = &b->m->layers[i_layer];
    int r;

    r = bind_qkv(b, i_layer);
    if (r == 0)
        r = bind_slots(b, i_layer, slots, ARRAY_SIZE(slots));
    if (r < 0)
        return r;
    /* The activation is applied to the first half of the rows. */
    l->gate = bind_rows(&l->up_gate, 0, n_ff);
    l->gate_bias = bind_rows(&l->up_gate_bias, 0, n_ff);
    l->up = bind_rows(&l->up_gate, n_ff, n_ff);
    l->up_bias = bind_rows(&l->up_gate_bias, n_ff, n_ff);
    return 0;
}

static int bind_modern(struct model *m, struct inf_err *reterr)
{
    const uint32_t n_embd = m->hp->n_embd;
    const struct bind_slot ends[] = {
        BIND_END("token_embd.weight", embd, m->hp->n_vocab, n_embd, true),
        BIND_END("token_embd_norm.weight", embd_norm, 1, n_embd, true),
        BIND_END("token_embd_norm.bias", embd_norm_bias, 1, n_embd, false),
        BIND_END("output_norm.weight", out_norm, 1, n_embd, true),
        BIND_END("output_norm.bias", out_norm_bias, 1, n_embd, false),
    };

    return bind_encoder(m, ends, ARRAY_SIZE(ends), bind_layer, reterr);
}

static graph_ref build_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    const float eps = m->hp->norm_eps;
    graph_ref x, h;

    x = graph_layer_norm(g, layer_embed(m, g), &m->embd_norm, &m->embd_norm_bias, eps);
    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct model_layer *l = &m->layers[i];

        h = l->attn_norm.data ? graph_layer_norm(g, x, &l->attn_norm, &l->attn_norm_bias, eps) : x;
        h = layer_attend(m, g, i, 0, h, true);
        if (layer_rows_end(m, i, pooling)) {
            h = graph_rows(g, h);
            x = graph_rows(g, x);
        }
        x = graph_add(g, x, graph_matmul(g, h, &l->out, &l->out_bias));
        h = graph_layer_norm(g, x, &l->ffn_norm, &l->ffn_norm_bias, eps);
        h = graph_glu(g, graph_matmul(g, h, &l->gate, &l->gate_bias),
                      graph_matmul(g, h, &l->up, &l->up_bias), m->hp->act);
        x = graph_add(g, x, graph_matmul(g, h, &l->down, &l->down_bias));
    }
    return graph_layer_norm(g, x, &m->out_norm, &m->out_norm_bias, eps);
}

const struct arch arch_modern_bert = {
    .name = "modern-bert", .bind = bind_modern, .build_rows = build_rows};
