/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the paths and queries of requests (see path.h). */
#include "keep/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE_DEFAULT 20
#define PAGE_MAX     100

static bool path_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

bool path_id_is_plain(const char *id, size_t len)
{
    if (len == 0 || len >= PATH_ID_SIZE)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!path_is_plain(id[i]))
            return false;
    return true;
}

bool path_read(struct http_text text, size_t prefix_len, struct path *ret_path)
{
    struct path path = {};
    const struct {
        char *part;
        size_t size;
    } parts[] = {{path.id, sizeof(path.id)},
                 {path.action, sizeof(path.action)},
                 {path.item, sizeof(path.item)}};
    size_t at = prefix_len;

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        size_t len = 0;

        while (at + len < text.len && text.data[at + len] != '/')
            len++;
        if (!path_id_is_plain(text.data + at, len) || len >= parts[i].size)
            return false;
        memcpy(parts[i].part, text.data + at, len);
        parts[i].part[len] = 0;
        at += len;
        if (at == text.len) {
            *ret_path = path;
            return true;
        }
        at++;
    }
    return false;
}

int path_unknown(struct http_text path, struct problem *problem)
{
    return problem_set(problem, 404, "unknown_url", NULL, "Unknown request URL: %.*s.",
                       (int)MIN(path.len, 200u), path.data);
}

/* A parameter of a query: NAME=VALUE. */
struct parameter {
    struct http_text name, value;
};

/* Removes the first parameter from @query. Returns false if there is none. */
static bool parameter_next(struct http_text *query, struct parameter *ret_parameter)
{
    const char *end, *equals;
    size_t len;

    if (!query->len)
        return false;
    end = memchr(query->data, '&', query->len);
    len = end ? (size_t)(end - query->data) : query->len;
    equals = memchr(query->data, '=', len);
    ret_parameter->name.data = query->data;
    ret_parameter->name.len = equals ? (size_t)(equals - query->data) : len;
    ret_parameter->value.data = equals ? equals + 1 : query->data + len;
    ret_parameter->value.len = (size_t)(query->data + len - ret_parameter->value.data);
    len += end ? 1 : 0;
    query->data += len;
    query->len -= len;
    return true;
}

static int parameter_refuse(const struct parameter *p, const char *rule, struct problem *problem)
{
    char name[40];

    snprintf(name, sizeof(name), "%.*s", (int)MIN(p->name.len, sizeof(name) - 1), p->name.data);
    if (!rule)
        return problem_set(problem, 400, "unknown_parameter", name,
                           "Unknown parameter: '%s' is not a parameter of this query.", name);
    return problem_set(problem, 400, "invalid_value", name,
                       "Invalid value for '%s': it must be %s.", name, rule);
}

/* Returns whether the parameter is `include`, or empty. Clients write the brackets of `include[]`
 * as they are, or percent-encoded. */
static bool parameter_is_include(const struct parameter *p)
{
    return http_text_is(p->name, "include") || http_text_is(p->name, "include[]") ||
           http_text_is_nocase(p->name, "include%5B%5D") || p->name.len == 0;
}

static int page_read_limit(const struct parameter *p, size_t *ret_limit, struct problem *problem)
{
    size_t limit = 0;

    for (size_t i = 0; i < p->value.len && limit <= PAGE_MAX; i++) {
        if (p->value.data[i] < '0' || p->value.data[i] > '9')
            return parameter_refuse(p, "a number from 1 to 100", problem);
        limit = limit * 10 + (size_t)(p->value.data[i] - '0');
    }
    if (limit < 1 || limit > PAGE_MAX)
        return parameter_refuse(p, "a number from 1 to 100", problem);
    *ret_limit = limit;
    return 0;
}

static int page_read_one(const struct parameter *p, struct page *page, struct problem *problem)
{
    if (http_text_is(p->name, "limit"))
        return page_read_limit(p, &page->page.limit, problem);
    if (http_text_is(p->name, "order")) {
        page->page.descending = http_text_is(p->value, "desc");
        return page->page.descending || http_text_is(p->value, "asc")
                   ? 0
                   : parameter_refuse(p, "\"asc\" or \"desc\"", problem);
    }
    if (!http_text_is(p->name, "after"))
        return parameter_is_include(p) ? 0 : parameter_refuse(p, NULL, problem);
    if (!path_id_is_plain(p->value.data, p->value.len))
        return parameter_refuse(p, "the id of an item", problem);
    memcpy(page->after_id, p->value.data, p->value.len);
    page->after_id[p->value.len] = 0;
    return 0;
}

int page_read(struct http_text query, struct page *ret_page, struct problem *problem)
{
    struct parameter p;

    *ret_page = (struct page){.page = {.descending = true, .limit = PAGE_DEFAULT}};
    while (parameter_next(&query, &p)) {
        const int r = page_read_one(&p, ret_page, problem);

        if (r < 0)
            return r;
    }
    if (ret_page->after_id[0])
        ret_page->page.after = ret_page->after_id;
    return 0;
}

int query_check(struct http_text query, struct problem *problem)
{
    struct parameter p;

    while (parameter_next(&query, &p)) {
        if (parameter_is_include(&p) || http_text_is(p.name, "include_obfuscation"))
            continue;
        if (!http_text_is(p.name, "stream"))
            return parameter_refuse(&p, NULL, problem);
        if (!http_text_is(p.value, "false"))
            return parameter_refuse(&p, "false: kept responses are not streamed", problem);
    }
    return 0;
}
