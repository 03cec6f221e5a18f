/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Holds rows of the tables of weights (struct arch_slot) and of fields (struct arch_field) that
 * many architectures share. */

#include "format/arch-desc.h"
#include "model/slots.h"

/* Embedding, last norm and head of a decoder. */
#define SLOTS_ENDS                                                                                 \
    {SLOT_EMBD,                                                                                    \
     "token_embd.weight",                                                                          \
     "embed_tokens.weight",                                                                        \
     NULL,                                                                                         \
     DIM_VOCAB,                                                                                    \
     DIM_EMBD,                                                                                     \
     .flags = SLOT_WHOLE | SLOT_TABLE},                                                            \
        {SLOT_OUT_NORM, "output_norm.weight", "norm.weight", NULL, DIM_1,                          \
         DIM_EMBD,      .flags = SLOT_WHOLE},                                                      \
    {                                                                                              \
        SLOT_HEAD, "output.weight", "lm_head.weight", NULL, DIM_VOCAB, DIM_EMBD,                   \
            .flags = SLOT_WHOLE | SLOT_OPTIONAL                                                    \
    }

/* Attention with a norm before it. */
#define SLOTS_ATTENTION                                                                            \
    {SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", NULL, DIM_1, DIM_EMBD},         \
        {SLOT_Q, "attn_q.weight", "self_attn.q_proj.weight", NULL,                                 \
         DIM_Q,  DIM_EMBD,        .in = IN_ATTENTION},                                             \
        {SLOT_K,   "attn_k.weight", "self_attn.k_proj.weight", NULL, DIM_KV,                       \
         DIM_EMBD, .in = IN_OWN_KV},                                                               \
        {SLOT_V,   "attn_v.weight", "self_attn.v_proj.weight", NULL, DIM_KV,                       \
         DIM_EMBD, .in = IN_OWN_KV},                                                               \
    {                                                                                              \
        SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD, DIM_Q,          \
            .in = IN_ATTENTION                                                                     \
    }

/* Biases of q, k and v; @optional is SLOT_OPTIONAL or 0. */
#define SLOTS_QKV_BIAS(optional)                                                                   \
    {SLOT_Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", NULL,                                    \
     DIM_1,       DIM_Q,         .flags = (optional),     .in = IN_ATTENTION},                     \
        {SLOT_K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", NULL,                                \
         DIM_1,       DIM_KV,        .flags = (optional),     .in = IN_OWN_KV},                    \
    {                                                                                              \
        SLOT_V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", NULL, DIM_1, DIM_KV,                  \
            .flags = (optional), .in = IN_OWN_KV                                                   \
    }

#define SLOTS_OUT_BIAS                                                                             \
    {                                                                                              \
        SLOT_OUT_BIAS, "attn_output.bias", "self_attn.o_proj.bias", NULL, DIM_1, DIM_EMBD,         \
            .flags = SLOT_OPTIONAL, .in = IN_ATTENTION                                             \
    }

/* Norms of q and k per head. */
#define SLOTS_QK_NORM                                                                              \
    {SLOT_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", NULL, DIM_1,                    \
     DIM_HEAD,    .in = IN_ATTENTION},                                                             \
    {                                                                                              \
        SLOT_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", NULL, DIM_1, DIM_HEAD,       \
            .in = IN_OWN_KV                                                                        \
    }

/* A gated feed-forward part; @layers is IN_DENSE or 0. */
#define SLOTS_GATED_FF(layers)                                                                     \
    {                                                                                              \
        SLOT_GATE, "ffn_gate.weight", "mlp.gate_proj.weight", NULL,                                \
        DIM_FF,    DIM_EMBD,          .in = (layers)},                                             \
        {SLOT_UP, "ffn_up.weight", "mlp.up_proj.weight", NULL, DIM_FF, DIM_EMBD, .in = (layers)},  \
    {                                                                                              \
        SLOT_DOWN, "ffn_down.weight", "mlp.down_proj.weight", NULL, DIM_EMBD, DIM_FF,              \
            .in = (layers)                                                                         \
    }

#define SLOTS_FFN_NORM                                                                             \
    {                                                                                              \
        SLOT_FFN_NORM, "ffn_norm.weight", "post_attention_layernorm.weight", NULL, DIM_1, DIM_EMBD \
    }

/* Norms after attention, and before and after the feed-forward part, with Gemma's names. */
#define SLOTS_POST_NORMS                                                                           \
    {SLOT_ATTN_POST_NORM,                                                                          \
     "post_attention_norm.weight",                                                                 \
     "post_attention_layernorm.weight",                                                            \
     NULL,                                                                                         \
     DIM_1,                                                                                        \
     DIM_EMBD},                                                                                    \
        {SLOT_FFN_NORM, "ffn_norm.weight", "pre_feedforward_layernorm.weight", NULL,               \
         DIM_1,         DIM_EMBD},                                                                 \
    {                                                                                              \
        SLOT_FFN_POST_NORM, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", NULL,     \
            DIM_1, DIM_EMBD                                                                        \
    }

/* The embedding of encoders and its norm. */
#define SLOTS_ENCODER_EMBD                                                                         \
    {SLOT_EMBD,                                                                                    \
     "token_embd.weight",                                                                          \
     NULL,                                                                                         \
     NULL,                                                                                         \
     DIM_VOCAB,                                                                                    \
     DIM_EMBD,                                                                                     \
     .flags = SLOT_WHOLE | SLOT_TABLE},                                                            \
        {SLOT_EMBD_NORM, "token_embd_norm.weight", NULL, NULL, DIM_1,                              \
         DIM_EMBD,       .flags = SLOT_WHOLE},                                                     \
    {                                                                                              \
        SLOT_EMBD_NORM_BIAS, "token_embd_norm.bias", NULL, NULL, DIM_1, DIM_EMBD,                  \
            .flags = SLOT_WHOLE | SLOT_OPTIONAL                                                    \
    }

/* Attention of encoders: q, k and v may be one matrix. */
#define SLOTS_ENCODER_ATTENTION                                                                    \
    {SLOT_QKV, "attn_qkv.weight", NULL, NULL, DIM_QKV, DIM_EMBD, .flags = SLOT_OPTIONAL},          \
        {SLOT_QKV_BIAS, "attn_qkv.bias", NULL, NULL, DIM_1, DIM_QKV, .flags = SLOT_OPTIONAL},      \
        {SLOT_Q, "attn_q.weight", NULL, NULL, DIM_Q, DIM_EMBD, .part_of = SLOT_QKV},               \
        {SLOT_K, "attn_k.weight", NULL, NULL, DIM_KV, DIM_EMBD, .part_of = SLOT_QKV},              \
        {SLOT_V, "attn_v.weight", NULL, NULL, DIM_KV, DIM_EMBD, .part_of = SLOT_QKV},              \
        {SLOT_Q_BIAS,                                                                              \
         "attn_q.bias",                                                                            \
         NULL,                                                                                     \
         NULL,                                                                                     \
         DIM_1,                                                                                    \
         DIM_Q,                                                                                    \
         .flags = SLOT_OPTIONAL,                                                                   \
         .part_of = SLOT_QKV_BIAS},                                                                \
        {SLOT_K_BIAS,                                                                              \
         "attn_k.bias",                                                                            \
         NULL,                                                                                     \
         NULL,                                                                                     \
         DIM_1,                                                                                    \
         DIM_KV,                                                                                   \
         .flags = SLOT_OPTIONAL,                                                                   \
         .part_of = SLOT_QKV_BIAS},                                                                \
        {SLOT_V_BIAS,                                                                              \
         "attn_v.bias",                                                                            \
         NULL,                                                                                     \
         NULL,                                                                                     \
         DIM_1,                                                                                    \
         DIM_KV,                                                                                   \
         .flags = SLOT_OPTIONAL,                                                                   \
         .part_of = SLOT_QKV_BIAS},                                                                \
        {SLOT_OUT, "attn_output.weight", NULL, NULL, DIM_EMBD, DIM_Q},                             \
    {                                                                                              \
        SLOT_OUT_BIAS, "attn_output.bias", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_OPTIONAL     \
    }

#define SLOTS_FF_BIAS                                                                              \
    {SLOT_GATE_BIAS, "ffn_gate.bias", "mlp.gate_proj.bias",   NULL,                                \
     DIM_1,          DIM_FF,          .flags = SLOT_OPTIONAL, .in = IN_DENSE},                     \
        {SLOT_UP_BIAS, "ffn_up.bias", "mlp.up_proj.bias",     NULL,                                \
         DIM_1,        DIM_FF,        .flags = SLOT_OPTIONAL, .in = IN_DENSE},                     \
    {                                                                                              \
        SLOT_DOWN_BIAS, "ffn_down.bias", "mlp.down_proj.bias", NULL, DIM_1, DIM_EMBD,              \
            .flags = SLOT_OPTIONAL, .in = IN_DENSE                                                 \
    }

/* Experts as three matrices, or as two in models that transformers 5 saved. */
#define SLOTS_EXPERTS                                                                              \
    {SLOT_ROUTER,       "ffn_gate_inp.weight",                                                     \
     "mlp.gate.weight", "block_sparse_moe.gate.weight",                                            \
     DIM_EXPERTS,       DIM_EMBD,                                                                  \
     .in = IN_SPARSE},                                                                             \
        {SLOT_GATE_UP_EXPERTS,                                                                     \
         "ffn_gate_up_exps.weight",                                                                \
         "mlp.experts.gate_up_proj",                                                               \
         NULL,                                                                                     \
         DIM_EXPERT_FF_2,                                                                          \
         DIM_EMBD,                                                                                 \
         DIM_EXPERTS,                                                                              \
         .flags = SLOT_OPTIONAL,                                                                   \
         .in = IN_SPARSE},                                                                         \
        {SLOT_GATE_EXPERTS,                                                                        \
         "ffn_gate_exps.weight",                                                                   \
         "mlp.experts.*.gate_proj.weight",                                                         \
         "block_sparse_moe.experts.*.w1.weight",                                                   \
         DIM_EXPERT_FF,                                                                            \
         DIM_EMBD,                                                                                 \
         DIM_EXPERTS,                                                                              \
         .in = IN_SPARSE,                                                                          \
         .part_of = SLOT_GATE_UP_EXPERTS},                                                         \
        {SLOT_UP_EXPERTS,                                                                          \
         "ffn_up_exps.weight",                                                                     \
         "mlp.experts.*.up_proj.weight",                                                           \
         "block_sparse_moe.experts.*.w3.weight",                                                   \
         DIM_EXPERT_FF,                                                                            \
         DIM_EMBD,                                                                                 \
         DIM_EXPERTS,                                                                              \
         .in = IN_SPARSE,                                                                          \
         .part_of = SLOT_GATE_UP_EXPERTS},                                                         \
        {SLOT_DOWN_EXPERTS,                                                                        \
         "ffn_down_exps.weight",                                                                   \
         "mlp.experts.*.down_proj.weight",                                                         \
         "block_sparse_moe.experts.*.w2.weight",                                                   \
         DIM_EMBD,                                                                                 \
         DIM_EXPERT_FF,                                                                            \
         DIM_EXPERTS,                                                                              \
         .in = IN_SPARSE},                                                                         \
    {                                                                                              \
        SLOT_DOWN_EXPERTS, "ffn_down_exps.weight", "mlp.experts.down_proj", NULL, DIM_EMBD,        \
            DIM_EXPERT_FF, DIM_EXPERTS, .in = IN_SPARSE                                            \
    }

/* An expert that all rows use, with a weight that each row computes. */
#define SLOTS_SHARED_EXPERT                                                                        \
    {SLOT_SHARED_ROUTER,                                                                           \
     "ffn_gate_inp_shexp.weight",                                                                  \
     "mlp.shared_expert_gate.weight",                                                              \
     NULL,                                                                                         \
     DIM_1,                                                                                        \
     DIM_EMBD,                                                                                     \
     .in = IN_SPARSE},                                                                             \
        {SLOT_SHARED_GATE,                                                                         \
         "ffn_gate_shexp.weight",                                                                  \
         "mlp.shared_expert.gate_proj.weight",                                                     \
         NULL,                                                                                     \
         DIM_SHARED_FF,                                                                            \
         DIM_EMBD,                                                                                 \
         .in = IN_SPARSE},                                                                         \
        {SLOT_SHARED_UP, "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight",                \
         NULL,           DIM_SHARED_FF,         DIM_EMBD,                                          \
         .in = IN_SPARSE},                                                                         \
    {                                                                                              \
        SLOT_SHARED_DOWN, "ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", NULL,     \
            DIM_EMBD, DIM_SHARED_FF, .in = IN_SPARSE                                               \
    }

/* The parts that only the layer that predicts a further token has, besides those of a layer with
 * attention. In Hugging Face layout these are the tensors "mtp.fc.weight" and so on. */
#define SLOTS_PREDICTOR                                                                            \
    {SLOT_PREDICT_EMBD_NORM,                                                                       \
     "nextn.enorm.weight",                                                                         \
     "pre_fc_norm_embedding.weight",                                                               \
     NULL,                                                                                         \
     DIM_1,                                                                                        \
     DIM_EMBD,                                                                                     \
     .in = IN_PREDICTS},                                                                           \
        {SLOT_PREDICT_HIDDEN_NORM,                                                                 \
         "nextn.hnorm.weight",                                                                     \
         "pre_fc_norm_hidden.weight",                                                              \
         NULL,                                                                                     \
         DIM_1,                                                                                    \
         DIM_EMBD,                                                                                 \
         .in = IN_PREDICTS},                                                                       \
        {SLOT_PREDICT_JOIN, "nextn.eh_proj.weight", "fc.weight", NULL, DIM_EMBD,                   \
         DIM_EMBD_2,        .in = IN_PREDICTS},                                                    \
        {SLOT_PREDICT_OUT_NORM,                                                                    \
         "nextn.shared_head_norm.weight",                                                          \
         "norm.weight",                                                                            \
         NULL,                                                                                     \
         DIM_1,                                                                                    \
         DIM_EMBD,                                                                                 \
         .flags = SLOT_OPTIONAL,                                                                   \
         .in = IN_PREDICTS},                                                                       \
        {SLOT_PREDICT_EMBD,                                                                        \
         "nextn.embed_tokens.weight",                                                              \
         "embed_tokens.weight",                                                                    \
         NULL,                                                                                     \
         DIM_VOCAB,                                                                                \
         DIM_EMBD,                                                                                 \
         .flags = SLOT_OPTIONAL | SLOT_TABLE,                                                      \
         .in = IN_PREDICTS},                                                                       \
    {                                                                                              \
        SLOT_PREDICT_HEAD, "nextn.shared_head_head.weight", "lm_head.weight", NULL, DIM_VOCAB,     \
            DIM_EMBD, .flags = SLOT_OPTIONAL, .in = IN_PREDICTS                                    \
    }

/* Fields of config.json for experts, with the defaults of a class. */
#define FIELDS_EXPERTS(n_experts, n_used_experts, width)                                           \
    {FIELD(experts.n), FIELD_COUNT,         NULL,                                                  \
     "num_experts",    "num_local_experts", .absent = (n_experts)},                                \
        {FIELD(experts.n_used), FIELD_COUNT, NULL, "num_experts_per_tok",                          \
         .absent = (n_used_experts)},                                                              \
        {FIELD(experts.ff), FIELD_COUNT, NULL, "moe_intermediate_size", .absent = (width)},        \
        {FIELD(experts.norm_topk), FIELD_FLAG, NULL, "norm_topk_prob"},                            \
    {                                                                                              \
        FIELD(experts.step), FIELD_COUNT, NULL, "decoder_sparse_step", .absent = 1                 \
    }

/* Fields of GGUF files for experts. */
#define FIELDS_EXPERTS_GGUF                                                                        \
    {FIELD(experts.n), FIELD_COUNT, "expert_count", .flags = FIELD_IN_GGUF},                       \
        {FIELD(experts.n_used), FIELD_COUNT, "expert_used_count", .flags = FIELD_IN_GGUF},         \
        {FIELD(experts.ff), FIELD_COUNT, "expert_feed_forward_length"},                            \
    {                                                                                              \
        FIELD(experts.scale), FIELD_NUMBER, "expert_weights_scale"                                 \
    }
