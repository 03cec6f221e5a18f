/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the config.json of encoders in which most layers attend only to a window of nearby tokens:
 * ModernBERT and EmbeddingGemma.
 *
 * Layers with a window have their own rotary base. The file gives the window as the number of
 * tokens on both sides together. A row attends to half of these tokens on each side, and to its own
 * token.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/names.h"
#include "format/hf/reader.h"

static const struct window_class {
    const char *name;
    bool gemma, classifies;
} classes[] = {
    {"ModernBertModel", false, false},
    {"ModernBertForMaskedLM", false, false},
    {"ModernBertForSequenceClassification", false, true},
    {"Gemma3TextModel", true, false},
};

static const struct window_class *find_class(const json_t *config)
{
    const char *name = hf_class_name(config);

    for (size_t i = 0; name && i < ARRAY_SIZE(classes); i++)
        if (strcmp(name, classes[i].name) == 0)
            return &classes[i];
    return NULL;
}

static int check_refused(const struct hf_reader *r)
{
    static const struct hf_refused keys[] = {
        {"attn_logit_softcapping", 0},
        {"final_logit_softcapping", 0},
    };

    return hf_check_refused(r, keys, ARRAY_SIZE(keys));
}

static int get_counts(const struct hf_reader *r, const struct window_class *class,
                      struct hparams *hp)
{
    const struct hf_count counts[] = {
        {"vocab_size", NULL, HF_NEEDED, &hp->n_vocab},
        {"hidden_size", NULL, HF_NEEDED, &hp->n_embd},
        {"intermediate_size", NULL, HF_NEEDED, &hp->n_ff},
        {"num_hidden_layers", NULL, HF_NEEDED, &hp->n_layers},
        {"num_attention_heads", NULL, HF_NEEDED, &hp->n_heads},
        {"max_position_embeddings", NULL, class->gemma ? 131072 : 8192, &hp->n_ctx_train},
    };
    int rc = hf_get_counts(r, counts, ARRAY_SIZE(counts));

    if (rc < 0)
        return rc;
    if (hp->n_heads == 0)
        return err_set(r->err, EBADMSG, "config.json: num_attention_heads is 0");
    hp->n_kv_heads = hp->n_heads;
    hp->head_dim = hp->n_embd / hp->n_heads;
    if (class->gemma)
        rc = hf_get_count(r, "num_key_value_heads", NULL, 4, &hp->n_kv_heads);
    if (rc == 0 && class->gemma)
        rc = hf_get_count(r, "head_dim", NULL, 256, &hp->head_dim);
    else if (rc == 0 && hp->n_embd % hp->n_heads != 0)
        return err_set(r->err, EBADMSG,
                       "config.json: a width of %u cannot be divided evenly among %u heads",
                       hp->n_embd, hp->n_heads);
    hp->rope_dims = hp->head_dim;
    return rc;
}

/* Reads the rotary base of one kind of layer. Since transformers 5, the base is in an object @kind
 * of "rope_parameters"; before, it was the key @old at the top level of the file. */
static int get_theta(const struct hf_reader *r, const char *kind, const char *old, float absent,
                     float *ret)
{
    const json_t *all = hf_get(r, "rope_parameters", NULL), *mine = json_object_get(all, kind);
    const struct hf_reader inner = {.config = mine, .err = r->err};
    const char *type;
    int rc;

    if (hf_get(r, "rope_scaling", NULL))
        return err_set(r->err, EOPNOTSUPP, "config.json: rope_scaling is not supported");
    rc = hf_get_number(r, old, NULL, absent, ret);
    if (rc < 0 || !json_is_object(mine))
        return rc;
    type = json_string_value(json_object_get(mine, "rope_type"));
    if (type && strcmp(type, "default") != 0)
        return err_set(r->err, EOPNOTSUPP, "config.json: the rope type \"%.32s\" is not supported",
                       type);
    return hf_get_number(&inner, "rope_theta", NULL, *ret, ret);
}

static int get_rope(const struct hf_reader *r, const struct window_class *class, struct hparams *hp)
{
    int rc;

    hp->rope_factor = 1;
    rc = get_theta(r, "full_attention", class->gemma ? "rope_theta" : "global_rope_theta",
                   class->gemma ? 1e6f : 160000.0f, &hp->rope_theta);
    if (rc == 0)
        rc = get_theta(r, "sliding_attention",
                       class->gemma ? "rope_local_base_freq" : "local_rope_theta", 10000.0f,
                       &hp->rope_theta_window);
    return rc;
}

/* Finds the layers without a window. The list layer_types gives the type of each layer. If this
 * list is missing, one layer of each group of layers has no window: the last layer for Gemma, the
 * first layer for ModernBERT. */
static int get_layers(const struct hf_reader *r, const struct window_class *class,
                      struct hparams *hp)
{
    const json_t *types = hf_get(r, "layer_types", NULL);
    uint32_t every = 1;
    int rc;

    rc =
        hf_get_count(r, class->gemma ? "sliding_window_pattern" : "global_attn_every_n_layers",
                     class->gemma ? "_sliding_window_pattern" : NULL, class->gemma ? 6 : 3, &every);
    if (rc < 0)
        return rc;
    if (types && json_array_size(types) < hp->n_layers)
        return err_set(r->err, EBADMSG, "config.json: layer_types does not fit %u layers",
                       hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));

        if (types && (!type || (strcmp(type, "full_attention") != 0 &&
                                strcmp(type, "sliding_attention") != 0)))
            return err_set(r->err, EOPNOTSUPP,
                           "config.json: the layer type \"%.32s\" is not supported",
                           type ? type : "?");
        if (types ? type[0] == 'f' : every > 0 && (i + class->gemma) % every == 0)
            hparams_set_full(hp, i);
    }
    return 0;
}

static int get_window(const struct hf_reader *r, const struct window_class *class,
                      struct hparams *hp)
{
    uint32_t both = 0;
    int rc;

    rc = class->gemma ? hf_get_count(r, "sliding_window", NULL, 4096, &both)
                      : hf_get_count(r, "local_attention", NULL, 128, &both);
    hp->window = both / 2 + 1;
    return rc == 0 ? get_layers(r, class, hp) : rc;
}

static int get_gemma(const struct hf_reader *r, struct hf_config *c)
{
    float scalar = 256;
    int rc;

    if (!json_is_true(hf_get(r, "use_bidirectional_attention", NULL)))
        return err_set(r->err, EOPNOTSUPP,
                       "config.json: Gemma3TextModel without use_bidirectional_attention is not "
                       "supported");
    if (json_is_true(hf_get(r, "attention_bias", NULL)))
        return err_set(r->err, EOPNOTSUPP, "config.json: attention_bias is not supported");
    rc = hf_get_number(r, "query_pre_attn_scalar", NULL, 256, &scalar);
    if (rc == 0 && !(scalar > 0))
        return err_set(r->err, EBADMSG, "config.json: query_pre_attn_scalar is not above 0");
    if (rc == 0)
        rc = hf_get_number(r, "rms_norm_eps", NULL, 1e-6f, &c->hp.norm_eps);
    if (rc == 0)
        rc = hf_get_act(r, "hidden_activation", "gelu_pytorch_tanh", &c->hp.act);
    c->hp.attn_scale = (float)(1 / sqrt((double)scalar));
    c->hp.embd_scale = sqrtf((float)c->hp.n_embd);
    c->hp.norms_add_one = true;
    c->tensor_name = hf_name_gemma;
    return rc;
}

static int get_modern(const struct hf_reader *r, const struct window_class *class,
                      struct hf_config *c)
{
    struct hparams_embed *e = &c->hp.embed;
    const char *pooling = json_string_value(hf_get(r, "classifier_pooling", NULL));
    int rc;

    rc = hf_get_number(r, "norm_eps", NULL, 1e-5f, &c->hp.norm_eps);
    if (rc == 0)
        rc = hf_get_act(r, "hidden_activation", "gelu", &c->hp.act);
    if (rc == 0)
        rc = hf_get_act(r, "classifier_activation", "gelu", &e->head_act);
    c->tensor_name = hf_name_encoder;
    if (rc < 0 || !class->classifies)
        return rc;
    e->has_head = true;
    e->score_pooling = pooling && strcmp(pooling, "mean") == 0 ? POOLING_MEAN : POOLING_CLS;
    return hf_get_labels(r, &e->n_labels);
}

bool hf_config_is_windowed(const json_t *config)
{
    return find_class(config) != NULL;
}

int hf_config_windowed(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr)
{
    const struct hf_reader r = {.config = config, .err = reterr};
    const struct window_class *class = find_class(config);
    struct hf_config c = {0};
    int rc;

    hf_config_names(config, &c.hp);
    snprintf(c.hp.arch, sizeof(c.hp.arch), class->gemma ? "gemma-embedding" : "modern-bert");
    c.hp.rope_style = ROPE_HALF;
    c.hp.embed.encoder = true;
    rc = check_refused(&r);
    if (rc == 0)
        rc = get_counts(&r, class, &c.hp);
    if (rc == 0)
        rc = get_rope(&r, class, &c.hp);
    if (rc == 0)
        rc = class->gemma ? get_gemma(&r, &c) : get_modern(&r, class, &c);
    /* The number of layers must be checked before the loop over the layers. */
    if (rc == 0)
        rc = hparams_check(&c.hp, reterr);
    if (rc == 0)
        rc = get_window(&r, class, &c.hp);
    if (rc == 0)
        rc = hparams_check(&c.hp, reterr);
    if (rc < 0)
        return rc;
    *ret_config = c;
    return 0;
}
