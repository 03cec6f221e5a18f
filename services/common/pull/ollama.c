/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes settings of a manifest from the layers of a model of Ollama's registry (see pull.h).
 *
 * A layer with parameters is a JSON object. Its parameters of sampling, its stop strings and its
 * context become keys of the manifest. So do the system message and the messages with which
 * conversations begin, each of which has a layer of its own. A layer with a template is in the
 * template language of Go, which sconce does not have. This layer is not needed if the weights have
 * a template of their own. Otherwise a built-in template that has the same marks (special texts,
 * such as "<|im_start|>") is used instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/pull/pull.h"
#include "common/models/sampling.h"
#include "common/models/settings.h"
#include "common/models/templates.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/utf8.h"

enum {
    OLLAMA_HEADER = 64 << 20, /* largest size in bytes of the metadata of a GGUF file */
    OLLAMA_CHUNK = 1 << 20,
};

/* The names of Ollama's parameters that differ from those of sampling.h. */
static const struct {
    const char *name;
    enum sampling_key key;
} renamed[] = {
    {"repeat_penalty", SAMPLING_REPETITION_PENALTY},
};

int ollama_sampling_key(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(renamed); i++)
        if (strcmp(name, renamed[i].name) == 0)
            return (int)renamed[i].key;
    return sampling_find(name);
}

static int put_sampling(const json_t *params, struct str *out)
{
    struct inf_sampling sampling;
    const char *name;
    const json_t *value;

    sampling_clear(&sampling);
    json_object_foreach((json_t *)params, name, value)
    {
        const int key = ollama_sampling_key(name);

        /* Values out of range are ignored, like those in the files of models. */
        if (key >= 0 && json_is_number(value))
            sampling_set(&sampling, (enum sampling_key)key, json_number_value(value));
    }
    return store_put_sampling(out, &sampling);
}

static int put_stops(const json_t *stops, struct str *out)
{
    const char *texts[MODEL_MAX_STOPS];
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(stops) && n < MODEL_MAX_STOPS; i++) {
        const char *text = json_string_value(json_array_get(stops, i));

        if (text && text[0])
            texts[n++] = text;
    }
    return store_put_stops(out, texts, n);
}

static int put_parameters(const char *path, struct str *out, struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    json_t *params;
    json_int_t context;
    size_t len;
    int r = file_read(path, OLLAMA_MAX_LAYER, &text, &len, reterr);

    if (r < 0)
        return r;
    params = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(params)) {
        json_decref(params);
        return err_set(reterr, EBADMSG, "the parameters of the model are not a JSON object");
    }
    context = json_integer_value(json_object_get(params, "num_ctx"));
    r = put_sampling(params, out);
    r = r < 0 ? r : put_stops(json_object_get(params, "stop"), out);
    if (r == 0 && context > 0 && context <= MODEL_MAX_CONTEXT)
        r = str_printf(out, "context: %lld\n", (long long)context);
    json_decref(params);
    return r < 0 ? err_set(reterr, ENOMEM, "out of memory") : 0;
}

static int put_system(const char *path, struct str *out, struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    const int r = file_read(path, OLLAMA_MAX_LAYER, &text, &len, reterr);

    if (r < 0 || len == 0)
        return r;
    if (strlen(text) != len || utf8_valid_prefix(text, len) != len)
        return err_set(reterr, EBADMSG, "the system message of the model is not a text");
    return store_put_key(out, "system", text) < 0 ? err_set(reterr, ENOMEM, "out of memory") : 0;
}

/* Appends the messages. The first one may be a system message. If @has_system is true, it is
 * ignored, because the system message then has a layer of its own. */
static int put_messages(const char *path, bool has_system, struct str *out, struct inf_err *reterr)
{
    struct model_message messages[MODEL_MAX_MESSAGES];
    _cleanup_free_ char *text = NULL;
    const char *system = NULL;
    json_t *list;
    size_t len, n = 0;
    int r = file_read(path, OLLAMA_MAX_LAYER, &text, &len, reterr);

    if (r < 0)
        return r;
    list = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(list) || json_array_size(list) > MODEL_MAX_MESSAGES)
        r = -EBADMSG;
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i), *content = json_object_get(m, "content");
        const char *role = json_string_value(json_object_get(m, "role"));
        const char *what = json_string_value(content);

        if (!role || !what || !what[0] || strlen(what) != json_string_length(content))
            r = -EBADMSG;
        else if (i == 0 && strcmp(role, "system") == 0)
            system = has_system ? NULL : what;
        else if (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
            r = -EBADMSG;
        else
            messages[n++] = (struct model_message){.of_assistant = role[0] == 'a', .text = what};
    }
    if (r == 0)
        r = store_put_key(out, "system", system);
    r = r < 0 ? r : store_put_messages(out, messages, n);
    json_decref(list);
    return r == -EBADMSG ? err_set(reterr, EBADMSG,
                                   "the messages of the model are not at most %d texts of the user "
                                   "and of the assistant",
                                   MODEL_MAX_MESSAGES)
           : r < 0       ? err_set(reterr, ENOMEM, "out of memory")
                         : 0;
}

/* Returns whether the metadata of the GGUF file @path has a chat template. The function searches
 * for the bytes of the key, which follow the length of the key, a number of 64 bits. */
static bool has_template(const char *path)
{
    static const char key[] = "\x17\0\0\0\0\0\0\0tokenizer.chat_template";
    const size_t n_key = sizeof(key) - 1;
    _cleanup_free_ char *chunk = malloc(OLLAMA_CHUNK);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;

    for (off_t at = 0; chunk && fd >= 0 && !found && at < OLLAMA_HEADER;) {
        const ssize_t n = pread(fd, chunk, OLLAMA_CHUNK, at);

        if (n < (ssize_t)n_key)
            break;
        found = memmem(chunk, (size_t)n, key, n_key) != NULL;
        /* The next chunk begins before the end of this one, so that a key across the border is
         * found. */
        at += n - (ssize_t)n_key + 1;
    }
    return found;
}

const char *ollama_match_template(const char *text)
{
    static const struct {
        const char *name, *marks[3];
        const char *without; /* a mark that another template has */
    } rows[] = {
        {"chatml", {"<|im_start|>", "<|im_end|>"}, NULL},
        {"llama3", {"<|start_header_id|>", "<|eot_id|>"}, NULL},
        {"llama2", {"[INST]", "<<SYS>>"}, NULL},
        {"mistral", {"[INST]", "[/INST]"}, "[SYSTEM_PROMPT]"},
        {"gemma", {"<start_of_turn>", "<end_of_turn>"}, NULL},
        {"phi3", {"<|user|>", "<|assistant|>", "<|end|>"}, NULL},
        {"zephyr", {"<|user|>", "<|assistant|>", "</s>"}, NULL},
        {"alpaca", {"### Instruction:", "### Response:"}, NULL},
        {"vicuna", {"USER:", "ASSISTANT:"}, NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        bool matches = !rows[i].without || !strstr(text, rows[i].without);

        for (size_t k = 0; k < ARRAY_SIZE(rows[i].marks) && rows[i].marks[k]; k++)
            matches = matches && strstr(text, rows[i].marks[k]);
        if (matches)
            return rows[i].name;
    }
    return NULL;
}

static int put_template(const char *path, struct pull_plan *plan, struct str *out,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    const char *name;
    size_t len;
    const int r = file_read(path, OLLAMA_MAX_LAYER, &text, &len, reterr);

    if (r < 0)
        return r;
    name = ollama_match_template(text);
    if (name) {
        snprintf(plan->note, sizeof(plan->note),
                 "The weights have no chat template, so the built-in template %s is used.", name);
        return str_printf(out, "template: %s\n", name) < 0
                   ? err_set(reterr, ENOMEM, "out of memory")
                   : 0;
    }
    snprintf(plan->note, sizeof(plan->note),
             "The weights have no chat template, and that of Ollama, in " OLLAMA_TEMPLATE
             ", cannot be used: the key `template` of the manifest may name another one.");
    return 0;
}

/* Returns whether the plan has the file @name. */
static bool plan_has(const struct pull_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n; i++)
        if (strcmp(plan->files[i].name, name) == 0)
            return true;
    return false;
}

int ollama_put_settings(const char *model, struct pull_plan *plan, struct str *out,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *weights = path_join(model, plan->files[0].name);
    _cleanup_free_ char *params = path_join(model, OLLAMA_PARAMS);
    _cleanup_free_ char *template = path_join(model, OLLAMA_TEMPLATE);
    _cleanup_free_ char *system = path_join(model, OLLAMA_SYSTEM);
    _cleanup_free_ char *messages = path_join(model, OLLAMA_MESSAGES);
    int r = 0;

    if (!weights || !params || !template || !system || !messages)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 1; r == 0 && i < plan->n; i++) {
        if (strcmp(plan->files[i].name, OLLAMA_PARAMS) == 0)
            r = put_parameters(params, out, reterr);
        else if (strcmp(plan->files[i].name, OLLAMA_SYSTEM) == 0)
            r = put_system(system, out, reterr);
        else if (strcmp(plan->files[i].name, OLLAMA_MESSAGES) == 0)
            r = put_messages(messages, plan_has(plan, OLLAMA_SYSTEM), out, reterr);
        else if (strcmp(plan->files[i].name, OLLAMA_TEMPLATE) == 0 && !has_template(weights))
            r = put_template(template, plan, out, reterr);
    }
    return r;
}
