/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Gemma 4 (Google 2026): E2B, E4B, 12B, 26B-A4B and 31B, text part.
 *
 * Layers with a window and full layers have heads of different sizes, and may have different
 * numbers of key/value heads. In full layers only the first pairs of a head are rotated, with the
 * frequencies of the whole head. The last layers may read the keys and values of an earlier layer
 * of their kind. Values are normalized without a weight, and may be computed by the matrix of the
 * keys. Small models add an embedding of the token that is different in each layer ("per-layer
 * embeddings"); its rows are read from the file when tokens need them. Models with experts compute
 * the feed-forward part and the experts side by side. The rows that the router reads have a norm of
 * their own.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/gemma.h"

static const struct arch_gguf ggufs[] = {{"gemma4", ROPE_HALF}};

#define GEMMA4_CLASS(name, type, more)                                                             \
    {                                                                                              \
        name, type, .n_kv_heads = 1, .head_dim = 256, .n_ctx = 131072, .partial = 0.25f,           \
                    .theta = 1e6f, .flags = CLASS_TIED | CLASS_PARTIAL_ROPE | (more),              \
                    .window = &gemma4_window                                                       \
    }

static const struct arch_class classes[] = {
    GEMMA4_CLASS("Gemma4ForCausalLM", "gemma4_text", CLASS_PART),
    GEMMA4_CLASS("Gemma4ForConditionalGeneration", "gemma4", CLASS_TEXT_CONFIG),
    GEMMA4_CLASS("Gemma4UnifiedForConditionalGeneration", "gemma4_unified", CLASS_TEXT_CONFIG),
};

static const struct arch_field fields[] = {
    GEMMA4_FIELDS,
    {FIELD(gemma.double_shared), FIELD_FLAG, NULL, "use_double_wide_mlp"},
    {FIELD(experts.n), FIELD_COUNT, "expert_count", "num_experts"},
    {FIELD(experts.n_used), FIELD_COUNT, "expert_used_count", "top_k_experts"},
    {FIELD(experts.ff), FIELD_COUNT, "expert_feed_forward_length", "moe_intermediate_size"},
};

static const struct arch_refused refused[] = {
    {"attention_bias", 0},
    {"use_bidirectional_attention", 0},
};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    GEMMA_VECTOR(SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", DIM_EMBD, .in = 0),
    {SLOT_Q, "attn_q.weight", "self_attn.q_proj.weight", NULL, DIM_Q, DIM_EMBD},
    {SLOT_K, "attn_k.weight", "self_attn.k_proj.weight", NULL, DIM_KV, DIM_EMBD, .in = IN_OWN_KV},
    /* Files may have the matrices of layers that do not use them. */
    {SLOT_K, "attn_k.weight", "self_attn.k_proj.weight", NULL, DIM_KV, DIM_EMBD,
     .flags = SLOT_OPTIONAL},
    {SLOT_V, "attn_v.weight", "self_attn.v_proj.weight", NULL, DIM_KV, DIM_EMBD,
     .flags = SLOT_OPTIONAL},
    GEMMA_VECTOR(SLOT_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", DIM_HEAD, .in = 0),
    GEMMA_VECTOR(SLOT_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", DIM_HEAD,
                 .in = IN_OWN_KV),
    GEMMA_VECTOR(SLOT_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", DIM_HEAD,
                 .flags = SLOT_OPTIONAL),
    {SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD, DIM_Q},
    SLOTS_POST_NORMS,
    SLOTS_GATED_FF(0),
    {SLOT_LAYER_SCALE, "layer_output_scale.weight", "layer_scalar", NULL, DIM_1, DIM_1,
     .flags = SLOT_OPTIONAL},

    {SLOT_ROUTER, "ffn_gate_inp.weight", "router.proj.weight", NULL, DIM_EXPERTS, DIM_EMBD,
     .in = IN_SPARSE},
    GEMMA_VECTOR(SLOT_ROUTER_NORM, "ffn_gate_inp.scale", "router.scale", DIM_EMBD, .in = IN_SPARSE),
    GEMMA_VECTOR(SLOT_ROUTER_FACTORS, "ffn_down_exps.scale", "router.per_expert_scale", DIM_EXPERTS,
                 .in = IN_SPARSE),
    {SLOT_GATE_UP_EXPERTS, "ffn_gate_up_exps.weight", "experts.gate_up_proj", NULL, DIM_EXPERT_FF_2,
     DIM_EMBD, DIM_EXPERTS, .flags = SLOT_OPTIONAL, .in = IN_SPARSE},
    {SLOT_GATE_EXPERTS, "ffn_gate_exps.weight", NULL, NULL, DIM_EXPERT_FF, DIM_EMBD, DIM_EXPERTS,
     .in = IN_SPARSE, .part_of = SLOT_GATE_UP_EXPERTS},
    {SLOT_UP_EXPERTS, "ffn_up_exps.weight", NULL, NULL, DIM_EXPERT_FF, DIM_EMBD, DIM_EXPERTS,
     .in = IN_SPARSE, .part_of = SLOT_GATE_UP_EXPERTS},
    {SLOT_DOWN_EXPERTS, "ffn_down_exps.weight", "experts.down_proj", NULL, DIM_EMBD, DIM_EXPERT_FF,
     DIM_EXPERTS, .in = IN_SPARSE},
    GEMMA_VECTOR(SLOT_EXPERTS_NORM, "pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight",
                 DIM_EMBD, .in = IN_SPARSE),
    GEMMA_VECTOR(SLOT_FFN_OWN_POST_NORM, "post_ffw_norm_1.weight",
                 "post_feedforward_layernorm_1.weight", DIM_EMBD, .in = IN_SPARSE),
    GEMMA_VECTOR(SLOT_EXPERTS_POST_NORM, "post_ffw_norm_2.weight",
                 "post_feedforward_layernorm_2.weight", DIM_EMBD, .in = IN_SPARSE),

    GEMMA_SLOTS_PER_LAYER(DIM_VOCAB, DIM_EMBD_PER_LAYER),
};

static const char *const unused[] = {"vision_tower.", "visual.",      "audio_tower.",
                                     "embed_vision.", "embed_audio.", "vision_embed",
                                     "audio_embed",   "multi_modal_", NULL};

static int gemma4_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    const int r = gemma_share_layers(hp, reterr);

    if (r < 0)
        return r;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    hp->experts.norm_topk = true;
    if (hp->gemma.per_layer > 1u << 14)
        return err_set(reterr, EBADMSG, "per-layer embeddings of %u columns", hp->gemma.per_layer);
    gemma4_set_heads(hp, source);
    return 0;
}

/* Finds the keys of config.json from the widths of the layers. */
static void gemma4_to_hf(struct hparams *hp)
{
    uint32_t n_window = 0, n_full = 0, n_ff = hp->n_ff;

    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const struct hparams_layer *l = &hp->layers[i];

        if (l->kind == LAYER_FULL)
            n_full = hparams_n_kv_heads(hp, i);
        else
            n_window = hparams_n_kv_heads(hp, i);
        n_ff = MIN(n_ff, hparams_n_ff(hp, i));
        if (l->shared > 0 && hparams_n_ff(hp, i) == 2 * hparams_n_ff(hp, 0))
            hp->gemma.double_shared = true;
    }
    hp->n_kv_heads = n_window > 0 ? n_window : n_full;
    hp->gemma.n_kv_heads_full = n_full != hp->n_kv_heads || hp->gemma.k_is_v ? n_full : 0;
    hp->n_ff = n_ff;
}

/* Computes the feed-forward part, and the experts beside it, from the residual stream @x. */
static graph_ref gemma4_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer,
                                     graph_ref x)
{
    const float scale = (float)(1 / sqrt((double)m->hp->n_embd));
    graph_ref h = layer_norm(m, g, i_layer, x, SLOT_FFN_NORM), y, scores;

    y = layer_gated_ff(m, g, i_layer, h);
    if (!m->hp->layers[i_layer].sparse)
        return y;
    y = layer_norm(m, g, i_layer, y, SLOT_FFN_OWN_POST_NORM);
    scores = graph_scale(g, layer_norm(m, g, i_layer, x, SLOT_ROUTER_NORM), scale);
    scores = layer_linear(m, g, i_layer, scores, SLOT_ROUTER, SLOT_ABSENT);
    h = layer_norm(m, g, i_layer, x, SLOT_EXPERTS_NORM);
    h = layer_experts_of(m, g, i_layer, h, scores);
    return graph_add(g, y, layer_norm(m, g, i_layer, h, SLOT_EXPERTS_POST_NORM));
}

/* Adds the vector that is computed from the layer's own embedding of the token, @inputs [rows,
 * per_layer]. */
static graph_ref gemma4_add_inputs(const struct model *m, struct graph *g, uint32_t i_layer,
                                   graph_ref x, graph_ref inputs)
{
    const graph_ref h = gemma_apply_inputs(m, g, i_layer, x, inputs);

    return layer_add(m, g, i_layer, x, h, SLOT_PER_LAYER_POST_NORM);
}

static graph_ref gemma4_layer(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                              graph_ref all_inputs)
{
    const uint32_t n = m->hp->n_layers, width = m->hp->gemma.per_layer;
    const struct weight *scale = layer_w(m, i_layer, SLOT_LAYER_SCALE);
    graph_ref h, inputs = GRAPH_NONE;

    h = gemma_attention(m, g, i_layer, layer_norm(m, g, i_layer, x, SLOT_ATTN_NORM));
    if (width > 0)
        inputs = graph_cols(g, all_inputs, n * width, i_layer * width, width);
    if (i_layer == n - 1) {
        h = graph_rows(g, h);
        x = graph_rows(g, x);
        inputs = width > 0 ? graph_rows(g, inputs) : GRAPH_NONE;
    }
    h = layer_linear(m, g, i_layer, h, SLOT_OUT, SLOT_ABSENT);
    x = layer_add(m, g, i_layer, x, h, SLOT_ATTN_POST_NORM);
    x = layer_add(m, g, i_layer, x, gemma4_feed_forward(m, g, i_layer, x), SLOT_FFN_POST_NORM);
    if (width > 0)
        x = gemma4_add_inputs(m, g, i_layer, x, inputs);
    return scale->data ? graph_scale(g, x, *(const float *)scale->data) : x;
}

static void gemma4_build(const struct model *m, struct graph *g)
{
    graph_ref x = layer_embed(m, g), inputs = GRAPH_NONE;

    if (m->hp->gemma.per_layer > 0)
        inputs = gemma_inputs(m, g, x);
    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        layer_begin(m, g, i, x);
        x = gemma4_layer(m, g, i, x, inputs);
    }
    layer_head(m, g, x);
}

const struct arch arch_gemma4 = {
    .desc = {"gemma4", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_hf, refused), .window = &gemma4_window,
             ARCH_TABLE(slots, slots), .unused = unused, .finish = gemma4_finish,
             .to_hf = gemma4_to_hf},
    .build = gemma4_build,
};
