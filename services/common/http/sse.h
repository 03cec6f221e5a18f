/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Server-sent events on an answer: each is one `data:` line with JSON. */

#include "common/http/http.h"
#include "core/str.h"

#define SSE_TYPE "text/event-stream; charset=utf-8"

/* Starts the stream, with headers that keep proxies from buffering it. */
void sse_begin(struct http_request *request);
/* Every event's text is built in one str: begin, append JSON without newlines, send. */
int sse_open(struct str *event);
int sse_close(struct str *event);
/* Sends and empties it. */
int sse_send(struct http_request *request, struct str *event);
/* A comment, which clients skip: it keeps idle connections open. */
int sse_comment(struct http_request *request);
/* `data: [DONE]`, and the end. */
void sse_done(struct http_request *request);
/* An error event, then an end that no client can take for a clean one. */
void sse_fail(struct http_request *request, int status, const char *code, const char *message);
