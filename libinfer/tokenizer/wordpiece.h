/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splits words into pieces, from left to right, and takes the longest possible piece each time
 * (WordPiece), or looks up whole words (WordLevel).
 */

#include "tokenizer/text.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

struct wordpiece {
    const struct vocab *vocab;
    struct trie first; /* pieces that may start a word */
    struct trie next;  /* pieces that continue a word, stored without their prefix */
    int32_t unknown;
    size_t max_chars; /* longer words are unknown */
    bool whole;       /* WordLevel */
    bool skip_words;  /* llama.cpp: an unknown word gives nothing if there is no unknown token */
};

/* Pieces with the prefix @prefix continue a word; if @prefix is empty, all pieces can continue a
 * word. */
int wordpiece_init(struct wordpiece *w, const struct vocab *vocab, const char *prefix,
                   size_t prefix_len);
void wordpiece_done(struct wordpiece *w);
/* -EINVAL if a word is unknown, the model has no unknown token, and skip_words is false. */
int wordpiece_encode(const struct wordpiece *w, const char *word, size_t len, struct ids *out);
