/* SPDX-License-Identifier: Apache-2.0 */
/* Answers requests for conversations: /v1/conversations, /v1/conversations/{id} and their items, in
 * the format of OpenAI's Conversations API. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/http/request-id.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/tenant.h"
#include "keep/items.h"
#include "keep/keep.h"

#define CONVERSATIONS_PREFIX       "/v1/conversations/"
#define CONVERSATIONS_MAX_ITEMS    20 /* limit of items in one request */
#define CONVERSATIONS_MAX_METADATA 16

static int put_conversation(struct str *out, const char *id, int64_t created, struct str metadata)
{
    return str_printf(out,
                      "{\"id\":\"%s\",\"object\":\"conversation\",\"created_at\":%lld,"
                      "\"metadata\":%s}",
                      id, (long long)created, metadata.data ? metadata.data : "{}");
}

/* Writes the metadata of a body as JSON text. */
static int metadata_read(json_t *body, struct str *out, struct problem *problem)
{
    json_t *metadata = field_find(body, "metadata"), *value;
    _cleanup_free_ char *text = NULL;
    const char *name;

    if (!metadata)
        return str_puts(out, "{}") < 0 ? problem_no_memory(problem) : 0;
    if (!json_is_object(metadata))
        return field_wrong_type("metadata", "an object", metadata, problem);
    if (json_object_size(metadata) > CONVERSATIONS_MAX_METADATA)
        return problem_set(problem, 400, "invalid_value", "metadata",
                           "'metadata' has more than %d entries.", CONVERSATIONS_MAX_METADATA);
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value))
            return field_wrong_type("metadata", "strings", value, problem);
        if (strlen(name) > 64 || json_string_length(value) > 512)
            return problem_set(problem, 400, "invalid_value", "metadata",
                               "A name in 'metadata' has more than 64 bytes, or a value has more "
                               "than 512 bytes.");
    }
    text = json_dumps(metadata, JSON_COMPACT);
    return !text || str_puts(out, text) < 0 ? problem_no_memory(problem) : 0;
}

/* Checks the items of a body and completes them. */
static int items_read(json_t *items, struct problem *problem)
{
    json_t *item;
    size_t i;

    if (field_check_array(items, "items", "an array", CONVERSATIONS_MAX_ITEMS, problem) < 0)
        return -EINVAL;
    json_array_foreach(items, i, item)
    {
        char prefix[32];
        int r;

        snprintf(prefix, sizeof(prefix), "items[%zu]", i);
        r = item_complete(item, prefix, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

static int items_add(struct keep_request *r, int64_t key, json_t *items)
{
    json_t *item;
    size_t i;
    int e = 0;

    json_array_foreach(items, i, item)
    {
        e = item_store(r->keep->archive, r->tenant, key, item, false);
        if (e != 0)
            return e;
    }
    return 0;
}

static int body_read(struct keep_request *r, const char *const *names, json_t **ret_body,
                     struct problem *problem)
{
    const struct http_text body = r->body;
    int e;

    if (!body.len) {
        *ret_body = json_object();
        return *ret_body ? 0 : problem_no_memory(problem);
    }
    e = fields_parse(body.data, body.len, ret_body, problem);
    return e < 0 ? e : fields_known(*ret_body, "", names, problem);
}

int conversations_create(struct keep_request *r, struct problem *problem)
{
    static const char *const names[] = {"metadata", "items", NULL};
    _cleanup_json_ json_t *body = NULL;
    _cleanup_str_ struct str metadata = {};
    json_t *items;
    char id[REQUEST_ID_SIZE];
    int64_t key = 0;
    int e;

    if ((e = body_read(r, names, &body, problem)) < 0 ||
        (e = metadata_read(body, &metadata, problem)) < 0)
        return e;
    if (tenant_is_alone(r->tenant))
        return problem_set(problem, 400, "no_identity", NULL,
                           "Conversations are kept only for clients with an API key, and for users "
                           "of the unix socket.");
    items = field_find(body, "items");
    if ((items && (e = items_read(items, problem)) < 0) || (e = keep_begin(r, problem)) < 0)
        return e;
    request_id_new("conv_", id);
    e = archive_add(r->keep->archive, r->tenant, ARCHIVE_CONVERSATION, id, NULL, metadata, &key);
    e = e != 0 || !items ? e : items_add(r, key, items);
    e = e != 0 ? e : put_conversation(&r->out, id, r->now, metadata);
    return keep_end(r, e, problem);
}

/* Begins a change, and finds the conversation of the path. */
static int conversation_begin(struct keep_request *r, struct path *ret_path,
                              struct archive_entry *ret_entry, struct problem *problem)
{
    const struct http_text text = r->path;
    int e;

    if (!path_read(text, strlen(CONVERSATIONS_PREFIX), ret_path) ||
        (ret_path->action[0] && strcmp(ret_path->action, "items") != 0))
        return path_unknown(text, problem);
    e = keep_begin(r, problem);
    if (e < 0)
        return e;
    e = archive_find(r->keep->archive, r->tenant, ARCHIVE_CONVERSATION, ret_path->id, ret_entry);
    e = e != 0 ? e : archive_touch(r->keep->archive, ret_entry->key);
    if (e == ARCHIVE_ABSENT)
        e = keep_absent(problem, "conversation_id", "conversation", ret_path->id);
    if (e < 0) {
        archive_entry_done(ret_entry);
        return keep_end(r, e, problem);
    }
    return 0;
}

int conversations_get(struct keep_request *r, struct problem *problem)
{
    struct archive *archive = r->keep->archive;
    struct archive_entry entry = {};
    struct path path;
    struct page page = {};
    int e = conversation_begin(r, &path, &entry, problem);

    if (e < 0)
        return e;
    if (path.item[0]) {
        e = archive_find_item(archive, r->tenant, entry.key, path.item, &r->out);
        if (e == ARCHIVE_ABSENT)
            e = keep_absent(problem, "item_id", "item", path.item);
    } else if (path.action[0]) {
        e = page_read(r->query, &page, problem);
        e = e < 0 ? e : items_put_list(archive, entry.key, &page, &r->out);
        if (e == ARCHIVE_ABSENT)
            e = keep_absent(problem, "after", "item", page.after_id);
    } else {
        e = put_conversation(&r->out, path.id, entry.created, entry.text);
    }
    archive_entry_done(&entry);
    return keep_end(r, e, problem);
}

/* Writes the list of the items that were just added. */
static int put_added(struct str *out, const json_t *items)
{
    _cleanup_free_ char *text = json_dumps(items, JSON_COMPACT);
    const size_t n = json_array_size(items);
    const json_t *first = json_object_get(json_array_get(items, 0), "id");
    const json_t *last = json_object_get(json_array_get(items, n ? n - 1 : 0), "id");
    int r =
        text ? str_printf(out, "{\"object\":\"list\",\"data\":%s,\"first_id\":", text) : -ENOMEM;

    r = r < 0 ? r : json_put_text(out, json_string_value(first));
    r = r < 0 ? r : str_puts(out, ",\"last_id\":");
    r = r < 0 ? r : json_put_text(out, json_string_value(last));
    return r < 0 ? r : str_puts(out, ",\"has_more\":false}");
}

/* Adds items, or replaces the metadata. */
int conversations_post(struct keep_request *r, struct problem *problem)
{
    static const char *const item_names[] = {"items", NULL}, *const names[] = {"metadata", NULL};
    _cleanup_json_ json_t *body = NULL;
    _cleanup_str_ struct str metadata = {};
    struct archive_entry entry = {};
    struct path path;
    json_t *items;
    int e = conversation_begin(r, &path, &entry, problem);

    if (e < 0)
        return e;
    e = path.item[0] ? path_unknown(r->path, problem)
                     : body_read(r, path.action[0] ? item_names : names, &body, problem);
    items = field_find(body, "items");
    if (e == 0 && path.action[0]) {
        e = items ? items_read(items, problem)
                  : problem_set(problem, 400, "missing_field", "items",
                                "Missing required parameter: 'items'.");
        e = e < 0 ? e : items_add(r, entry.key, items);
        e = e != 0 ? e : put_added(&r->out, items);
    } else if (e == 0) {
        e = metadata_read(body, &metadata, problem);
        e = e < 0 ? e : archive_replace(r->keep->archive, r->tenant, entry.key, metadata);
        e = e != 0 ? e : put_conversation(&r->out, path.id, entry.created, metadata);
    }
    archive_entry_done(&entry);
    return keep_end(r, e, problem);
}

int conversations_delete(struct keep_request *r, struct problem *problem)
{
    struct archive *archive = r->keep->archive;
    struct archive_entry entry = {};
    struct path path;
    int e = conversation_begin(r, &path, &entry, problem);

    if (e < 0)
        return e;
    if (path.item[0]) {
        e = archive_delete_item(archive, entry.key, path.item);
        if (e == ARCHIVE_ABSENT)
            e = keep_absent(problem, "item_id", "item", path.item);
        e = e < 0 ? e : put_conversation(&r->out, path.id, entry.created, entry.text);
    } else if (path.action[0]) {
        e = path_unknown(r->path, problem);
    } else {
        e = archive_delete(archive, entry.key);
        e = e < 0 ? e
                  : str_printf(&r->out,
                               "{\"id\":\"%s\",\"object\":\"conversation.deleted\","
                               "\"deleted\":true}",
                               path.id);
    }
    archive_entry_done(&entry);
    return keep_end(r, e, problem);
}
