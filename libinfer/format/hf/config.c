/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads hyperparameters from config.json, as transformers 4 and 5 do.
 *
 * A missing key has the default of the model's class. Keys of unsupported features that change the
 * results are refused by name.
 */
#include "format/hf/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "format/hf/reader.h"

/* Keys of decoders that must be missing, null, false, or have the neutral number. */
static const struct arch_refused refused[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"attn_logit_softcap", 0},
    {"partial_rotary_factor", 1},
    {"num_local_experts", 0},
    {"num_experts", 0},
    {"n_routed_experts", 0},
    {"attention_multiplier", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"use_qk_norm", 0},
    {"qk_layernorm", 0},
    {"alibi", 0},
    {"add_cross_attention", 0},
    {"no_rope_layers", 0},
    {"attention_sinks", 0},
};

struct reader {
    struct hf_reader in;
    const struct arch_desc *desc;
    const struct arch_class *class;
    struct field_lists fields;
    struct inf_err *err; /* the same as in.err */
};

/* Returns whether @name is the class without its head: "LlamaModel" for "LlamaForCausalLM".
 * sentence-transformers saves such models. */
static bool is_base_of(const struct arch_class *class, const char *name)
{
    static const char causal[] = "ForCausalLM";
    const size_t n = strlen(class->name), n_end = sizeof(causal) - 1;

    return n > n_end && strcmp(class->name + n - n_end, causal) == 0 &&
           strncmp(name, class->name, n - n_end) == 0 && strcmp(name + n - n_end, "Model") == 0;
}

/* Finds the class of the model, or if the file names no class, the class of the model's type. */
static bool find_class(struct reader *r, const struct arch_list *archs, bool *ret_base)
{
    const char *name = hf_class_name(r->in.root);
    const char *type = json_string_value(json_object_get(r->in.root, "model_type"));

    /* Some draft heads of EAGLE-3 have the class of the model for which they draft. */
    if (hf_value(r->in.root, "draft_vocab_size") && !hf_value(r->in.root, "dflash_config"))
        name = "LlamaForCausalLMEagle3";
    for (size_t i = 0; i < archs->n; i++)
        for (size_t j = 0; j < archs->descs[i]->n_classes; j++) {
            r->desc = archs->descs[i];
            r->class = &r->desc->classes[j];
            *ret_base = name && is_base_of(r->class, name);
            if (*ret_base ||
                (name ? strcmp(name, r->class->name) == 0
                      : type && r->class->model_type && strcmp(type, r->class->model_type) == 0))
                return true;
        }
    return false;
}

static int check_refused(const struct reader *r)
{
    int rc = 0;

    if (!r->desc->encoder) {
        const size_t n = ARRAY_SIZE(refused);

        for (size_t i = 0; rc == 0 && i < n; i++)
            if (strcmp(refused[i].key, "partial_rotary_factor") != 0 ||
                !(r->class->flags & CLASS_PARTIAL_ROPE))
                rc = hf_check_refused(&r->in, &r->fields, &refused[i], 1);
        if (rc == 0 && !r->desc->both_ways && json_is_false(hf_get(&r->in, "is_causal", NULL)))
            return err_set(r->err, EOPNOTSUPP,
                           "config.json: \"is_causal\": false is not supported");
    }
    return rc == 0
               ? hf_check_refused(&r->in, &r->fields, r->desc->refused_hf, r->desc->n_refused_hf)
               : rc;
}

static int get_heads(const struct reader *r, struct hparams *hp)
{
    uint32_t absent;
    int rc = 0;

    if (hp->n_heads == 0)
        return err_set(r->err, EBADMSG, "config.json: num_attention_heads is 0");
    /* The value null means the number of heads. Only a missing key has the default of the class. */
    absent = json_object_get(r->in.config, "num_key_value_heads") ? 0 : r->class->n_kv_heads;
    if (!field_reads_hf(&r->fields, "num_key_value_heads"))
        rc = hf_get_count(&r->in, "num_key_value_heads", NULL, absent ? absent : hp->n_heads,
                          &hp->n_kv_heads);
    if (rc < 0)
        return rc;
    absent = r->class->head_dim ? r->class->head_dim : hp->n_embd / hp->n_heads;
    rc = hf_get_count(&r->in, "head_dim", NULL, absent, &hp->head_dim);
    hp->rope_dims = hp->head_dim;
    return rc;
}

static int get_biases(const struct reader *r, struct hf_config *c)
{
    const unsigned flags = r->class->flags;
    const struct hf_reader root = {.config = r->in.root, .err = r->err};
    bool attention = false, qkv = flags & CLASS_BIAS_QKV;
    int rc = 0;

    if (flags & CLASS_ATTENTION_BIAS)
        rc = hf_get_flag(&r->in, "attention_bias", false, &attention);
    if (flags & CLASS_QKV_BIAS)
        rc = hf_get_flag(&r->in, "qkv_bias", true, &qkv);
    if (rc == 0 && (flags & CLASS_MLP_BIAS))
        rc = hf_get_flag(&r->in, "mlp_bias", false, &c->bias_mlp);
    if (rc == 0)
        rc = hf_get_flag(&root, "tie_word_embeddings", flags & CLASS_TIED, &c->tied);
    if (rc == 0 && r->in.config != r->in.root)
        rc = hf_get_flag(&r->in, "tie_word_embeddings", c->tied, &c->tied);
    c->tied |= (flags & CLASS_NO_HEAD) != 0;
    c->bias_qkv = attention || qkv;
    c->bias_out = attention;
    return rc;
}

void hf_config_names(const json_t *config, struct hparams *hp)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *name = json_string_value(json_object_get(config, "_name_or_path"));

    snprintf(hp->arch, sizeof(hp->arch), "%s", type ? type : "");
    snprintf(hp->name, sizeof(hp->name), "%s", name ? name : "");
}

static int refuse_class(const json_t *config, const struct arch_list *archs, struct inf_err *reterr)
{
    const char *name = hf_class_name(config);
    char known[360] = "";

    if (!name)
        name = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; i < archs->n; i++)
        for (size_t j = 0; j < archs->descs[i]->n_classes; j++)
            if (archs->descs[i]->classes[j].model_type)
                text_list_add(known, sizeof(known), archs->descs[i]->classes[j].model_type);
    return err_set(reterr, EOPNOTSUPP,
                   "config.json: the architecture \"%.32s\" is not supported; there are whisper, "
                   "encoders, %s",
                   name ? name : "", known);
}

static int get_all(const struct reader *r, struct hf_config *c)
{
    int rc;

    rc = hf_get_quantized(&r->in, r->desc, r->class, &c->hp);
    if (rc == 0)
        rc = check_refused(r);
    if (rc == 0)
        rc = hf_get_fields(&r->in, &r->fields, &c->hp);
    if (rc == 0)
        rc = get_heads(r, &c->hp);
    if (rc == 0 && !r->desc->own_positions)
        rc = hf_get_rope(&r->in, r->class, &c->hp);
    if (rc == 0)
        rc = hf_get_layers(&r->in, r->desc, r->class, &c->hp);
    if (rc == 0 && r->desc->hf_extra)
        rc = r->desc->hf_extra(&r->in, r->class, &c->hp);
    if (rc == 0)
        rc = get_biases(r, c);
    return rc == 0 ? field_finish(r->desc, &c->hp, ARCH_HF, r->err) : rc;
}

int hf_config_parse(const json_t *config, const struct arch_list *archs,
                    struct hf_config *ret_config, struct inf_err *reterr)
{
    struct reader r = {.in = {.config = config, .err = reterr, .root = config}, .err = reterr};
    struct hf_config c = {0};
    int rc;

    if (!find_class(&r, archs, &c.base))
        return refuse_class(config, archs, reterr);
    if ((r.class->flags & CLASS_TEXT_CONFIG) && json_is_object(hf_value(config, "text_config")))
        r.in.config = hf_value(config, "text_config");
    r.fields = field_lists_of(r.desc, r.class);
    hf_config_names(config, &c.hp);
    snprintf(c.hp.arch, sizeof(c.hp.arch), "%s", r.desc->name);
    c.desc = r.desc;
    c.hp.n_ctx_train = r.class->n_ctx;
    c.hp.rope_style = ROPE_HALF;
    c.hp.embed.encoder = r.desc->encoder;
    rc = get_all(&r, &c);
    if (rc < 0)
        return rc;
    *ret_config = c;
    return 0;
}
