/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Server-sent events in an answer: each is one `data:` line with JSON */

#include "common/http/http.h"
#include "core/str.h"

#define SSE_TYPE "text/event-stream; charset=utf-8"

/* Starts the stream, with headers that keep proxies from buffering it. */
void sse_begin(struct http_request *request);
/* An event is built in a str: sse_open(), append JSON without newlines, sse_close(), then
 * sse_send(). */
int sse_open(struct str *event);
int sse_close(struct str *event);
/* Sends the event and empties the str. */
int sse_send(struct http_request *request, struct str *event);
/* Sends a comment, which clients ignore, to keep an idle connection open. */
int sse_comment(struct http_request *request);
/* Sends `data: [DONE]` and ends the stream. */
void sse_done(struct http_request *request);
/* Sends an error event and ends the stream in a way that no client takes for a clean end. */
void sse_fail(struct http_request *request, int status, const char *code, const char *message);
