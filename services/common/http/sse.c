/* SPDX-License-Identifier: Apache-2.0 */
/* Writes streams and server-sent events. */
#include "common/http/sse.h"

void stream_begin(struct http_request *request, const char *type)
{
    http_response_header(request, "cache-control", "no-cache", 8);
    http_response_header(request, "x-accel-buffering", "no", 2);
    http_response_begin(request, type, UINT64_MAX);
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

void sse_done(struct http_request *request)
{
    if (http_response_write(request, SSE_DONE, sizeof(SSE_DONE) - 1) < 0)
        http_response_abort(request, NULL, 0);
    else
        http_response_end(request);
}
