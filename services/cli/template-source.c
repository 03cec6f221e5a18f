/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads chat templates from models and from single files (see template-source.h).
 *
 * A directory without a vocabulary can still have a template. Therefore a directory with a
 * tokenizer_config.json is not opened as a model. Instead, tokenizer_config.json is read.
 */
#include "cli/template-source.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include <infer/chat.h>
#include <infer/tokenizer.h>

#include "common/models/settings.h"
#include "common/models/templates.h"
#include "core/file.h"
#include "core/text.h"

static int template_parse(const char *verb, const char *name, const char *text, size_t len,
                          struct template_source *ret)
{
    struct inf_err err;

    if (inf_chat_template_new(text, len, &ret->tmpl, &err) < 0)
        return cli_error(verb, "%s: chat template: %s", name, err.text);
    return CLI_OK;
}

/* Returns the text of the token @key; tokenizer_config.json has tokens as "<s>" or as
 * {"content": "<s>", …}. */
static char *token_text(const json_t *config, const char *key)
{
    const json_t *j = json_object_get(config, key);

    if (json_is_object(j))
        j = json_object_get(j, "content");
    return json_is_string(j) ? strdup(json_string_value(j)) : NULL;
}

/* Returns the template of a tokenizer_config.json, whose chat_template is a string or a list of
 * named templates. */
static const json_t *config_template(const json_t *config)
{
    const json_t *j = json_object_get(config, "chat_template"), *item;
    size_t i;

    if (!json_is_array(j))
        return j;
    json_array_foreach(j, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));

        if (name && strcmp(name, "default") == 0)
            return json_object_get(item, "template");
    }
    return NULL;
}

static int open_config(const char *verb, const char *path, const char *template_file,
                       struct template_source *ret)
{
    _cleanup_free_ char *text = NULL, *jinja = NULL;
    struct inf_err err;
    const json_t *template;
    json_error_t error;
    json_t *config;
    size_t len, jinja_len;
    int r;

    if (file_read(path, 64 << 20, &text, &len, &err) < 0)
        return cli_error(verb, "%s", err.text);
    config = json_loadb(text, len, 0, &error);
    if (!json_is_object(config)) {
        json_decref(config);
        return cli_error(verb, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    }
    template = config_template(config);
    if (template_file && file_read(template_file, 16 << 20, &jinja, &jinja_len, &err) == 0)
        r = template_parse(verb, template_file, jinja, jinja_len, ret);
    else if (json_is_string(template))
        r = template_parse(verb, path, json_string_value(template), json_string_length(template),
                           ret);
    else
        r = cli_error(verb, "%s has no chat_template", path);
    ret->bos_token = token_text(config, "bos_token");
    ret->eos_token = token_text(config, "eos_token");
    ret->unk_token = token_text(config, "unk_token");
    ret->pad_token = token_text(config, "pad_token");
    json_decref(config);
    return r;
}

static char *template_piece(const struct inf_tokenizer *tok, int32_t id)
{
    size_t len;
    const char *text = id >= 0 ? inf_tokenizer_token_text(tok, id, &len) : NULL;

    return text ? strndup(text, len) : NULL;
}

static int open_model(const char *verb, const char *path, struct template_source *ret)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    const struct inf_model_params params = {.path = path, .vocab_only = true};
    const struct inf_chat_template *tmpl;
    const struct inf_tokenizer *tok;
    struct inf_err err;

    if (inf_model_open(&params, &model, &err) < 0)
        return cli_error(verb, "%s", err.text);
    tmpl = inf_model_chat_template(model);
    if (!tmpl)
        return cli_error(verb, "%s has no chat template", path);
    tok = inf_model_tokenizer(model);
    if (tok) {
        ret->bos_token = template_piece(tok, inf_tokenizer_bos(tok));
        ret->eos_token = template_piece(tok, inf_tokenizer_eos(tok));
        ret->pad_token = template_piece(tok, inf_tokenizer_pad(tok));
    }
    return template_parse(verb, path, inf_chat_template_text(tmpl),
                          strlen(inf_chat_template_text(tmpl)), ret);
}

/* Fills @ret from the model, directory or file @name. */
static int source_open_own(const char *verb, const struct cli_models *m, const char *name,
                           struct template_source *ret)
{
    _cleanup_free_ char *path = NULL, *text = NULL, *config = NULL, *jinja = NULL;
    struct inf_err err;
    size_t len;
    int r;

    r = cli_find_model(verb, m, name, &path);
    if (r != CLI_OK)
        return r;
    if (text_ends_with(path, ".jinja") || text_ends_with(path, ".jinja2")) {
        if (file_read(path, 16 << 20, &text, &len, &err) < 0)
            return cli_error(verb, "%s", err.text);
        return template_parse(verb, path, text, len, ret);
    }
    if (text_ends_with(path, ".json"))
        return open_config(verb, path, NULL, ret);
    if (!path_is_dir(path))
        return open_model(verb, path, ret);
    config = path_join(path, "tokenizer_config.json");
    jinja = path_join(path, "chat_template.jinja");
    if (!config || !jinja)
        return cli_error(verb, "out of memory");
    if (path_exists(config))
        return open_config(verb, config, path_exists(jinja) ? jinja : NULL, ret);
    return open_model(verb, path, ret);
}

/* Takes the tokens of the model @name, and the template @what. */
static int source_open_with(const char *verb, const struct cli_models *m, const char *name,
                            const char *what, struct template_source *ret)
{
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    _cleanup_free_ char *text = NULL;
    const struct inf_tokenizer *tok;
    struct inf_err err;
    const int r = cli_open_model(verb, m, name, true, &model);

    if (r != CLI_OK)
        return r;
    if (template_load(what, &text, &err) < 0)
        return cli_error(verb, "%s", err.text);
    tok = inf_model_tokenizer(model);
    if (tok) {
        ret->bos_token = template_piece(tok, inf_tokenizer_bos(tok));
        ret->eos_token = template_piece(tok, inf_tokenizer_eos(tok));
        ret->pad_token = template_piece(tok, inf_tokenizer_pad(tok));
    }
    return template_parse(verb, what, text, strlen(text), ret);
}

int template_source_open(const char *verb, const struct cli_models *m, const char *name,
                         const char *template, struct template_source *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct model_settings settings;
    const int r = cli_settings(verb, m, name, &arena, &settings);

    if (r != CLI_OK)
        return r;
    template = template ? template : settings.template;
    return template ? source_open_with(verb, m, name, template, ret)
                    : source_open_own(verb, m, name, ret);
}

void template_source_done(struct template_source *s)
{
    inf_chat_template_free(s->tmpl);
    free(s->bos_token);
    free(s->eos_token);
    free(s->unk_token);
    free(s->pad_token);
    *s = (struct template_source){0};
}
