/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes streams in answers, and server-sent events in these streams. An event is one `data:` line
 * with JSON. */

#include "common/http/http.h"
#include "core/str.h"

#define SSE_TYPE "text/event-stream; charset=utf-8"
/* Clients ignore a comment; it keeps an idle connection open. */
#define SSE_COMMENT ": keep-alive\n\n"
/* The last event of OpenAI's streams. */
#define SSE_DONE "data: [DONE]\n\n"

/* Starts a stream of the content type @type, with headers that keep proxies from buffering it. */
void stream_begin(struct http_request *request, const char *type);
/* Functions that build an event in a str: call sse_open(), append JSON without newlines, call
 * sse_close(), then sse_send(). */
int sse_open(struct str *event);
int sse_close(struct str *event);
/* Sends the event and empties @event. */
int sse_send(struct http_request *request, struct str *event);
/* Sends SSE_DONE and ends the stream. */
void sse_done(struct http_request *request);
