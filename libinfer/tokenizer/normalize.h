/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Normalizes text, step by step.
 *
 * The normalizers of tokenizer.json and of SentencePiece are lists of steps. A step is immutable
 * after it was loaded.
 */

#include "core/str.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/pattern.h"
#include "tokenizer/trie.h"

enum norm_kind {
    NORM_NFC,
    NORM_NFD,
    NORM_NFKC,
    NORM_NFKD,
    NORM_LOWERCASE,
    NORM_STRIP,
    NORM_STRIP_ACCENTS,
    NORM_REPLACE,
    NORM_PREPEND,
    NORM_BERT,
    NORM_CHARSMAP, /* applied to each grapheme cluster, as Hugging Face does */
    NORM_BYTES,
    NORM_NMT,
    NORM_SPM, /* SentencePiece's complete normalizer */
};

/* A step. The comment of a member names the kinds of steps that use the member. */
struct norm_step {
    enum norm_kind kind;
    bool left, right;                    /* STRIP */
    bool simple;                         /* LOWERCASE: simple case mapping, of one code point to one
                                            code point */
    bool clean, chinese, accents, lower; /* BERT */
    const char *needle, *content;        /* REPLACE, PREPEND */
    size_t needle_len, content_len;
    struct pattern *regex;                     /* REPLACE; owned */
    struct charsmap map;                       /* CHARSMAP, SPM; owned */
    bool prefix, suffix, merge_spaces, escape; /* SPM */
    bool lazy_prefix;                          /* SPM: the prefix stands after leading spaces */
    const struct trie *keep;                   /* SPM: pieces that are kept unchanged; or NULL */
};

#define NORM_MAX_STEPS 64

struct normalizer {
    struct norm_step *steps; /* owned */
    size_t n;
};

/* Adds a zeroed step at the end of the list. Returns NULL if there is not enough memory, or if the
 * list has NORM_MAX_STEPS steps. */
struct norm_step *normalizer_add(struct normalizer *n, enum norm_kind kind);
void normalizer_done(struct normalizer *n);

/*
 * Replaces *text with its normalized form. The first *zero bytes of *text come from the first code
 * point of the input (text.h); *zero is updated. @spare is working memory. -ENOMEM, -E2BIG.
 */
int normalizer_run(const struct normalizer *n, struct pattern_work *work, struct str *text,
                   struct str *spare, size_t *zero);

/* Returns the character that represents the byte @c in byte-level vocabularies (GPT-2's
 * encoder.py). */
uint32_t byte_char(unsigned char c);
/* Returns the byte that the character @cp represents in byte-level vocabularies, or -1. */
int char_byte(uint32_t cp);
int str_put_cp(struct str *s, uint32_t cp);
