/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes hyperparameters as the keys of config.json, from the tables that reading uses.
 *
 * The keys are read again and compared. So a setting that the class of a model cannot express
 * causes an error here, and not wrong answers of the new model.
 */
#include "format/hf/put-config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "format/fields.h"
#include "format/hf/config.h"

struct put {
    const struct arch_desc *desc;
    const struct arch_class *class;
    const struct hparams *hp;     /* of the file */
    const struct hparams *values; /* what config.json says */
    const struct hf_parts *parts;
    struct field_lists fields;
    json_t *to;
};

/* Returns the number with the fewest digits that is rounded to @x. */
static json_t *number_json(float x)
{
    char text[32];

    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    return json_real(strtod(text, NULL));
}

static void put_count(const struct put *p, const char *key, uint32_t x)
{
    json_object_set_new(p->to, key, json_integer(x));
}

static void put_number(const struct put *p, const char *key, float x)
{
    json_object_set_new(p->to, key, number_json(x));
}

static const void *field_of(const struct arch_field *f, const struct hparams *hp)
{
    return (const char *)hp + f->offset;
}

/* Writes the number x for which 1 / √x is the factor of attention. */
static void put_scale(const struct put *p, const char *key)
{
    const double scale = (double)p->hp->attn_scale;

    if (scale == 0)
        put_count(p, key, p->hp->head_dim);
    else
        put_number(p, key, (float)(1 / (scale * scale)));
}

/* Writes which layers have experts: of each `step` layers the last one, except those in a list. */
static void put_step(const struct put *p, const char *key)
{
    const uint32_t step = MAX(p->hp->experts.step, 1u);
    json_t *dense = json_array();

    put_count(p, key, step);
    for (uint32_t i = 0; i < p->hp->n_layers; i++)
        if ((i + 1) % step == 0 && !p->hp->layers[i].sparse)
            json_array_append_new(dense, json_integer(i));
    json_object_set_new(p->to, "mlp_only_layers", dense);
}

/* Writes a list with a number for each layer. */
static void put_list(const struct put *p, const struct arch_field *f)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->values->n_layers; i++) {
        const char *layer = (const char *)&p->values->layers[i];

        json_array_append_new(list, number_json(*(const float *)(layer + f->layer - 1)));
    }
    json_object_set_new(p->to, f->hf, list);
}

static void put_field(const struct put *p, const struct arch_field *f)
{
    const void *at = field_of(f, p->values);

    if (f->offset == FIELD(attn_scale)) {
        put_scale(p, f->hf);
        return;
    }
    if (f->offset == FIELD(experts.step)) {
        put_step(p, f->hf);
        return;
    }
    switch (f->kind) {
    case FIELD_COUNT:
        put_count(p, f->hf, *(const uint32_t *)at);
        break;
    case FIELD_NUMBER:
        if (f->layer > 0)
            put_list(p, f);
        else if (*(const float *)at != 0)
            put_number(p, f->hf, *(const float *)at);
        break;
    case FIELD_FLAG:
        json_object_set_new(p->to, f->hf, json_boolean(*(const bool *)at));
        break;
    case FIELD_ACT:
        if (field_act_name(*(const enum graph_act *)at))
            json_object_set_new(p->to, f->hf,
                                json_string(field_act_name(*(const enum graph_act *)at)));
        break;
    }
}

/* Writes the rotation of each kind of layer of Gemma 4. */
static void put_rope_kinds(const struct put *p)
{
    const struct hparams *hp = p->values;
    struct put full = *p, window = *p;

    full.to = json_pack("{s:s}", "rope_type", hp->rope_pairs > 0 ? "proportional" : "default");
    put_number(&full, "rope_theta", hp->rope_theta);
    if (hp->rope_pairs > 0)
        put_number(&full, "partial_rotary_factor",
                   (float)(2 * hp->rope_pairs) / (float)hp->rope_dims);
    window.to = json_pack("{s:s}", "rope_type", "default");
    put_number(&window, "rope_theta", hp->rope_theta_window);
    json_object_set_new(
        p->to, "rope_parameters",
        json_pack("{s:o, s:o}", "full_attention", full.to, "sliding_attention", window.to));
}

/* Writes the rotation of Qwen 3.5. */
static void put_rope_sections(const struct put *p)
{
    const struct hparams *hp = p->values;
    struct put rope = *p;

    rope.to = json_pack("{s:s}", "rope_type", "default");
    put_number(&rope, "rope_theta", hp->rope_theta);
    put_number(&rope, "partial_rotary_factor", (float)hp->rope_dims / (float)hp->head_dim);
    if (hp->rope_sections[0] > 0)
        json_object_set_new(rope.to, "mrope_section",
                            json_pack("[I, I, I]", (json_int_t)hp->rope_sections[0],
                                      (json_int_t)hp->rope_sections[1],
                                      (json_int_t)hp->rope_sections[2]));
    json_object_set_new(p->to, "rope_parameters", rope.to);
}

static void put_rope(const struct put *p)
{
    const struct hparams *hp = p->values;
    const char *type = hp->rope_scaling == ROPE_SCALING_YARN     ? "yarn"
                       : hp->rope_scaling == ROPE_SCALING_LLAMA3 ? "llama3"
                       : hp->rope_scaling == ROPE_SCALING_LINEAR ? "linear"
                                                                 : NULL;
    struct put scaling = *p;

    put_number(p, p->class->theta_key ? p->class->theta_key : "rope_theta", hp->rope_theta);
    if (p->class->flags & CLASS_PARTIAL_ROPE)
        put_number(p, "partial_rotary_factor", (float)hp->rope_dims / (float)hp->head_dim);
    if (!type || (hp->rope_scaling == ROPE_SCALING_LINEAR && hp->rope_factor == 1))
        return;
    scaling.to = json_pack("{s:s, s:s}", "rope_type", type, "type", type);
    put_number(&scaling, "factor", hp->rope_factor);
    if (hp->rope_scaling != ROPE_SCALING_LINEAR)
        put_count(&scaling, "original_max_position_embeddings", hp->rope_ctx_orig);
    if (hp->rope_scaling == ROPE_SCALING_LLAMA3) {
        put_number(&scaling, "low_freq_factor", hp->rope_low_freq_factor);
        put_number(&scaling, "high_freq_factor", hp->rope_high_freq_factor);
    } else if (hp->rope_scaling == ROPE_SCALING_YARN) {
        put_number(&scaling, "beta_fast", hp->yarn_beta_fast);
        put_number(&scaling, "beta_slow", hp->yarn_beta_slow);
        if (hp->yarn_attn_factor != 0)
            put_number(&scaling, "attention_factor", hp->yarn_attn_factor);
        if (hp->yarn_mscale != 0 && hp->yarn_mscale_all_dim != 0) {
            put_number(&scaling, "mscale", hp->yarn_mscale);
            put_number(&scaling, "mscale_all_dim", hp->yarn_mscale_all_dim);
        }
        if (hp->yarn_no_truncate)
            json_object_set_new(scaling.to, "truncate", json_false());
    }
    json_object_set_new(p->to, "rope_scaling", scaling.to);
}

/* If one of each N layers, the last one, has no window, writes N, which mlx-lm reads. */
static void put_every(const struct put *p, const struct arch_window *w)
{
    const uint32_t n = p->hp->n_layers;
    uint32_t every = 1;
    bool regular = true;

    while (every <= n && hparams_window(p->hp, every - 1) > 0)
        every++;
    for (uint32_t i = 0; i < n; i++)
        regular = regular && (hparams_window(p->hp, i) == 0) == ((i + 1) % every == 0);
    if (regular && w->hf_every_key)
        put_count(p, w->hf_every_key, every);
}

/* Writes which layers are recurrent. */
static void put_recurrent(const struct put *p)
{
    json_t *types = json_array();

    for (uint32_t i = 0; i < p->hp->n_layers; i++)
        json_array_append_new(types, json_string(p->hp->layers[i].kind == LAYER_RECURRENT
                                                     ? "linear_attention"
                                                     : "full_attention"));
    json_object_set_new(p->to, "layer_types", types);
}

static void put_window(const struct put *p)
{
    const struct arch_window *w = p->class->window;
    const char *key = w && w->hf_key ? w->hf_key : "sliding_window";
    json_t *types;

    if (!w)
        return;
    if (w->switched)
        json_object_set_new(p->to, "use_sliding_window", json_boolean(p->hp->window > 0));
    if (p->hp->window == 0) {
        json_object_set_new(p->to, key, json_null());
        return;
    }
    put_count(p, key, p->hp->window);
    put_every(p, w);
    if (w->hf_full_key)
        put_count(p, w->hf_full_key, p->hp->n_layers);
    if (w->hf_theta_key)
        put_number(p, w->hf_theta_key, p->hp->rope_theta_window);
    types = json_array();
    for (uint32_t i = 0; i < p->hp->n_layers; i++)
        json_array_append_new(types, json_string(hparams_window(p->hp, i) > 0 ? "sliding_attention"
                                                                              : "full_attention"));
    json_object_set_new(p->to, "layer_types", types);
}

static void put_parts(const struct put *p)
{
    const unsigned flags = p->class->flags;

    json_object_set_new(p->to, "tie_word_embeddings", json_boolean(p->parts->tied));
    if (flags & CLASS_ATTENTION_BIAS)
        json_object_set_new(p->to, "attention_bias", json_boolean(p->parts->bias_out));
    if (flags & CLASS_QKV_BIAS)
        json_object_set_new(p->to, "qkv_bias", json_boolean(p->parts->bias_qkv));
    if (flags & CLASS_MLP_BIAS)
        json_object_set_new(p->to, "mlp_bias", json_boolean(p->parts->bias_mlp));
}

/* Returns whether the keys of the language model are in an object of their own. */
static bool is_nested(const struct arch_class *class)
{
    return (class->flags & CLASS_TEXT_CONFIG) &&
           text_ends_with(class->name, "ForConditionalGeneration");
}

/* Writes keys that other programs need, but that say nothing more. */
static void put_rest(const struct put *p)
{
    for (size_t i = 0; i < p->desc->n_constants; i++)
        put_count(p, p->desc->constants[i].key, p->desc->constants[i].x);
    if (field_reads_hf(&p->fields, "top_k_experts"))
        json_object_set_new(p->to, "enable_moe_block", json_boolean(p->hp->experts.n > 0));
    if (p->hp->gemma.per_layer > 0 && !field_reads_hf(&p->fields, "vocab_size_per_layer_input"))
        put_count(p, "vocab_size_per_layer_input", p->hp->n_vocab);
}

static void put_keys(const struct put *p)
{
    const struct arch_field *f;

    for (size_t i = 0; (f = field_at(&p->fields, &i)); i++)
        if (f->hf)
            put_field(p, f);
    if (!field_reads_hf(&p->fields, "num_key_value_heads"))
        put_count(p, "num_key_value_heads", p->hp->n_kv_heads);
    if (!field_reads_hf(&p->fields, "head_dim"))
        put_count(p, "head_dim", p->hp->head_dim);
    if (p->hp->rope_dims_window > 0)
        put_rope_kinds(p);
    else if (p->desc->recurrent && is_nested(p->class))
        put_rope_sections(p);
    else
        put_rope(p);
    put_window(p);
    if (p->desc->recurrent)
        put_recurrent(p);
    put_parts(p);
    put_rest(p);
}

static void put_all(const struct put *p)
{
    struct put inner = *p;
    char type[64];

    json_object_set_new(p->to, "architectures", json_pack("[s]", p->class->name));
    json_object_set_new(p->to, "model_type", json_string(p->class->model_type));
    if (is_nested(p->class)) {
        snprintf(type, sizeof(type), "%s_text", p->class->model_type);
        inner.to = json_pack("{s:s}", "model_type", type);
        json_object_set_new(p->to, "tie_word_embeddings", json_boolean(p->parts->tied));
        put_count(p, "vocab_size", p->hp->n_vocab);
        json_object_set_new(p->to, "text_config", inner.to);
    }
    put_keys(&inner);
}

/* ---- the comparison ---- */

static bool field_is_same(const struct arch_field *f, const struct hparams *a,
                          const struct hparams *b)
{
    const void *x = field_of(f, a), *y = field_of(f, b);

    switch (f->kind) {
    case FIELD_COUNT:
        /* The layers with experts themselves are compared elsewhere. */
        return f->offset == FIELD(experts.step) || *(const uint32_t *)x == *(const uint32_t *)y;
    case FIELD_NUMBER:
        return f->offset == FIELD(attn_scale) || *(const float *)x == *(const float *)y;
    case FIELD_FLAG:
        return *(const bool *)x == *(const bool *)y;
    case FIELD_ACT:
        return *(const enum graph_act *)x == *(const enum graph_act *)y;
    }
    return false;
}

/* Compares the settings of layers and of the scaling of positions that hparams_difference() leaves
 * out. Returns the name of one that differs, or NULL. */
static const char *find_other(const struct hparams *a, const struct hparams *b)
{
    if (a->rope_scaling == ROPE_SCALING_LLAMA3 &&
        (b->rope_scaling != ROPE_SCALING_LLAMA3 || a->rope_factor != b->rope_factor ||
         a->rope_ctx_orig != b->rope_ctx_orig ||
         a->rope_low_freq_factor != b->rope_low_freq_factor ||
         a->rope_high_freq_factor != b->rope_high_freq_factor))
        return "the scaling of Llama 3";
    if (a->rope_scaling == ROPE_SCALING_YARN &&
        (a->rope_ctx_orig != b->rope_ctx_orig || a->yarn_beta_fast != b->yarn_beta_fast ||
         a->yarn_beta_slow != b->yarn_beta_slow || a->yarn_attn_factor != b->yarn_attn_factor))
        return "yarn";
    if (a->rope_attn_factor != 0 && a->rope_attn_factor != 1)
        return "the factor of rotated positions";
    if (a->rope_pairs != b->rope_pairs || a->rope_dims_window != b->rope_dims_window)
        return "the rotated dimensions";
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (hparams_n_heads(a, i) != hparams_n_heads(b, i) ||
            hparams_n_kv_heads(a, i) != hparams_n_kv_heads(b, i) ||
            hparams_head_dim(a, i) != hparams_head_dim(b, i) ||
            hparams_n_ff(a, i) != hparams_n_ff(b, i))
            return "the widths of layers";
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (a->layers[i].cutoff != b->layers[i].cutoff ||
            a->layers[i].shared != b->layers[i].shared)
            return "the cutoffs of gates or the sharing of keys and values";
    return NULL;
}

/* Returns the name of a setting that config.json cannot express; NULL: there is none. */
static const char *find_difference(const struct put *p, const struct hf_config *c)
{
    const struct arch_field *f;
    const char *name = hparams_difference(p->values, &c->hp);

    for (size_t i = 0; !name && (f = field_at(&p->fields, &i)); i++)
        if (!field_is_same(f, p->values, &c->hp))
            name = f->hf ? f->hf : f->gguf;
    if (!name)
        name = find_other(p->hp, &c->hp);
    if (!name && (c->bias_qkv != p->parts->bias_qkv || c->bias_out != p->parts->bias_out ||
                  c->bias_mlp != p->parts->bias_mlp))
        name = "the biases";
    if (!name && c->tied != p->parts->tied)
        name = "the head";
    return name;
}

/* Makes the config.json of a class, and checks it. Returns -EOPNOTSUPP if the class cannot say
 * everything. */
static int try_class(struct put *p, const struct arch_list *archs, bool *ret_add_one,
                     struct inf_err *reterr)
{
    _cleanup_free_ struct hf_config *c = NEW(struct hf_config, 1);
    const char *name;
    int r;

    p->fields = field_lists_of(p->desc, p->class);
    p->to = json_object();
    if (!c || !p->to)
        return err_set(reterr, ENOMEM, "out of memory");
    put_all(p);
    r = hf_config_parse(p->to, archs, c, reterr);
    if (r < 0)
        return r;
    name = find_difference(p, c);
    *ret_add_one = c->hp.norms_add_one;
    return name ? err_set(reterr, EOPNOTSUPP,
                          "a directory of the class %s cannot say what the file says about %s",
                          p->class->name, name)
                : 0;
}

int hf_put_config(const struct arch_list *archs, const struct arch_desc *desc,
                  const struct hparams *hp, const struct hf_parts *parts, json_t **ret_config,
                  bool *ret_add_one, struct inf_err *reterr)
{
    const unsigned others = CLASS_CLASSIFIES | CLASS_LATE | CLASS_NO_HEAD | CLASS_PART;
    _cleanup_free_ struct hparams *values = NEW(struct hparams, 1);
    struct put p = {.desc = desc, .hp = hp, .values = values, .parts = parts};
    struct inf_err err = {0}, later;
    int r = -EOPNOTSUPP;

    if (!values)
        return err_set(reterr, ENOMEM, "out of memory");
    *values = *hp;
    if (desc->to_hf)
        desc->to_hf(values);
    for (size_t i = 0; r < 0 && r != -ENOMEM && i < desc->n_classes; i++) {
        p.class = &desc->classes[i];
        if (!p.class->model_type || (p.class->flags & others))
            continue;
        /* If all classes fail, the message of the first one is reported, because most models have
         * this class. */
        r = try_class(&p, archs, ret_add_one, err.text[0] ? &later : &err);
        if (r < 0)
            p.to = (json_decref(p.to), NULL);
    }
    if (r < 0)
        return err_set(reterr, -r, "%s",
                       err.text[0] ? err.text : "there is no directory of this architecture");
    *ret_config = p.to;
    return 0;
}
