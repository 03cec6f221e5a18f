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
#include "format/fields.h"
#include "format/gguf/types.h"

/* Keys, without "<arch>." before them, that must be missing or 0. */
static const char *const refused[] = {
    "expert_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_weights_scale",
    "expert_group_count",
    "leading_dense_block_count",
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
    const struct arch_desc *desc;
    const struct arch_gguf *arch; /* the name in this file */
    struct field_lists fields;
    struct inf_err *err;
    char key[96]; /* the last key that was looked up */
};

static const char *full_key(struct keys *k, const char *name)
{
    snprintf(k->key, sizeof(k->key), "%s.%s", k->arch->name, name);
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

    if (k->desc->encoder || !gguf_bool(k->g, full_key(k, "attention.causal"), &causal) || causal)
        return 0;
    return err_set(k->err, EOPNOTSUPP, "%s is false, which is not supported", k->key);
}

static int check_refused(struct keys *k)
{
    double x;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (!field_reads_gguf(&k->fields, refused[i]) &&
            gguf_f64(k->g, full_key(k, refused[i]), &x) && x != 0)
            return err_set(k->err, EOPNOTSUPP, "%s is %g, which is not supported", k->key, x);
    for (size_t i = 0; i < k->desc->n_refused_gguf; i++)
        if (gguf_f64(k->g, full_key(k, k->desc->refused_gguf[i].key), &x) &&
            x != k->desc->refused_gguf[i].neutral)
            return err_set(k->err, EOPNOTSUPP, "%s is %g, which is not supported", k->key, x);
    if (gguf_f64(k->g, full_key(k, "rope.scaling.yarn_ext_factor"), &x) && x != 1 && x >= 0)
        return err_set(k->err, EOPNOTSUPP, "%s is %g, which is not supported", k->key, x);
    return 0;
}

/* Reads a list with one count or one number for each layer. */
static int get_list(struct keys *k, const struct arch_field *f, const struct gguf_value *v,
                    struct hparams *hp)
{
    if (v->type != GGUF_ARRAY || v->elem == GGUF_STRING)
        return err_set(k->err, EBADMSG, "the key %s is not a list of numbers", k->key);
    if (v->n < hp->n_layers || v->n > HPARAMS_MAX_LAYERS)
        return err_set(k->err, EBADMSG, "the key %s does not fit %u layers", k->key, hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const double x =
            f->kind == FIELD_NUMBER ? gguf_elem_f64(v, i) : (double)gguf_elem_i64(v, i);

        if (f->kind == FIELD_COUNT && (x < 0 || x > INT32_MAX))
            return err_set(k->err, EBADMSG, "the key %s is out of range", k->key);
        field_store_layer(f, hp, i, x);
    }
    return 0;
}

static int get_act(struct keys *k, const struct arch_field *f, struct hparams *hp)
{
    struct gguf_str s;
    enum graph_act act;
    char name[33] = "";

    if (!gguf_string(k->g, k->key, &s))
        return err_set(k->err, EBADMSG, "the key %s is not a name", k->key);
    snprintf(name, sizeof(name), "%.*s", (int)MIN(s.len, 32u), s.data);
    if (!field_act_find(name, &act))
        return err_set(k->err, EOPNOTSUPP, "%s is \"%s\", which is not supported", k->key, name);
    field_store(f, hp, act);
    return 0;
}

/* Reads a field whose key the file has. */
static int get_present(struct keys *k, const struct arch_field *f, const struct gguf_value *v,
                       struct hparams *hp)
{
    uint32_t count = 0;
    float number = 0;
    bool flag = false;
    int r = 0;

    switch (f->kind) {
    case FIELD_COUNT:
        if (f->layer > 0 && v->type == GGUF_ARRAY && v->elem != GGUF_STRING)
            return get_list(k, f, v, hp);
        r = get_u32(k, f->gguf, true, &count);
        if (r == 0)
            field_store(f, hp, count);
        return r;
    case FIELD_NUMBER:
        if (f->layer > 0)
            return get_list(k, f, v, hp);
        r = get_f32(k, f->gguf, true, &number);
        if (r == 0)
            field_store(f, hp, (double)number);
        return r;
    case FIELD_FLAG:
        if (!gguf_bool(k->g, k->key, &flag))
            return err_set(k->err, EBADMSG, "the key %s is neither true nor false", k->key);
        field_store(f, hp, flag);
        return 0;
    case FIELD_ACT:
        return get_act(k, f, hp);
    }
    return r;
}

static uint32_t tensor_rows(const struct gguf *g, const char *name)
{
    uint64_t i;

    if (!map_find(&g->tensor_map, name, strlen(name), &i) || g->tensors[i].dims[1] > UINT32_MAX)
        return 0;
    return (uint32_t)g->tensors[i].dims[1];
}

static int get_fields(struct keys *k, struct hparams *hp)
{
    const struct arch_field *f;
    int r = 0;

    /* The number of layers comes first, because lists depend on it. */
    r = get_u32(k, "block_count", true, &hp->n_layers);
    for (size_t i = 0; r == 0 && (f = field_at(&k->fields, &i)); i++) {
        const struct gguf_value *v = f->gguf ? gguf_find(k->g, full_key(k, f->gguf)) : NULL;

        if (v)
            r = get_present(k, f, v, hp);
        else if (f->gguf_rows)
            field_store(f, hp, tensor_rows(k->g, f->gguf_rows));
        else if (!field_store_absent(f, hp, FIELD_IN_GGUF))
            r = err_set(k->err, EBADMSG, "the key %s is missing", k->key);
    }
    return r;
}

static int get_heads(struct keys *k, struct hparams *hp)
{
    uint32_t value_dim;
    int r = 0;

    if (!field_reads_gguf(&k->fields, "attention.head_count_kv")) {
        hp->n_kv_heads = hp->n_heads;
        r = get_u32(k, "attention.head_count_kv", false, &hp->n_kv_heads);
    }
    hp->head_dim = hp->n_heads ? hp->n_embd / hp->n_heads : 0;
    if (r == 0)
        r = get_u32(k, "attention.key_length", false, &hp->head_dim);
    value_dim = hp->head_dim;
    if (r == 0)
        r = get_u32(k, "attention.value_length", false, &value_dim);
    if (r == 0 && value_dim != hp->head_dim)
        return err_set(k->err, EOPNOTSUPP, "%s differs from attention.key_length", k->key);
    hp->rope_dims = hp->head_dim;
    return r == 0 ? get_u32(k, "rope.dimension_count", false, &hp->rope_dims) : r;
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

/* Reads a list that says for each layer whether the window applies. */
static int get_pattern(struct keys *k, const struct gguf_value *v, struct hparams *hp)
{
    if (v->elem == GGUF_STRING || v->n < hp->n_layers)
        return err_set(k->err, EBADMSG, "the key %s does not fit %u layers", k->key, hp->n_layers);
    for (uint32_t i = 0; i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++)
        if (gguf_elem_i64(v, i) == 0)
            hparams_set_full(hp, i);
    return 0;
}

/* Reads the pattern of windows: one layer of each group of layers has no window. The number of
 * layers of a group is in the file, or is the default of the architecture. */
static int get_groups(struct keys *k, const struct arch_window *w, struct hparams *hp)
{
    uint32_t every = w ? w->every : 0;
    int r;

    r = get_u32(k, "attention.sliding_window_pattern", false, &every);
    for (uint32_t i = 0; every > 0 && i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++)
        if ((i + (w && w->first ? 0 : 1)) % every == 0)
            hparams_set_full(hp, i);
    return r;
}

static int get_window(struct keys *k, struct hparams *hp)
{
    const struct arch_window *w = k->desc->window;
    const struct gguf_value *v;
    uint32_t window = 0;
    int r;

    if (k->desc->encoder && !w)
        return 0;
    r = get_u32(k, "attention.sliding_window", false, &window);
    if (r < 0 || window == 0)
        return r;
    /* Files of encoders count the tokens on both sides together. */
    hp->window = w && w->both ? window / 2 + 1 : window;
    if (w && w->theta > 0) {
        hp->rope_theta_window = w->theta;
        r = get_f32(k, "rope.freq_base_swa", false, &hp->rope_theta_window);
    }
    v = gguf_find(k->g, full_key(k, "attention.sliding_window_pattern"));
    if (r < 0)
        return r;
    return v && v->type == GGUF_ARRAY ? get_pattern(k, v, hp) : get_groups(k, w, hp);
}

/* Reads a list that says which layers are recurrent. Files without the list have a pattern, which
 * the architecture knows. */
static int get_recurrent(struct keys *k, struct hparams *hp)
{
    const struct gguf_value *v = gguf_find(k->g, full_key(k, "attention.recurrent_layers"));

    if (!k->desc->recurrent || !v)
        return 0;
    if (v->type != GGUF_ARRAY || v->elem == GGUF_STRING || v->n < hp->n_layers)
        return err_set(k->err, EBADMSG, "the key %s does not fit %u layers", k->key, hp->n_layers);
    for (uint32_t i = 0; i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++)
        hp->layers[i].kind = gguf_elem_i64(v, i) != 0 ? LAYER_RECURRENT : LAYER_FULL;
    hp->full_every = 0;
    return 0;
}

/* Reads which layers of another model a draft head reads, and the token that stands for tokens that
 * the head drafts. */
static int get_taps(struct keys *k, struct hparams *hp)
{
    const struct gguf_value *v = gguf_find(k->g, full_key(k, "target_layers"));
    uint64_t mask;

    if (!k->desc->reads_layers)
        return 0;
    if (!v || v->type != GGUF_ARRAY || v->elem == GGUF_STRING || v->n == 0 || v->n > HPARAMS_TAPS)
        return err_set(k->err, EBADMSG, "the key %s is not a list of 1 to %u layers", k->key,
                       HPARAMS_TAPS);
    hp->head.n_taps = (uint32_t)v->n;
    for (uint32_t i = 0; i < hp->head.n_taps; i++) {
        const int64_t layer = gguf_elem_i64(v, i);

        if (layer < 0 || layer > HPARAMS_MAX_LAYERS)
            return err_set(k->err, EBADMSG, "the key %s is out of range", k->key);
        hp->head.taps[i] = (uint32_t)layer;
    }
    hp->head.has_mask = gguf_u64(k->g, "tokenizer.ggml.mask_token_id", &mask) && mask <= INT32_MAX;
    hp->head.mask = hp->head.has_mask ? (uint32_t)mask : 0;
    return 0;
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

/* Reads settings of an encoder. Settings that no key gives are taken from the shapes of tensors. In
 * GGUF files, position tables begin with the first row that is used. */
static int get_encoder(struct keys *k, struct hparams *hp)
{
    struct hparams_embed *e = &hp->embed;
    bool causal = false;
    uint64_t i;

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

/* Finds the description of the architecture @name. Returns false if there is none. */
static bool find_arch(struct keys *k, const struct arch_list *archs, const char *name)
{
    for (size_t i = 0; i < archs->n; i++)
        for (size_t j = 0; j < archs->descs[i]->n_ggufs; j++)
            if (strcmp(archs->descs[i]->ggufs[j].name, name) == 0) {
                k->desc = archs->descs[i];
                k->arch = &k->desc->ggufs[j];
                return true;
            }
    return false;
}

static int refuse_arch(const struct arch_list *archs, const char *name, struct inf_err *reterr)
{
    char known[360] = "";

    for (size_t i = 0; i < archs->n; i++)
        for (size_t j = 0; j < archs->descs[i]->n_ggufs; j++)
            text_list_add(known, sizeof(known), archs->descs[i]->ggufs[j].name);
    return err_set(reterr, EOPNOTSUPP, "the architecture \"%.32s\" is not supported; there are %s",
                   name, known);
}

static int get_all(struct keys *k, struct hparams *hp)
{
    int r;

    r = check_refused(k);
    if (r == 0)
        r = check_causal(k);
    if (r == 0)
        r = get_fields(k, hp);
    if (r == 0)
        r = get_heads(k, hp);
    if (r == 0)
        r = get_rope(k, hp);
    if (r == 0)
        r = get_window(k, hp);
    if (r == 0)
        r = get_recurrent(k, hp);
    if (r == 0)
        r = get_taps(k, hp);
    if (r == 0)
        r = get_vocab(k, hp);
    if (r == 0)
        r = get_pooling(k, hp);
    if (r == 0 && k->desc->encoder)
        r = get_encoder(k, hp);
    field_set_sparse(hp);
    return r == 0 ? field_finish(k->desc, hp, ARCH_GGUF, k->err) : r;
}

int gguf_hparams(const struct gguf *g, const struct arch_list *archs, struct hparams *ret_hp,
                 const struct arch_desc **ret_desc, struct inf_err *reterr)
{
    struct keys k = {.g = g, .err = reterr};
    struct hparams hp = {0};
    int r;

    gguf_hparams_names(g, &hp);
    if (!hp.arch[0])
        return err_set(reterr, EBADMSG, "the key general.architecture is missing");
    if (!find_arch(&k, archs, hp.arch))
        return refuse_arch(archs, hp.arch, reterr);
    k.fields = field_lists_of(k.desc, NULL);
    snprintf(hp.arch, sizeof(hp.arch), "%s", k.desc->name);
    hp.rope_style = k.arch->rope_style;
    r = get_all(&k, &hp);
    if (r < 0)
        return r;
    *ret_hp = hp;
    *ret_desc = k.desc;
    return 0;
}
