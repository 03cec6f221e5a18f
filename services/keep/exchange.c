/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the two requests that only the chat service sends.
 *
 * POST /keep/load finds the items that a new request continues. The body may name a response
 * ("previous") or a conversation ("conversation"), and items ("references"). The answer has the
 * items of the conversation, or of the response and all responses before it, oldest first
 * ("items"). It also has an object with the named items ("references"). POST /keep/save stores a
 * response ("response") with the items of its request ("input"). An item of `input` may lack an id.
 */
#include <errno.h>
#include <string.h>

#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/array.h"
#include "keep/items.h"
#include "keep/keep.h"

/* Limits of a request: how many responses it may continue, how many bytes the items of these
 * responses may have, and how many items the request may name. */
#define EXCHANGE_MAX_CHAIN      4096
#define EXCHANGE_MAX_BYTES      ((size_t)64 << 20)
#define EXCHANGE_MAX_REFERENCES 1024

/* Reads an optional id. *ret_id is borrowed from @body; NULL: absent. */
static int exchange_id(json_t *body, const char *name, const char **ret_id, struct problem *problem)
{
    *ret_id = NULL;
    return MIN(field_text(body, name, ret_id, problem), 0);
}

struct exchange_items {
    struct str *out;
    bool any;
};

static int exchange_each(void *data, const struct archive_item *item)
{
    struct exchange_items *items = data;

    if (items->out->len + item->len > EXCHANGE_MAX_BYTES)
        return -EFBIG;
    if (items->any && str_putc(items->out, ',') < 0)
        return -ENOMEM;
    items->any = true;
    return str_append(items->out, item->text, item->len);
}

static int exchange_put_items(struct keep_request *r, int64_t key, struct exchange_items *items)
{
    const struct archive_page page = {.limit = INT32_MAX - 1};
    const int e = archive_touch(r->keep->archive, key);

    return e < 0 ? e : archive_list(r->keep->archive, key, &page, exchange_each, items);
}

/* Writes the items of a chain of responses, each of which continues the one before it. @id is the
 * last response of the chain. */
static int chain_put(struct keep_request *r, const char *id, struct exchange_items *items,
                     struct problem *problem)
{
    _cleanup_free_ int64_t *keys = NULL;
    _cleanup_free_ char *at = strdup(id);
    size_t n = 0, cap = 0;
    int e = at ? 0 : -ENOMEM;

    while (e == 0 && *at) {
        struct archive_entry entry = {};

        e = n < EXCHANGE_MAX_CHAIN ? ARRAY_GROW(keys, cap, n + 1) : -EFBIG;
        if (e == 0)
            e = archive_find(r->keep->archive, r->tenant, ARCHIVE_RESPONSE, at, &entry);
        if (e == ARCHIVE_ABSENT)
            return problem_set(problem, 404, "previous_response_not_found", "previous_response_id",
                               "Previous response with id '%.72s' not found%s.", id,
                               n ? ": a response before it was deleted or has expired" : "");
        if (e < 0)
            break;
        keys[n++] = entry.key;
        free(at);
        at = entry.previous.len ? str_take(&entry.previous, NULL) : strdup("");
        e = at ? 0 : -ENOMEM;
        archive_entry_done(&entry);
    }
    while (e == 0 && n > 0)
        e = exchange_put_items(r, keys[--n], items);
    return e;
}

static int conversation_put(struct keep_request *r, const char *id, struct exchange_items *items,
                            struct problem *problem)
{
    struct archive_entry entry = {};
    int e = archive_find(r->keep->archive, r->tenant, ARCHIVE_CONVERSATION, id, &entry);

    if (e == ARCHIVE_ABSENT)
        return keep_absent(problem, "conversation", "conversation", id);
    e = e < 0 ? e : exchange_put_items(r, entry.key, items);
    archive_entry_done(&entry);
    return e;
}

static int references_put(struct keep_request *r, const json_t *references, struct problem *problem)
{
    json_t *id;
    size_t i;
    int e = 0;

    if (json_array_size(references) > EXCHANGE_MAX_REFERENCES)
        return problem_set(problem, 400, "invalid_value", "input",
                           "'input' has more than %d items of type \"item_reference\".",
                           EXCHANGE_MAX_REFERENCES);
    json_array_foreach(references, i, id)
    {
        const char *text = json_string_value(id);

        e = i ? str_putc(&r->out, ',') : 0;
        e = e < 0 ? e : json_put_string(&r->out, text ? text : "", text ? strlen(text) : 0);
        e = e < 0 ? e : str_putc(&r->out, ':');
        e = e < 0 ? e
                  : archive_find_item(r->keep->archive, r->tenant, 0, text ? text : "", &r->out);
        if (e == 0 && r->out.len > EXCHANGE_MAX_BYTES)
            e = -EFBIG;
        if (e == ARCHIVE_ABSENT)
            return keep_absent(problem, "input", "item", text ? text : "");
        if (e < 0)
            return e;
    }
    return 0;
}

int exchange_load(struct keep_request *r, struct problem *problem)
{
    static const char *const names[] = {"previous", "conversation", "references", NULL};
    const struct http_text text = r->body;
    struct exchange_items items = {.out = &r->out};
    _cleanup_json_ json_t *body = NULL;
    const char *previous, *conversation;
    int e;

    if ((e = fields_parse(text.data, text.len, &body, problem)) < 0 ||
        (e = fields_known(body, "", names, problem)) < 0 ||
        (e = exchange_id(body, "previous", &previous, problem)) < 0 ||
        (e = exchange_id(body, "conversation", &conversation, problem)) < 0 ||
        (e = keep_begin(r, problem)) < 0)
        return e;
    e = str_puts(&r->out, "{\"items\":[");
    if (e == 0 && previous)
        e = chain_put(r, previous, &items, problem);
    if (e == 0 && conversation)
        e = conversation_put(r, conversation, &items, problem);
    e = e < 0 ? e : str_puts(&r->out, "],\"references\":{");
    e = e < 0 ? e : references_put(r, field_find(body, "references"), problem);
    e = e < 0 ? e : str_puts(&r->out, "}}");
    if (e == -EFBIG)
        e = problem_set(problem, 400, "context_length_exceeded",
                        conversation ? "conversation" : "previous_response_id",
                        "The conversation that this request continues is too long.");
    return keep_end(r, e, problem);
}

/* Completes the items of an array, and adds them to an entry. */
static int exchange_add(struct keep_request *r, int64_t key, json_t *items, bool are_outputs,
                        struct problem *problem)
{
    json_t *item;
    size_t i;
    int e = 0;

    json_array_foreach(items, i, item)
    {
        e = item_complete(item, are_outputs ? "output" : "input", problem);
        e = e < 0 ? e : item_store(r->keep->archive, r->tenant, key, item, are_outputs);
        if (e != 0)
            return e;
    }
    return 0;
}

static int exchange_add_both(struct keep_request *r, int64_t key, json_t *input, json_t *output,
                             struct problem *problem)
{
    const int e = exchange_add(r, key, input, false, problem);

    return e != 0 ? e : exchange_add(r, key, output, true, problem);
}

static int save_response(struct keep_request *r, json_t *response, json_t *input,
                         struct problem *problem)
{
    const char *id = json_string_value(json_object_get(response, "id"));
    const char *previous = json_string_value(json_object_get(response, "previous_response_id"));
    struct str view = {};
    char *text;
    int64_t key = 0;
    int e;

    if (!id || !path_id_is_plain(id, strlen(id)))
        return problem_set(problem, 400, "invalid_value", "response", "The response has no id.");
    text = json_dumps(response, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    view = (struct str){.data = text, .len = strlen(text)};
    e = archive_add(r->keep->archive, r->tenant, ARCHIVE_RESPONSE, id, previous, view, &key);
    free(text);
    return e != 0 ? e
                  : exchange_add_both(r, key, input, json_object_get(response, "output"), problem);
}

/* Appends the items of the request and of the answer to the conversation of the response. */
static int save_conversation(struct keep_request *r, json_t *response, json_t *input,
                             struct problem *problem)
{
    json_t *conversation = json_object_get(response, "conversation");
    const char *id = json_string_value(json_object_get(conversation, "id"));
    struct archive_entry entry = {};
    int e;

    if (!id)
        return 0;
    e = archive_find(r->keep->archive, r->tenant, ARCHIVE_CONVERSATION, id, &entry);
    if (e == ARCHIVE_ABSENT)
        return keep_absent(problem, "conversation", "conversation", id);
    e = e < 0
            ? e
            : exchange_add_both(r, entry.key, input, json_object_get(response, "output"), problem);
    archive_entry_done(&entry);
    return e;
}

int exchange_save(struct keep_request *r, struct problem *problem)
{
    static const char *const names[] = {"response", "input", NULL};
    const struct http_text text = r->body;
    _cleanup_json_ json_t *body = NULL;
    json_t *response, *input;
    int e;

    if ((e = fields_parse(text.data, text.len, &body, problem)) < 0 ||
        (e = fields_known(body, "", names, problem)) < 0)
        return e;
    response = field_find(body, "response");
    input = field_find(body, "input");
    if (!json_is_object(response) || !json_is_array(input))
        return problem_set(problem, 400, "missing_field", "response",
                           "The body needs a response, and its input.");
    if ((e = keep_begin(r, problem)) < 0)
        return e;
    /* The conversation comes first, because making room for the response could delete it. */
    e = save_conversation(r, response, input, problem);
    e = e != 0 ? e : save_response(r, response, input, problem);
    e = e != 0 ? e : str_puts(&r->out, "{\"saved\":true}");
    return keep_end(r, e, problem);
}
