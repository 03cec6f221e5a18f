/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds a text while it is encoded to ids.
 *
 * A text is a buffer of bytes and an ordered list of segments of the buffer. A segment is text that
 * still must be encoded, or a token that was already found. Bytes that are in no segment are
 * dropped. A step of the tokenizer reads the list and writes a new one; some steps write a new
 * buffer as well.
 */

#include "core/macros.h"
#include "core/str.h"

struct seg {
    size_t start, len;
    int32_t id; /* ≥ 0: this token; -1: text */
};

struct segs {
    struct seg *v;
    size_t n, cap;
};

int segs_push(struct segs *s, size_t start, size_t len, int32_t id);
void segs_done(struct segs *s);

struct text {
    struct str buf;
    struct segs segs;
    /* Number of bytes at the start of buf that come from the first code point of the input. A
     * segment that begins among these bytes is the first word of the input. */
    size_t zero;
};

void text_done(struct text *t);

/* A growing list of ids with a limit. */
struct ids {
    int32_t *v;
    size_t n, cap;
    size_t max; /* 0: unlimited */
};

/* Returns 0; -E2BIG beyond the limit; or -ENOMEM. */
int ids_push(struct ids *ids, int32_t id);
