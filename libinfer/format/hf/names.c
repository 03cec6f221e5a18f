/* SPDX-License-Identifier: Apache-2.0 */
/* Converts tensor names of decoders: "model.layers.7.self_attn.q_proj.weight" becomes
 * "blk.7.attn_q.weight". */
#include "format/hf/names.h"

#include <stdio.h>
#include <string.h>

struct name_pair {
    const char *hf, *canonical;
};

static const struct name_pair whole[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

static const struct name_pair in_layer[] = {
    {"input_layernorm.", "attn_norm."},    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},      {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."}, {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."}, {"post_attention_layernorm.", "ffn_norm."},
    {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
};

/* Names that are different in Gemma's classes. */
static const struct name_pair in_layer_gemma[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

/* Parses the number after "layers.", without leading zeros. Returns the rest of the name, or
 * NULL. */
static const char *skip_layer(const char *name, unsigned *ret_layer)
{
    unsigned x = 0;
    size_t n = 0;

    if (strncmp(name, "layers.", 7) != 0)
        return NULL;
    for (name += 7; name[n] >= '0' && name[n] <= '9' && n < 5; n++)
        x = x * 10 + (unsigned)(name[n] - '0');
    if (n == 0 || (n > 1 && name[0] == '0') || name[n] != '.')
        return NULL;
    *ret_layer = x;
    return name + n + 1;
}

static const char *find_pair(const struct name_pair *pairs, size_t n, const char *name,
                             const char **ret_rest)
{
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(pairs[i].hf);

        if (strncmp(name, pairs[i].hf, len) == 0) {
            *ret_rest = name + len;
            return pairs[i].canonical;
        }
    }
    return NULL;
}

static bool name_of(const char *name, bool gemma, char out[HF_NAME_MAX])
{
    const char *s = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    const char *rest, *canonical = NULL;
    unsigned i_layer;

    for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
        if (strcmp(s, whole[i].hf) == 0)
            return snprintf(out, HF_NAME_MAX, "%s", whole[i].canonical) < HF_NAME_MAX;
    rest = skip_layer(s, &i_layer);
    if (rest && strcmp(rest, "self_attn.rotary_emb.inv_freq") == 0) {
        out[0] = 0;
        return true;
    }
    if (rest && gemma)
        canonical = find_pair(in_layer_gemma, ARRAY_SIZE(in_layer_gemma), rest, &rest);
    if (rest && !canonical)
        canonical = find_pair(in_layer, ARRAY_SIZE(in_layer), rest, &rest);
    if (canonical)
        return snprintf(out, HF_NAME_MAX, "blk.%u.%s%s", i_layer, canonical, rest) < HF_NAME_MAX;
    return snprintf(out, HF_NAME_MAX, "%s", name) < HF_NAME_MAX;
}

bool hf_name(const char *name, char out[HF_NAME_MAX])
{
    return name_of(name, false, out);
}

bool hf_name_gemma(const char *name, char out[HF_NAME_MAX])
{
    return name_of(name, true, out);
}
