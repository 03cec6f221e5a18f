/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes BitNet b1.58 (Ma et al. 2025), with ternary weights or with ordinary matrices (struct
 * hparams). Attention and the feed-forward part have a norm before their last matrix.
 *
 * In Hugging Face layout, the gate passes through the square of relu. GGUF files in the format of
 * llama.cpp contain earlier models of the same shape (bitnet_b1_58-3B), and have no key for the
 * activation. In these models the gate passes through silu. The files hold the ternary matrices in
 * an ordinary number format, and old files have the factor of a matrix as a tensor of its own.
 */
#include <errno.h>

#include "core/err.h"
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {{"bitnet", ROPE_HALF}};

static const struct arch_field fields[] = {
    {FIELD(act), FIELD_ACT, NULL, "hidden_act", .absent = GRAPH_ACT_RELU2},
};

static const struct arch_class classes[] = {
    {"BitNetForCausalLM", "bitnet", .n_kv_heads = 5, .n_ctx = 2048, .theta = 500000,
     .flags = CLASS_ATTENTION_BIAS, ARCH_TABLE(fields, fields)},
};

#define BITNET_FACTOR(id, gguf)                                                                    \
    {                                                                                              \
        id, gguf, NULL, NULL, DIM_1, DIM_1, .flags = SLOT_OPTIONAL                                 \
    }

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    SLOTS_ATTENTION,
    SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS,
    SLOTS_FFN_NORM,
    SLOTS_GATED_FF(0),
    {SLOT_ATTN_SUB_NORM, "attn_sub_norm.weight", "self_attn.attn_sub_norm.weight", NULL, DIM_1,
     DIM_EMBD},
    {SLOT_FFN_SUB_NORM, "ffn_sub_norm.weight", "mlp.ffn_sub_norm.weight", NULL, DIM_1, DIM_FF},
    BITNET_FACTOR(SLOT_Q_FACTOR, "attn_q.scale"),
    BITNET_FACTOR(SLOT_K_FACTOR, "attn_k.scale"),
    BITNET_FACTOR(SLOT_V_FACTOR, "attn_v.scale"),
    BITNET_FACTOR(SLOT_OUT_FACTOR, "attn_output.scale"),
    BITNET_FACTOR(SLOT_GATE_FACTOR, "ffn_gate.scale"),
    BITNET_FACTOR(SLOT_UP_FACTOR, "ffn_up.scale"),
    BITNET_FACTOR(SLOT_DOWN_FACTOR, "ffn_down.scale"),
};

/* Refuses a matrix with a factor and a bias: layer_linear() would multiply the bias as well. */
static int bitnet_bind(struct binder *b)
{
    static const struct {
        enum slot factor, bias;
    } pairs[] = {{SLOT_Q_FACTOR, SLOT_Q_BIAS},
                 {SLOT_K_FACTOR, SLOT_K_BIAS},
                 {SLOT_V_FACTOR, SLOT_V_BIAS},
                 {SLOT_OUT_FACTOR, SLOT_OUT_BIAS}};

    for (uint32_t i = 0; i < b->m->hp->n_layers; i++)
        for (size_t j = 0; j < ARRAY_SIZE(pairs); j++)
            if (layer_w(b->m, i, pairs[j].factor)->data && layer_w(b->m, i, pairs[j].bias)->data)
                return err_set(
                    b->err, EOPNOTSUPP, "the tensors %.64s and %.64s together are not supported",
                    layer_w(b->m, i, pairs[j].factor)->name, layer_w(b->m, i, pairs[j].bias)->name);
    return 0;
}

const struct arch arch_bitnet = {
    .desc = {"bitnet", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(slots, slots)},
    .bind = bitnet_bind,
    .build = layer_decoder,
};
