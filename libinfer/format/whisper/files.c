/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Whisper's files as a model. Tensors keep the names that they have in the file. */
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
    if (r == 0)
        whisper_config_hparams(c, &f->hp);
    return r;
}

int format_add_whisper_tensors(struct format *f, struct inf_err *reterr)
{
    size_t n = 0;
    int r;

    for (size_t i = 0; i < f->n_shards; i++)
        n += safetensors_n(f->shards[i]);
    r = format_reserve(f, n, reterr);
    for (size_t i = 0; r == 0 && i < f->n_shards; i++)
        for (size_t j = 0; r == 0 && j < safetensors_n(f->shards[i]); j++)
            r = format_add(f, safetensors_at(f->shards[i], j), reterr);
    return r;
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
