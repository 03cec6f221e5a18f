/* SPDX-License-Identifier: Apache-2.0 */
/* Answers requests for kept responses: GET and DELETE /v1/responses/{id}, GET
 * /v1/responses/{id}/input_items, and POST /v1/responses/{id}/cancel. */
#include <errno.h>
#include <string.h>

#include "keep/items.h"
#include "keep/keep.h"

#define RESPONSES_PREFIX "/v1/responses/"

/* Calls keep_begin(), and finds the response of the path. The action in the path must be one of
 * @actions. */
static int response_begin(struct keep_request *r, const char *const *actions, struct path *ret_path,
                          struct archive_entry *ret_entry, struct problem *problem)
{
    const struct http_text text = r->path;
    int e = keep_begin(r, problem);

    if (e < 0)
        return e;
    if (!path_read(text, strlen(RESPONSES_PREFIX), ret_path) || ret_path->item[0])
        return keep_end(r, path_unknown(text, problem), problem);
    while (*actions && strcmp(*actions, ret_path->action) != 0)
        actions++;
    if (!*actions)
        return keep_end(r, path_unknown(text, problem), problem);
    e = archive_find(r->keep->archive, r->tenant, ARCHIVE_RESPONSE, ret_path->id, ret_entry);
    if (e == ARCHIVE_ABSENT)
        e = keep_absent(problem, "response_id", "response", ret_path->id);
    return e == 0 ? 0 : keep_end(r, e, problem);
}

int responses_get(struct keep_request *r, struct problem *problem)
{
    static const char *const actions[] = {"", "input_items", NULL};
    struct archive_entry entry = {};
    struct path path;
    struct page page;
    int e = response_begin(r, actions, &path, &entry, problem);

    if (e < 0)
        return e;
    if (path.action[0]) {
        e = page_read(r->query, &page, problem);
        page.page.inputs_only = true;
        e = e < 0 ? e : items_put_list(r->keep->archive, entry.key, &page, &r->out);
        if (e == ARCHIVE_ABSENT)
            e = keep_absent(problem, "after", "item", page.after_id);
    } else {
        e = query_check(r->query, problem);
        e = e < 0 ? e : str_append(&r->out, entry.text.data, entry.text.len);
    }
    archive_entry_done(&entry);
    return keep_end(r, e, problem);
}

int responses_delete(struct keep_request *r, struct problem *problem)
{
    static const char *const actions[] = {"", NULL};
    struct archive_entry entry = {};
    struct path path;
    int e = response_begin(r, actions, &path, &entry, problem);

    if (e < 0)
        return e;
    e = archive_delete(r->keep->archive, entry.key);
    e = e < 0 ? e
              : str_printf(&r->out, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}",
                           path.id);
    archive_entry_done(&entry);
    return keep_end(r, e, problem);
}

/* Refuses to cancel a response. Only responses that are made in the background can be canceled, and
 * there are none here. */
int responses_post(struct keep_request *r, struct problem *problem)
{
    static const char *const actions[] = {"cancel", NULL};
    struct archive_entry entry = {};
    struct path path;
    int e = response_begin(r, actions, &path, &entry, problem);

    if (e < 0)
        return e;
    archive_entry_done(&entry);
    e = problem_set(problem, 400, "not_in_background", NULL,
                    "Cannot cancel a synchronous response: '%s' was not made with "
                    "'background': true, which is not supported here.",
                    path.id);
    return keep_end(r, e, problem);
}
