/* SPDX-License-Identifier: Apache-2.0 */
/* Writes server-sent events in the framing of OpenAI's streams. A broken stream has no [DONE]. */
#include "common/http/sse.h"

#include "common/http/api-error.h"

void sse_begin(struct http_request *request)
{
    http_response_header(request, "cache-control", "no-cache", 8);
    http_response_header(request, "x-accel-buffering", "no", 2);
    http_response_begin(request, SSE_TYPE, UINT64_MAX);
}

int sse_open(struct str *event)
{
    return str_append(event, "data: ", 6);
}

int sse_close(struct str *event)
{
    return str_append(event, "\n\n", 2);
}

int sse_send(struct http_request *request, struct str *event)
{
    const int r = http_response_write(request, event->data, event->len);

    str_clear(event);
    return r;
}

int sse_comment(struct http_request *request)
{
    return http_response_write(request, ": keep-alive\n\n", 14);
}

void sse_done(struct http_request *request)
{
    if (http_response_write(request, "data: [DONE]\n\n", 14) < 0)
        http_response_abort(request, NULL, 0);
    else
        http_response_end(request);
}

void sse_fail(struct http_request *request, int status, const char *code, const char *message)
{
    _cleanup_str_ struct str event = {};

    if (sse_open(&event) < 0 || api_error_write(&event, status, code, NULL, message) < 0 ||
        sse_close(&event) < 0)
        str_clear(&event);
    http_response_abort(request, event.data, event.len);
}
