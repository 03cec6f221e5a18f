/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bodies in the chunked transfer coding (RFC 9112, 7.1), read piece by piece
 *
 * Every byte is looked at once, and each verdict falls with the byte that causes it, however the
 * bytes were cut into pieces. Zeroed memory with `max` set is the beginning of a body.
 */

#include "common/http/http.h"

struct chunks {
    uint64_t max;   /* bytes of content that are accepted */
    uint64_t total; /* of the chunks so far, the present one included */
    uint64_t left;  /* of the present chunk */
    size_t n_line, n_extensions, n_trailers;
    unsigned state;
};

/* Positive conditions. */
enum {
    CHUNKS_MORE = 1, /* all was read, and the body goes on */
    CHUNKS_END,      /* the body is over; what follows @ret_used is not part of it */
    CHUNKS_BAD,      /* malformed */
    CHUNKS_LARGE,    /* a chunk that begins would exceed `max` */
    CHUNKS_TRAILERS, /* the trailer section is too large */
};

/* Reads from @data, up to the next content: 0, *ret_content lies in @data. *ret_used bytes were
 * read, whatever the result. */
int chunks_next(struct chunks *c, const char *data, size_t len, size_t *ret_used,
                struct http_text *ret_content);
