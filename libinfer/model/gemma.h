/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what Gemma 3n, Gemma 4 and the assistants of Gemma 4 share (gemma.c). */

#include "model/arch.h"

/* Sets for each of the last hp->gemma.n_shared layers which earlier layer's keys and values it
 * reads: those of the last layer of the same kind that has keys and values of its own. -EBADMSG:
 * there is no such layer; the message names the layer. */
int gemma_share_layers(struct hparams *hp, struct inf_err *reterr);
/* Computes attention from the normalized rows @h. Values are normalized without a weight; a layer
 * without a matrix for values uses the result of the matrix for keys. */
graph_ref gemma_attention(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h);
/* Computes the per-layer embeddings of all layers, [rows, n_layers × per_layer], from the scaled
 * embedding @x. */
graph_ref gemma_inputs(const struct model *m, struct graph *g, graph_ref x);
/* Computes the vector that the layer's embedding of the token, @inputs [rows, per_layer], adds to
 * the residual stream @x. The caller applies the norm that follows. */
graph_ref gemma_apply_inputs(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                             graph_ref inputs);

/* The windows of Gemma 4. */
extern const struct arch_window gemma4_window;
/* Sets the heads, the positions and the layers of Gemma 4 from the fields below. */
void gemma4_set_heads(struct hparams *hp, enum arch_source source);

/* The fields of Gemma 4 that its assistants have, too. */
#define GEMMA4_FIELDS                                                                              \
    {FIELD(act), FIELD_ACT, NULL, "hidden_activation", .absent = GRAPH_ACT_GELU_TANH},             \
        {FIELD(final_softcap), FIELD_NUMBER, "final_logit_softcapping", "final_logit_softcapping", \
         .absent = 30},                                                                            \
        {FIELD(n_kv_heads),                                                                        \
         FIELD_COUNT,                                                                              \
         "attention.head_count_kv",                                                                \
         "num_key_value_heads",                                                                    \
         .flags = FIELD_IN_GGUF | FIELD_IN_HF,                                                     \
         .layer = FIELD_LAYER(n_kv_heads)},                                                        \
        {FIELD(gemma.n_kv_heads_full), FIELD_COUNT, NULL, "num_global_key_value_heads"},           \
        {FIELD(gemma.head_dim_full), FIELD_COUNT, "attention.key_length", "global_head_dim",       \
         .absent = 512},                                                                           \
        {FIELD(gemma.head_dim_window), FIELD_COUNT, "attention.key_length_swa", "head_dim",        \
         .absent = 256},                                                                           \
        {FIELD(gemma.n_shared), FIELD_COUNT, "attention.shared_kv_layers", "num_kv_shared_layers", \
         .flags = FIELD_ZERO},                                                                     \
        {FIELD(gemma.per_layer), FIELD_COUNT, "embedding_length_per_layer_input",                  \
         "hidden_size_per_layer_input", .flags = FIELD_ZERO},                                      \
    {                                                                                              \
        FIELD(gemma.k_is_v), FIELD_FLAG, NULL, "attention_k_eq_v"                                  \
    }

/* A vector of a layer, in the list of an architecture's tensors. */
#define GEMMA_VECTOR(id, gguf, hf, cols, ...)                                                      \
    {                                                                                              \
        id, gguf, hf, NULL, DIM_1, cols, __VA_ARGS__                                               \
    }

/* The tensors of embeddings for each layer. @vocab: the rows of the table. @post: the columns of
 * the norm after the last matrix. */
#define GEMMA_SLOTS_PER_LAYER(vocab, post)                                                         \
    {SLOT_PER_LAYER_EMBD,                                                                          \
     "per_layer_token_embd.weight",                                                                \
     "embed_tokens_per_layer.weight",                                                              \
     NULL,                                                                                         \
     vocab,                                                                                        \
     DIM_PER_LAYER_ALL,                                                                            \
     .flags = SLOT_WHOLE | SLOT_TABLE},                                                            \
        {SLOT_PER_LAYER_PROJ,                                                                      \
         "per_layer_model_proj.weight",                                                            \
         "per_layer_model_projection.weight",                                                      \
         NULL,                                                                                     \
         DIM_PER_LAYER_ALL,                                                                        \
         DIM_EMBD,                                                                                 \
         .flags = SLOT_WHOLE},                                                                     \
        GEMMA_VECTOR(SLOT_PER_LAYER_NORM, "per_layer_proj_norm.weight",                            \
                     "per_layer_projection_norm.weight", DIM_PER_LAYER, .flags = SLOT_WHOLE),      \
        {SLOT_PER_LAYER_GATE, "inp_gate.weight", "per_layer_input_gate.weight", NULL,              \
         DIM_PER_LAYER,       DIM_EMBD},                                                           \
        {SLOT_PER_LAYER_OUT, "proj.weight", "per_layer_projection.weight", NULL,                   \
         DIM_EMBD,           DIM_PER_LAYER},                                                       \
        GEMMA_VECTOR(SLOT_PER_LAYER_POST_NORM, "post_norm.weight",                                 \
                     "post_per_layer_input_norm.weight", post, .in = 0)
