/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cuts added tokens out of a text before the text is split into words.
 *
 * Tokens are searched from left to right. If several tokens begin at one place, the longest one is
 * cut out, as in Hugging Face's AddedVocabulary. A tokenizer has two sets of added tokens: one for
 * the raw text, and one for the normalized text.
 */

#include "tokenizer/text.h"
#include "tokenizer/trie.h"

enum added_flags {
    ADDED_SPECIAL = 1 << 0,     /* the token is only matched if special tokens are parsed */
    ADDED_LSTRIP = 1 << 1,      /* the match includes the white space before the token */
    ADDED_RSTRIP = 1 << 2,      /* the match includes the white space after the token */
    ADDED_SINGLE_WORD = 1 << 3, /* the token is not matched inside a word */
};

struct added_token {
    int32_t id;
    unsigned flags;
};

struct added {
    struct trie trie; /* the id of an item is an index into tokens */
    struct added_token *tokens;
    uint32_t n, cap;
    bool ascii_space; /* for LSTRIP and RSTRIP only ASCII characters are white space, as in
                         llama.cpp */
};

/* Adds a token to the set. @text is borrowed. */
int added_put(struct added *a, const char *text, uint32_t len, int32_t id, unsigned flags);
void added_seal(struct added *a);
void added_done(struct added *a);

/* Splits one segment of @buf into @out. */
int added_split(const struct added *a, const char *buf, struct seg seg, bool parse_special,
                struct segs *out);
