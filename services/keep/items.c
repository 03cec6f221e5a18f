/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the items that clients send, and writes lists of items, in the format of OpenAI's
 * Conversations API (see items.h). */
#include "keep/items.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/http/request-id.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

static const struct {
    const char *type, *id_prefix;
} item_types[] = {
    {"message", "msg_"},          {"reasoning", "rs_"},
    {"function_call", "fc_"},     {"function_call_output", "fco_"},
    {"custom_tool_call", "ctc_"}, {"custom_tool_call_output", "ctco_"},
};

static const char *item_id_prefix(const json_t *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(item_types); i++)
        if (field_is(type, item_types[i].type))
            return item_types[i].id_prefix;
    return NULL;
}

static int item_check_role(json_t *item, const char *prefix, struct problem *problem)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    json_t *role = json_object_get(item, "role"), *content = json_object_get(item, "content");
    char param[96];

    for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
        if (field_is(role, roles[i])) {
            snprintf(param, sizeof(param), "%s.content", prefix);
            return json_is_string(content) || json_is_array(content)
                       ? 0
                       : problem_set(problem, 400, "invalid_type", param,
                                     "Invalid type for '%s': it must be a string or an array of "
                                     "content parts.",
                                     param);
        }
    snprintf(param, sizeof(param), "%s.role", prefix);
    return problem_set(problem, 400, "invalid_value", param,
                       "Invalid value for '%s': it must be \"user\", \"assistant\", \"system\" or "
                       "\"developer\".",
                       param);
}

/* Turns a content that is a string into an array with one part. */
static int item_complete_message(json_t *item)
{
    json_t *content = json_object_get(item, "content");
    const bool is_answer = field_is(json_object_get(item, "role"), "assistant");
    json_t *part;

    if (!json_object_get(item, "status") &&
        json_object_set_new(item, "status", json_string("completed")) < 0)
        return -ENOMEM;
    if (!json_is_string(content))
        return 0;
    part = json_object();
    if (!part ||
        json_object_set_new(part, "type", json_string(is_answer ? "output_text" : "input_text")) <
            0 ||
        json_object_set(part, "text", content) < 0 ||
        (is_answer && json_object_set_new(part, "annotations", json_array()) < 0)) {
        json_decref(part);
        return -ENOMEM;
    }
    content = json_array();
    if (json_array_append_new(content, part) < 0) {
        json_decref(content);
        return -ENOMEM;
    }
    return json_object_set_new(item, "content", content) < 0 ? -ENOMEM : 0;
}

static int item_complete_id(json_t *item, const char *id_prefix)
{
    json_t *id = json_object_get(item, "id");
    char fresh[REQUEST_ID_SIZE];

    if (json_is_string(id) && path_id_is_plain(json_string_value(id), json_string_length(id)))
        return 0;
    request_id_new(id_prefix, fresh);
    return json_object_set_new(item, "id", json_string(fresh)) < 0 ? -ENOMEM : 0;
}

int item_complete(json_t *item, const char *prefix, struct problem *problem)
{
    json_t *type;
    const char *id_prefix;
    char param[96];
    int r = 0;

    if (!json_is_object(item))
        return field_wrong_type(prefix, "an object", item, problem);
    type = field_find(item, "type");
    if (!type && json_object_set_new(item, "type", json_string("message")) < 0)
        return problem_no_memory(problem);
    id_prefix = type ? item_id_prefix(type) : "msg_";
    if (!id_prefix) {
        snprintf(param, sizeof(param), "%s.type", prefix);
        return problem_set(problem, 400, "unsupported_content", param,
                           "Items of type \"%.40s\" are not supported here.",
                           json_is_string(type) ? json_string_value(type) : "?");
    }
    if (strcmp(id_prefix, "msg_") == 0) {
        r = item_check_role(item, prefix, problem);
        if (r < 0)
            return r;
        r = item_complete_message(item);
    }
    r = r < 0 ? r : item_complete_id(item, id_prefix);
    return r < 0 ? problem_no_memory(problem) : 0;
}

int item_store(struct archive *a, const char *tenant, int64_t key, const json_t *item,
               bool is_output)
{
    _cleanup_free_ char *text = json_dumps(item, JSON_COMPACT);

    if (!text)
        return -ENOMEM;
    return archive_add_item(
        a, tenant, key,
        &(struct archive_item){.id = json_string_value(json_object_get(item, "id")),
                               .text = text,
                               .len = strlen(text),
                               .is_output = is_output});
}

struct items_list {
    struct str *out;
    size_t n, limit;
    char first[PATH_ID_SIZE], last[PATH_ID_SIZE];
    bool has_more;
};

static int list_each(void *data, const struct archive_item *item)
{
    struct items_list *list = data;

    if (list->n == list->limit) {
        list->has_more = true;
        return 0;
    }
    if (!list->n)
        snprintf(list->first, sizeof(list->first), "%s", item->id);
    snprintf(list->last, sizeof(list->last), "%s", item->id);
    if (list->n++ && str_putc(list->out, ',') < 0)
        return -ENOMEM;
    return str_append(list->out, item->text, item->len);
}

int items_put_list(struct archive *a, int64_t key, const struct page *page, struct str *out)
{
    struct items_list list = {.out = out, .limit = page->page.limit};
    int r = str_puts(out, "{\"object\":\"list\",\"data\":[");

    r = r < 0 ? r : archive_list(a, key, &page->page, list_each, &list);
    if (r != 0)
        return r;
    r = str_puts(out, "],\"first_id\":");
    r = r < 0 ? r : json_put_text(out, list.n ? list.first : NULL);
    r = r < 0 ? r : str_puts(out, ",\"last_id\":");
    r = r < 0 ? r : json_put_text(out, list.n ? list.last : NULL);
    return r < 0 ? r : str_printf(out, ",\"has_more\":%s}", list.has_more ? "true" : "false");
}
