/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads hyperparameters from GGUF keys (ggml docs/gguf.md, "LLM").
 *
 * Keys of unsupported features that change the results are refused by name: a model that gives
 * wrong answers is worse than one that does not load.
 */
#include "format/gguf/hparams.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "format/gguf/types.h"

/* Files of the family "llama" store the rows of q and k interleaved; files of the family "qwen" do
 * not. */
static const struct gguf_arch {
    const char *file_name, *arch;
    enum rope_style rope_style;
    bool encoder, gated;
    bool rms;       /* encoders: norms do not subtract the mean */
    uint32_t every; /* encoders: layers per group; one layer of each group has no window */
} archs[] = {
    {"llama", "llama", ROPE_PAIRS},
    {"mistral3", "llama", ROPE_PAIRS},
    {"qwen2", "qwen2", ROPE_HALF},
    {"qwen3", "qwen3", ROPE_HALF},
    {"bert", "bert", ROPE_HALF, .encoder = true},
    {"nomic-bert", "bert", ROPE_HALF, .encoder = true, .gated = true},
    {"modern-bert", "modern-bert", ROPE_HALF, .encoder = true, .gated = true, .every = 3},
    {"gemma-embedding", "gemma-embedding", ROPE_HALF, .encoder = true, .rms = true, .every = 6},
};

/* Keys, without "<arch>." before them, that must be missing or 0. */
static const char *const refused[] = {
    "expert_count",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "attention.scale",
    "attention.temperature_scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "rope.scaling.alpha",
};

struct keys {
    const struct gguf *g;
    const struct gguf_arch *arch;
    struct inf_err *err;
    char key[96]; /* the last key that was looked up */
};

static const char *full_key(struct keys *k, const char *name)
{
    snprintf(k->key, sizeof(k->key), "%s.%s", k->arch->file_name, name);
    return k->key;
}

static int get_u32(struct keys *k, const char *name, bool required, uint32_t *ret)
{
    const struct gguf_value *v = gguf_find(k->g, full_key(k, name));
    uint64_t x;

    if (!v)
        return required ? err_set(k->err, EBADMSG, "the key %s is missing", k->key) : 0;
    /* Some counts are stored per layer. They are accepted if they are equal for all layers. */
    if (v->type == GGUF_ARRAY && v->elem != GGUF_STRING && v->n > 0) {
        const int64_t first = gguf_elem_i64(v, 0);

        for (uint64_t i = 1; i < v->n; i++)
            if (gguf_elem_i64(v, i) != first)
                return err_set(k->err, EOPNOTSUPP, "%s differs between layers", k->key);
        x = first < 0 ? UINT64_MAX : (uint64_t)first;
    } else if (!gguf_u64(k->g, k->key, &x)) {
        return err_set(k->err, EBADMSG, "the key %s is not a count", k->key);
    }
    if (x > UINT32_MAX)
        return err_set(k->err, EBADMSG, "the key %s is out of range", k->key);
    *ret = (uint32_t)x;
    return 0;
}

static int get_f32(struct keys *k, const char *name, bool required, float *ret)
{
    double x;

    if (!gguf_find(k->g, full_key(k, name)))
        return required ? err_set(k->err, EBADMSG, "the key %s is missing", k->key) : 0;
    if (!gguf_f64(k->g, k->key, &x))
        return err_set(k->err, EBADMSG, "the key %s is not a number", k->key);
    *ret = (float)x;
    return 0;
}

/* Refuses decoders with bidirectional attention, because such files are converted embedding
 * models. */
static int check_causal(struct keys *k)
{
    bool causal = true;

    if (k->arch->encoder || !gguf_bool(k->g, full_key(k, "attention.causal"), &causal) || causal)
        return 0;
    return err_set(k->err, EOPNOTSUPP, "%s is false, which is not supported", k->key);
}

static int check_refused(struct keys *k)
{
    double x;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (gguf_f64(k->g, full_key(k, refused[i]), &x) && x != 0)
            return err_set(k->err, EOPNOTSUPP, "%s is %g, which is not supported", k->key, x);
    if (gguf_f64(k->g, full_key(k, "rope.scaling.yarn_ext_factor"), &x) && x != 1 && x >= 0)
        return err_set(k->err, EOPNOTSUPP, "%s is %g, which is not supported", k->key, x);
    return 0;
}

static int get_counts(struct keys *k, struct hparams *hp)
{
    uint32_t value_dim;
    int r;

    r = get_u32(k, "block_count", true, &hp->n_layers);
    if (r == 0)
        r = get_u32(k, "context_length", true, &hp->n_ctx_train);
    if (r == 0)
        r = get_u32(k, "embedding_length", true, &hp->n_embd);
    if (r == 0)
        r = get_u32(k, "feed_forward_length", true, &hp->n_ff);
    if (r == 0)
        r = get_u32(k, "attention.head_count", true, &hp->n_heads);
    hp->n_kv_heads = hp->n_heads;
    if (r == 0)
        r = get_u32(k, "attention.head_count_kv", false, &hp->n_kv_heads);
    hp->head_dim = hp->n_heads ? hp->n_embd / hp->n_heads : 0;
    if (r == 0)
        r = get_u32(k, "attention.key_length", false, &hp->head_dim);
    value_dim = hp->head_dim;
    if (r == 0)
        r = get_u32(k, "attention.value_length", false, &value_dim);
    if (r == 0 && value_dim != hp->head_dim)
        return err_set(k->err, EOPNOTSUPP, "%s differs from attention.key_length", k->key);
    hp->rope_dims = hp->head_dim;
    if (r == 0)
        r = get_u32(k, "rope.dimension_count", false, &hp->rope_dims);
    if (r == 0)
        r = get_f32(k,
                    k->arch->encoder && !k->arch->rms ? "attention.layer_norm_epsilon"
                                                      : "attention.layer_norm_rms_epsilon",
                    true, &hp->norm_eps);
    return r;
}

static int get_scaling_type(struct keys *k, struct hparams *hp)
{
    struct gguf_str type;

    if (!gguf_string(k->g, full_key(k, "rope.scaling.type"), &type))
        return 0;
    if (type.len == 6 && memcmp(type.data, "linear", 6) == 0)
        hp->rope_scaling = ROPE_SCALING_LINEAR;
    else if (type.len == 4 && memcmp(type.data, "yarn", 4) == 0)
        hp->rope_scaling = ROPE_SCALING_YARN;
    else if (type.len == 4 && memcmp(type.data, "none", 4) == 0)
        hp->rope_factor = 0;
    else
        return err_set(k->err, EOPNOTSUPP, "%s is \"%.*s\", which is not supported", k->key,
                       (int)MIN(type.len, 32u), type.data);
    return 0;
}

static int get_yarn(struct keys *k, struct hparams *hp)
{
    float log_mul = 0;
    int r;

    hp->rope_ctx_orig = hp->n_ctx_train;
    hp->yarn_beta_fast = 32;
    hp->yarn_beta_slow = 1;
    r = get_u32(k, "rope.scaling.original_context_length", false, &hp->rope_ctx_orig);
    if (r == 0)
        r = get_f32(k, "rope.scaling.yarn_beta_fast", false, &hp->yarn_beta_fast);
    if (r == 0)
        r = get_f32(k, "rope.scaling.yarn_beta_slow", false, &hp->yarn_beta_slow);
    if (r == 0)
        r = get_f32(k, "rope.scaling.yarn_attn_factor", false, &hp->yarn_attn_factor);
    if (r == 0)
        r = get_f32(k, "rope.scaling.yarn_log_multiplier", false, &log_mul);
    if (log_mul != 0) {
        hp->yarn_mscale = 1;
        hp->yarn_mscale_all_dim = log_mul;
    }
    return r;
}

/* Reads the settings of rotary positions. The scaling of Llama 3 is not among these settings: it is
 * stored as the tensor rope_freqs.weight, which the model applies. */
static int get_rope(struct keys *k, struct hparams *hp)
{
    int r;

    hp->rope_theta = 10000;
    r = get_f32(k, "rope.freq_base", false, &hp->rope_theta);
    if (r == 0)
        r = get_f32(k, "rope.scale_linear", false, &hp->rope_factor);
    if (r == 0)
        r = get_f32(k, "rope.scaling.factor", false, &hp->rope_factor);
    if (r == 0)
        r = get_f32(k, "rope.scaling.attn_factor", false, &hp->rope_attn_factor);
    if (r == 0)
        r = get_scaling_type(k, hp);
    if (r < 0)
        return r;
    if (hp->rope_factor == 0)
        hp->rope_factor = 1;
    if (hp->rope_scaling == ROPE_SCALING_NONE && hp->rope_factor != 1)
        hp->rope_scaling = ROPE_SCALING_LINEAR;
    return hp->rope_scaling == ROPE_SCALING_YARN ? get_yarn(k, hp) : 0;
}

/* Reads a list that says for each layer whether the window applies. If the value is a number n
 * instead, the window applies to all layers except every n-th layer. */
static int get_pattern(struct keys *k, const struct gguf_value *v, struct hparams *hp)
{
    if (v->elem == GGUF_STRING || (v->type == GGUF_ARRAY && v->n < hp->n_layers))
        return err_set(k->err, EBADMSG, "the key %s does not fit %u layers", k->key, hp->n_layers);
    for (uint32_t i = 0; i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++) {
        const int64_t x = gguf_elem_i64(v, v->type == GGUF_ARRAY ? i : 0);

        if (v->type == GGUF_ARRAY ? x == 0 : x > 0 && (i + 1) % (uint64_t)x == 0)
            hparams_set_full(hp, i);
    }
    return 0;
}

/* Reads the window of an encoder, which counts the tokens on both sides together. If the pattern is
 * a number n, one layer of each group of n layers has no window: the first layer in ModernBERT, the
 * last layer in other models. */
static int get_encoder_window(struct keys *k, struct hparams *hp)
{
    const uint32_t first = strcmp(hp->arch, "modern-bert") == 0 ? 0 : 1;
    const struct gguf_value *v;
    uint32_t both = 0, every = k->arch->every;
    int r;

    r = get_u32(k, "attention.sliding_window", false, &both);
    if (r < 0 || both == 0)
        return r;
    hp->window = both / 2 + 1;
    hp->rope_theta_window = 10000;
    r = get_f32(k, "rope.freq_base_swa", false, &hp->rope_theta_window);
    v = gguf_find(k->g, full_key(k, "attention.sliding_window_pattern"));
    if (v && v->type == GGUF_ARRAY)
        return r == 0 ? get_pattern(k, v, hp) : r;
    if (r == 0)
        r = get_u32(k, "attention.sliding_window_pattern", false, &every);
    for (uint32_t i = 0; every > 0 && i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++)
        if ((i + first) % every == 0)
            hparams_set_full(hp, i);
    return r;
}

static int get_window(struct keys *k, struct hparams *hp)
{
    const struct gguf_value *v;
    int r;

    if (k->arch->encoder)
        return k->arch->every > 0 ? get_encoder_window(k, hp) : 0;
    r = get_u32(k, "attention.sliding_window", false, &hp->window);
    if (r < 0 || hp->window == 0)
        return r;
    v = gguf_find(k->g, full_key(k, "attention.sliding_window_pattern"));
    return v ? get_pattern(k, v, hp) : 0;
}

static int get_vocab(struct keys *k, struct hparams *hp)
{
    const struct gguf_value *tokens = gguf_find(k->g, "tokenizer.ggml.tokens");
    uint64_t i;
    int r;

    r = get_u32(k, "vocab_size", false, &hp->n_vocab);
    if (r < 0)
        return r;
    /* The vocabulary size is the number of rows of the embedding, because each token needs a
     * row. */
    if (map_find(&k->g->tensor_map, "token_embd.weight", 17, &i)) {
        const struct format_tensor *t = &k->g->tensors[i];

        if (t->n_dims != 2 || t->dims[1] > UINT32_MAX)
            return err_set(k->err, EBADMSG, "tensor %s is not a matrix", t->name);
        hp->n_vocab = (uint32_t)t->dims[1];
    } else if (hp->n_vocab == 0 && tokens && tokens->n <= UINT32_MAX) {
        hp->n_vocab = (uint32_t)tokens->n;
    }
    if (tokens && tokens->n > hp->n_vocab)
        return err_set(k->err, EBADMSG, "the vocabulary has %llu tokens, but the model has %u rows",
                       (unsigned long long)tokens->n, hp->n_vocab);
    return 0;
}

static uint32_t tensor_rows(const struct gguf *g, const char *name)
{
    uint64_t i;

    if (!map_find(&g->tensor_map, name, strlen(name), &i) || g->tensors[i].dims[1] > UINT32_MAX)
        return 0;
    return (uint32_t)g->tensors[i].dims[1];
}

/* Reads the pooling. Its key has the values of llama.cpp, where 4 stands for a classifier. */
static int get_pooling(struct keys *k, struct hparams *hp)
{
    static const enum pooling poolings[] = {POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST,
                                            POOLING_NONE};
    uint32_t i = 0;
    int r;

    r = get_u32(k, "pooling_type", false, &i);
    if (r < 0)
        return r;
    if (i >= ARRAY_SIZE(poolings))
        return err_set(k->err, EOPNOTSUPP, "%s is %u, which is not supported", k->key, i);
    hp->embed.pooling = poolings[i];
    return 0;
}

/* Reads the activation of ModernBERT's gated units. */
static int get_act(struct keys *k, enum graph_act *ret)
{
    struct gguf_str name;

    *ret = GRAPH_ACT_GELU_ERF;
    if (!gguf_string(k->g, full_key(k, "hidden_activation"), &name))
        return 0;
    if (name.len == 4 && memcmp(name.data, "silu", 4) == 0)
        *ret = GRAPH_ACT_SILU;
    else if (name.len != 4 || memcmp(name.data, "gelu", 4) != 0)
        return err_set(k->err, EOPNOTSUPP, "%s is \"%.*s\", which is not supported", k->key,
                       (int)MIN(name.len, 32u), name.data);
    return 0;
}

/* Reads settings of an encoder. Settings that no key gives are taken from the shapes of tensors. In
 * GGUF files, position tables begin with the first row that is used. */
static int get_encoder(struct keys *k, struct hparams *hp)
{
    struct hparams_embed *e = &hp->embed;
    bool causal = false;
    uint64_t i;
    int r;

    e->encoder = true;
    e->gated = k->arch->gated;
    for (uint32_t rows; e->n_dense < 2; e->n_dense++) {
        rows = tensor_rows(k->g, e->n_dense == 0 ? "dense_2.weight" : "dense_3.weight");
        if (rows == 0)
            break;
        e->dense_out[e->n_dense] = rows;
        e->dense_linear[e->n_dense] = true;
    }
    e->n_pos = tensor_rows(k->g, "position_embd.weight");
    e->n_types = map_find(&k->g->tensor_map, "token_types.weight", 18, &i)
                     ? MAX(tensor_rows(k->g, "token_types.weight"), 1u)
                     : 0;
    e->n_labels = map_find(&k->g->tensor_map, "cls.output.weight", 17, &i)
                      ? MAX(tensor_rows(k->g, "cls.output.weight"), 1u)
                      : 0;
    e->has_head = map_find(&k->g->tensor_map, "cls.weight", 10, &i);
    e->head_act = GRAPH_ACT_TANH;
    hp->act = e->gated ? GRAPH_ACT_SILU : GRAPH_ACT_GELU_ERF;
    if (k->arch->rms) {
        hp->act = GRAPH_ACT_GELU_TANH;
        hp->embd_scale = sqrtf((float)hp->n_embd);
    }
    if (strcmp(hp->arch, "modern-bert") == 0) {
        e->head_act = GRAPH_ACT_GELU_ERF;
        e->score_pooling = POOLING_MEAN; /* as llama.cpp does */
        r = get_act(k, &hp->act);
        if (r < 0)
            return r;
    }
    if (gguf_bool(k->g, full_key(k, "attention.causal"), &causal) && causal)
        return err_set(k->err, EOPNOTSUPP, "%s is true, which is not supported", k->key);
    if (e->n_pos > 0) {
        hp->n_ctx_train = MIN(hp->n_ctx_train, e->n_pos);
        /* The number of rotated dimensions is not used, but must be valid. */
        hp->rope_dims &= ~1u;
    }
    return 0;
}

static void copy_text(const struct gguf *g, const char *name, char *out, size_t size)
{
    struct gguf_str s;

    if (gguf_string(g, name, &s))
        snprintf(out, size, "%.*s", (int)MIN(s.len, size - 1), s.data);
}

void gguf_hparams_names(const struct gguf *g, struct hparams *hp)
{
    copy_text(g, "general.architecture", hp->arch, sizeof(hp->arch));
    copy_text(g, "general.name", hp->name, sizeof(hp->name));
}

static const struct gguf_arch *find_arch(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
        if (strcmp(archs[i].file_name, name) == 0)
            return &archs[i];
    return NULL;
}

static int refuse_arch(const char *name, struct inf_err *reterr)
{
    char known[160] = "";

    for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
        text_list_add(known, sizeof(known), archs[i].file_name);
    return err_set(reterr, EOPNOTSUPP, "the architecture \"%.32s\" is not supported; there are %s",
                   name, known);
}

int gguf_hparams(const struct gguf *g, struct hparams *ret_hp, struct inf_err *reterr)
{
    struct keys k = {.g = g, .err = reterr};
    struct hparams hp = {0};
    int r;

    gguf_hparams_names(g, &hp);
    if (!hp.arch[0])
        return err_set(reterr, EBADMSG, "the key general.architecture is missing");
    k.arch = find_arch(hp.arch);
    if (!k.arch)
        return refuse_arch(hp.arch, reterr);
    snprintf(hp.arch, sizeof(hp.arch), "%s", k.arch->arch);
    hp.rope_style = k.arch->rope_style;
    hp.act = GRAPH_ACT_SILU;
    r = check_refused(&k);
    if (r == 0)
        r = check_causal(&k);
    if (r == 0)
        r = get_counts(&k, &hp);
    if (r == 0)
        r = get_rope(&k, &hp);
    if (r == 0)
        r = get_window(&k, &hp);
    if (r == 0)
        r = get_vocab(&k, &hp);
    if (r == 0)
        r = get_pooling(&k, &hp);
    if (r == 0 && k.arch->encoder)
        r = get_encoder(&k, &hp);
    if (r == 0)
        r = hparams_check(&hp, reterr);
    if (r < 0)
        return r;
    *ret_hp = hp;
    return 0;
}
