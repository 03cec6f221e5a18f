/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives request bodies, and limits the memory that all of them use together.
 *
 * Memory for a body with a Content-Length is reserved before the body is read. If there is not
 * enough memory, the body is rejected at once, so an accepted body never fails for lack of memory.
 * Memory for a chunked body is reserved as its chunks arrive.
 */
#include <errno.h>
#include <string.h>

#include "common/http/api-error.h"
#include "common/http/server.h"
#include "core/array.h"

/* If a request takes no body, a body of up to this many bytes is read and dropped, so that the
 * connection can be kept. */
#define BODY_MAX_DROPPED ((size_t)64 * 1024)

static void body_give_back(struct http_request *request)
{
    request->server->stats.n_body_bytes -= request->body.charged;
    request->body.charged = 0;
}

void http_body_done(struct http_request *request)
{
    body_give_back(request);
    free(request->body.data);
    request->body = (struct http_body){};
}

static bool body_charge(struct http_request *request, size_t size)
{
    struct http_server *server = request->server;

    if (size >
        server->params.max_bodies - MIN(server->stats.n_body_bytes, server->params.max_bodies))
        return false;
    server->stats.n_body_bytes += size;
    request->body.charged += size;
    return true;
}

static void body_refuse_large(struct http_request *request)
{
    const bool none = request->body.dropped;

    request->server->stats.n_malformed++;
    api_error_send(request, 413, "request_too_large", NULL, 0,
                   none ? "This request takes no body." : "The request body is too large.");
}

static void body_refuse_room(struct http_request *request)
{
    request->server->stats.n_crowded++;
    api_error_send(request, 503, "overloaded", NULL, 1,
                   "Too many request bodies are being received; try again later.");
}

static void body_refuse_chunks(struct http_request *request, int why)
{
    if (why == CHUNKS_LARGE) {
        body_refuse_large(request);
        return;
    }
    request->server->stats.n_malformed++;
    if (why == CHUNKS_TRAILERS)
        api_error_send(request, 431, "headers_too_large", NULL, 0,
                       "The trailers of the request are too large.");
    else
        api_error_send(request, 400, "bad_request", NULL, 0,
                       "The chunks of the request body are malformed.");
}

bool http_body_begin(struct http_request *request)
{
    struct http_body *body = &request->body;
    const struct head *head = &request->head;

    body->dropped = body->max == 0 && !body->streamed;
    if (body->streamed)
        body->max = SIZE_MAX;
    if (body->dropped)
        body->max = BODY_MAX_DROPPED;
    body->chunks.max = body->max;
    if (head->chunked)
        return true;
    body->left = head->content_length;
    if (body->left > body->max) {
        body_refuse_large(request);
        return false;
    }
    if (body->dropped || body->streamed)
        return true;
    body->size = (size_t)body->left;
    /* A large Content-Length alone costs no memory, because the kernel allocates pages when they
     * are written. */
    if (body_charge(request, body->size) && (body->data = malloc(body->size)))
        return true;
    body_refuse_room(request);
    return false;
}

static int body_grow(struct http_request *request, size_t more)
{
    struct http_body *body = &request->body;

    if (!body_charge(request, more))
        return -ENOBUFS;
    return ARRAY_GROW(body->data, body->size, MAX(body->len + more, (size_t)4096));
}

char *http_body_space(const struct http_request *request, size_t *ret_size)
{
    const struct http_body *body = &request->body;

    if (request->head.chunked || body->dropped || body->streamed)
        return NULL;
    *ret_size = (size_t)body->left;
    return body->data + body->len;
}

static int body_keep(struct http_request *request, struct http_text content)
{
    struct http_body *body = &request->body;
    int r;

    if (body->dropped)
        return 0;
    if (body->streamed) {
        if (content.len)
            request->events->body(request->user, content.data, content.len);
        return 0;
    }
    r = request->head.chunked ? body_grow(request, content.len) : 0;
    if (r < 0)
        return r;
    if (content.data != body->data + body->len)
        memcpy(body->data + body->len, content.data, content.len);
    body->len += content.len;
    return 0;
}

static enum http_body_result body_take_chunks(struct http_request *request, const char *data,
                                              size_t len, size_t *ret_used)
{
    struct http_text content;
    size_t at = 0, used;

    for (;;) {
        const int r = chunks_next(&request->body.chunks, data + at, len - at, &used, &content);

        at += used;
        if (r == 0 && body_keep(request, content) == 0) {
            if (request->started)
                return HTTP_BODY_ANSWERED;
            continue;
        }
        if (r == CHUNKS_MORE)
            return HTTP_BODY_MORE;
        if (r == CHUNKS_END) {
            *ret_used = at;
            return HTTP_BODY_WHOLE;
        }
        if (r)
            body_refuse_chunks(request, r);
        else
            body_refuse_room(request);
        return HTTP_BODY_ANSWERED;
    }
}

enum http_body_result http_body_take(struct http_request *request, const char *data, size_t len,
                                     size_t *ret_used)
{
    struct http_body *body = &request->body;
    const size_t n = (size_t)MIN(body->left, (uint64_t)len);

    if (request->head.chunked)
        return body_take_chunks(request, data, len, ret_used);
    body_keep(request, (struct http_text){data, n});
    if (request->started)
        return HTTP_BODY_ANSWERED;
    body->left -= n;
    if (body->left)
        return HTTP_BODY_MORE;
    *ret_used = n;
    return HTTP_BODY_WHOLE;
}
