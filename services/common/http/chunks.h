/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses bodies in the chunked transfer coding (RFC 9112, 7.1) piece by piece.
 *
 * Every byte is examined once. An error is reported at the byte that causes it, however the body is
 * split into pieces. To begin a body, zero the structure and set `max`.
 */

#include "common/http/http.h"

struct chunks {
    uint64_t max;   /* limit for the bytes of content */
    uint64_t total; /* size of all chunks so far, including the present one */
    uint64_t left;  /* remaining bytes of the present chunk */
    size_t n_line, n_extensions, n_trailers;
    unsigned state;
};

/* Positive results of chunks_next(). */
enum {
    CHUNKS_MORE = 1, /* all bytes were read, and the body continues */
    CHUNKS_END,      /* the body ends; bytes after @ret_used do not belong to it */
    CHUNKS_BAD,      /* malformed */
    CHUNKS_LARGE,    /* the new chunk would exceed `max` */
    CHUNKS_TRAILERS, /* the trailer section is too large */
};

/* Parses @data up to the end of the next piece of content. Returns 0 with *ret_content pointing
 * into @data, or a value of the enumeration above. Sets *ret_used to the number of bytes that it
 * read, whatever it returns. */
int chunks_next(struct chunks *c, const char *data, size_t len, size_t *ret_used,
                struct http_text *ret_content);
