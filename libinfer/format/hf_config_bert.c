/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json of encoders, as transformers reads it
 *
 * The classes differ in how positions are told, in the feed-forward layers and in what stands
 * behind. Nomic's own code calls most things otherwise than transformers does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/hf_config.h"

enum kind {
    KIND_BERT,
    KIND_ROBERTA, /* positions are counted from behind the padding's id */
    KIND_NOMIC,
};

static const struct encoder_class {
    const char *name;
    enum kind kind;
    bool classifies;
} classes[] = {
    {"BertModel", KIND_BERT, false},
    {"BertForMaskedLM", KIND_BERT, false},
    {"BertForSequenceClassification", KIND_BERT, true},
    {"RobertaModel", KIND_ROBERTA, false},
    {"RobertaForMaskedLM", KIND_ROBERTA, false},
    {"RobertaForSequenceClassification", KIND_ROBERTA, true},
    {"XLMRobertaModel", KIND_ROBERTA, false},
    {"XLMRobertaForMaskedLM", KIND_ROBERTA, false},
    {"XLMRobertaForSequenceClassification", KIND_ROBERTA, true},
    {"CamembertModel", KIND_ROBERTA, false},
    {"NomicBertModel", KIND_NOMIC, false},
};

struct reader {
    const json_t *config;
    const struct encoder_class *class;
    struct inf_err *err;
};

/* The first of two keys that is there. */
static const json_t *get(const struct reader *r, const char *key, const char *other)
{
    const json_t *x = json_object_get(r->config, key);

    if ((!x || json_is_null(x)) && other)
        x = json_object_get(r->config, other);
    return json_is_null(x) ? NULL : x;
}

static int get_count(const struct reader *r, const char *key, const char *other, uint32_t absent,
                     uint32_t *ret)
{
    const json_t *x = get(r, key, other);

    if (x &&
        (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) > INT32_MAX))
        return err_set(r->err, EBADMSG, "config.json: %s is no count", key);
    *ret = x ? (uint32_t)json_integer_value(x) : absent;
    return 0;
}

static int get_number(const struct reader *r, const char *key, const char *other, float absent,
                      float *ret)
{
    const json_t *x = get(r, key, other);

    if (x && !json_is_number(x))
        return err_set(r->err, EBADMSG, "config.json: %s is no number", key);
    *ret = x ? (float)json_number_value(x) : absent;
    return 0;
}

/* Values that change what is computed and that only others than the neutral one are told of. */
static int check_refused(const struct reader *r)
{
    static const struct {
        const char *key;
        double neutral;
    } numbers[] = {{"rotary_emb_fraction", 1},
                   {"rotary_scaling_factor", 0},
                   {"num_experts", 0},
                   {"moe_every_n_layers", 0}};
    static const char *const flags[] = {
        "prenorm",    "parallel_block", "rotary_emb_interleaved",
        "is_decoder", "use_rms_norm",   "use_bidirectional_attention"};
    const json_t *x = get(r, "position_embedding_type", NULL);

    if (x && (!json_is_string(x) || strcmp(json_string_value(x), "absolute") != 0) &&
        r->class->kind != KIND_NOMIC)
        return err_set(r->err, EOPNOTSUPP, "config.json: only absolute positions are supported");
    if (get(r, "quantization_config", NULL))
        return err_set(r->err, EOPNOTSUPP, "config.json: quantization_config is not supported");
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        x = get(r, numbers[i].key, NULL);
        if (x && !(json_is_number(x) && json_number_value(x) == numbers[i].neutral))
            return err_set(r->err, EOPNOTSUPP, "config.json: %s is not supported", numbers[i].key);
    }
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (json_is_true(get(r, flags[i], NULL)))
            return err_set(r->err, EOPNOTSUPP, "config.json: %s is not supported", flags[i]);
    return 0;
}

static int get_counts(const struct reader *r, struct hparams *hp)
{
    const bool nomic = r->class->kind == KIND_NOMIC;
    int rc;

    rc = get_count(r, "vocab_size", NULL, 0, &hp->n_vocab);
    if (rc == 0)
        rc = get_count(r, "hidden_size", "n_embd", 0, &hp->n_embd);
    if (rc == 0)
        rc = get_count(r, "intermediate_size", "n_inner", 0, &hp->n_ff);
    if (rc == 0)
        rc = get_count(r, "num_hidden_layers", "n_layer", 0, &hp->n_layers);
    if (rc == 0)
        rc = get_count(r, "num_attention_heads", "n_head", 0, &hp->n_heads);
    if (rc == 0)
        rc = get_count(r, "max_position_embeddings", "n_positions", nomic ? 2048 : 512,
                       &hp->n_ctx_train);
    if (rc == 0)
        rc = get_count(r, "type_vocab_size", NULL, 2, &hp->embed.n_types);
    if (rc == 0)
        rc = get_number(r, "layer_norm_eps", "layer_norm_epsilon", 1e-12f, &hp->norm_eps);
    if (rc < 0)
        return rc;
    if (hp->n_heads == 0 || hp->n_embd % hp->n_heads != 0)
        return err_set(r->err, EBADMSG, "config.json: %u columns for %u heads", hp->n_embd,
                       hp->n_heads);
    hp->n_kv_heads = hp->n_heads;
    hp->head_dim = hp->rope_dims = hp->n_embd / hp->n_heads;
    return 0;
}

static int get_positions(const struct reader *r, struct hparams *hp)
{
    const json_t *rope = get(r, "rope_parameters", NULL);
    uint32_t padding = 1;
    int rc;

    hp->rope_theta = 10000;
    hp->rope_factor = 1;
    if (r->class->kind == KIND_NOMIC) {
        const char *type = json_string_value(json_object_get(rope, "rope_type"));

        if (type && strcmp(type, "default") != 0)
            return err_set(r->err, EOPNOTSUPP,
                           "config.json: the rope type \"%.32s\" is not supported", type);
        rc = get_number(r, "rotary_emb_base", "rope_theta", 1000, &hp->rope_theta);
        if (json_is_number(json_object_get(rope, "rope_theta")))
            hp->rope_theta = (float)json_number_value(json_object_get(rope, "rope_theta"));
        return rc;
    }
    hp->embed.n_pos = hp->n_ctx_train;
    /* The rotation that is not used must be sane all the same. */
    hp->rope_dims = hp->head_dim & ~1u;
    if (r->class->kind == KIND_BERT)
        return 0;
    rc = get_count(r, "pad_token_id", NULL, 1, &padding);
    if (rc < 0)
        return rc;
    if (padding + 1 >= hp->embed.n_pos)
        return err_set(r->err, EBADMSG, "config.json: pad_token_id leaves no positions");
    hp->embed.pos_first = padding + 1;
    hp->n_ctx_train = hp->embed.n_pos - hp->embed.pos_first;
    return 0;
}

static int get_act(const struct reader *r, struct hparams *hp)
{
    static const struct {
        const char *name;
        enum graph_act act;
        bool gated;
    } acts[] = {
        {"gelu", GRAPH_ACT_GELU_ERF, false},
        {"gelu_new", GRAPH_ACT_GELU_TANH, false},
        {"gelu_fast", GRAPH_ACT_GELU_TANH, false},
        {"gelu_pytorch_tanh", GRAPH_ACT_GELU_TANH, false},
        {"swiglu", GRAPH_ACT_SILU, true},
        {"silu", GRAPH_ACT_SILU, true},
        {"geglu", GRAPH_ACT_GELU_ERF, true},
    };
    const bool nomic = r->class->kind == KIND_NOMIC;
    const json_t *x = get(r, "hidden_act", "activation_function");
    const char *name = x ? json_string_value(x) : nomic ? "silu" : "gelu";

    for (size_t i = 0; name && i < ARRAY_SIZE(acts); i++) {
        if (strcmp(acts[i].name, name) != 0 || acts[i].gated != nomic)
            continue;
        hp->act = acts[i].act;
        hp->embed.gated = acts[i].gated;
        return 0;
    }
    return err_set(r->err, EOPNOTSUPP, "config.json: the activation \"%.32s\" is not supported",
                   name ? name : "?");
}

/* transformers tells the labels by a table, of which two are the default. */
static int get_labels(const struct reader *r, struct hparams *hp)
{
    const json_t *labels = get(r, "id2label", NULL);
    int rc;

    if (!r->class->classifies)
        return 0;
    rc = get_count(r, "num_labels", NULL, labels ? (uint32_t)json_object_size(labels) : 2,
                   &hp->embed.n_labels);
    if (rc == 0 && (hp->embed.n_labels == 0 || hp->embed.n_labels > 65536))
        return err_set(r->err, EBADMSG, "config.json: %u labels", hp->embed.n_labels);
    hp->embed.dense_tanh = true;
    return rc;
}

static const struct encoder_class *find_class(const json_t *config)
{
    const char *name =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));

    for (size_t i = 0; name && i < ARRAY_SIZE(classes); i++)
        if (strcmp(name, classes[i].name) == 0)
            return &classes[i];
    return NULL;
}

bool hf_config_is_encoder(const json_t *config)
{
    return find_class(config) != NULL;
}

int hf_config_encoder(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr)
{
    const struct reader r = {.config = config, .class = find_class(config), .err = reterr};
    struct hf_config c = {0};
    int rc;

    hf_config_names(config, &c.hp);
    snprintf(c.hp.arch, sizeof(c.hp.arch), "bert");
    c.hp.rope_style = ROPE_HALF;
    c.hp.embed.encoder = true;
    rc = check_refused(&r);
    if (rc == 0)
        rc = get_counts(&r, &c.hp);
    if (rc == 0)
        rc = get_positions(&r, &c.hp);
    if (rc == 0)
        rc = get_act(&r, &c.hp);
    if (rc == 0)
        rc = get_labels(&r, &c.hp);
    if (rc == 0)
        rc = hparams_check(&c.hp, reterr);
    if (rc < 0)
        return rc;
    *ret_config = c;
    return 0;
}
