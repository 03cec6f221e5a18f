/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads SentencePiece's precompiled charsmap: rules that replace a prefix of a text.
 *
 * The map is a blob: a 32-bit size, a double-array trie (Darts, units of 32 bits) with that many
 * bytes, and NUL-terminated replacements. All reads are checked, so a lookup in an invalid map
 * finds nothing.
 */

#include <infer/types.h>

#include "core/macros.h"

struct charsmap {
    unsigned char *data; /* owned */
    const unsigned char *units;
    size_t n_units;
    const char *replacements;
    size_t replacements_size;
};

/* Copies the blob. An empty blob is a map without rules. */
int charsmap_init(struct charsmap *m, const void *blob, size_t size, struct inf_err *reterr);
void charsmap_done(struct charsmap *m);
/* Finds the longest or the shortest rule for a prefix of @s. Returns the length of the prefix, or
 * 0. */
size_t charsmap_match(const struct charsmap *m, const char *s, size_t len, bool longest,
                      const char **ret_text, size_t *ret_len);
