/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses heads of HTTP/1.x requests and answers, and checks them strictly.
 *
 * Anything that two parsers could read differently is refused (two lengths, a length beside a
 * transfer coding, folded lines, space before a colon). A request that exceeds a limit is refused
 * with the status of that limit, such as 414.
 */

#include "common/http/http.h"

#define HEAD_MAX_HEADERS 100

struct head {
    size_t size; /* bytes, including the empty line */
    /* The parsed part of the head, which is also set for a refused head. The texts point into the
     * data. */
    struct http_text method, target; /* set for a request */
    struct http_header headers[HEAD_MAX_HEADERS];
    size_t n_headers;
    int status; /* set for an answer */
    uint64_t content_length;
    bool http10, has_length, chunked;
    bool continues; /* set for a request whose sender waits for 100 Continue */
    bool closes;    /* set for an answer after which the connection closes */
    struct {
        int status;
        const char *code;    /* static: the value of error.code */
        const char *message; /* static: one sentence */
    } refusal;               /* set after HEAD_REFUSED */
};

/* Positive results of the functions that check heads. */
enum {
    HEAD_INCOMPLETE = 1,
    HEAD_REFUSED = 2, /* see `refusal` */
};

/* Parses the head of a request, which may have at most @max_header bytes. Returns 0 if the head is
 * complete. */
int head_check(const char *data, size_t len, size_t max_header, struct head *ret_head);
/* Parses the head of an answer. @to_head: the request's method was HEAD. An answer with a body must
 * say where the body ends. */
int head_check_answer(const char *data, size_t len, size_t max_header, bool to_head,
                      struct head *ret_head);
/* Copies @from without the unused headers. */
void head_copy(struct head *to, const struct head *from);
/* Returns whether a valid answer has content. @to_head: the request's method was HEAD. */
bool head_has_content(const struct head *answer, bool to_head);
/* Returns whether @c may occur in methods and names (RFC 9110, 5.6.2). */
bool head_is_token(char c);
