/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words by the longest pieces from the left (WordPiece), or whole (WordLevel)
 */

#include "tokenizer/text.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

struct wordpiece {
    const struct vocab *vocab;
    struct trie first; /* pieces that may start a word, as they are */
    struct trie next;  /* pieces behind the prefix, without it */
    int32_t unknown;
    size_t max_chars; /* longer words are unknown */
    bool whole;       /* WordLevel */
    bool skip_words;  /* llama.cpp: an unknown word without an unknown token leaves nothing */
};

/* @prefix starts the pieces that continue a word; with none, all pieces do. */
int wordpiece_init(struct wordpiece *w, const struct vocab *vocab, const char *prefix,
                   size_t prefix_len);
void wordpiece_done(struct wordpiece *w);
/* -EINVAL when a word is unknown and the model has no unknown token. */
int wordpiece_encode(const struct wordpiece *w, const char *word, size_t len, struct ids *out);
