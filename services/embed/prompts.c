/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the prompts of models, and chooses among them. */
#include "embed/prompts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "embed/inputs.h"

enum { PROMPTS_MAX_FILE = 1 << 20 };

static int read_file(const char *path, json_t **ret_prompts, struct inf_err *reterr)
{
    static const char name[] = "config_sentence_transformers.json";
    _cleanup_free_ char *file = path_is_dir(path) ? path_join(path, name) : NULL, *text = NULL;
    _cleanup_json_ json_t *json = NULL;
    const char *key;
    struct inf_err why = {};
    json_t *value;
    size_t len;
    int r;

    *ret_prompts = NULL;
    if (!file || !path_exists(file))
        return 0;
    r = file_read(file, PROMPTS_MAX_FILE, &text, &len, reterr);
    if (r < 0)
        return r;
    r = json_parse(text, len, &json, &why);
    if (r < 0)
        return err_set(reterr, -r, "%s: %.200s", name, why.text);
    json_object_foreach(json_object_get(json, "prompts"), key, value)
    {
        if (!json_is_string(value))
            return err_set(reterr, EBADMSG, "%s: the prompt \"%.64s\" is not a text", name, key);
    }
    *ret_prompts = STEAL(json);
    return 0;
}

/* Prompts of models whose files do not contain them. */
static const struct {
    const char *arch, *name, *text;
} own_words[] = {
    {"jina-embeddings-v4", "query", "Query: "},
    {"jina-embeddings-v4", "passage", "Passage: "},
};

/* Adds a built-in prompt, unless the file has a prompt with this name. */
static int add_own(json_t **prompts, const char *name, const char *text)
{
    json_t *table;

    if (!*prompts && !(*prompts = json_object()))
        return -ENOMEM;
    table = json_object_get(*prompts, "prompts");
    if (!json_is_object(table)) {
        table = json_object();
        if (json_object_set_new(*prompts, "prompts", table) < 0)
            return -ENOMEM;
    }
    if (json_object_get(table, name))
        return 0;
    return json_object_set_new(table, name, json_string(text)) < 0 ? -ENOMEM : 0;
}

int prompts_read(const char *path, const char *arch, json_t **ret_prompts, struct inf_err *reterr)
{
    _cleanup_json_ json_t *prompts = NULL;
    int r = read_file(path, &prompts, reterr);

    for (size_t i = 0; i < ARRAY_SIZE(own_words) && r == 0; i++)
        if (strcmp(own_words[i].arch, arch) == 0 &&
            add_own(&prompts, own_words[i].name, own_words[i].text) < 0)
            r = err_set(reterr, ENOMEM, "out of memory");
    if (r == 0)
        *ret_prompts = STEAL(prompts);
    return r;
}

const char *prompts_find(const json_t *prompts, bool query)
{
    static const char *const names[] = {"query", "passage", "document"};
    const json_t *table = json_object_get(prompts, "prompts");

    for (size_t i = query ? 0 : 1; i < (query ? 1 : ARRAY_SIZE(names)); i++)
        if (json_object_get(table, names[i]))
            return names[i];
    return NULL;
}

static int unknown_name(json_t *table, const char *name, struct problem *problem)
{
    char names[256] = "";
    const char *key;
    json_t *value;

    json_object_foreach(table, key, value) text_list_add(names, sizeof(names), key);
    return problem_set(problem, 400, "unknown_prompt", "prompt_name",
                       "This model has no prompt named '%.100s'. It has: %s.", name,
                       names[0] ? names : "none");
}

int prompts_choose(json_t *prompts, const struct inputs_prompt *wanted, char **ret_text,
                   struct problem *problem)
{
    json_t *table = json_object_get(prompts, "prompts");
    const char *name = wanted->name, *text = wanted->text;
    char *copy = NULL;

    *ret_text = NULL;
    if (wanted->instruction) {
        /* e5-instruct, Qwen3-Embedding and related models were trained with this format. */
        if (asprintf(&copy, "Instruct: %s\nQuery:", wanted->instruction) < 0)
            return problem_no_memory(problem);
        *ret_text = copy;
        return 0;
    }
    if (!text && !name)
        name = json_string_value(json_object_get(prompts, "default_prompt_name"));
    if (!text && name) {
        text = json_string_value(json_object_get(table, name));
        if (!text && wanted->name)
            return unknown_name(table, name, problem);
    }
    if (!text || !text[0])
        return 0;
    copy = strdup(text);
    if (!copy)
        return problem_no_memory(problem);
    *ret_text = copy;
    return 0;
}
