/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the hybrid models of Qwen: Qwen3-Next (Qwen 2025), and Qwen 3.5, 3.6 and 3.8, dense and
 * with experts.
 *
 * Most layers keep no keys and values: they mix the rows of a sequence with a short convolution and
 * a gated delta rule (Yang et al. 2024, "Gated Delta Networks"). One layer of each group, usually
 * the last of four, has attention. The result of attention is multiplied by the sigmoid of a gate,
 * which the matrix of the queries also computes. Only a part of each head is rotated. In a text
 * without images, the three positions of a token are equal, so the rotation is the usual one.
 *
 * In files of Qwen3-Next, the rows of a recurrent layer's matrices are in the order of the key
 * heads to which they belong. GGUF files of Qwen 3.5 and later have the value heads in another
 * order, in which value head h belongs to key head h % n_k_heads.
 */
#include "core/err.h"
#include "model/arch.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define L2_EPS 1e-6f /* of queries and keys, as in transformers */

static const struct arch_gguf ggufs_next[] = {{"qwen3next", ROPE_HALF}};
static const struct arch_gguf ggufs_35[] = {{"qwen35", ROPE_HALF},
                                            {"qwen35moe", ROPE_HALF, .experts = true}};

#define HYBRID_FLAGS (CLASS_ATTENTION_BIAS | CLASS_TEXT_CONFIG | CLASS_PARTIAL_ROPE)
#define HYBRID_CLASS(name, type, more, ...)                                                        \
    {                                                                                              \
        name, type, .n_kv_heads = 2, .head_dim = 256, .n_ctx = 32768, .partial = 0.25f,            \
                    .flags = HYBRID_FLAGS | (more), __VA_ARGS__                                    \
    }

static const struct arch_field experts_next[] = {
    /* This field replaces that of FIELDS_EXPERTS, whose default is false. */
    {FIELD(experts.norm_topk), FIELD_FLAG, NULL, "norm_topk_prob", .absent = 1},
    FIELDS_EXPERTS(512, 10, 512),
    {FIELD(experts.shared_ff), FIELD_COUNT, NULL, "shared_expert_intermediate_size", .absent = 512},
};
static const struct arch_field experts_35[] = {
    FIELDS_EXPERTS(256, 8, 512),
    {FIELD(experts.shared_ff), FIELD_COUNT, NULL, "shared_expert_intermediate_size", .absent = 512},
};

static const struct arch_class classes_next[] = {
    HYBRID_CLASS("Qwen3NextForCausalLM", "qwen3_next", 0, ARCH_TABLE(fields, experts_next))};
static const struct arch_class classes_35[] = {
    HYBRID_CLASS("Qwen3_5ForCausalLM", "qwen3_5_text", CLASS_PART),
    HYBRID_CLASS("Qwen3_5ForConditionalGeneration", "qwen3_5", 0),
    HYBRID_CLASS("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", CLASS_PART,
                 ARCH_TABLE(fields, experts_35)),
    HYBRID_CLASS("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", 0,
                 ARCH_TABLE(fields, experts_35)),
};

#define HYBRID_FIELDS(ff_flags)                                                                    \
    {FIELD(n_ff), FIELD_COUNT, "feed_forward_length", "intermediate_size", .flags = (ff_flags)},   \
        {FIELD(delta.n_taps),      FIELD_COUNT, "ssm.conv_kernel",                                 \
         "linear_conv_kernel_dim", .absent = 4, .flags = FIELD_IN_GGUF},                           \
        {FIELD(delta.k_dim),    FIELD_COUNT,   "ssm.state_size",                                   \
         "linear_key_head_dim", .absent = 128, .flags = FIELD_IN_GGUF},                            \
        {FIELD(delta.n_k_heads), FIELD_COUNT,  "ssm.group_count",                                  \
         "linear_num_key_heads", .absent = 16, .flags = FIELD_IN_GGUF},                            \
        {FIELD(delta.n_v_heads),   FIELD_COUNT,  "ssm.time_step_rank",                             \
         "linear_num_value_heads", .absent = 32, .flags = FIELD_IN_GGUF},                          \
        {FIELD(delta.v_dim),      FIELD_COUNT,   "ssm.inner_size",                                 \
         "linear_value_head_dim", .absent = 128, .flags = FIELD_IN_GGUF},                          \
        {FIELD(full_every), FIELD_COUNT, "full_attention_interval", "full_attention_interval",     \
         .absent = 4},                                                                             \
        {FIELD(n_extra_layers), FIELD_COUNT, "nextn_predict_layers", "mtp_num_hidden_layers",      \
         "num_nextn_predict_layers"},                                                              \
        {FIELD(experts.n), FIELD_COUNT, "expert_count", NULL},                                     \
        {FIELD(experts.n_used), FIELD_COUNT, "expert_used_count", NULL},                           \
        {FIELD(experts.ff), FIELD_COUNT, "expert_feed_forward_length", NULL},                      \
    {                                                                                              \
        FIELD(experts.shared_ff), FIELD_COUNT, "expert_shared_feed_forward_length", NULL           \
    }

static const struct arch_field fields[] = {HYBRID_FIELDS(0)};

#define HYBRID_RECURRENT(key, hf_name, rows_, cols_, ...)                                          \
    {                                                                                              \
        .gguf = key, .hf = hf_name, .rows = rows_, .cols = cols_, .in = IN_RECURRENT, __VA_ARGS__  \
    }

#define HYBRID_SLOTS                                                                               \
    SLOTS_ENDS,                                                                                    \
        {SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", NULL, DIM_1, DIM_EMBD},     \
        {SLOT_Q,  "attn_q.weight", "self_attn.q_proj.weight", NULL,                                \
         DIM_Q_2, DIM_EMBD,        .in = IN_ATTENTION},                                            \
        {SLOT_K, "attn_k.weight", "self_attn.k_proj.weight", NULL,                                 \
         DIM_KV, DIM_EMBD,        .in = IN_ATTENTION},                                             \
        {SLOT_V, "attn_v.weight", "self_attn.v_proj.weight", NULL,                                 \
         DIM_KV, DIM_EMBD,        .in = IN_ATTENTION},                                             \
        {SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD,                \
         DIM_Q,    .in = IN_ATTENTION},                                                            \
        SLOTS_OUT_BIAS, {SLOT_Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", NULL,                \
                         DIM_1,       DIM_Q_2,       .flags = SLOT_OPTIONAL,  .in = IN_ATTENTION}, \
        {SLOT_K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", NULL,                                \
         DIM_1,       DIM_KV,        .flags = SLOT_OPTIONAL,  .in = IN_ATTENTION},                 \
        {SLOT_V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", NULL,                                \
         DIM_1,       DIM_KV,        .flags = SLOT_OPTIONAL,  .in = IN_ATTENTION},                 \
        SLOTS_QK_NORM,                                                                             \
        HYBRID_RECURRENT("ssm_conv1d.weight", "linear_attn.conv1d.weight", DIM_DELTA_QKV,          \
                         DIM_DELTA_TAPS, .id = SLOT_DELTA_CONV, .flags = SLOT_F32),                \
        HYBRID_RECURRENT("ssm_a", "linear_attn.A_log", DIM_1, DIM_DELTA_HEADS,                     \
                         .id = SLOT_DELTA_LOG_A),                                                  \
        HYBRID_RECURRENT("ssm_dt.bias", "linear_attn.dt_bias", DIM_1, DIM_DELTA_HEADS,             \
                         .id = SLOT_DELTA_DT),                                                     \
        HYBRID_RECURRENT("ssm_norm.weight", "linear_attn.norm.weight", DIM_1, DIM_DELTA_HEAD,      \
                         .id = SLOT_DELTA_NORM, .flags = SLOT_AS_STORED),                          \
        HYBRID_RECURRENT("ssm_out.weight", "linear_attn.out_proj.weight", DIM_EMBD, DIM_DELTA_V,   \
                         .id = SLOT_DELTA_OUT),                                                    \
    {                                                                                              \
        SLOT_FFN_NORM, "post_attention_norm.weight", "post_attention_layernorm.weight", NULL,      \
            DIM_1, DIM_EMBD                                                                        \
    }

static const struct arch_slot slots_next[] = {
    HYBRID_SLOTS,
    HYBRID_RECURRENT("attn_qkv.weight", NULL, DIM_DELTA_QKV, DIM_EMBD, .id = SLOT_DELTA_QKV,
                     .flags = SLOT_OPTIONAL),
    HYBRID_RECURRENT("attn_gate.weight", NULL, DIM_DELTA_V, DIM_EMBD, .id = SLOT_DELTA_GATE,
                     .flags = SLOT_OPTIONAL),
    HYBRID_RECURRENT("ssm_in.weight", "linear_attn.in_proj_qkvz.weight", DIM_DELTA_QKVZ, DIM_EMBD,
                     .id = SLOT_DELTA_QKVZ, .flags = SLOT_OPTIONAL),
    HYBRID_RECURRENT("ssm_ba.weight", "linear_attn.in_proj_ba.weight", DIM_DELTA_HEADS_2, DIM_EMBD,
                     .id = SLOT_DELTA_BA),
    SLOTS_GATED_FF(IN_DENSE),
    SLOTS_EXPERTS,
    SLOTS_SHARED_EXPERT,
    SLOTS_PREDICTOR,
};

static const struct arch_slot slots_35[] = {
    HYBRID_SLOTS,
    HYBRID_RECURRENT("attn_qkv.weight", "linear_attn.in_proj_qkv.weight", DIM_DELTA_QKV, DIM_EMBD,
                     .id = SLOT_DELTA_QKV),
    HYBRID_RECURRENT("attn_gate.weight", "linear_attn.in_proj_z.weight", DIM_DELTA_V, DIM_EMBD,
                     .id = SLOT_DELTA_GATE),
    HYBRID_RECURRENT("ssm_alpha.weight", "linear_attn.in_proj_a.weight", DIM_DELTA_HEADS, DIM_EMBD,
                     .id = SLOT_DELTA_A),
    HYBRID_RECURRENT("ssm_beta.weight", "linear_attn.in_proj_b.weight", DIM_DELTA_HEADS, DIM_EMBD,
                     .id = SLOT_DELTA_B),
    SLOTS_GATED_FF(IN_DENSE),
    SLOTS_EXPERTS,
    SLOTS_SHARED_EXPERT,
    SLOTS_PREDICTOR,
};

/* Tensors "mtp." are used if config.json says how many layers predict further tokens. */
static const char *const unused[] = {"mtp.", "visual.", NULL};

/* Describes the first layer that predicts further tokens. This layer has experts if the last of the
 * other layers has experts. */
static void hybrid_set_predictor(struct hparams *hp)
{
    const uint32_t i_row = hparams_predict_row(hp);

    if (hp->n_extra_layers > 0 && i_row < HPARAMS_MAX_LAYERS)
        hp->layers[i_row] = (struct hparams_layer){.kind = LAYER_PREDICTS,
                                                   .sparse = hp->layers[hp->n_layers - 1].sparse};
}

static int hybrid_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    struct hparams_delta *d = &hp->delta;

    hp->norms_add_one = source == ARCH_HF;
    if (source == ARCH_GGUF)
        hp->experts.norm_topk = true;
    if (hp->n_ff == 0)
        hp->n_ff = hp->experts.ff;
    if (hp->n_extra_layers >= hp->n_layers)
        return err_set(reterr, EBADMSG, "%u of %u layers only predict further tokens",
                       hp->n_extra_layers, hp->n_layers);
    if (source == ARCH_HF) {
        hybrid_set_predictor(hp);
        return 0;
    }
    hp->n_layers -= hp->n_extra_layers;
    hybrid_set_predictor(hp);
    d->negated = true;
    d->v_dim = d->n_v_heads > 0 ? d->v_dim / d->n_v_heads : 0;
    for (uint32_t i = 0; hp->full_every > 0 && i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS);
         i++)
        hp->layers[i].kind = (i + 1) % hp->full_every == 0 ? LAYER_FULL : LAYER_RECURRENT;
    return 0;
}

/* Reverses what hybrid_finish() does with the keys of GGUF files. */
static void hybrid_to_gguf(struct hparams *hp)
{
    hp->delta.v_dim *= hp->delta.n_v_heads;
    if (hp->n_ff == hp->experts.ff)
        hp->n_ff = 0;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        if (hp->layers[i].kind != LAYER_RECURRENT) {
            hp->full_every = i + 1;
            break;
        }
    hp->n_layers += hp->n_extra_layers;
}

/* Layers that predict further tokens are not written to directories. */
static void hybrid_to_hf(struct hparams *hp)
{
    hp->n_extra_layers = 0;
}

static void hybrid_to_gguf_35(struct hparams *hp)
{
    static const uint32_t usual[3] = {11, 11, 10}; /* of transformers' Qwen3_5TextConfig */

    hybrid_to_gguf(hp);
    if (hp->rope_sections[0] == 0)
        memcpy(hp->rope_sections, usual, sizeof(usual));
}

static int hybrid_finish_35(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    hp->delta.interleaved = source == ARCH_GGUF;
    hp->experts.norm_topk = true; /* transformers ignores the key of these models */
    return hybrid_finish(hp, source, reterr);
}

/* Computes attention over the rows @h, and multiplies the result by a gate. */
static graph_ref hybrid_attention(const struct model *m, struct graph *g, uint32_t i_layer,
                                  graph_ref h)
{
    const struct attn_params attn = layer_attn_params(m, i_layer);
    const uint32_t hd = attn.head_dim;
    const graph_ref both = layer_linear(m, g, i_layer, h, SLOT_Q, SLOT_Q_BIAS);
    graph_ref q, k, v;

    q = layer_heads(m, g, i_layer, graph_cols(g, both, 2 * hd, 0, hd), SLOT_Q_NORM);
    k = layer_linear(m, g, i_layer, h, SLOT_K, SLOT_K_BIAS);
    k = layer_heads(m, g, i_layer, k, SLOT_K_NORM);
    v = layer_linear(m, g, i_layer, h, SLOT_V, SLOT_V_BIAS);
    return graph_glu(g, graph_cols(g, both, 2 * hd, hd, hd), graph_attention(g, q, k, v, &attn),
                     GRAPH_ACT_SIGMOID);
}

/* The inputs of a recurrent layer. */
struct delta_inputs {
    graph_ref qkv, z, a, b;
};

static struct delta_inputs hybrid_inputs(const struct model *m, struct graph *g, uint32_t i_layer,
                                         graph_ref h)
{
    const struct hparams_delta *d = &m->hp->delta;
    const uint32_t r = d->n_k_heads > 0 ? d->n_v_heads / d->n_k_heads : 0;
    const struct cols_params qkv = {
        .stride = 2 * d->k_dim + 2 * r * d->v_dim,
        .n_parts = 3,
        .parts = {{0, d->k_dim}, {d->k_dim, d->k_dim}, {2 * d->k_dim, r * d->v_dim}},
    };
    struct delta_inputs in;
    graph_ref all;

    if (layer_w(m, i_layer, SLOT_DELTA_QKVZ)->data) {
        all = layer_linear(m, g, i_layer, h, SLOT_DELTA_QKVZ, SLOT_ABSENT);
        in.qkv = graph_cols_of(g, all, &qkv);
        in.z = graph_cols(g, all, qkv.stride, qkv.stride - r * d->v_dim, r * d->v_dim);
    } else {
        in.qkv = layer_linear(m, g, i_layer, h, SLOT_DELTA_QKV, SLOT_ABSENT);
        in.z = layer_linear(m, g, i_layer, h, SLOT_DELTA_GATE, SLOT_ABSENT);
    }
    if (layer_w(m, i_layer, SLOT_DELTA_BA)->data) {
        all = layer_linear(m, g, i_layer, h, SLOT_DELTA_BA, SLOT_ABSENT);
        in.b = graph_cols(g, all, 2 * r, 0, r);
        in.a = graph_cols(g, all, 2 * r, r, r);
    } else {
        in.b = layer_linear(m, g, i_layer, h, SLOT_DELTA_B, SLOT_ABSENT);
        in.a = layer_linear(m, g, i_layer, h, SLOT_DELTA_A, SLOT_ABSENT);
    }
    return in;
}

/* Computes the convolution and the delta rule over the rows @h. */
static graph_ref hybrid_delta(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h)
{
    const struct hparams_delta *d = &m->hp->delta;
    const struct delta_params delta = {
        .place = group_place(m, i_layer),
        .n_k_heads = d->n_k_heads,
        .n_v_heads = d->n_v_heads,
        .k_dim = d->k_dim,
        .v_dim = d->v_dim,
        .interleaved = d->interleaved,
        .negated = d->negated,
        .scale = (float)(1.0 / sqrt((double)d->k_dim)),
        .eps = L2_EPS,
    };
    const enum graph_act silu = GRAPH_ACT_SILU;
    const struct delta_inputs in = hybrid_inputs(m, g, i_layer, h);
    graph_ref y;

    y = graph_conv(g, in.qkv, layer_w(m, i_layer, SLOT_DELTA_CONV), NULL, &silu, &delta.place);
    y = graph_delta(g, y, in.a, in.b, layer_w(m, i_layer, SLOT_DELTA_LOG_A),
                    layer_w(m, i_layer, SLOT_DELTA_DT), &delta);
    y = graph_rms_norm(g, y, layer_w(m, i_layer, SLOT_DELTA_NORM), m->hp->norm_eps, d->v_dim);
    return graph_glu(g, in.z, y, GRAPH_ACT_SILU);
}

/* Builds a layer. If @ends, only rows with requested logits remain after its first part. */
static graph_ref hybrid_layer(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                              bool ends)
{
    const bool recurrent = m->hp->layers[i_layer].kind == LAYER_RECURRENT;
    graph_ref h = layer_norm(m, g, i_layer, x, SLOT_ATTN_NORM);

    h = recurrent ? hybrid_delta(m, g, i_layer, h) : hybrid_attention(m, g, i_layer, h);
    if (ends) {
        h = graph_rows(g, h);
        x = graph_rows(g, x);
    }
    h = recurrent ? layer_linear(m, g, i_layer, h, SLOT_DELTA_OUT, SLOT_ABSENT)
                  : layer_linear(m, g, i_layer, h, SLOT_OUT, SLOT_OUT_BIAS);
    x = graph_add(g, x, h);
    h = layer_norm(m, g, i_layer, x, SLOT_FFN_NORM);
    return graph_add(g, x, layer_ff(m, g, i_layer, h));
}

static void hybrid_build(const struct model *m, struct graph *g)
{
    const uint32_t n = m->hp->n_layers;
    graph_ref x = layer_embed(m, g);

    for (uint32_t i = 0; i < n; i++) {
        layer_begin(m, g, i, x);
        x = hybrid_layer(m, g, i, x, i == n - 1 && !m->exports);
    }
    layer_head(m, g, x);
}

static graph_ref hybrid_predictor(const struct model *m, struct graph *g, graph_ref x)
{
    return hybrid_layer(m, g, hparams_predict_row(m->hp), x, true);
}

const struct arch arch_qwen3_next = {
    .desc = {"qwen3next", ARCH_TABLE(ggufs, ggufs_next), ARCH_TABLE(classes, classes_next),
             ARCH_TABLE(fields, fields), ARCH_TABLE(slots, slots_next), .recurrent = true,
             .unused = unused, .plain_gguf = true, .finish = hybrid_finish, .to_hf = hybrid_to_hf,
             .to_gguf = hybrid_to_gguf},
    .build = hybrid_build,
    .build_predictor = hybrid_predictor,
};

const struct arch arch_qwen35 = {
    .desc = {"qwen35", ARCH_TABLE(ggufs, ggufs_35), ARCH_TABLE(classes, classes_35),
             ARCH_TABLE(fields, fields), ARCH_TABLE(slots, slots_35), .recurrent = true,
             .unused = unused, .plain_gguf = true, .finish = hybrid_finish_35,
             .to_hf = hybrid_to_hf, .to_gguf = hybrid_to_gguf_35},
    .build = hybrid_build,
    .build_predictor = hybrid_predictor,
};
