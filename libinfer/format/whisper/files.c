/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Whisper's files as a model. Tensors keep the names that they have in the file, except
 * that tensors of mlx-whisper get OpenAI's names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "format/impl.h"

#define CONFIG_MAX ((size_t)4 << 20)

static struct whisper_config *config_new(struct format *f)
{
    return f->whisper = arena_zalloc(&f->arena, sizeof(*f->whisper));
}

static int read_generation(const struct format *f, json_t **ret_json, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "generation_config.json");

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    return path_exists(path) ? json_text_read(path, CONFIG_MAX, 0, ret_json, reterr) : 0;
}

/* Checks that there is a tokenizer, which mlx-whisper has in its program and not in its models. */
static int mlx_check_tokenizer(const struct format *f, struct inf_err *reterr)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_free_ char *path = path_join(f->dir, names[i]);

        if (path && path_exists(path))
            return 0;
    }
    return err_set(reterr, EOPNOTSUPP,
                   "models of mlx-whisper have no tokenizer; copy tokenizer.json of the same "
                   "model of OpenAI (its directory in Hugging Face layout) into this directory");
}

int format_read_whisper_config(struct format *f, const json_t *config, struct inf_err *reterr)
{
    struct whisper_config *c = config_new(f);
    _cleanup_json_ json_t *generation = NULL;
    int r;

    if (!c)
        return err_set(reterr, ENOMEM, "out of memory");
    r = read_generation(f, &generation, reterr);
    if (r == 0)
        r = whisper_config_parse(config, generation, &f->arena, c, reterr);
    if (r == 0 && c->mlx)
        r = mlx_check_tokenizer(f, reterr);
    if (r == 0)
        whisper_config_hparams(c, &f->hp);
    return r;
}

/* Adds a tensor of mlx-whisper with OpenAI's name: "blocks.0.mlp1.weight" becomes
 * "blocks.0.mlp.0.weight", and "blocks.0.mlp2.weight" "blocks.0.mlp.2.weight". */
static int mlx_add(struct format *f, const struct format_tensor *raw, struct inf_err *reterr)
{
    static const struct {
        const char *mlx, *openai;
    } parts[] = {{".mlp1.", ".mlp.0."}, {".mlp2.", ".mlp.2."}};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const char *at = strstr(raw->name, parts[i].mlx);
        struct format_tensor *t;
        char name[256];

        if (!at)
            continue;
        if (snprintf(name, sizeof(name), "%.*s%s%s", (int)(at - raw->name), raw->name,
                     parts[i].openai, at + strlen(parts[i].mlx)) >= (int)sizeof(name))
            return err_set(reterr, EBADMSG, "the name of tensor %.64s is too long", raw->name);
        t = arena_alloc(&f->arena, sizeof(*t));
        if (!t)
            return err_set(reterr, ENOMEM, "out of memory");
        *t = *raw;
        t->name = arena_strndup(&f->arena, name, strlen(name));
        return t->name ? format_add(f, t, reterr) : err_set(reterr, ENOMEM, "out of memory");
    }
    return format_add(f, raw, reterr);
}

/* Reads the heads for the times of words from the tensor "alignment_heads", [heads, 2] of I64 or
 * I32, unless generation_config.json lists them. */
static int mlx_read_heads(struct format *f, struct inf_err *reterr)
{
    const struct format_tensor *t = format_find(f, "alignment_heads");
    struct whisper_config *c = f->whisper;
    struct whisper_head *heads;
    unsigned bytes;

    if (!t || c->heads)
        return 0;
    bytes = strcmp(t->type_name, "I64") == 0 ? 8 : strcmp(t->type_name, "I32") == 0 ? 4 : 0;
    if (bytes == 0 || t->n_dims != 2 || t->dims[0] != 2 || t->dims[1] == 0)
        return err_set(reterr, EBADMSG, "alignment_heads is not a list of layers and heads");
    heads = arena_alloc(&f->arena, t->dims[1] * sizeof(*heads));
    if (!heads)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < t->dims[1]; i++) {
        uint64_t layer = 0, head = 0;

        memcpy(&layer, (const uint8_t *)t->data + 2 * i * bytes, bytes);
        memcpy(&head, (const uint8_t *)t->data + (2 * i + 1) * bytes, bytes);
        if (layer >= c->n_text_layers || head >= c->n_text_heads)
            return err_set(reterr, EBADMSG, "alignment_heads: item %llu is not a head",
                           (unsigned long long)i);
        heads[i] = (struct whisper_head){(uint32_t)layer, (uint32_t)head};
    }
    c->heads = heads;
    c->n_heads = t->dims[1];
    return 0;
}

int format_add_whisper_tensors(struct format *f, struct inf_err *reterr)
{
    const bool mlx = f->whisper->mlx;
    size_t n = 0;
    int r;

    for (size_t i = 0; i < f->n_shards; i++)
        n += safetensors_n(f->shards[i]);
    r = format_reserve(f, n, reterr);
    for (size_t i = 0; r == 0 && i < f->n_shards; i++)
        for (size_t j = 0; r == 0 && j < safetensors_n(f->shards[i]); j++)
            r = mlx ? mlx_add(f, safetensors_at(f->shards[i], j), reterr)
                    : format_add(f, safetensors_at(f->shards[i], j), reterr);
    return r == 0 && mlx ? mlx_read_heads(f, reterr) : r;
}

/* Sets the model's name to the name of the file without its suffix. */
static void set_name(struct format *f, const char *path)
{
    const char *name = path_base(path);
    const char *dot = strrchr(name, '.');

    snprintf(f->hp.name, sizeof(f->hp.name), "%.*s",
             (int)(dot && dot > name ? dot - name : (ptrdiff_t)strlen(name)), name);
}

int format_read_bin(struct format *f, const char *path, struct inf_err *reterr)
{
    struct whisper_config *c = config_new(f);
    int r;

    if (!c)
        return err_set(reterr, ENOMEM, "out of memory");
    r = ggml_bin_open(path, &f->bin, reterr);
    if (r < 0)
        return r;
    if (ggml_bin_kind(f->bin) != GGML_BIN_WHISPER)
        return err_set(reterr, EOPNOTSUPP, "%.160s: this file is only a voice activity model",
                       path);
    r = whisper_config_from_bin(ggml_bin_whisper(f->bin), c, reterr);
    if (r == 0)
        r = format_reserve(f, ggml_bin_n(f->bin), reterr);
    for (size_t i = 0; r == 0 && i < ggml_bin_n(f->bin); i++)
        r = format_add(f, ggml_bin_at(f->bin, i), reterr);
    if (r < 0)
        return r;
    whisper_config_hparams(c, &f->hp);
    set_name(f, path);
    return 0;
}

bool format_is_whisper_gguf(const struct format *f)
{
    if (gguf_find(f->gguf, "general.architecture"))
        return false;
    for (size_t i = 0; i < gguf_n_tensors(f->gguf); i++)
        if (strcmp(gguf_tensor_at(f->gguf, i)->name, "model.encoder.conv1.weight") == 0)
            return true;
    return false;
}

/* Reads the configuration files in the directory of the file @path. */
static int read_config_beside(struct format *f, const char *path, struct inf_err *reterr)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *config_path = NULL;
    _cleanup_json_ json_t *config = NULL;
    int r;

    f->dir = !slash ? strdup(".") : strndup(path, MAX((size_t)(slash - path), 1u));
    config_path = f->dir ? path_join(f->dir, "config.json") : NULL;
    if (!config_path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(config_path))
        return err_set(
            reterr, EOPNOTSUPP,
            "%.160s: weights of Whisper without a description of the model; config.json and "
            "tokenizer.json must be in the same directory",
            path_base(path));
    r = json_text_read(config_path, CONFIG_MAX, 0, &config, reterr);
    if (r < 0)
        return r;
    if (!whisper_config_is(config))
        return err_set(reterr, EOPNOTSUPP, "%.160s describes a model that is not Whisper",
                       config_path);
    return format_read_whisper_config(f, config, reterr);
}

int format_read_whisper_gguf(struct format *f, const char *path, struct inf_err *reterr)
{
    const size_t n = gguf_n_tensors(f->gguf);
    int r = read_config_beside(f, path, reterr);

    if (r == 0)
        r = format_reserve(f, n, reterr);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = format_add(f, gguf_tensor_at(f->gguf, i), reterr);
    if (r == 0)
        set_name(f, path);
    return r;
}
