/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the config.json of encoders, as transformers does.
 *
 * The classes of encoders differ in how they encode positions, in the feed-forward layers, and in
 * the layers behind the last transformer layer. config-window.c has the classes with windows.
 * Nomic's own code uses other names than transformers for most settings.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

enum kind {
    KIND_BERT,
    KIND_ROBERTA, /* position numbers start after the id of the padding token */
    KIND_NOMIC,
    KIND_GTE, /* Alibaba's own class "New", and its port in transformers */
};

static const struct encoder_class {
    const char *name;
    enum kind kind;
    bool classifies, late;
} classes[] = {
    {"BertModel", KIND_BERT, false},
    {"HF_ColBERT", KIND_BERT, .late = true},
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
    {"NewModel", KIND_GTE, false},
    {"NewForMaskedLM", KIND_GTE, false},
    {"NewForSequenceClassification", KIND_GTE, true},
    {"GteModel", KIND_GTE, false},
    {"GteForMaskedLM", KIND_GTE, false},
    {"GteForSequenceClassification", KIND_GTE, true},
};

struct reader {
    struct hf_reader in;
    const struct encoder_class *class;
    struct inf_err *err; /* the same as in.err */
};

/* Refuses settings that change the results, unless they have their neutral value. */
static int check_refused(const struct reader *r)
{
    static const struct hf_refused keys[] = {
        {"rotary_emb_fraction", 1},
        {"rotary_scaling_factor", 0},
        {"num_experts", 0},
        {"moe_every_n_layers", 0},
        {"prenorm", 0},
        {"parallel_block", 0},
        {"rotary_emb_interleaved", 0},
        {"is_decoder", 0},
        {"use_rms_norm", 0},
        {"use_bidirectional_attention", 0},
        {"logn_attention_scale", 0},
    };
    const char *positions = r->class->kind == KIND_GTE ? "rope" : "absolute";
    const json_t *x = hf_get(&r->in, "position_embedding_type", NULL);

    if (x && (!json_is_string(x) || strcmp(json_string_value(x), positions) != 0) &&
        r->class->kind != KIND_NOMIC)
        return err_set(r->err, EOPNOTSUPP, "config.json: only \"%s\" positions are supported",
                       positions);
    x = hf_get(&r->in, "layer_norm_type", NULL);
    if (x && (!json_is_string(x) || strcmp(json_string_value(x), "layer_norm") != 0))
        return err_set(r->err, EOPNOTSUPP, "config.json: layer_norm_type is not supported");
    return hf_check_refused(&r->in, keys, ARRAY_SIZE(keys));
}

static int get_counts(const struct reader *r, struct hparams *hp)
{
    static const uint32_t n_ctx[] = {
        [KIND_BERT] = 512, [KIND_ROBERTA] = 512, [KIND_NOMIC] = 2048, [KIND_GTE] = 8192};
    const struct hf_count counts[] = {
        {"vocab_size", NULL, HF_NEEDED, &hp->n_vocab},
        {"hidden_size", "n_embd", HF_NEEDED, &hp->n_embd},
        {"intermediate_size", "n_inner", HF_NEEDED, &hp->n_ff},
        {"num_hidden_layers", "n_layer", HF_NEEDED, &hp->n_layers},
        {"num_attention_heads", "n_head", HF_NEEDED, &hp->n_heads},
        {"max_position_embeddings", "n_positions", n_ctx[r->class->kind], &hp->n_ctx_train},
        {"type_vocab_size", NULL, r->class->kind == KIND_GTE ? 1 : 2, &hp->embed.n_types},
    };
    int rc = hf_get_counts(&r->in, counts, ARRAY_SIZE(counts));

    if (rc == 0)
        rc = hf_get_number(&r->in, "layer_norm_eps", "layer_norm_epsilon", 1e-12f, &hp->norm_eps);
    if (rc < 0)
        return rc;
    if (hp->n_heads == 0 || hp->n_embd % hp->n_heads != 0)
        return err_set(r->err, EBADMSG,
                       "config.json: a width of %u cannot be divided evenly among %u heads",
                       hp->n_embd, hp->n_heads);
    hp->n_kv_heads = hp->n_heads;
    hp->head_dim = hp->rope_dims = hp->n_embd / hp->n_heads;
    return 0;
}

/* Reads the settings of rotary positions. Since transformers 5 they are in "rope_parameters".
 * Before transformers 5, they were in "rope_scaling", with the base beside this key. */
static int get_rope(const struct reader *r, float theta, struct hparams *hp)
{
    const struct hf_reader inner = {.config = hf_get(&r->in, "rope_parameters", "rope_scaling"),
                                    .err = r->err};
    const json_t *x = hf_get(&inner, "rope_type", "type");
    const char *type = x ? json_string_value(x) : "default";
    int rc;

    if (!type || (strcmp(type, "default") != 0 &&
                  (strcmp(type, "ntk") != 0 || hf_get(&inner, "mixed_b", NULL))))
        return err_set(r->err, EOPNOTSUPP, "config.json: the rope type \"%.32s\" is not supported",
                       type ? type : "?");
    if (strcmp(type, "ntk") == 0)
        hp->rope_scaling = ROPE_SCALING_NTK;
    rc = hf_get_number(&r->in, "rotary_emb_base", "rope_theta", theta, &hp->rope_theta);
    if (rc == 0)
        rc = hf_get_number(&inner, "rope_theta", NULL, hp->rope_theta, &hp->rope_theta);
    return rc == 0 ? hf_get_number(&inner, "factor", NULL, 1, &hp->rope_factor) : rc;
}

static int get_positions(const struct reader *r, struct hparams *hp)
{
    uint32_t padding = 1;
    int rc;

    hp->rope_theta = 10000;
    hp->rope_factor = 1;
    if (r->class->kind == KIND_NOMIC)
        return get_rope(r, 1000, hp);
    /* The default of the base is 160000 in transformers' own classes (Gte…), and 10000 in
     * Alibaba's. */
    if (r->class->kind == KIND_GTE)
        return get_rope(r, r->class->name[0] == 'G' ? 160000 : 10000, hp);
    hp->embed.n_pos = hp->n_ctx_train;
    /* The number of rotated dimensions is not used, but must be valid. */
    hp->rope_dims = hp->head_dim & ~1u;
    if (r->class->kind == KIND_BERT)
        return 0;
    rc = hf_get_count(&r->in, "pad_token_id", NULL, 1, &padding);
    if (rc < 0)
        return rc;
    if (padding + 1 >= hp->embed.n_pos)
        return err_set(r->err, EBADMSG, "config.json: no position is left behind pad_token_id");
    hp->embed.pos_first = padding + 1;
    hp->embed.pos_skips = true;
    hp->n_ctx_train = hp->embed.n_pos - hp->embed.pos_first;
    return 0;
}

static int get_act(const struct reader *r, struct hparams *hp)
{
    static const struct {
        const char *name;
        enum graph_act act;
    } units[] = {{"swiglu", GRAPH_ACT_SILU}, {"geglu", GRAPH_ACT_GELU_ERF}};
    const bool nomic = r->class->kind == KIND_NOMIC;
    const json_t *x = hf_get(&r->in, "hidden_act", "activation_function");
    const char *name = x ? json_string_value(x) : nomic ? "silu" : "gelu";

    hp->embed.gated = nomic || r->class->kind == KIND_GTE;
    for (size_t i = 0; nomic && name && i < ARRAY_SIZE(units); i++)
        if (strcmp(units[i].name, name) == 0) {
            hp->act = units[i].act;
            return 0;
        }
    if (hf_act_find(name, &hp->act))
        return 0;
    return err_set(r->err, EOPNOTSUPP, "config.json: the activation \"%.32s\" is not supported",
                   name ? name : "?");
}

static int get_labels(const struct reader *r, struct hparams *hp)
{
    if (!r->class->classifies)
        return 0;
    hp->embed.has_head = true;
    hp->embed.head_act = GRAPH_ACT_TANH;
    return hf_get_labels(&r->in, &hp->embed.n_labels);
}

static const struct encoder_class *find_class(const json_t *config)
{
    const char *name = hf_class_name(config);

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
    const struct reader r = {
        .in = {.config = config, .err = reterr}, .class = find_class(config), .err = reterr};
    struct hf_config c = {0};
    int rc;

    hf_config_names(config, &c.hp);
    snprintf(c.hp.arch, sizeof(c.hp.arch), "bert");
    c.hp.rope_style = ROPE_HALF;
    c.hp.embed.encoder = true;
    c.tensor_name = hf_name_encoder;
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
    if (r.class->late) {
        /* ColBERT has one dense layer without bias. The shape of this layer's tensor gives the
         * width of the layer. */
        c.hp.embed.late = true;
        c.hp.embed.n_dense = 1;
        c.hp.embed.dense_linear[0] = true;
    }
    *ret_config = c;
    return 0;
}
