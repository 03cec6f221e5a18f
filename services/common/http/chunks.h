/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bodies in the chunked transfer coding (RFC 9112, 7.1), parsed piece by piece
 *
 * Every byte is examined once. An error is reported at the byte that causes it, regardless of how
 * the body was split. To begin a body, zero the structure and set `max`.
 */

#include "common/http/http.h"

struct chunks {
    uint64_t max;   /* limit of bytes of content */
    uint64_t total; /* size of all chunks so far, including the present one */
    uint64_t left;  /* remaining bytes of the present chunk */
    size_t n_line, n_extensions, n_trailers;
    unsigned state;
};

/* Positive conditions. */
enum {
    CHUNKS_MORE = 1, /* all was read, and the body continues */
    CHUNKS_END,      /* the body ends; bytes after @ret_used do not belong to it */
    CHUNKS_BAD,      /* malformed */
    CHUNKS_LARGE,    /* the new chunk would exceed `max` */
    CHUNKS_TRAILERS, /* the trailer section is too large */
};

/* Parses @data up to the next content: returns 0, and *ret_content points into @data. *ret_used
 * bytes were read, whatever the result. */
int chunks_next(struct chunks *c, const char *data, size_t len, size_t *ret_used,
                struct http_text *ret_content);
