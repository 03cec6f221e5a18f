/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Added tokens, which are cut out of a text before all other steps
 *
 * Leftmost first, longest first, as Hugging Face's AddedVocabulary does. Two sets may run one after
 * the other: one over the raw text, one over the normalized text.
 */

#include "tokenizer/text.h"
#include "tokenizer/trie.h"

enum added_flags {
    ADDED_SPECIAL = 1 << 0, /* only matched if special tokens are parsed */
    ADDED_LSTRIP = 1 << 1,  /* includes white space before it */
    ADDED_RSTRIP = 1 << 2,
    ADDED_SINGLE_WORD = 1 << 3, /* not inside a word */
};

struct added_token {
    int32_t id;
    unsigned flags;
};

struct added {
    struct trie trie; /* an id is an index into tokens */
    struct added_token *tokens;
    uint32_t n, cap;
    bool ascii_space; /* only ASCII white space is included, as in llama.cpp */
};

/* @text is borrowed. */
int added_put(struct added *a, const char *text, uint32_t len, int32_t id, unsigned flags);
void added_seal(struct added *a);
void added_done(struct added *a);

/* Splits one segment of @buf into @out. */
int added_split(const struct added *a, const char *buf, struct seg seg, bool parse_special,
                struct segs *out);
