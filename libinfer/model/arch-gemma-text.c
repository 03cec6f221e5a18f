/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Gemma 2 (Riviere et al. 2024) and Gemma 3 (Kamath et al. 2025).
 *
 * There are norms before and after attention, and before and after the feed-forward part. Some
 * layers attend only to a window of tokens. Gemma 2 limits scores and logits with tanh. Gemma 3
 * normalizes q and k per head, and rotates with another base in layers with a window.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/arch.h"

static const struct arch_gguf ggufs2[] = {{"gemma2", ROPE_HALF}};
static const struct arch_gguf ggufs3[] = {{"gemma3", ROPE_HALF}};

static const struct arch_window window2 = {.absent = 4096, .every = 2};

static const struct arch_window window3 = {
    .absent = 4096,
    .every = 6,
    .hf_every_key = "sliding_window_pattern",
    .hf_every_key_2 = "_sliding_window_pattern",
    .theta = 10000,
    .hf_theta_key = "rope_local_base_freq",
};

static const struct arch_field caps2[] = {
    {FIELD(attn_softcap), FIELD_NUMBER, NULL, "attn_logit_softcapping", .absent = 50},
    {FIELD(final_softcap), FIELD_NUMBER, NULL, "final_logit_softcapping", .absent = 30},
};

static const struct arch_class classes2[] = {
    {"Gemma2ForCausalLM", "gemma2", .n_kv_heads = 4, .head_dim = 256, .n_ctx = 8192,
     .flags = CLASS_TIED, .window = &window2, ARCH_TABLE(fields, caps2)},
};

static const struct arch_class classes3[] = {
    {"Gemma3ForCausalLM", "gemma3_text", .n_kv_heads = 4, .head_dim = 256, .n_ctx = 131072,
     .theta = 1e6f, .flags = CLASS_TIED, .window = &window3},
    {"Gemma3ForConditionalGeneration", "gemma3", .n_kv_heads = 4, .head_dim = 256, .n_ctx = 131072,
     .theta = 1e6f, .flags = CLASS_TIED | CLASS_TEXT_CONFIG, .window = &window3},
};

static const struct arch_field fields[] = {
    {FIELD(act), FIELD_ACT, NULL, "hidden_activation", .absent = GRAPH_ACT_GELU_TANH},
    {FIELD(attn_scale), FIELD_NUMBER, NULL, "query_pre_attn_scalar", .absent = 256},
    {FIELD(attn_softcap), FIELD_NUMBER, "attn_logit_softcapping", "attn_logit_softcapping"},
    {FIELD(final_softcap), FIELD_NUMBER, "final_logit_softcapping", "final_logit_softcapping"},
};

static const struct arch_refused refused[] = {
    {"attention_bias", 0},
    {"use_bidirectional_attention", 0},
};

static const struct arch_slot slots2[] = {
    SLOTS_ENDS,
    SLOTS_ATTENTION,
    SLOTS_POST_NORMS,
    SLOTS_GATED_FF(0),
};

static const struct arch_slot slots3[] = {
    SLOTS_ENDS, SLOTS_ATTENTION, SLOTS_QK_NORM, SLOTS_POST_NORMS, SLOTS_GATED_FF(0),
};

static const char *const unused[] = {"vision_tower.", "visual.", "multi_modal_projector.", NULL};

/* In Hugging Face layout, attention has the factor 1/sqrt(query_pre_attn_scalar), with this key of
 * config.json, and the weight of a norm is 1 + the stored value. GGUF files do not have the key,
 * and store the complete weights of norms. For these files the factor is 1/sqrt(size of a head).
 * The largest model of a family, which has @n_largest layers, is an exception: its factor is
 * 1/sqrt(hidden size / number of heads). */
static int gemma_finish(struct hparams *hp, enum arch_source source, uint32_t n_largest,
                        struct inf_err *reterr)
{
    if (source == ARCH_HF && !(hp->attn_scale > 0))
        return err_set(reterr, EBADMSG, "config.json: query_pre_attn_scalar is not above 0");
    if (source == ARCH_HF)
        hp->attn_scale = (float)(1 / sqrt((double)hp->attn_scale));
    else if (hp->n_layers == n_largest && hp->n_heads > 0)
        hp->attn_scale = (float)sqrt((double)hp->n_heads / hp->n_embd);
    else
        hp->attn_scale = 0;
    hp->norms_add_one = source == ARCH_HF;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    return 0;
}

static int gemma2_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    return gemma_finish(hp, source, 46, reterr);
}

static int gemma3_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    return gemma_finish(hp, source, 62, reterr);
}

const struct arch arch_gemma2 = {
    .desc = {"gemma2", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs2), ARCH_TABLE(classes, classes2),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_hf, refused), .window = &window2,
             ARCH_TABLE(slots, slots2), .finish = gemma2_finish},
    .build = layer_decoder,
};

const struct arch arch_gemma3 = {
    .desc = {"gemma3", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs3), ARCH_TABLE(classes, classes3),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_hf, refused), .window = &window3,
             ARCH_TABLE(slots, slots3), .unused = unused, .finish = gemma3_finish},
    .build = layer_decoder,
};
