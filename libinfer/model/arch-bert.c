/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the BERT encoders: BERT (Devlin et al. 2019), RoBERTa and XLM-RoBERTa (Liu et al.
 * 2019, Conneau et al. 2020), Nomic's BERT with rotations and gated units (Nussbaum et al. 2024),
 * and GTE (Zhang et al. 2024).
 *
 * Norms come after the sums: x = norm(x + attention(x)), then x = norm(x + feed_forward(x)).
 * Hyperparameters and the presence of weights tell these models apart.
 */
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {
    {"bert", ROPE_HALF},
    {"nomic-bert", ROPE_HALF, .gated = true},
};

static const struct arch_field fields[] = {
    {FIELD(norm_eps), FIELD_NUMBER, "attention.layer_norm_epsilon", "layer_norm_eps",
     "layer_norm_epsilon", 1e-12, FIELD_IN_GGUF},
    {FIELD(embed.n_types), FIELD_COUNT, NULL, "type_vocab_size", .absent = 2},
};

static const struct arch_field fields_gte[] = {
    {FIELD(embed.n_types), FIELD_COUNT, NULL, "type_vocab_size", .absent = 1},
};

/* The default of GTE's rotary base is 160000 in transformers' own classes (Gte…), and 10000 in
 * Alibaba's (New…). */
#define BERT(name, flag)                                                                           \
    {                                                                                              \
        name, .n_ctx = 512, .flags = (flag), .kind = BERT_PLAIN                                    \
    }
#define ROBERTA(name, flag)                                                                        \
    {                                                                                              \
        name, .n_ctx = 512, .flags = (flag), .kind = BERT_ROBERTA                                  \
    }
#define GTE(name, base, flag)                                                                      \
    {                                                                                              \
        name, .n_ctx = 8192, .theta = (base), .flags = (flag), .kind = BERT_GTE,                   \
              ARCH_TABLE(fields, fields_gte)                                                       \
    }

static const struct arch_class classes[] = {
    BERT("BertModel", 0),
    BERT("HF_ColBERT", CLASS_LATE),
    BERT("BertForMaskedLM", 0),
    BERT("BertForSequenceClassification", CLASS_CLASSIFIES),
    ROBERTA("RobertaModel", 0),
    ROBERTA("RobertaForMaskedLM", 0),
    ROBERTA("RobertaForSequenceClassification", CLASS_CLASSIFIES),
    ROBERTA("XLMRobertaModel", 0),
    ROBERTA("XLMRobertaForMaskedLM", 0),
    ROBERTA("XLMRobertaForSequenceClassification", CLASS_CLASSIFIES),
    ROBERTA("CamembertModel", 0),
    {"NomicBertModel", .n_ctx = 2048, .kind = BERT_NOMIC},
    GTE("NewModel", 10000, 0),
    GTE("NewForMaskedLM", 10000, 0),
    GTE("NewForSequenceClassification", 10000, CLASS_CLASSIFIES),
    GTE("GteModel", 160000, 0),
    GTE("GteForMaskedLM", 160000, 0),
    GTE("GteForSequenceClassification", 160000, CLASS_CLASSIFIES),
};

static const struct arch_refused refused[] = {
    {"rotary_emb_fraction", 1},
    {"rotary_scaling_factor", 0},
    {"num_experts", 0},
    {"moe_every_n_layers", 0},
    {"prenorm", 0},
    {"parallel_block", 0},
    {"rotary_emb_interleaved", 0},
    {"is_decoder", 0},
    {"use_rms_norm", 0},
    {"use_bidirectional_attention", 0},
    {"logn_attention_scale", 0},
};

/* The second half of the rows of ffn_up_gate belongs to the gate. */
static const struct arch_slot slots[] = {
    SLOTS_ENCODER_EMBD,
    {SLOT_POS_EMBD, "position_embd.weight", NULL, NULL, DIM_POS, DIM_EMBD,
     .flags = SLOT_WHOLE | SLOT_TABLE},
    {SLOT_TYPE_EMBD, "token_types.weight", NULL, NULL, DIM_TYPES, DIM_EMBD,
     .flags = SLOT_WHOLE | SLOT_TABLE},
    SLOTS_ENCODER_ATTENTION,
    {SLOT_ATTN_POST_NORM, "attn_output_norm.weight", NULL, NULL, DIM_1, DIM_EMBD},
    {SLOT_ATTN_POST_NORM_BIAS, "attn_output_norm.bias", NULL, NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_OPTIONAL},
    {SLOT_GATE_UP, "ffn_up_gate.weight", NULL, NULL, DIM_FF_2, DIM_EMBD,
     .flags = SLOT_OPTIONAL | SLOT_GATED},
    {SLOT_UP, "ffn_up.weight", NULL, NULL, DIM_FF, DIM_EMBD, .part_of = SLOT_GATE_UP},
    {SLOT_UP_BIAS, "ffn_up.bias", NULL, NULL, DIM_1, DIM_FF, .flags = SLOT_OPTIONAL},
    {SLOT_GATE, "ffn_gate.weight", NULL, NULL, DIM_FF, DIM_EMBD, .flags = SLOT_GATED,
     .part_of = SLOT_GATE_UP},
    {SLOT_GATE_BIAS, "ffn_gate.bias", NULL, NULL, DIM_1, DIM_FF,
     .flags = SLOT_OPTIONAL | SLOT_GATED},
    {SLOT_DOWN, "ffn_down.weight", NULL, NULL, DIM_EMBD, DIM_FF},
    {SLOT_DOWN_BIAS, "ffn_down.bias", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_OPTIONAL},
    {SLOT_FFN_POST_NORM, "layer_output_norm.weight", NULL, NULL, DIM_1, DIM_EMBD},
    {SLOT_FFN_POST_NORM_BIAS, "layer_output_norm.bias", NULL, NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_OPTIONAL},
};

/* GGUF files do not name the activations. */
static int bert_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr UNUSED)
{
    hp->embed.head_act = GRAPH_ACT_TANH;
    if (source == ARCH_GGUF)
        hp->act = hp->embed.gated ? GRAPH_ACT_SILU : GRAPH_ACT_GELU_ERF;
    return 0;
}

/* Returns the rows of the position table that positions use. */
static struct weight bert_positions(const struct model *m)
{
    const struct hparams_embed *e = &m->hp->embed;
    const uint32_t first = e->pos_first - e->pos_skips;

    return bind_rows(model_w(m, SLOT_POS_EMBD), first, e->n_pos - first);
}

static graph_ref bert_embed(const struct model *m, struct graph *g)
{
    const struct weight positions = bert_positions(m);
    graph_ref x = graph_embed(g, model_w(m, SLOT_EMBD), 1.0f);

    if (model_w(m, SLOT_TYPE_EMBD)->data)
        x = graph_add(g, x, graph_embed_by(g, model_w(m, SLOT_TYPE_EMBD), GRAPH_KEY_TYPE));
    if (positions.data)
        x = graph_add(g, x, graph_embed_by(g, &positions, GRAPH_KEY_POSITION));
    return layer_norm(m, g, m->hp->n_layers, x, SLOT_EMBD_NORM);
}

/* Builds the attention of a layer. Models with a table of positions do not rotate q and k. */
static graph_ref bert_attend(const struct model *m, struct graph *g, uint32_t i, graph_ref x)
{
    const struct attn_params attn = layer_attn_once(m, i);

    if (!model_w(m, SLOT_POS_EMBD)->data)
        return layer_attend(m, g, i, x, &attn);
    return graph_attention(g, layer_linear(m, g, i, x, SLOT_Q, SLOT_Q_BIAS),
                           layer_linear(m, g, i, x, SLOT_K, SLOT_K_BIAS),
                           layer_linear(m, g, i, x, SLOT_V, SLOT_V_BIAS), &attn);
}

static graph_ref bert_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    graph_ref x = bert_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        graph_ref h = bert_attend(m, g, i, x);

        if (layer_rows_end(m, i, pooling)) {
            h = graph_rows(g, h);
            x = graph_rows(g, x);
        }
        h = layer_linear(m, g, i, h, SLOT_OUT, SLOT_OUT_BIAS);
        x = layer_norm(m, g, i, graph_add(g, x, h), SLOT_ATTN_POST_NORM);
        h = layer_ff(m, g, i, x);
        x = layer_norm(m, g, i, graph_add(g, x, h), SLOT_FFN_POST_NORM);
    }
    return x;
}

const struct arch arch_bert = {
    .desc = {"bert", .encoder = true, .layer_norms = true, ARCH_TABLE(ggufs, ggufs),
             ARCH_TABLE(classes, classes), ARCH_TABLE(fields, fields),
             ARCH_TABLE(refused_hf, refused), ARCH_TABLE(slots, slots), .finish = bert_finish,
             .hf_extra = hf_extra_bert, .own_positions = true, .hf_name = hf_name_encoder},
    .build_rows = bert_rows,
};
