/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes EmbeddingGemma (Vera et al. 2025), which is Gemma 3 as an encoder.
 *
 * Attention is bidirectional. In most layers attention is limited to a window, and in these layers
 * the rotation has another base. There are norms before and after attention, and before and after
 * the feed-forward layers.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {{"gemma-embedding", ROPE_HALF, .gated = true}};

static const struct arch_window window = {
    .absent = 4096,
    .both = true,
    .every = 6,
    .hf_every_key = "sliding_window_pattern",
    .hf_every_key_2 = "_sliding_window_pattern",
    .theta = 10000,
    .hf_theta_key = "rope_local_base_freq",
};

static const struct arch_class classes[] = {
    {"Gemma3TextModel", NULL, .n_kv_heads = 4, .head_dim = 256, .n_ctx = 131072, .theta = 1e6f,
     .window = &window},
};

static const struct arch_field fields[] = {
    {FIELD(norm_eps), FIELD_NUMBER, "attention.layer_norm_rms_epsilon", "rms_norm_eps",
     .absent = 1e-6, .flags = FIELD_IN_GGUF},
    {FIELD(act), FIELD_ACT, NULL, "hidden_activation", .absent = GRAPH_ACT_GELU_TANH},
    {FIELD(attn_scale), FIELD_NUMBER, NULL, "query_pre_attn_scalar", .absent = 256},
};

static const struct arch_refused refused[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"attention_bias", 0},
};

static const struct arch_slot slots[] = {
    {SLOT_EMBD, "token_embd.weight", "embed_tokens.weight", NULL, DIM_VOCAB, DIM_EMBD,
     .flags = SLOT_WHOLE | SLOT_TABLE},
    {SLOT_OUT_NORM, "output_norm.weight", "norm.weight", NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_WHOLE},
    SLOTS_ATTENTION,
    SLOTS_QK_NORM,
    SLOTS_POST_NORMS,
    SLOTS_GATED_FF(0),
};

/* In Hugging Face layout, attention has the factor 1/sqrt(query_pre_attn_scalar), with this key of
 * config.json, and the weight of a norm is 1 + the stored value. GGUF files do not have the key,
 * and store the complete weights of norms. */
static int gemma_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    if (source == ARCH_HF && !(hp->attn_scale > 0))
        return err_set(reterr, EBADMSG, "config.json: query_pre_attn_scalar is not above 0");
    hp->attn_scale = source == ARCH_HF ? (float)(1 / sqrt((double)hp->attn_scale)) : 0;
    hp->norms_add_one = source == ARCH_HF;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    return 0;
}

const struct arch arch_gemma_embedding = {
    .desc = {"gemma-embedding", .encoder = true, ARCH_TABLE(ggufs, ggufs),
             ARCH_TABLE(classes, classes), ARCH_TABLE(fields, fields),
             ARCH_TABLE(refused_hf, refused), .window = &window, ARCH_TABLE(slots, slots),
             .finish = gemma_finish, .hf_extra = hf_extra_gemma},
};
