/* SPDX-License-Identifier: Apache-2.0 */
/* Converts tensor names of decoders: "model.layers.7.self_attn.q_proj.weight" becomes
 * "blk.7.attn_q.weight". */
#include "format/hf/names.h"

#include <stdio.h>
#include <string.h>

#include "core/macros.h"
#include "core/text.h"
#include "format/format.h"

#define NO_EXPERT UINT32_MAX

/* Reads a number without leading zeros. Returns the rest, or NULL. */
static const char *skip_number(const char *s, uint32_t *ret)
{
    uint32_t x = 0;
    size_t n = 0;

    for (; s[n] >= '0' && s[n] <= '9' && n < 5; n++)
        x = x * 10 + (uint32_t)(s[n] - '0');
    if (n == 0 || (n > 1 && s[0] == '0'))
        return NULL;
    *ret = x;
    return s + n;
}

/* Parses "layers.7.". Returns the rest of the name, or NULL. */
static const char *skip_layer(const char *name, uint32_t *ret_layer)
{
    const char *s = text_after(name, "layers.");

    s = s ? skip_number(s, ret_layer) : NULL;
    return s && *s == '.' ? s + 1 : NULL;
}

/* Compares a name with the pattern of a slot (struct arch_slot), in which "*" stands for a
 * number. */
static bool name_matches(const char *pattern, const char *name, uint32_t *ret_expert)
{
    const char *star = pattern ? strchr(pattern, '*') : NULL, *rest;

    *ret_expert = NO_EXPERT;
    if (!pattern)
        return false;
    if (!star)
        return strcmp(pattern, name) == 0;
    if (strncmp(pattern, name, (size_t)(star - pattern)) != 0)
        return false;
    rest = skip_number(name + (star - pattern), ret_expert);
    return rest && strcmp(star + 1, rest) == 0;
}

static const struct arch_slot *find_slot(const struct arch_desc *desc, const char *name, bool whole,
                                         uint32_t *ret_expert)
{
    for (size_t i = 0; i < desc->n_slots; i++) {
        const struct arch_slot *slot = &desc->slots[i];

        if (!(slot->flags & SLOT_WHOLE) == whole || !slot->gguf)
            continue;
        if (name_matches(slot->hf, name, ret_expert) || name_matches(slot->hf_2, name, ret_expert))
            return slot;
    }
    return NULL;
}

/* Leaves out the prefixes that models with several parts put before names of the language model. */
static const char *skip_prefixes(const char *name)
{
    static const char *const prefixes[] = {"model.", "language_model."};
    const char *rest = name;

    for (size_t i = 0; i < ARRAY_SIZE(prefixes);) {
        rest = text_after(name, prefixes[i]);
        i = rest ? 0 : i + 1;
        name = rest ? rest : name;
    }
    return name;
}

bool hf_name_predictor(const char *name, uint32_t n_layers, char *out, size_t size)
{
    const char *rest = text_after(skip_prefixes(name), "mtp."), *in_layer;
    uint32_t i_layer = 0;
    int n;

    if (!rest)
        return false;
    in_layer = skip_layer(rest, &i_layer);
    n = snprintf(out, size, "layers.%u.%s", n_layers + (in_layer ? i_layer : 0),
                 in_layer ? in_layer : rest);
    return n >= 0 && (size_t)n < size;
}

/* Returns the slot of a tensor that has the matrices of all experts, and a name of mlx-lm:
 * "mlp.switch_mlp.gate_proj.weight", "experts.switch_glu.up_proj.weight". */
static const struct arch_slot *find_switch(const struct arch_desc *desc, const char *name)
{
    static const struct {
        const char *hf, *gguf;
    } matrices[] = {{"gate_proj.weight", "ffn_gate_exps.weight"},
                    {"up_proj.weight", "ffn_up_exps.weight"},
                    {"down_proj.weight", "ffn_down_exps.weight"}};
    static const char *const parts[] = {"mlp.switch_mlp.", "experts.switch_glu.",
                                        "block_sparse_moe.switch_mlp."};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const char *rest = text_after(name, parts[i]);

        for (size_t j = 0; rest && j < ARRAY_SIZE(matrices); j++)
            for (size_t k = 0; strcmp(rest, matrices[j].hf) == 0 && k < desc->n_slots; k++)
                if (desc->slots[k].gguf && strcmp(desc->slots[k].gguf, matrices[j].gguf) == 0)
                    return &desc->slots[k];
    }
    return NULL;
}

static bool is_unused(const struct arch_desc *desc, const char *name)
{
    for (size_t i = 0; desc->unused && desc->unused[i]; i++)
        if (text_starts_with(name, desc->unused[i]))
            return true;
    return false;
}

bool hf_name_slot(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX])
{
    const char *s = skip_prefixes(name), *rest;
    const struct arch_slot *slot = find_slot(desc, s, true, &(uint32_t){0});
    uint32_t i_layer, i_expert;
    char own[HF_NAME_MAX];

    if (slot)
        return snprintf(out, HF_NAME_MAX, "%s", slot->gguf) < HF_NAME_MAX;
    rest = skip_layer(s, &i_layer);
    if (is_unused(desc, s) || (rest && strcmp(rest, "self_attn.rotary_emb.inv_freq") == 0)) {
        out[0] = 0;
        return true;
    }
    slot = rest ? find_slot(desc, rest, false, &i_expert) : NULL;
    if (!slot && rest) {
        slot = find_switch(desc, rest);
        i_expert = NO_EXPERT;
    }
    if (!slot)
        return snprintf(out, HF_NAME_MAX, "%s", name) < HF_NAME_MAX;
    if (i_expert == NO_EXPERT)
        return snprintf(out, HF_NAME_MAX, "blk.%u.%s", i_layer, slot->gguf) < HF_NAME_MAX;
    return format_expert_name(slot->gguf, i_expert, own, sizeof(own)) &&
           snprintf(out, HF_NAME_MAX, "blk.%u.%s", i_layer, own) < HF_NAME_MAX;
}

/* Converts the name of a tensor that ends with @end instead of ".weight". */
static bool name_plane(const struct arch_desc *desc, const char *name, const char *end,
                       char out[HF_NAME_MAX])
{
    const size_t n = strlen(name) - strlen(end), n_weight = strlen(".weight");
    char weight[256];
    size_t n_out;

    if (n + n_weight >= sizeof(weight))
        return false;
    snprintf(weight, sizeof(weight), "%.*s.weight", (int)n, name);
    if (!hf_name(desc, weight, out))
        return false;
    n_out = strlen(out);
    if (n_out < n_weight || strcmp(out + n_out - n_weight, ".weight") != 0)
        return snprintf(out, HF_NAME_MAX, "%s", name) < HF_NAME_MAX;
    return snprintf(out + n_out - n_weight, HF_NAME_MAX - n_out + n_weight, "%s", end) <
           (int)(HF_NAME_MAX - n_out + n_weight);
}

/* Endings of tensors that belong to a matrix X.weight: of MLX, BitNet, ParoQuant, and coded
 * matrices (quant/coded.h). */
static const char *const plane_ends[] = {
    ".scales",
    ".biases",
    ".weight_scale",
    ".qweight",
    ".qzeros",
    ".g_idx",
    ".theta",
    ".pairs",
    ".channel_scales",
    ".weight_packed",
    ".weight_zero_point",
    ".weight_shape",
    ".weight_g_idx",
    ".weight_global_scale",
    ".input_global_scale",
    ".input_scale",
    ".input_zero_point",
    ".weight_scale_inv",
    ".weight.absmax",
    ".weight.quant_map",
    ".weight.nested_absmax",
    ".weight.nested_quant_map",
    ".weight.quant_state.bitsandbytes__nf4",
    ".weight.quant_state.bitsandbytes__fp4",
};

/* Converts the names of ParoQuant for the rotations that all experts of a layer share:
 * "….experts.gate_up_weight_theta" and "….experts.down_weight_pairs", or, as its code for mlx names
 * them, "….switch_mlp.gate_up_rot_theta". Returns false if @name is another name. */
static bool name_turn(const char *name, char out[HF_NAME_MAX])
{
    static const char *const ends[] = {"theta", "pairs", "channel_scales"};
    static const char *const inputs[] = {"gate_up_weight_", "gate_up_rot_", "down_weight_",
                                         "down_rot_"};
    const char *dot = strrchr(name, '.');
    uint32_t i_layer;

    if (!dot || !skip_layer(skip_prefixes(name), &i_layer))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(inputs); i++)
        for (size_t j = 0; j < ARRAY_SIZE(ends); j++) {
            const char *end = text_after(dot + 1, inputs[i]);

            if (end && strcmp(end, ends[j]) == 0)
                return snprintf(out, HF_NAME_MAX, "blk.%u.ffn_%s_exps.%s", i_layer,
                                i < 2 ? "gate_up" : "down", ends[j]) < HF_NAME_MAX;
        }
    return false;
}

bool format_part_end(const char *name, size_t *ret_n)
{
    for (size_t i = 0; i < ARRAY_SIZE(plane_ends); i++)
        if (text_ends_with(name, plane_ends[i])) {
            *ret_n = strlen(plane_ends[i]);
            return true;
        }
    *ret_n = strlen(".weight");
    return text_ends_with(name, ".weight");
}

bool hf_name(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX])
{
    if (name_turn(name, out))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(plane_ends); i++)
        if (text_ends_with(name, plane_ends[i]))
            return name_plane(desc, name, plane_ends[i], out);
    return desc->hf_name ? desc->hf_name(desc, name, out) : hf_name_slot(desc, name, out);
}
