/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A text while it is encoded to ids
 *
 * Bytes in one buffer and an ordered list of segments of them. A segment is text that still must be
 * encoded, or a token that was already found. Bytes without a segment are dropped. Steps read the
 * list and write a new one; some write a new buffer too.
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
    /* This many bytes at the start of buf come from the first code point of the input. A segment
     * that begins among them is the first word of a text. */
    size_t zero;
};

void text_done(struct text *t);

/* A growing list of ids with a limit. */
struct ids {
    int32_t *v;
    size_t n, cap;
    size_t max; /* 0: unlimited */
};

/* -E2BIG beyond the limit. */
int ids_push(struct ids *ids, int32_t id);
