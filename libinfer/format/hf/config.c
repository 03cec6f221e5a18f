/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads hyperparameters from config.json, as transformers 4 and 5 do.
 *
 * A missing key has the default of the model's class. Keys of unsupported features that change the
 * results are refused by name.
 */
#include "format/hf/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "format/hf/reader.h"

/* The differences between the classes of transformers. */
static const struct hf_class {
    const char *name, *model_type, *arch;
    uint32_t n_kv_heads; /* default; 0: the number of heads */
    uint32_t head_dim;   /* default; 0: hidden_size / heads */
    uint32_t n_ctx;      /* default */
    uint32_t window;     /* default */
    bool has_window;     /* the keys sliding_window and layer_types apply */
    bool has_switch;     /* these two keys apply only if use_sliding_window is set; if layer_types
                            is missing, max_window_layers applies */
    bool bias_qkv;       /* q, k and v always have biases */
    bool has_biases;     /* the key attention_bias applies */
    bool has_mlp_bias;   /* the key mlp_bias applies */
    bool adapted;        /* the class has task adapters; the keys of its language model are in
                            text_config */
} classes[] = {
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .arch = "llama",
     .n_ctx = 2048,
     .has_biases = true,
     .has_mlp_bias = true},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .arch = "llama",
     .n_kv_heads = 8,
     .n_ctx = 4096 * 32,
     .window = 4096,
     .has_window = true},
    {.name = "MinistralForCausalLM",
     .model_type = "ministral",
     .arch = "llama",
     .n_kv_heads = 8,
     .n_ctx = 4096 * 32,
     .window = 4096,
     .has_window = true},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .arch = "qwen2",
     .n_kv_heads = 32,
     .n_ctx = 32768,
     .window = 4096,
     .has_window = true,
     .has_switch = true,
     .bias_qkv = true},
    {.name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .arch = "qwen3",
     .n_kv_heads = 32,
     .head_dim = 128,
     .n_ctx = 32768,
     .window = 4096,
     .has_window = true,
     .has_switch = true,
     .has_biases = true},
    {.name = "JinaEmbeddingsV4Model",
     .model_type = "jina_embeddings_v4",
     .arch = "jina-embeddings-v4",
     .n_kv_heads = 8,
     .n_ctx = 32768,
     .window = 4096,
     .has_window = true,
     .has_switch = true,
     .bias_qkv = true,
     .adapted = true},
};

/* Keys that must be missing, null, false, or have the neutral number. */
static const struct hf_refused refused[] = {
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
    const struct hf_class *class;
    struct inf_err *err; /* the same as in.err */
};

/* Returns whether @name is the class without its head: "LlamaModel" for "LlamaForCausalLM".
 * sentence-transformers saves such models. */
static bool is_base_of(const struct hf_class *class, const char *name)
{
    static const char causal[] = "ForCausalLM";
    const size_t n = strlen(class->name), n_end = sizeof(causal) - 1;

    return n > n_end && strcmp(class->name + n - n_end, causal) == 0 &&
           strncmp(name, class->name, n - n_end) == 0 && strcmp(name + n - n_end, "Model") == 0;
}

static const struct hf_class *find_class(const json_t *config, const char **ret_name,
                                         bool *ret_base)
{
    const char *name = hf_class_name(config);
    const char *type = json_string_value(json_object_get(config, "model_type"));

    *ret_name = name ? name : type;
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
        *ret_base = name && is_base_of(&classes[i], name);
        if (*ret_base || (name ? strcmp(name, classes[i].name) == 0
                               : type && strcmp(type, classes[i].model_type) == 0))
            return &classes[i];
    }
    return NULL;
}

static int check_refused(const struct reader *r)
{
    const int rc = hf_check_refused(&r->in, refused, ARRAY_SIZE(refused));

    if (rc == 0 && json_is_false(hf_get(&r->in, "is_causal", NULL)))
        return err_set(r->err, EOPNOTSUPP, "config.json: \"is_causal\": false is not supported");
    return rc;
}

static int get_counts(const struct reader *r, struct hparams *hp)
{
    const struct hf_count counts[] = {
        {"vocab_size", NULL, HF_NEEDED, &hp->n_vocab},
        {"hidden_size", NULL, HF_NEEDED, &hp->n_embd},
        {"intermediate_size", NULL, HF_NEEDED, &hp->n_ff},
        {"num_hidden_layers", NULL, HF_NEEDED, &hp->n_layers},
        {"num_attention_heads", NULL, HF_NEEDED, &hp->n_heads},
        {"max_position_embeddings", NULL, r->class->n_ctx, &hp->n_ctx_train},
    };
    uint32_t absent;
    int rc = hf_get_counts(&r->in, counts, ARRAY_SIZE(counts));

    if (rc < 0)
        return rc;
    if (hp->n_heads == 0)
        return err_set(r->err, EBADMSG, "config.json: num_attention_heads is 0");
    /* The value null means the number of heads. Only a missing key has the default of the class. */
    absent = json_object_get(r->in.config, "num_key_value_heads") ? 0 : r->class->n_kv_heads;
    rc = hf_get_count(&r->in, "num_key_value_heads", NULL, absent ? absent : hp->n_heads,
                      &hp->n_kv_heads);
    if (rc < 0)
        return rc;
    absent = r->class->head_dim ? r->class->head_dim : hp->n_embd / hp->n_heads;
    rc = hf_get_count(&r->in, "head_dim", NULL, absent, &hp->head_dim);
    if (rc < 0)
        return rc;
    hp->rope_dims = hp->head_dim;
    return hf_get_number(&r->in, "rms_norm_eps", NULL, 1e-6f, &hp->norm_eps);
}

static int get_ctx_orig(const struct reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    const char *const key = "original_max_position_embeddings";
    const json_t *x =
        hf_get(&r->in, key, NULL) ? hf_get(&r->in, key, NULL) : hf_get(rope, key, NULL);

    hp->rope_ctx_orig = hp->n_ctx_train;
    if (!x)
        return 0;
    if (!json_is_integer(x) || json_integer_value(x) < 1 || json_integer_value(x) > INT32_MAX)
        return err_set(r->err, EBADMSG, "config.json: %s is not a count", key);
    hp->rope_ctx_orig = (uint32_t)json_integer_value(x);
    return 0;
}

static int get_llama3(const struct reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    int rc;

    hp->rope_scaling = ROPE_SCALING_LLAMA3;
    rc = get_ctx_orig(r, rope, hp);
    if (rc == 0)
        rc = hf_get_number(rope, "low_freq_factor", NULL, 0, &hp->rope_low_freq_factor);
    if (rc == 0)
        rc = hf_get_number(rope, "high_freq_factor", NULL, 0, &hp->rope_high_freq_factor);
    return rc;
}

static int get_yarn(const struct reader *r, const struct hf_reader *rope, struct hparams *hp)
{
    const struct {
        const char *key;
        float *ret;
    } numbers[] = {
        {"attention_factor", &hp->yarn_attn_factor},  {"mscale", &hp->yarn_mscale},
        {"mscale_all_dim", &hp->yarn_mscale_all_dim}, {"beta_fast", &hp->yarn_beta_fast},
        {"beta_slow", &hp->yarn_beta_slow},
    };
    bool truncate = true;
    int rc;

    hp->rope_scaling = ROPE_SCALING_YARN;
    rc = get_ctx_orig(r, rope, hp);
    if (rc == 0 && !hf_get(rope, "factor", NULL) && hp->rope_ctx_orig)
        hp->rope_factor = (float)hp->n_ctx_train / (float)hp->rope_ctx_orig;
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && rc == 0; i++)
        rc = hf_get_number(rope, numbers[i].key, NULL, 0, numbers[i].ret);
    if (rc == 0)
        rc = hf_get_flag(rope, "truncate", true, &truncate);
    if (hp->yarn_beta_fast == 0)
        hp->yarn_beta_fast = 32;
    if (hp->yarn_beta_slow == 0)
        hp->yarn_beta_slow = 1;
    hp->yarn_no_truncate = !truncate;
    return rc;
}

/* Reads the settings of rotary positions. Since transformers 5 they are in "rope_parameters".
 * Before transformers 5, they were in "rope_scaling", with the base beside this key. */
static int get_rope(const struct reader *r, struct hparams *hp)
{
    const struct hf_reader rope = {.config = hf_get(&r->in, "rope_parameters", "rope_scaling"),
                                   .err = r->err};
    const char *type;
    float theta = 10000, partial = 1;
    int rc;

    if (rope.config && !json_is_object(rope.config))
        return err_set(r->err, EBADMSG, "config.json: the rope parameters are not an object");
    rc = hf_get_number(&r->in, "rope_theta", NULL, theta, &theta);
    if (rc == 0)
        rc = hf_get_number(&rope, "rope_theta", NULL, theta, &hp->rope_theta);
    if (rc == 0)
        rc = hf_get_number(&rope, "partial_rotary_factor", NULL, 1, &partial);
    if (rc == 0)
        rc = hf_get_number(&rope, "factor", NULL, 1, &hp->rope_factor);
    if (rc < 0)
        return rc;
    if (partial != 1)
        return err_set(r->err, EOPNOTSUPP, "config.json: partial_rotary_factor is not supported");
    type = json_string_value(hf_get(&rope, "rope_type", "type"));
    if (!type && hf_get(&rope, "full_attention", "sliding_attention"))
        return err_set(r->err, EOPNOTSUPP,
                       "config.json: rope parameters per kind of layer are not supported");
    /* In a text without images, all three positions of "mrope" are equal. */
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0)
        return 0;
    if (strcmp(type, "linear") == 0)
        hp->rope_scaling = ROPE_SCALING_LINEAR;
    else if (strcmp(type, "llama3") == 0)
        return get_llama3(r, &rope, hp);
    else if (strcmp(type, "yarn") == 0)
        return get_yarn(r, &rope, hp);
    else
        return err_set(r->err, EOPNOTSUPP, "config.json: the rope type \"%.32s\" is not supported",
                       type);
    return 0;
}

static int set_layer_types(const struct reader *r, const json_t *types, struct hparams *hp)
{
    if (!json_is_array(types) || json_array_size(types) < hp->n_layers)
        return err_set(r->err, EBADMSG, "config.json: layer_types does not fit %u layers",
                       hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));

        if (type && strcmp(type, "full_attention") == 0)
            hparams_set_full(hp, i);
        else if (!type || strcmp(type, "sliding_attention") != 0)
            return err_set(r->err, EOPNOTSUPP,
                           "config.json: the layer type \"%.32s\" is not supported",
                           type ? type : "?");
    }
    return 0;
}

static int get_window(const struct reader *r, struct hparams *hp)
{
    const json_t *types = hf_get(&r->in, "layer_types", NULL);
    uint32_t n_full = 0;
    bool on = r->class->has_window;
    int rc;

    if (on && r->class->has_switch) {
        rc = hf_get_flag(&r->in, "use_sliding_window", false, &on);
        if (rc < 0)
            return rc;
    }
    /* The value null means no window. Only a missing key has the default of the class. */
    if (!on || json_is_null(json_object_get(r->in.config, "sliding_window")))
        return 0;
    rc = hf_get_count(&r->in, "sliding_window", NULL, r->class->window, &hp->window);
    if (rc < 0 || hp->window == 0)
        return rc;
    /* A model of the class Mistral can have layer_types too, because transformers loads it as a
     * Ministral. */
    if (types)
        return set_layer_types(r, types, hp);
    if (!r->class->has_switch)
        return 0;
    rc = hf_get_count(&r->in, "max_window_layers", NULL, 28, &n_full);
    for (uint32_t i = 0; i < MIN(n_full, hp->n_layers); i++)
        hparams_set_full(hp, i);
    return rc;
}

static int get_biases(const struct reader *r, struct hf_config *c)
{
    bool attention = false;
    int rc = 0;

    if (r->class->has_biases)
        rc = hf_get_flag(&r->in, "attention_bias", false, &attention);
    if (rc == 0 && r->class->has_mlp_bias)
        rc = hf_get_flag(&r->in, "mlp_bias", false, &c->bias_mlp);
    if (rc == 0)
        rc = hf_get_flag(&r->in, "tie_word_embeddings", false, &c->tied);
    c->bias_qkv = attention || r->class->bias_qkv;
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

static int refuse_class(const char *name, struct inf_err *reterr)
{
    char known[124] = "";

    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        text_list_add(known, sizeof(known), classes[i].name);
    return err_set(reterr, EOPNOTSUPP,
                   "config.json: the architecture \"%.32s\" is not supported; there are %s, "
                   "Whisper, and encoders",
                   name ? name : "", known);
}

int hf_config_parse(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr)
{
    struct reader r = {.in = {.config = config, .err = reterr}, .err = reterr};
    struct hf_config c = {0};
    const char *name;
    int rc;

    if (hf_config_is_encoder(config))
        return hf_config_encoder(config, ret_config, reterr);
    if (hf_config_is_windowed(config))
        return hf_config_windowed(config, ret_config, reterr);
    r.class = find_class(config, &name, &c.base);
    if (!r.class)
        return refuse_class(name, reterr);
    if (r.class->adapted && json_is_object(hf_value(config, "text_config")))
        r.in.config = hf_value(config, "text_config");
    hf_config_names(config, &c.hp);
    snprintf(c.hp.arch, sizeof(c.hp.arch), "%s", r.class->arch);
    c.hp.rope_style = ROPE_HALF;
    c.tensor_name = hf_name;
    rc = check_refused(&r);
    if (rc == 0)
        rc = get_counts(&r, &c.hp);
    if (rc == 0)
        rc = get_rope(&r, &c.hp);
    /* The number of layers must be checked before the loop over the layers. */
    if (rc == 0)
        rc = hparams_check(&c.hp, reterr);
    if (rc == 0)
        rc = get_window(&r, &c.hp);
    if (rc == 0)
        rc = hf_get_act(&r.in, "hidden_act", "silu", &c.hp.act);
    if (rc == 0)
        rc = get_biases(&r, &c);
    if (rc == 0 && r.class->adapted)
        rc = hf_config_adapted(config, &c, reterr);
    if (rc == 0)
        rc = hparams_check(&c.hp, reterr);
    if (rc < 0)
        return rc;
    *ret_config = c;
    return 0;
}
