/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts tensor names of encoders: "encoder.layer.7.attention.self.query.weight" becomes
 * "blk.7.attn_q.weight". Tensors that only training needs are ignored.
 */
#include <stdio.h>
#include <string.h>

#include "core/macros.h"
#include "core/text.h"
#include "format/hf/names.h"

struct name_pair {
    const char *hf, *canonical;
};

/* Prefixes that names of all tensors may have. */
static const char *const prefixes[] = {"bert.", "roberta.", "nomic_bert.",
                                       "new.",  "gte.",     "model."};

static const struct name_pair whole[] = {
    {"embeddings.word_embeddings.", "token_embd."},
    {"embeddings.position_embeddings.", "position_embd."},
    {"embeddings.token_type_embeddings.", "token_types."},
    {"embeddings.LayerNorm.", "token_embd_norm."},
    {"emb_ln.", "token_embd_norm."},
    {"embeddings.tok_embeddings.", "token_embd."},
    {"embeddings.norm.", "token_embd_norm."},
    {"final_norm.", "output_norm."},
    {"head.dense.", "cls."},
    {"head.norm.", "cls.norm."},
    {"pooler.dense.", "cls."},
    {"classifier.dense.", "cls."},
    {"classifier.out_proj.", "cls.output."},
    {"classifier.", "cls.output."},
    {"linear.", "dense.0."}, /* the dense layer of ColBERT */
};

/* Tensors that are not used: heads that predict words, and tables of the positions 0, 1, 2…. */
static const char *const unused[] = {
    "cls.predictions.", "cls.seq_relationship.",   "lm_head.",
    "decoder.",         "embeddings.position_ids", "embeddings.token_type_ids",
};

static const char *const layers[] = {"encoder.layer.", "encoder.layers.", "layers."};

static const struct name_pair in_layer[] = {
    {"attention.self.query.", "attn_q."},
    {"attention.self.key.", "attn_k."},
    {"attention.self.value.", "attn_v."},
    {"attention.output.dense.", "attn_output."},
    {"attention.output.LayerNorm.", "attn_output_norm."},
    {"intermediate.dense.", "ffn_up."},
    {"output.dense.", "ffn_down."},
    {"output.LayerNorm.", "layer_output_norm."},
    /* Names in Nomic's own code. */
    {"attn.Wqkv.", "attn_qkv."},
    {"attn.out_proj.", "attn_output."},
    {"norm1.", "attn_output_norm."},
    {"mlp.fc11.", "ffn_up."},
    {"mlp.fc12.", "ffn_gate."},
    {"mlp.fc2.", "ffn_down."},
    {"norm2.", "layer_output_norm."},
    /* Names of Nomic's models in transformers. */
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"post_attention_layernorm.", "attn_output_norm."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.down_proj.", "ffn_down."},
    {"post_mlp_layernorm.", "layer_output_norm."},
    /* Names of GTE, where the second half of one matrix belongs to the gate. */
    {"attention.qkv_proj.", "attn_qkv."},
    {"attention.o_proj.", "attn_output."},
    {"attn_ln.", "attn_output_norm."},
    {"mlp_ln.", "layer_output_norm."},
    {"mlp.up_gate_proj.", "ffn_up_gate."},
    /* Names of ModernBERT, where the first half of the matrix mlp.Wi belongs to the gate. */
    {"attn_norm.", "attn_norm."},
    {"attn.Wo.", "attn_output."},
    {"mlp_norm.", "ffn_norm."},
    {"mlp.Wi.", "ffn_up."},
    {"mlp.Wo.", "ffn_down."},
};

static const char *skip_prefix(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (text_after(name, prefixes[i]))
            return text_after(name, prefixes[i]);
    return name;
}

/* Parses a number and skips the dot after it. Returns the rest, or NULL. */
static const char *skip_number(const char *s, unsigned *ret)
{
    size_t n = strspn(s, "0123456789");

    if (n == 0 || n > 4 || (n > 1 && s[0] == '0') || s[n] != '.')
        return NULL;
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        *ret = *ret * 10 + (unsigned)(s[i] - '0');
    return s + n + 1;
}

static const char *skip_layer(const char *name, unsigned *ret_layer)
{
    for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
        if (text_after(name, layers[i]))
            return skip_number(text_after(name, layers[i]), ret_layer);
    return NULL;
}

bool hf_name_encoder(const struct arch_desc *desc UNUSED, const char *name, char *out)
{
    const char *s = skip_prefix(name), *rest;
    unsigned i_layer;

    for (size_t i = 0; i < ARRAY_SIZE(unused); i++)
        if (text_after(s, unused[i])) {
            out[0] = 0;
            return true;
        }
    for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
        rest = text_after(s, whole[i].hf);
        if (rest)
            return snprintf(out, HF_NAME_MAX, "%s%s", whole[i].canonical, rest) < HF_NAME_MAX;
    }
    s = skip_layer(s, &i_layer);
    for (size_t i = 0; s && i < ARRAY_SIZE(in_layer); i++) {
        rest = text_after(s, in_layer[i].hf);
        if (rest)
            return snprintf(out, HF_NAME_MAX, "blk.%u.%s%s", i_layer, in_layer[i].canonical, rest) <
                   HF_NAME_MAX;
    }
    return snprintf(out, HF_NAME_MAX, "%s", name) < HF_NAME_MAX;
}
