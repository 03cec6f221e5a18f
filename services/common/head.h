/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head of an HTTP/1.x request, checked strictly before the HTTP library sees it
 *
 * What two parsers could read differently (two lengths, a length beside a transfer coding, folded
 * lines, space before a colon) is refused; limits are answered with a status of their own.
 */

#include "core/macros.h"

struct head_limits {
    size_t max_header;
    size_t max_body;
};

struct head {
    size_t size; /* bytes, with the empty line */
    uint64_t content_length;
    bool has_length, chunked;
    int status;          /* of the refusal, else 0 */
    const char *code;    /* static: what error.code says */
    const char *message; /* static: one sentence */
};

/* Positive conditions. */
enum {
    HEAD_INCOMPLETE = 1,
    HEAD_REFUSED = 2, /* status, code and message say why */
};

/* 0: a whole head; *ret_head is filled. HEAD_REFUSED fills status, code and message. */
int head_check(const char *data, size_t len, const struct head_limits *limits,
               struct head *ret_head);
