/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the web page: GET / for browsers, and the files of the page at /page/NAME.
 *
 * The build compiles the files of services/gateway/page into this program (page/embed.py), so the
 * gateway opens no file. The files are the same for everybody and need no key; the scripts of the
 * page send a key with their own requests.
 */
#include <stdio.h>

#include "common/config/config.h"
#include "common/http/api-error.h"
#include "gateway/gateway.h"
#include "page-files.h"

/* The rules for the browser: the page loads only its own files, sends requests only to this
 * gateway, runs no script within the HTML, never makes HTML from text, and is not shown in a
 * frame. */
static const char *const page_headers[][2] = {
    {"content-security-policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"x-content-type-options", "nosniff"},
    {"x-frame-options", "DENY"},
    {"referrer-policy", "no-referrer"},
    {"permissions-policy", "microphone=(self), camera=(), geolocation=()"},
    {"cross-origin-opener-policy", "same-origin"},
    {"cross-origin-resource-policy", "same-origin"},
    {"cache-control", "no-cache"}, /* the browser keeps the file and asks whether it changed */
};

static void page_header(struct gw_request *r, const char *name, const char *value)
{
    http_response_header(r->http, name, value, strlen(value));
}

static struct http_text page_trim(struct http_text text)
{
    while (text.len && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (struct http_text){text.data + 1, text.len - 1};
    while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Takes the part before the next @separator from *rest. False: *rest was empty. */
static bool page_split(struct http_text *rest, char separator, struct http_text *ret_part)
{
    const char *end = rest->len ? memchr(rest->data, separator, rest->len) : NULL;
    const size_t len = end ? (size_t)(end - rest->data) : rest->len;

    if (!rest->len)
        return false;
    *ret_part = page_trim((struct http_text){rest->data, len});
    rest->data += len + (end != NULL);
    rest->len -= len + (end != NULL);
    return true;
}

/* Returns whether @item, an item of a list such as that in Accept, is the word @word and does not
 * have the weight 0. */
static bool page_item_names(struct http_text item, const char *word)
{
    struct http_text part;

    if (!page_split(&item, ';', &part) || !http_text_is_nocase(part, word))
        return false;
    while (page_split(&item, ';', &part))
        if (part.len > 2 && strncasecmp(part.data, "q=", 2) == 0) {
            const struct http_text weight = {part.data + 2, part.len - 2};

            for (size_t i = 0; i < weight.len; i++)
                if (weight.data[i] != '0' && weight.data[i] != '.')
                    return true;
            return false;
        }
    return true;
}

/* Returns whether the list in the header @name has the word @word. */
static bool page_header_names(const struct gw_request *r, const char *name, const char *word)
{
    struct http_text list, item;

    if (!http_request_header(r->http, name, &list))
        return false;
    while (page_split(&list, ',', &item))
        if (page_item_names(item, word))
            return true;
    return false;
}

/* Returns whether the client already has the file with @tag. */
static bool page_is_known(const struct gw_request *r, const char *tag)
{
    struct http_text list, item;

    if (!http_request_header(r->http, "if-none-match", &list))
        return false;
    while (page_split(&list, ',', &item)) {
        if (item.len > 2 && memcmp(item.data, "W/", 2) == 0)
            item = (struct http_text){item.data + 2, item.len - 2};
        if (http_text_is(item, tag) || http_text_is(item, "*"))
            return true;
    }
    return false;
}

static void page_send(struct gw_request *r, const struct page_file *file)
{
    const bool packed = page_header_names(r, "accept-encoding", "gzip");
    char tag[64];

    snprintf(tag, sizeof(tag), "\"%s%s\"", file->digest, packed ? "-gzip" : "");
    for (size_t i = 0; i < ARRAY_SIZE(page_headers); i++)
        page_header(r, page_headers[i][0], page_headers[i][1]);
    page_header(r, "etag", tag);
    page_header(r, "vary", "accept, accept-encoding");
    if (page_is_known(r, tag)) {
        http_respond(r->http, 304, NULL, NULL, 0);
        return;
    }
    if (packed)
        page_header(r, "content-encoding", "gzip");
    http_respond(r->http, 200, file->type, packed ? file->gzip : file->plain,
                 packed ? file->n_gzip : file->n_plain);
}

static const struct page_file *page_find(struct http_text name)
{
    for (size_t i = 0; i < ARRAY_SIZE(page_files); i++)
        if (http_text_is(name, page_files[i].name))
            return &page_files[i];
    return NULL;
}

void gw_page(struct gw_request *r)
{
    static const char greeting[] = "sconce\n";
    const bool on = r->gateway->config->gateway.page;
    const struct page_file *file = on && page_header_names(r, "accept", "text/html")
                                       ? page_find((struct http_text){"index.html", 10})
                                       : NULL;

    if (file) {
        page_send(r, file);
        return;
    }
    if (on)
        page_header(r, "vary", "accept, accept-encoding");
    http_respond(r->http, 200, "text/plain; charset=utf-8", greeting, sizeof(greeting) - 1);
}

void gw_page_file(struct gw_request *r)
{
    const struct http_text path = http_request_path(r->http);
    const size_t n = strlen("/page/");
    const struct page_file *file = r->gateway->config->gateway.page
                                       ? page_find((struct http_text){path.data + n, path.len - n})
                                       : NULL;

    if (file)
        page_send(r, file);
    else
        api_error_send(r->http, 404, "unknown_url", NULL, 0, "Unknown request URL: GET %.*s.",
                       (int)MIN(path.len, 200u), path.data);
}
