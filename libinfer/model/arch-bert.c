/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the BERT encoders: BERT (Devlin et al. 2019), RoBERTa and XLM-RoBERTa (Liu et al.
 * 2019, Conneau et al. 2020), Nomic's BERT with rotations and gated units (Nussbaum et al. 2024),
 * and GTE (Zhang et al. 2024).
 *
 * Norms come after the sums: x = norm(x + attention(x)), then x = norm(x + feed_forward(x)).
 * Hyperparameters and the presence of weights tell these models apart.
 */
#include <math.h>
#include <stdio.h>

#include "model/arch.h"

/* Returns whether the two matrices of a gated unit are stored as one. */
static bool has_both(const struct model *m, uint32_t i_layer)
{
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.ffn_up_gate.weight", i_layer);
    return m->hp->embed.gated && format_find(m->f, name);
}

static int bind_layer(struct binder *b, uint32_t i_layer)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n_embd = hp->n_embd, n_ff = hp->n_ff, n = hp->n_heads * hp->head_dim;
    const bool both = has_both(b->m, i_layer);
    const struct bind_slot slots[] = {
        BIND_SLOT("attn_output.weight", out, n_embd, n, true),
        BIND_SLOT("attn_output.bias", out_bias, 1, n_embd, false),
        BIND_SLOT("attn_output_norm.weight", attn_out_norm, 1, n_embd, true),
        BIND_SLOT("attn_output_norm.bias", attn_out_norm_bias, 1, n_embd, false),
        BIND_SLOT("ffn_up_gate.weight", up_gate, 2 * n_ff, n_embd, false),
        BIND_SLOT("ffn_gate.weight", gate, n_ff, n_embd, hp->embed.gated && !both),
        BIND_SLOT("ffn_gate.bias", gate_bias, 1, n_ff, false),
        BIND_SLOT("ffn_up.weight", up, n_ff, n_embd, !both),
        BIND_SLOT("ffn_up.bias", up_bias, 1, n_ff, false),
        BIND_SLOT("ffn_down.weight", down, n_embd, n_ff, true),
        BIND_SLOT("ffn_down.bias", down_bias, 1, n_embd, false),
        BIND_SLOT("layer_output_norm.weight", out_norm, 1, n_embd, true),
        BIND_SLOT("layer_output_norm.bias", out_norm_bias, 1, n_embd, false),
    };
    struct model_layer *l = &b->m->layers[i_layer];
    int r;

    r = bind_qkv(b, i_layer);
    if (r == 0)
        r = bind_slots(b, i_layer, slots, ARRAY_SIZE(slots));
    if (r < 0 || !both)
        return r;
    l->up = bind_rows(&l->up_gate, 0, n_ff);
    l->gate = bind_rows(&l->up_gate, n_ff, n_ff);
    return 0;
}

static int bind_bert(struct model *m, struct inf_err *reterr)
{
    const struct hparams *hp = m->hp;
    const uint32_t n_pos = hp->embed.n_pos, n_embd = hp->n_embd;
    const struct bind_slot ends[] = {
        BIND_END("token_embd.weight", embd, hp->n_vocab, n_embd, true),
        BIND_END("position_embd.weight", pos_embd, n_pos, n_embd, true),
        BIND_END("token_types.weight", type_embd, hp->embed.n_types, n_embd, true),
        BIND_END("token_embd_norm.weight", embd_norm, 1, n_embd, true),
        BIND_END("token_embd_norm.bias", embd_norm_bias, 1, n_embd, false),
    };
    const uint32_t first = hp->embed.pos_first - hp->embed.pos_skips;
    const int r = bind_encoder(m, ends, ARRAY_SIZE(ends), bind_layer, reterr);

    if (r == 0)
        m->pos_embd = bind_rows(&m->pos_embd, first, n_pos - first);
    return r;
}

static graph_ref bert_embed(const struct model *m, struct graph *g)
{
    graph_ref x = graph_embed(g, &m->embd, 1.0f);

    if (m->type_embd.data)
        x = graph_add(g, x, graph_embed_by(g, &m->type_embd, GRAPH_KEY_TYPE));
    if (m->pos_embd.data)
        x = graph_add(g, x, graph_embed_by(g, &m->pos_embd, GRAPH_KEY_POSITION));
    return graph_layer_norm(g, x, &m->embd_norm, &m->embd_norm_bias, m->hp->norm_eps);
}

/* Builds the attention of a layer. Models with a table of positions do not rotate q and k. */
static graph_ref bert_attend(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x)
{
    const struct model_layer *l = &m->layers[i_layer];
    const struct hparams *hp = m->hp;
    const struct attn_params attn = {
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .scale = (float)(1.0 / sqrt((double)hp->head_dim)),
        .both_ways = true,
    };

    if (!m->pos_embd.data)
        return layer_attend(m, g, i_layer, 0, x, true);
    return graph_attention(g, graph_matmul(g, x, &l->q, &l->q_bias),
                           graph_matmul(g, x, &l->k, &l->k_bias),
                           graph_matmul(g, x, &l->v, &l->v_bias), &attn);
}

static graph_ref feed_forward(const struct model *m, struct graph *g, const struct model_layer *l,
                              graph_ref x)
{
    graph_ref h = graph_matmul(g, x, &l->up, &l->up_bias);

    if (l->gate.data)
        h = graph_glu(g, graph_matmul(g, x, &l->gate, &l->gate_bias), h, m->hp->act);
    else
        h = graph_act(g, h, m->hp->act);
    return graph_matmul(g, h, &l->down, &l->down_bias);
}

static graph_ref build_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    graph_ref x = bert_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct model_layer *l = &m->layers[i];
        graph_ref h = bert_attend(m, g, i, x);

        if (layer_rows_end(m, i, pooling)) {
            h = graph_rows(g, h);
            x = graph_rows(g, x);
        }
        h = graph_matmul(g, h, &l->out, &l->out_bias);
        x = graph_layer_norm(g, graph_add(g, x, h), &l->attn_out_norm, &l->attn_out_norm_bias,
                             m->hp->norm_eps);
        h = feed_forward(m, g, l, x);
        x = graph_layer_norm(g, graph_add(g, x, h), &l->out_norm, &l->out_norm_bias,
                             m->hp->norm_eps);
    }
    return x;
}

const struct arch arch_bert = {.name = "bert", .bind = bind_bert, .build_rows = build_rows};
