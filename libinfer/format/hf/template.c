/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the chat template of a Hugging Face directory: chat_template.jinja, chat_template.json, or
 * the key chat_template of tokenizer_config.json, whichever exists first in this order. If a file
 * has several templates, the one named "default" is used.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "format/impl.h"
#include "format/json.h"

#define TEMPLATE_MAX   ((size_t)4 << 20)
#define TOK_CONFIG_MAX ((size_t)64 << 20)

static int keep_template(struct format *f, const char *text, size_t len, struct inf_err *reterr)
{
    f->chat_template = arena_strndup(&f->arena, text, len);
    f->chat_template_len = len;
    return f->chat_template ? 1 : err_set(reterr, ENOMEM, "out of memory");
}

/* Returns @x if it is a string, or the template named "default" of a list [{name, template}]. */
static const json_t *choose_template(const json_t *x)
{
    if (json_is_string(x))
        return x;
    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *e = json_array_get(x, i), *text = json_object_get(e, "template");
        const char *name = json_string_value(json_object_get(e, "name"));

        if (name && strcmp(name, "default") == 0 && json_is_string(text))
            return text;
    }
    return NULL;
}

/* Returns 1 if the file has a template, 0 if it has none, or an error. */
static int from_json(struct format *f, const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, name);
    _cleanup_json_ json_t *config = NULL;
    const json_t *text;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(path))
        return 0;
    r = json_text_read(path, TOK_CONFIG_MAX, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, &config,
                       reterr);
    if (r < 0)
        return r;
    text = choose_template(json_object_get(config, "chat_template"));
    return text ? keep_template(f, json_string_value(text), json_string_length(text), reterr) : 0;
}

static int from_jinja(struct format *f, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(f->dir, "chat_template.jinja");
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!path_exists(path))
        return 0;
    r = file_read(path, TEMPLATE_MAX, &text, &len, reterr);
    return r < 0 ? r : keep_template(f, text, len, reterr);
}

int format_read_dir_template(struct format *f, struct inf_err *reterr)
{
    int r;

    r = from_jinja(f, reterr);
    if (r == 0)
        r = from_json(f, "chat_template.json", reterr);
    if (r == 0)
        r = from_json(f, "tokenizer_config.json", reterr);
    return MIN(r, 0);
}
