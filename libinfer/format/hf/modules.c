/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads modules.json of sentence-transformers, which lists the steps after the model.
 *
 * Each step has its own folder. Steps are the pooling of rows, dense layers, and the normalization
 * of vectors. An unsupported step is refused by name.
 *
 * Late-interaction models have no pooling. Their dense layers either say that they apply to token
 * vectors, or have a class of PyLate. The step "MultiVectorMask" selects the tokens whose vectors
 * are compared. This step is left to the caller that compares vectors.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "format/impl.h"
#include "format/json.h"

/* Limit of the bytes of a file. tokenizer_config.json can be large, because it lists added tokens.
 */
#define MODULES_MAX ((size_t)16 << 20)

/* Returns whether @path is the name of a folder directly in the model's directory. */
static bool is_plain(const char *path)
{
    return path[0] && path[0] != '.' && !strchr(path, '/') && strlen(path) < 64;
}

/* Reads the JSON object in the file @file of the folder @folder. *ret stays NULL if there is no
 * such file. */
static int read_object(const struct format *f, const char *folder, const char *file, unsigned flags,
                       json_t **ret, struct inf_err *reterr)
{
    char name[128];
    _cleanup_free_ char *path = NULL;

    snprintf(name, sizeof(name), "%s%s%s", folder, folder[0] ? "/" : "", file);
    path = path_join(f->dir, name);
    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(path))
        return 0;
    return json_text_read(path, MODULES_MAX, flags, ret, reterr);
}

static int read_pooling(struct format *f, const char *folder, struct inf_err *reterr)
{
    static const struct {
        const char *key, *name;
        enum pooling pooling;
    } modes[] = {
        {"pooling_mode_cls_token", "cls", POOLING_CLS},
        {"pooling_mode_mean_tokens", "mean", POOLING_MEAN},
        {"pooling_mode_lasttoken", "lasttoken", POOLING_LAST},
    };
    _cleanup_json_ json_t *config = NULL;
    const char *name, *key;
    unsigned n = 0;
    json_t *value;
    int r;

    r = read_object(f, folder, "config.json", 0, &config, reterr);
    if (r < 0)
        return r;
    if (!config)
        return err_set(reterr, EBADMSG, "modules.json: %.64s has no config.json", folder);
    name = json_string_value(json_object_get(config, "pooling_mode"));
    json_object_foreach(config, key, value) n +=
        text_starts_with(key, "pooling_mode_") && json_is_true(value);
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
        if (name ? strcmp(name, modes[i].name) == 0
                 : json_is_true(json_object_get(config, modes[i].key)))
            f->hp.embed.pooling = modes[i].pooling;
    if (f->hp.embed.pooling == POOLING_NONE || (!name && n != 1))
        return err_set(reterr, EOPNOTSUPP,
                       "%.64s/config.json: only one of cls, mean and lasttoken is supported",
                       folder);
    return 0;
}

static int read_act(struct hparams_embed *e, uint32_t i, const char *name, struct inf_err *reterr)
{
    static const struct {
        const char *name;
        enum graph_act act;
    } acts[] = {
        {".Tanh", GRAPH_ACT_TANH}, {".GELU", GRAPH_ACT_GELU_ERF}, {".SiLU", GRAPH_ACT_SILU}};

    e->dense_linear[i] = name && text_ends_with(name, ".Identity");
    if (e->dense_linear[i])
        return 0;
    for (size_t j = 0; name && j < ARRAY_SIZE(acts); j++)
        if (text_ends_with(name, acts[j].name)) {
            e->dense_act[i] = acts[j].act;
            return 0;
        }
    return err_set(reterr, EOPNOTSUPP, "a dense layer with the activation %.64s is not supported",
                   name ? name : "?");
}

/* Returns whether a dense layer applies to token vectors. */
static bool is_of_tokens(const char *type, const json_t *config)
{
    const char *input = json_string_value(json_object_get(config, "module_input_name"));

    return input ? strcmp(input, "token_embeddings") == 0 : text_starts_with(type, "pylate.");
}

static int read_dense(struct format *f, const char *type, const char *folder,
                      struct inf_err *reterr)
{
    _cleanup_json_ json_t *config = NULL;
    struct hparams_embed *e = &f->hp.embed;
    const uint32_t i = e->n_dense;
    json_int_t n;
    int r;

    if (i == HPARAMS_MAX_DENSE)
        return err_set(reterr, EOPNOTSUPP, "modules.json has more than %u dense layers",
                       HPARAMS_MAX_DENSE);
    r = read_object(f, folder, "config.json", 0, &config, reterr);
    if (r < 0)
        return r;
    n = json_integer_value(json_object_get(config, "out_features"));
    if (n < 1 || n > 1 << 20)
        return err_set(reterr, EBADMSG, "%.64s/config.json: out_features is missing", folder);
    if (json_is_true(json_object_get(config, "use_residual")))
        return err_set(reterr, EOPNOTSUPP, "%.64s/config.json: use_residual is not supported",
                       folder);
    e->late |= is_of_tokens(type, config);
    e->dense_out[i] = (uint32_t)n;
    snprintf(f->dense[i], sizeof(f->dense[i]), "%s/model.safetensors", folder);
    e->n_dense++;
    return read_act(e, i, json_string_value(json_object_get(config, "activation_function")),
                    reterr);
}

static int read_module(struct format *f, const json_t *module, struct inf_err *reterr)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *path = json_string_value(json_object_get(module, "path"));

    if (!type || !path || (path[0] && !is_plain(path)))
        return err_set(reterr, EBADMSG, "modules.json: a module has no type, or an invalid path");
    if (text_ends_with(type, ".Transformer"))
        return path[0] ? err_set(reterr, EOPNOTSUPP,
                                 "modules.json: the model is in %.64s: open that folder, with "
                                 "modules.json beside its config.json",
                                 path)
                       : 0;
    if (text_ends_with(type, ".Normalize")) {
        f->hp.embed.raw = false;
        return 0;
    }
    if (text_ends_with(type, ".Pooling"))
        return read_pooling(f, path, reterr);
    if (text_ends_with(type, ".Dense"))
        return read_dense(f, type, path, reterr);
    if (text_ends_with(type, ".MultiVectorMask")) {
        f->hp.embed.late = true;
        return 0;
    }
    return err_set(reterr, EOPNOTSUPP, "modules.json: the module %.64s is not supported", type);
}

/* Reads modules.json. The parser accepts only objects, so the list becomes a member of an
 * object. */
static int read_list(const struct format *f, json_t **ret, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "modules.json"), *data = NULL, *text = NULL;
    size_t len;
    int r, n;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(path))
        return 0;
    r = file_read(path, MODULES_MAX, &data, &len, reterr);
    if (r < 0)
        return r;
    n = asprintf(&text, "{\"modules\":%.*s}", (int)len, data);
    if (n < 0) {
        text = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    return json_text_parse(text, (size_t)n, 0, "modules.json", ret, reterr);
}

/* Sets the limit of tokens to @length if the model has that many positions. Files store "no limit"
 * as a number far above all lengths. */
static void set_max_tokens(struct format *f, const json_t *length)
{
    const double n = json_number_value(length);

    if (n >= 1 && n <= f->hp.n_ctx_train)
        f->hp.embed.max_tokens = (uint32_t)n;
}

/* Reads "max_seq_length" of sentence_bert_config.json, which sentence-transformers wrote before
 * version 6. */
static int read_seq_length(struct format *f, struct inf_err *reterr)
{
    _cleanup_json_ json_t *config = NULL;
    const int r = read_object(f, "", "sentence_bert_config.json", 0, &config, reterr);

    if (r == 0)
        set_max_tokens(f, json_object_get(config, "max_seq_length"));
    return r;
}

/* Reads the limit of the tokenizer's configuration. read_seq_length() may replace it later. */
static int read_tokenizer_length(struct format *f, struct inf_err *reterr)
{
    _cleanup_json_ json_t *config = NULL;
    const int r = read_object(f, "", "tokenizer_config.json",
                              JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, &config, reterr);

    if (r == 0)
        set_max_tokens(f, json_object_get(config, "model_max_length"));
    return r;
}

int format_read_modules(struct format *f, struct inf_err *reterr)
{
    _cleanup_json_ json_t *root = NULL;
    const json_t *list;
    int r;

    r = read_list(f, &root, reterr);
    if (r == 0 && (root || f->hp.embed.encoder))
        r = read_tokenizer_length(f, reterr);
    if (r < 0 || !root)
        return r;
    list = json_object_get(root, "modules");
    if (!json_is_array(list))
        return err_set(reterr, EBADMSG, "modules.json is not a list");
    f->hp.embed.raw = true; /* true unless a module normalizes */
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = read_module(f, json_array_get(list, i), reterr);
    if (r == 0 && f->hp.embed.late && f->hp.embed.pooling != POOLING_NONE)
        r = err_set(reterr, EOPNOTSUPP,
                    "modules.json: pooling together with token vectors is not supported");
    if (f->hp.embed.late)
        f->hp.embed.raw = false; /* PyLate always normalizes */
    return r == 0 ? read_seq_length(f, reterr) : r;
}
