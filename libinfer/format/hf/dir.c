/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a Hugging Face directory as a model: config.json, *.safetensors, and the index of the
 * shards.
 *
 * Names of shards come from an untrusted file, so they must be plain names of files in this
 * directory. Every tensor of the index must be where the index says, and a decoder must have
 * exactly the biases, and the head, that config.json declares.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "format/hf/config.h"
#include "format/hf/names.h"
#include "format/impl.h"
#include "format/json.h"

#define CONFIG_MAX ((size_t)4 << 20)
#define INDEX_MAX  ((size_t)64 << 20)
#define SHARDS_MAX 4096

static int open_shard(struct format *f, const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, name);
    struct safetensors **shards;
    int r;

    shards = path ? realloc(f->shards, (f->n_shards + 1) * sizeof(*shards)) : NULL;
    if (!shards)
        return err_set(reterr, ENOMEM, "out of memory");
    f->shards = shards;
    r = safetensors_open(path, &f->shards[f->n_shards], reterr);
    if (r == 0)
        f->n_shards++;
    return r;
}

/* Handles one entry of the index; @seen maps the name of a shard to its number. */
static int open_indexed(struct format *f, struct map *seen, const char *tensor, const json_t *value,
                        struct inf_err *reterr)
{
    const char *name = json_string_value(value);
    uint64_t i;
    int r;

    if (!name)
        return err_set(reterr, EBADMSG, "index: the place of tensor %.64s is not a string", tensor);
    if (!map_find(seen, name, strlen(name), &i)) {
        if (strchr(name, '/') || name[0] == '.' || !text_ends_with(name, ".safetensors"))
            return err_set(reterr, EBADMSG, "index: \"%.96s\" is not a name of a shard", name);
        if (f->n_shards >= SHARDS_MAX)
            return err_set(reterr, EBADMSG, "index: more than %u shards", SHARDS_MAX);
        r = open_shard(f, name, reterr);
        if (r < 0)
            return r;
        i = f->n_shards - 1;
        if (map_put(seen, name, strlen(name), i) < 0)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    if (!safetensors_find(f->shards[i], tensor))
        return err_set(reterr, EBADMSG, "index: tensor %.64s is not in %.64s", tensor, name);
    return 0;
}

static int open_index(struct format *f, const char *path, struct inf_err *reterr)
{
    _cleanup_json_ json_t *index = NULL;
    struct map seen = {0};
    const char *tensor;
    json_t *weights, *value;
    int r;

    r = json_text_read(path, INDEX_MAX, 0, &index, reterr);
    if (r < 0)
        return r;
    weights = json_object_get(index, "weight_map");
    if (!json_is_object(weights) || json_object_size(weights) == 0)
        return err_set(reterr, EBADMSG, "index: weight_map is missing");
    json_object_foreach(weights, tensor, value)
    {
        r = open_indexed(f, &seen, tensor, value, reterr);
        if (r < 0)
            break;
    }
    map_done(&seen);
    return r;
}

/* Opens the only *.safetensors file. This function is called if there is neither model.safetensors
 * nor an index. */
static int open_only(struct format *f, struct inf_err *reterr)
{
    _cleanup_free_ char *name = NULL, *pickle = NULL;
    struct dirent *e;
    size_t n = 0;
    DIR *d;

    d = opendir(f->dir);
    if (!d)
        return err_set(reterr, errno, "%.160s: %s", f->dir, strerror(errno));
    while ((e = readdir(d))) {
        if (!pickle && format_is_pickle(e->d_name))
            pickle = strdup(e->d_name);
        if (e->d_name[0] == '.' || !text_ends_with(e->d_name, ".safetensors"))
            continue;
        free(name);
        name = strdup(e->d_name);
        n++;
    }
    closedir(d);
    if (n == 1)
        return name ? open_shard(f, name, reterr) : err_set(reterr, ENOMEM, "out of memory");
    if (n > 1)
        return err_set(reterr, ENOENT,
                       "%.120s: has %zu *.safetensors files, but no model.safetensors.index.json",
                       f->dir, n);
    if (pickle)
        return format_refuse_pickle(pickle, reterr);
    return err_set(reterr, ENOENT, "%.160s: has no *.safetensors file", f->dir);
}

static int open_shards(struct format *f, struct inf_err *reterr)
{
    _cleanup_free_ char *whole = path_join(f->dir, "model.safetensors");
    _cleanup_free_ char *index = path_join(f->dir, "model.safetensors.index.json");

    if (!whole || !index)
        return err_set(reterr, ENOMEM, "out of memory");
    if (path_exists(whole))
        return open_shard(f, "model.safetensors", reterr);
    if (path_exists(index))
        return open_index(f, index, reterr);
    return open_only(f, reterr);
}

static bool has_embedding(const struct format *f, const struct hf_config *c)
{
    char name[HF_NAME_MAX];

    for (size_t i = 0; i < f->n_shards; i++)
        for (size_t j = 0; j < safetensors_n(f->shards[i]); j++)
            if (hf_name(c->desc, safetensors_at(f->shards[i], j)->name, name) &&
                strcmp(name, "token_embd.weight") == 0)
                return true;
    return false;
}

static int add_named(struct format *f, const struct format_tensor *raw, const char *name,
                     struct inf_err *reterr)
{
    struct format_tensor *t = arena_alloc(&f->arena, sizeof(*t));

    if (!t)
        return err_set(reterr, ENOMEM, "out of memory");
    *t = *raw;
    t->name = arena_strndup(&f->arena, name, strlen(name));
    if (!t->name)
        return err_set(reterr, ENOMEM, "out of memory");
    return format_add(f, t, reterr);
}

/* Adds a tensor with its name in GGUF. If @tied_head is true, the tensors of the head, which are
 * several if it is quantized, are added as those of the embedding. */
static int add_tensor(struct format *f, const struct hf_config *c, const struct format_tensor *raw,
                      bool tied_head, struct inf_err *reterr)
{
    char name[HF_NAME_MAX], tied[HF_NAME_MAX + 8], in_layer[256];
    const bool predicts = c->hp.n_extra_layers > 0 &&
                          hf_name_predictor(raw->name, c->hp.n_layers, in_layer, sizeof(in_layer));
    const char *end;

    if (!hf_name(c->desc, predicts ? in_layer : raw->name, name))
        return err_set(reterr, EOPNOTSUPP, "tensor %.96s is not part of the model", raw->name);
    end = text_after(name, "output.");
    if (tied_head && end) {
        snprintf(tied, sizeof(tied), "token_embd.%s", end);
        return add_named(f, raw, tied, reterr);
    }
    return name[0] ? add_named(f, raw, name, reterr) : 0;
}

static int set_dense_out(struct format *f, uint32_t i, struct inf_err *reterr)
{
    const struct format_tensor *t;
    char name[HF_NAME_MAX];

    snprintf(name, sizeof(name), "dense.%u.weight", i);
    t = format_find(f, name);
    if (!t || t->n_dims != 2 || t->dims[1] < 1 || t->dims[1] > 1 << 20)
        return err_set(reterr, EBADMSG, "linear.weight is missing, or is not a matrix");
    f->hp.embed.dense_out[i] = (uint32_t)t->dims[1];
    return 0;
}

/* Adds the tensors of dense layer @i. "linear.weight" in the file of dense layer 0 gets the name
 * "dense.0.weight". */
static int add_dense(struct format *f, uint32_t i, struct inf_err *reterr)
{
    const struct safetensors *shard;
    char name[HF_NAME_MAX];
    int r;

    /* The dense layer of ColBERT is stored among the other tensors. */
    if (!f->dense[i][0])
        return set_dense_out(f, i, reterr);
    r = open_shard(f, f->dense[i], reterr);
    if (r < 0)
        return r;
    shard = f->shards[f->n_shards - 1];
    for (size_t j = 0; j < safetensors_n(shard); j++) {
        const struct format_tensor *raw = safetensors_at(shard, j);

        if (!text_starts_with(raw->name, "linear."))
            return err_set(reterr, EOPNOTSUPP, "%.80s: tensor %.64s is not part of a dense layer",
                           f->dense[i], raw->name);
        snprintf(name, sizeof(name), "dense.%u.%.64s", i, raw->name + 7);
        r = add_named(f, raw, name, reterr);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_presence(const struct format *f, const char *name, bool wanted,
                          struct inf_err *reterr)
{
    const bool there = format_find(f, name) != NULL;

    if (there == wanted)
        return 0;
    return err_set(reterr, EBADMSG,
                   "config.json says that there is %s %s, but the tensors disagree",
                   wanted ? "a" : "no", name);
}

/* Checks biases and head. A model without a bias that config.json declares would run, but give
 * wrong results. */
static int check_biases(const struct format *f, const struct hf_config *c, struct inf_err *reterr)
{
    const struct {
        const char *name;
        bool wanted;
    } biases[] = {
        {"attn_q", c->bias_qkv},      {"attn_k", c->bias_qkv},   {"attn_v", c->bias_qkv},
        {"attn_output", c->bias_out}, {"ffn_gate", c->bias_mlp}, {"ffn_up", c->bias_mlp},
        {"ffn_down", c->bias_mlp},
    };
    char name[HF_NAME_MAX];
    int r;

    for (uint32_t i = 0; i < c->hp.n_layers; i++)
        for (size_t j = 0; j < ARRAY_SIZE(biases); j++) {
            snprintf(name, sizeof(name), "blk.%u.%s.bias", i, biases[j].name);
            r = check_presence(f, name, biases[j].wanted, reterr);
            if (r < 0)
                return r;
        }
    if (c->tied || c->base || format_find(f, "output.qweight") ||
        format_find(f, "output.weight_packed"))
        return 0;
    return check_presence(f, "output.weight", true, reterr);
}

/* Some files hold the weights of norms minus 1, but files that mlx-lm wrote hold the weights
 * themselves. Files of mlx-lm also have convolutions with the shape [channels, taps, 1]. As in
 * mlx-lm, this shape means that nothing is added to the norms. */
static void settle_norms(struct format *f)
{
    static const char conv[] = "ssm_conv1d.weight";

    for (size_t i = 0; f->hp.norms_add_one && i < format_n_tensors(f); i++) {
        const struct format_tensor *t = format_tensor_at(f, i);
        const size_t n = strlen(t->name);

        if (n >= sizeof(conv) && strcmp(t->name + n - (sizeof(conv) - 1), conv) == 0 &&
            t->n_dims == 3 && t->dims[0] == 1 && t->dims[1] > 1)
            f->hp.norms_add_one = false;
    }
}

/* Many directories lack the layers that predict further tokens, although config.json counts
 * them. */
static void settle_predictor(struct format *f)
{
    char name[HF_NAME_MAX];

    snprintf(name, sizeof(name), "blk.%u.nextn.enorm.weight", f->hp.n_layers);
    if (!format_find(f, name))
        f->hp.n_extra_layers = 0;
}

static int read_tensors(struct format *f, const struct hf_config *c, struct inf_err *reterr)
{
    bool tied_head;
    size_t n = 0;
    int r;

    r = open_shards(f, reterr);
    if (r == 0 && c->hp.embed.n_tasks > 0)
        r = open_shard(f, "adapters/adapter_model.safetensors", reterr);
    if (r < 0)
        return r;
    for (size_t i = 0; i < f->n_shards; i++)
        n += safetensors_n(f->shards[i]);
    r = format_reserve(f, n + 2 * HPARAMS_MAX_DENSE, reterr);
    /* If embedding and head are tied, either of the two matrices may be stored. If both are stored,
     * both are used, as in transformers. */
    tied_head = c->tied && !has_embedding(f, c);
    for (size_t i = 0; r == 0 && i < f->n_shards; i++)
        for (size_t j = 0; r == 0 && j < safetensors_n(f->shards[i]); j++)
            r = add_tensor(f, c, safetensors_at(f->shards[i], j), tied_head, reterr);
    for (uint32_t i = 0; r == 0 && i < f->hp.embed.n_dense; i++)
        r = add_dense(f, i, reterr);
    settle_norms(f);
    settle_predictor(f);
    f->hp.no_head = c->base && !c->tied && !format_find(f, "output.weight");
    /* For encoders the tensors alone decide which biases there are. */
    return r == 0 && !c->hp.embed.encoder ? check_biases(f, c, reterr) : r;
}

/* Appends the members of a file to the metadata. @prefix is put before their names. */
static int add_meta(struct format *f, const char *prefix, json_t *object, struct inf_err *reterr)
{
    const size_t n = f->n_meta + json_object_size(object) + 1, n_prefix = strlen(prefix);
    struct format_pair *meta = arena_zalloc(&f->arena, n * sizeof(*meta));
    const char *key;
    json_t *value;

    if (!meta)
        return err_set(reterr, ENOMEM, "out of memory");
    if (f->n_meta)
        memcpy(meta, f->meta, f->n_meta * sizeof(*meta));
    f->meta = meta;
    json_object_foreach(object, key, value)
    {
        struct format_pair *p = &f->meta[f->n_meta];
        char *name = arena_zalloc(&f->arena, n_prefix + strlen(key) + 1);

        if (!name || !json_text_of(value, &f->arena, &p->value))
            return err_set(reterr, ENOMEM, "out of memory");
        memcpy(name, prefix, n_prefix);
        memcpy(name + n_prefix, key, strlen(key));
        p->key = name;
        f->n_meta++;
    }
    return 0;
}

/* Reads the metadata: the members of config.json, and the members of generation_config.json with
 * "generation_config." before their names. */
static int read_meta(struct format *f, json_t *config, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "generation_config.json");
    _cleanup_json_ json_t *generation = NULL;
    int r = add_meta(f, "", config, reterr);

    if (r < 0 || !path)
        return r < 0 ? r : err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(path))
        return 0;
    r = json_text_read(path, CONFIG_MAX, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, &generation,
                       reterr);
    return r < 0 ? r : add_meta(f, "generation_config.", generation, reterr);
}

/* Sets the model's name to that of the directory, unless config.json gives a name, which is
 * rare. */
static void set_name(struct format *f)
{
    size_t len = strlen(f->dir);
    const char *start;

    if (f->hp.name[0])
        return;
    while (len > 1 && f->dir[len - 1] == '/')
        len--;
    start = memrchr(f->dir, '/', len);
    start = start && start + 1 < f->dir + len ? start + 1 : f->dir;
    snprintf(f->hp.name, sizeof(f->hp.name), "%.*s", (int)(f->dir + len - start), start);
}

static int read_whisper(struct format *f, json_t *config, unsigned flags, struct inf_err *reterr)
{
    int r;

    r = format_read_whisper_config(f, config, reterr);
    if (r == 0)
        r = read_meta(f, config, reterr);
    if (r < 0 || (flags & FORMAT_VOCAB_ONLY))
        return r;
    r = open_shards(f, reterr);
    return r == 0 ? format_add_whisper_tensors(f, reterr) : r;
}

/* Reads config.json and the tensors. config.json may be missing if only the vocabulary is
 * needed. */
static int read_config(struct format *f, unsigned flags, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "config.json");
    const bool vocab_only = flags & FORMAT_VOCAB_ONLY;
    _cleanup_json_ json_t *config = NULL;
    struct hf_config c;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (vocab_only && !path_exists(path))
        return 0;
    r = json_text_read(path, CONFIG_MAX, 0, &config, reterr);
    if (r < 0)
        return r;
    if (whisper_config_is(config))
        return read_whisper(f, config, flags, reterr);
    r = hf_config_parse(config, f->archs, &c, vocab_only ? NULL : reterr);
    if (r < 0 && !vocab_only)
        return r;
    if (r < 0) {
        hf_config_names(config, &f->hp);
    } else {
        f->hp = c.hp;
        f->desc = c.desc;
    }
    r = read_meta(f, config, reterr);
    if (r == 0 && !vocab_only)
        r = format_read_modules(f, reterr);
    if (r == 0 && !vocab_only)
        r = format_read_adapters(f, reterr);
    return r == 0 && !vocab_only ? read_tensors(f, &c, reterr) : r;
}

int format_read_dir(struct format *f, const char *path, unsigned flags, struct inf_err *reterr)
{
    int r;

    f->dir = strdup(path);
    if (!f->dir)
        return err_set(reterr, ENOMEM, "out of memory");
    r = read_config(f, flags, reterr);
    if (r < 0)
        return r;
    set_name(f);
    return format_read_dir_template(f, reterr);
}
