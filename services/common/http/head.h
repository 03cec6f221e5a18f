/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Heads of HTTP/1.x requests and answers, checked strictly before anything acts on them
 *
 * What two parsers could read differently (two lengths, a length beside a transfer coding, folded
 * lines, space before a colon) is refused; limits have a status of their own.
 */

#include "common/http/http.h"

#define HEAD_MAX_HEADERS 100

struct head {
    size_t size; /* bytes, with the empty line */
    /* As far as they were read, also of a head that is refused; point into the data. */
    struct http_text method, target; /* of a request */
    struct http_header headers[HEAD_MAX_HEADERS];
    size_t n_headers;
    int status; /* of an answer */
    uint64_t content_length;
    bool http10, has_length, chunked;
    bool continues; /* a request whose sender waits for 100 Continue */
    bool closes;    /* an answer after which the connection ends */
    struct {
        int status;
        const char *code;    /* static: what error.code says */
        const char *message; /* static: one sentence */
    } refusal;               /* why, after HEAD_REFUSED */
};

/* Positive conditions. */
enum {
    HEAD_INCOMPLETE = 1,
    HEAD_REFUSED = 2, /* refusal says why */
};

/* A request's head of at most @max_header bytes. 0: it is whole. */
int head_check(const char *data, size_t len, size_t max_header, struct head *ret_head);
/* The head of an answer to a request whose method is HEAD, or another. An answer with a body must
 * say where that ends. */
int head_check_answer(const char *data, size_t len, size_t max_header, bool to_head,
                      struct head *ret_head);
/* Copies what @from holds, which is less than its size. */
void head_copy(struct head *to, const struct head *from);
/* Whether an answer has content, after a head that passed. */
bool head_has_content(const struct head *answer, bool to_head);
/* The characters of methods and names (RFC 9110, 5.6.2). */
bool head_is_token(char c);
