/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the body of POST /api/create (see creation.h). */
#include <errno.h>
#include <string.h>

#include "common/http/problem.h"
#include "common/models/manifest.h"
#include "common/models/safe-path.h"
#include "common/models/templates.h"
#include "common/pull/pull.h"
#include "common/wire/fields.h"
#include "core/text.h"
#include "core/utf8.h"
#include "store/creation-inner.h"

/* Refuses fields for things that sconce does not have. Empty values do no harm. */
static int refuse_others(json_t *body, struct problem *problem)
{
    static const struct {
        const char *name, *why;
    } rows[] = {
        {"adapters", "adapters of weights are not applied"},
        {"quantize", "`sconce convert` makes other number formats"},
        {"modelfile",
         "the instructions FROM, PARAMETER, TEMPLATE, SYSTEM, MESSAGE and LICENSE have "
         "fields of their own"},
        {"renderer", "the chat template writes prompts"},
        {"parser", "the chat template tells how answers are read"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const json_t *value = json_object_get(body, rows[i].name);
        const bool is_empty = !value || json_is_null(value) || json_string_length(value) == 0;

        if (is_empty && json_object_size(value) + json_array_size(value) == 0 &&
            (!value || json_is_null(value) || json_is_string(value) || json_is_object(value) ||
             json_is_array(value)))
            continue;
        return problem_set(problem, 400, "unsupported_value", rows[i].name,
                           "Unsupported value: '%s' must be absent: %s.", rows[i].name,
                           rows[i].why);
    }
    return 0;
}

static int read_name(struct store_creation *c, struct problem *problem)
{
    const char *name;
    int r = store_read_name(c->body, "model", "name", &name, problem);

    if (r < 0)
        return r;
    snprintf(c->name, sizeof(c->name), "%s", name);
    if (strlen(name) < sizeof(c->name) && text_ends_with_nocase(c->name, ":latest"))
        c->name[strlen(c->name) - strlen(":latest")] = 0;
    /* c->name cannot hold a longer name. store_check_name() gets such a name uncut, and refuses
     * it. */
    return store_check_name(strlen(name) < sizeof(c->name) ? c->name : name, "model", problem);
}

/* Checks that the names of the files are safe, and that the values are digests. */
static int read_files(struct store_creation *c, struct problem *problem)
{
    const char *name;
    const json_t *value;

    c->files = json_object_get(c->body, "files");
    if (json_is_null(c->files))
        c->files = NULL;
    if (c->files && !json_is_object(c->files))
        return field_wrong_type("files", "an object", c->files, problem);
    json_object_foreach((json_t *)c->files, name, value)
    {
        const char *digest = json_string_value(value);
        const char *hex = digest ? text_after(digest, "sha256:") : NULL;

        if (!path_is_safe(name) || name[0] == '.' || strcmp(name, MODEL_MANIFEST) == 0)
            return problem_set(problem, 400, "invalid_value", "files",
                               "Invalid value for 'files': '%.100s' cannot be the name of a file.",
                               name);
        if (!hex || !sha256_is_text(hex))
            return problem_set(problem, 400, "invalid_value", "files",
                               "Invalid value for 'files': the digest of '%.100s' must be "
                               "'sha256:' and 64 lower-case hexadecimal digits.",
                               name);
    }
    if (json_object_size(c->files) > PULL_MAX_FILES)
        return problem_set(problem, 400, "invalid_value", "files",
                           "Invalid value for 'files': a model has at most %d files.",
                           PULL_MAX_FILES);
    if (!c->from && json_object_size(c->files) == 0)
        return problem_set(problem, 400, "missing_field", "from",
                           "The request needs 'from', the name of a model, or 'files', which have "
                           "been uploaded.");
    if (c->from && json_object_size(c->files) > 0)
        return problem_set(problem, 400, "invalid_value", "files",
                           "The request has both 'from' and 'files'.");
    return 0;
}

static int read_stop(struct store_creation *c, const json_t *value, struct problem *problem)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;

    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(one) || json_string_length(one) == 0 ||
            strlen(json_string_value(one)) != json_string_length(one) || n > MODEL_MAX_STOPS)
            return problem_set(problem, 400, "invalid_value", "parameters.stop",
                               "Invalid value for 'parameters.stop': it must be a text, or a list "
                               "of up to %d texts.",
                               MODEL_MAX_STOPS);
        c->stops[i] = json_string_value(one);
    }
    c->n_stops = n;
    return 0;
}

static int read_parameter(struct store_creation *c, const char *name, const json_t *value,
                          struct problem *problem)
{
    const int key = ollama_sampling_key(name);
    char param[80];

    snprintf(param, sizeof(param), "parameters.%.60s", name);
    if (json_is_null(value))
        return 0;
    if (strcmp(name, "stop") == 0)
        return read_stop(c, value, problem);
    if (strcmp(name, "num_ctx") == 0) {
        const json_int_t n = json_integer_value(value);

        if (n < 1 || n > MODEL_MAX_CONTEXT)
            return problem_set(problem, 400, "invalid_value", param,
                               "Invalid value for '%s': it must be a whole number from 1 to %d.",
                               param, MODEL_MAX_CONTEXT);
        c->context = (uint32_t)n;
        return 0;
    }
    if (key < 0)
        return problem_set(problem, 400, "unsupported_value", param,
                           "Unsupported value: a model cannot have '%s'.", param);
    if (!json_is_number(value) ||
        !sampling_set(&c->sampling, (enum sampling_key)key, json_number_value(value)))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': it must be a number from %g to %g.", param,
                           sampling_rows[key].min, sampling_rows[key].max);
    return 0;
}

static int read_parameters(struct store_creation *c, struct problem *problem)
{
    json_t *parameters = json_object_get(c->body, "parameters"), *value;
    const char *name;
    int r = 0;

    sampling_clear(&c->sampling);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return field_wrong_type("parameters", "an object", parameters, problem);
    json_object_foreach(parameters, name, value)
    {
        r = r < 0 ? r : read_parameter(c, name, value, problem);
    }
    return r;
}

/* Ollama's templates are in the language of Go. Such a template is replaced by a built-in template
 * with the same marks. */
static int read_template(struct store_creation *c, struct problem *problem)
{
    const char *text = NULL;
    int r = field_text(c->body, "template", &text, problem);

    if (r < 0 || !text || !text[0])
        return r;
    c->template = template_find(text) ? text : ollama_match_template(text);
    return c->template
               ? 0
               : problem_set(
                     problem, 400, "unsupported_value", "template",
                     "Unsupported value: 'template' must be the name of a built-in template "
                     "(%s), or a template with the marks of a built-in one.",
                     template_names());
}

static int read_system(struct store_creation *c, struct problem *problem)
{
    const char *text = NULL;
    const int r = field_text(c->body, "system", &text, problem);

    if (r < 0)
        return r;
    if (text && strlen(text) > MODEL_MAX_SYSTEM)
        return problem_set(problem, 400, "invalid_value", "system",
                           "Invalid value for 'system': it has %zu bytes, and a model's system "
                           "message may have %d.",
                           strlen(text), MODEL_MAX_SYSTEM);
    c->system = text && text[0] ? text : NULL;
    return 0;
}

/* Reads a message of the role user or assistant. The first message may be the system's, as another
 * way to give the field "system". */
static int read_message(struct store_creation *c, json_t *value, size_t i, struct problem *problem)
{
    static const char *const message_fields[] = {"role", "content", NULL};
    const char *role = NULL, *text = NULL;
    char prefix[32];
    int r;

    snprintf(prefix, sizeof(prefix), "messages[%zu].", i);
    if (!json_is_object(value))
        return field_wrong_type("messages", "an array of objects", value, problem);
    r = fields_known(value, prefix, message_fields, problem);
    r = r < 0 ? r : field_text(value, "role", &role, problem);
    r = r < 0 ? r : field_text(value, "content", &text, problem);
    if (r < 0)
        return r;
    if (!text || !text[0])
        return problem_set(problem, 400, "invalid_value", "messages",
                           "Invalid value for 'messages': %scontent must be a text.", prefix);
    if (role && strcmp(role, "system") == 0 && i == 0 && !c->system) {
        if (strlen(text) > MODEL_MAX_SYSTEM)
            return problem_set(problem, 400, "invalid_value", "messages",
                               "Invalid value for 'messages': %scontent has %zu bytes; the system "
                               "message may have at most %d.",
                               prefix, strlen(text), MODEL_MAX_SYSTEM);
        c->system = text;
        return 0;
    }
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return problem_set(problem, 400, "invalid_value", "messages",
                           "Invalid value for 'messages': %srole must be \"user\" or "
                           "\"assistant\"; 'system' has the system message.",
                           prefix);
    c->messages[c->n_messages++] =
        (struct model_message){.of_assistant = role[0] == 'a', .text = text};
    return 0;
}

static int read_messages(struct store_creation *c, struct problem *problem)
{
    json_t *list = json_object_get(c->body, "messages"), *value;
    size_t i, n_bytes = 0;
    int r = 0;

    if (!list || json_is_null(list))
        return 0;
    r = field_check_array(list, "messages", "an array of objects", MODEL_MAX_MESSAGES, problem);
    json_array_foreach(list, i, value)
    {
        r = r < 0 ? r : read_message(c, value, i, problem);
    }
    for (i = 0; r == 0 && i < c->n_messages; i++)
        n_bytes += strlen(c->messages[i].text);
    if (n_bytes > MODEL_MAX_MESSAGES_TEXT)
        return problem_set(problem, 400, "invalid_value", "messages",
                           "Invalid value for 'messages': their texts have %zu bytes, and those of "
                           "a model may have %d.",
                           n_bytes, MODEL_MAX_MESSAGES_TEXT);
    return r;
}

/* A licence is a short name in a manifest: the first line of the first text. */
static int read_licence(struct store_creation *c, struct problem *problem)
{
    const json_t *value = json_object_get(c->body, "license");
    const json_t *one = json_is_array(value) ? json_array_get(value, 0) : value;
    size_t n;

    if (!one || json_is_null(one))
        return 0;
    if (!json_is_string(one))
        return field_wrong_type("license", "a text or an array of texts", value, problem);
    n = MIN(strcspn(json_string_value(one), "\r\n"), sizeof(c->licence) - 1);
    memcpy(c->licence, json_string_value(one), utf8_valid_prefix(json_string_value(one), n));
    return 0;
}

int creation_new(json_t *body, struct store_creation **ret, struct problem *problem)
{
    static const char *const create_fields[] = {
        "model",  "name",       "from",     "files",    "adapters", "template", "license",
        "system", "parameters", "messages", "quantize", "stream",   NULL};
    struct store_creation *c = NEW(struct store_creation, 1);
    int r;

    if (!c)
        return problem_no_memory(problem);
    c->body = body;
    c->streams = true;
    r = refuse_others(body, problem);
    r = r < 0 ? r : fields_known(body, "", create_fields, problem);
    r = r < 0 ? r : read_name(c, problem);
    r = r < 0 ? r : field_text(body, "from", &c->from, problem);
    if (c->from && !c->from[0])
        c->from = NULL;
    r = r < 0 ? r : read_files(c, problem);
    r = r < 0 ? r : read_parameters(c, problem);
    r = r < 0 ? r : read_template(c, problem);
    r = r < 0 ? r : read_system(c, problem);
    r = r < 0 ? r : read_messages(c, problem);
    r = r < 0 ? r : read_licence(c, problem);
    r = r < 0 ? r : field_bool(body, "stream", &c->streams, problem);
    if (r < 0) {
        free(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct store_creation *creation_free(struct store_creation *c)
{
    if (c)
        json_decref(c->body);
    free(c);
    return NULL;
}

const char *creation_name(const struct store_creation *c)
{
    return c->name;
}

bool creation_streams(const struct store_creation *c)
{
    return c->streams;
}
