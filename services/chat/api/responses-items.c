/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the items of a request for a response into messages.
 *
 * Items of one turn of the assistant (reasoning, a message, calls) become one message, because chat
 * templates expect them in one message. Consecutive system messages become one message, because
 * many templates accept only one. The role "developer" counts as "system".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/responses-body.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define ITEMS_MAX  65536
#define ITEMS_PATH 96

struct items {
    struct conversation *conversation;
    json_t *references; /* may be NULL */
    json_t *calls;      /* object: names of tools by the ids of their calls */
    size_t room;        /* bytes that parsed arguments may still take */
    bool is_open;       /* the last message is the assistant's, and its turn goes on */
};

/* An item that is being read; `path` is its path in the body. */
struct item {
    json_t *json;
    char path[ITEMS_PATH];
};

static int item_missing(const struct item *item, const char *name, struct problem *problem)
{
    char param[ITEMS_PATH + 32];

    snprintf(param, sizeof(param), "%s.%s", item->path, name);
    return problem_set(problem, 400, "missing_field", param, "Missing required parameter: '%s'.",
                       param);
}

/* Reads the string @name. *ret_string is borrowed. The field may be absent if @may_lack is set. */
static int item_string(const struct item *item, const char *name, bool may_lack,
                       json_t **ret_string, struct problem *problem)
{
    char param[ITEMS_PATH + 32];

    *ret_string = field_find(item->json, name);
    if (!*ret_string)
        return may_lack ? 0 : item_missing(item, name, problem);
    if (json_is_string(*ret_string))
        return 0;
    snprintf(param, sizeof(param), "%s.%s", item->path, name);
    return field_wrong_type(param, "a string", *ret_string, problem);
}

static int item_fields(const struct item *item, const char *const *names, struct problem *problem)
{
    char prefix[ITEMS_PATH + 2];

    snprintf(prefix, sizeof(prefix), "%s.", item->path);
    return fields_known(item->json, prefix, names, problem);
}

/* --- texts --- */

static int part_text(json_t *part, const char *param, struct str *out, struct problem *problem)
{
    static const char *const types[] = {"input_text",     "output_text",  "text",
                                        "reasoning_text", "summary_text", "refusal"};
    static const char *const names[] = {"type", "text", "annotations", "logprobs", "refusal", NULL};
    json_t *type = json_object_get(part, "type"), *text = NULL;
    char prefix[ITEMS_PATH + 34];

    if (!json_is_object(part))
        return field_wrong_type(param, "an object", part, problem);
    if (!json_is_string(type))
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s.type'.", param);
    for (size_t i = 0; i < ARRAY_SIZE(types) && !text; i++)
        if (field_is(type, types[i]))
            text = json_object_get(part, i + 1 < ARRAY_SIZE(types) ? "text" : "refusal");
        else if (i + 1 == ARRAY_SIZE(types))
            return problem_set(problem, 400, "unsupported_content", param,
                               "Content parts of type \"%.40s\" are not supported by this model: "
                               "only text is supported.",
                               json_string_value(type));
    snprintf(prefix, sizeof(prefix), "%s.", param);
    if (fields_known(part, prefix, names, problem) < 0)
        return -EINVAL;
    if (!json_is_string(text))
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s.text', a string.", param);
    if ((out->len && str_putc(out, '\n') < 0) ||
        str_append(out, json_string_value(text), json_string_length(text)) < 0)
        return problem_no_memory(problem);
    return 0;
}

/* Reads a string or an array of parts of text. *ret_text is a new reference; NULL: the field is
 * absent, or an empty array. */
static int text_read(const struct item *item, const char *name, json_t **ret_text,
                     struct problem *problem)
{
    json_t *value = field_find(item->json, name), *part;
    _cleanup_str_ struct str text = {};
    char param[ITEMS_PATH + 32];
    size_t i;

    *ret_text = NULL;
    if (json_is_string(value)) {
        *ret_text = json_incref(value);
        return 0;
    }
    snprintf(param, sizeof(param), "%s.%s", item->path, name);
    if (value && !json_is_array(value))
        return field_wrong_type(param, "a string or an array of content parts", value, problem);
    json_array_foreach(value, i, part)
    {
        snprintf(param, sizeof(param), "%s.%s[%zu]", item->path, name, i);
        if (part_text(part, param, &text, problem) < 0)
            return -EINVAL;
    }
    if (!json_array_size(value))
        return 0;
    *ret_text = json_stringn(text.data ? text.data : "", text.len);
    return *ret_text ? 0 : problem_no_memory(problem);
}

/* Appends @text to *to after an empty line; takes over the reference @text. */
static int text_join(json_t **to, json_t *text)
{
    _cleanup_str_ struct str both = {};
    _cleanup_json_ json_t *first = *to, *second = text;
    int r = str_append(&both, json_string_value(first), json_string_length(first));

    r = r < 0 ? r : str_puts(&both, "\n\n");
    r = r < 0 ? r : str_append(&both, json_string_value(second), json_string_length(second));
    *to = r < 0 ? NULL : json_stringn(both.data, both.len);
    return *to ? 0 : -ENOMEM;
}

/* --- messages --- */

static struct message *last_message(const struct items *items)
{
    const struct conversation *c = items->conversation;

    return c->n_messages ? &c->messages[c->n_messages - 1] : NULL;
}

static int add_message(struct items *items, enum message_role role, json_t *text)
{
    struct message *m = last_message(items);

    items->is_open = role == ROLE_ASSISTANT;
    if (role == ROLE_SYSTEM && m && m->role == ROLE_SYSTEM && m->text && text)
        return text_join(&m->text, text);
    m = conversation_add(items->conversation);
    if (!m) {
        json_decref(text);
        return -ENOMEM;
    }
    m->role = role;
    m->text = text;
    return 0;
}

/* Returns the message of the assistant's current turn. Begins a turn if there is none. */
static struct message *open_turn(struct items *items)
{
    if (!items->is_open && add_message(items, ROLE_ASSISTANT, NULL) < 0)
        return NULL;
    return last_message(items);
}

static int role_read(const struct item *item, enum message_role *ret_role, struct problem *problem)
{
    static const struct {
        const char *name;
        enum message_role role;
    } roles[] = {{"user", ROLE_USER},
                 {"assistant", ROLE_ASSISTANT},
                 {"system", ROLE_SYSTEM},
                 {"developer", ROLE_SYSTEM}};
    char param[ITEMS_PATH + 8];
    json_t *role;
    int r = item_string(item, "role", false, &role, problem);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
        if (field_is(role, roles[i].name)) {
            *ret_role = roles[i].role;
            return 0;
        }
    snprintf(param, sizeof(param), "%s.role", item->path);
    return problem_set(problem, 400, "invalid_value", param,
                       "Invalid value: '%.40s'. Supported values are: 'user', 'assistant', "
                       "'system', and 'developer'.",
                       json_string_value(role));
}

static int read_message(struct items *items, const struct item *item, struct problem *problem)
{
    static const char *const names[] = {"type", "id", "role", "content", "status", "phase", NULL};
    enum message_role role = ROLE_USER;
    struct message *m;
    json_t *text;
    int r;

    if ((r = item_fields(item, names, problem)) < 0 || (r = role_read(item, &role, problem)) < 0)
        return r;
    if (!field_find(item->json, "content"))
        return item_missing(item, "content", problem);
    r = text_read(item, "content", &text, problem);
    if (r < 0)
        return r;
    if (!text && !(text = json_string("")))
        return problem_no_memory(problem);
    m = last_message(items);
    if (role == ROLE_ASSISTANT && items->is_open && !m->text && !m->n_calls)
        m->text = text;
    else if (add_message(items, role, text) < 0)
        return problem_no_memory(problem);
    return 0;
}

static int read_reasoning(struct items *items, const struct item *item, struct problem *problem)
{
    static const char *const names[] = {"type",   "id", "summary", "content", "encrypted_content",
                                        "status", NULL};
    struct message *m;
    json_t *text, *ignored;
    int r;

    if ((r = item_fields(item, names, problem)) < 0 ||
        (r = item_string(item, "encrypted_content", true, &ignored, problem)) < 0 ||
        (r = text_read(item, "content", &text, problem)) < 0)
        return r;
    if (!text && (r = text_read(item, "summary", &text, problem)) < 0)
        return r;
    m = last_message(items);
    /* Reasoning after a text or a call begins a new turn. */
    if (m && items->is_open && (m->text || m->n_calls))
        items->is_open = false;
    if (!text || !json_string_length(text)) {
        json_decref(text);
        return 0;
    }
    m = open_turn(items);
    if (!m) {
        json_decref(text);
        return problem_no_memory(problem);
    }
    if (!m->reasoning)
        m->reasoning = text;
    else if (text_join(&m->reasoning, text) < 0)
        return problem_no_memory(problem);
    return 0;
}

/* --- calls of tools --- */

static int arguments_read(struct items *items, json_t *text, const char *path,
                          json_t **ret_arguments, struct problem *problem)
{
    const int r = message_parse_arguments(text, &items->room, ret_arguments);

    if (r == -E2BIG)
        return problem_set(problem, 400, "too_many_values", path,
                           "The arguments of function calls have too many values: together they "
                           "take more than %zu MiB of memory.",
                           CONVERSATION_MAX_ARGUMENTS >> 20);
    return r < 0 ? problem_no_memory(problem) : 0;
}

json_t *responses_full_name(const char *space, const char *name)
{
    const size_t len = strlen(space);

    return json_sprintf("%s%s%s", space, len && space[len - 1] == '_' ? "" : "__", name);
}

/* Reads a call. @text_name is the field with the arguments or the input of the tool. */
static int read_call(struct items *items, const struct item *item, const char *text_name,
                     struct problem *problem)
{
    static const char *const names[] = {"type",  "id",     "call_id",   "name", "arguments",
                                        "input", "status", "namespace", NULL};
    json_t *id, *name, *text, *space, *arguments = NULL, *full;
    struct message *m;
    int r;

    if ((r = item_fields(item, names, problem)) < 0 ||
        (r = item_string(item, "call_id", false, &id, problem)) < 0 ||
        (r = item_string(item, "name", false, &name, problem)) < 0 ||
        (r = item_string(item, "namespace", true, &space, problem)) < 0 ||
        (r = item_string(item, text_name, false, &text, problem)) < 0)
        return r;
    if (strcmp(text_name, "arguments") != 0)
        arguments = json_incref(text);
    else if ((r = arguments_read(items, text, item->path, &arguments, problem)) < 0)
        return r;
    full = space ? responses_full_name(json_string_value(space), json_string_value(name))
                 : json_incref(name);
    m = full ? open_turn(items) : NULL;
    if (!m || json_object_set(items->calls, json_string_value(id), full) < 0) {
        json_decref(full);
        json_decref(arguments);
        return problem_no_memory(problem);
    }
    return message_add_call(m, json_incref(id), full, arguments) < 0 ? problem_no_memory(problem)
                                                                     : 0;
}

static int read_function_call(struct items *items, const struct item *item, struct problem *problem)
{
    return read_call(items, item, "arguments", problem);
}

static int read_custom_call(struct items *items, const struct item *item, struct problem *problem)
{
    return read_call(items, item, "input", problem);
}

static int read_call_output(struct items *items, const struct item *item, struct problem *problem)
{
    static const char *const names[] = {"type", "id", "call_id", "output", "status", "name", NULL};
    json_t *id, *text;
    struct message *m;
    int r;

    if ((r = item_fields(item, names, problem)) < 0 ||
        (r = item_string(item, "call_id", false, &id, problem)) < 0)
        return r;
    if (!field_find(item->json, "output"))
        return item_missing(item, "output", problem);
    r = text_read(item, "output", &text, problem);
    if (r < 0)
        return r;
    if ((!text && !(text = json_string(""))) || add_message(items, ROLE_TOOL, text) < 0)
        return problem_no_memory(problem);
    m = last_message(items);
    m->call_id = json_incref(id);
    m->name = json_incref(json_object_get(items->calls, json_string_value(id)));
    return 0;
}

/* --- items --- */

static int read_item(struct items *items, const struct item *item, struct problem *problem);

static int read_reference(struct items *items, const struct item *item, struct problem *problem)
{
    struct item found = {};
    json_t *id;
    const int r = item_string(item, "id", false, &id, problem);

    if (r < 0 || !items->references)
        return r;
    found.json = json_object_get(items->references, json_string_value(id));
    memcpy(found.path, item->path, sizeof(found.path));
    if (!found.json || field_is(json_object_get(found.json, "type"), "item_reference"))
        return problem_set(problem, 404, "not_found", item->path,
                           "There is no item with id '%.72s'.", json_string_value(id));
    return read_item(items, &found, problem);
}

static int read_item(struct items *items, const struct item *item, struct problem *problem)
{
    static const struct {
        const char *type;
        int (*read)(struct items *items, const struct item *item, struct problem *problem);
    } types[] = {
        {"message", read_message},
        {"reasoning", read_reasoning},
        {"function_call", read_function_call},
        {"function_call_output", read_call_output},
        {"custom_tool_call", read_custom_call},
        {"custom_tool_call_output", read_call_output},
        {"item_reference", read_reference},
    };
    json_t *type;
    char param[ITEMS_PATH + 8];

    if (!json_is_object(item->json))
        return field_wrong_type(item->path, "an object", item->json, problem);
    type = field_find(item->json, "type");
    if (!type)
        return read_message(items, item, problem);
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (field_is(type, types[i].type))
            return types[i].read(items, item, problem);
    snprintf(param, sizeof(param), "%s.type", item->path);
    if (!json_is_string(type))
        return field_wrong_type(param, "a string", type, problem);
    return problem_set(problem, 400, "unsupported_content", param,
                       "Items of type \"%.40s\" are not supported here.", json_string_value(type));
}

static int read_items(struct items *items, json_t *array, const char *name, struct problem *problem)
{
    json_t *json;
    size_t i;
    int r;

    json_array_foreach(array, i, json)
    {
        struct item item = {.json = json};

        snprintf(item.path, sizeof(item.path), "%s[%zu]", name, i);
        r = read_item(items, &item, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

int responses_items_read(const struct responses_body *body, json_t *context, json_t *references,
                         struct conversation *conversation, struct problem *problem)
{
    _cleanup_json_ json_t *calls = json_object();
    struct items items = {.conversation = conversation,
                          .references = references,
                          .calls = calls,
                          .room = CONVERSATION_MAX_ARGUMENTS};
    int r = calls ? 0 : -ENOMEM;

    if (json_array_size(body->input) + json_array_size(context) > ITEMS_MAX)
        return problem_set(problem, 400, "invalid_value", "input",
                           "'input' and the items that it continues are more than %d items.",
                           ITEMS_MAX);
    while (conversation->n_messages)
        message_done(&conversation->messages[--conversation->n_messages]);
    if (r == 0 && body->instructions)
        r = add_message(&items, ROLE_SYSTEM, json_incref(body->instructions));
    if (r < 0)
        return problem_no_memory(problem);
    r = read_items(&items, context, "previous_response_id", problem);
    return r < 0 ? r : read_items(&items, body->input, "input", problem);
}
