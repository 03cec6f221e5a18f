/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splitters (pre-tokenizers): segments of text into words
 *
 * A splitter is a list of steps. tokenizer.json lists them; a GGUF file only names its splitter,
 * and pre-names.c has the steps. The steps that most models use are hand-written. They give the
 * same words as the regular expressions that define them.
 */

#include "tokenizer/pattern.h"
#include "tokenizer/text.h"

enum split_kind {
    SPLIT_REGEX,
    SPLIT_STRING,
    SPLIT_FAST,  /* a hand-written splitter, isolated */
    SPLIT_BYTES, /* ByteLevel: optionally a leading space, then bytes as characters */
    SPLIT_METASPACE,
    SPLIT_WORDS, /* "Whitespace": \w+|[^\w\s]+ */
    SPLIT_SPACES,
    SPLIT_PUNCTUATION,
    SPLIT_DIGITS,
    SPLIT_SCRIPTS,
    SPLIT_CHAR, /* CharDelimiterSplit */
    SPLIT_LENGTH,
    SPLIT_ASCII_GROUPS, /* ASCII digits in groups of three from the right */
    SPLIT_GROUPS_OF_3,  /* digits from the right, including the text before them */
};

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT,
    SPLIT_CONTIGUOUS,
};

/* The hand-written splitters. They differ in how letters and digits are grouped. */
enum split_fast {
    SPLIT_GPT2,
    SPLIT_LLAMA3,
    SPLIT_QWEN2,
    SPLIT_QWEN35,
    SPLIT_O200K,       /* as in llama.cpp: beyond ASCII, letters have no case */
    SPLIT_TEKKEN,      /* as O200K, without contractions, with single digits */
    SPLIT_O200K_MARKS, /* marks are letters */
};

enum split_prepend {
    SPLIT_PREPEND_NEVER,
    SPLIT_PREPEND_FIRST,
    SPLIT_PREPEND_ALWAYS,
    SPLIT_PREPEND_FORCED, /* even if the text already starts with it */
};

struct split_step {
    enum split_kind kind;
    enum split_behavior behavior;
    enum uni_version version;
    bool invert;
    bool fold; /* FAST: 's also matches 'ſ, as (?i:'s) does */
    enum split_fast fast;
    struct pattern *regex; /* owned */
    const char *text;      /* STRING, METASPACE, CHAR; borrowed */
    size_t text_len;
    enum split_prepend prepend; /* METASPACE, BYTES */
    bool split;                 /* METASPACE */
    bool individual;            /* DIGITS */
    size_t length;              /* LENGTH */
};

#define SPLIT_MAX_STEPS 64

struct splitter {
    struct split_step *steps; /* owned */
    size_t n;
};

struct split_step *splitter_add(struct splitter *s, enum split_kind kind);
void splitter_done(struct splitter *s);
/* Replaces the segments of @text. @spare is working memory. -ENOMEM, -E2BIG. */
int splitter_run(const struct splitter *s, struct pattern_work *work, struct text *text,
                 struct text *spare);

/* The end of the word that starts at @at, which must be less than @len. */
size_t split_fast_word(const struct split_step *st, const char *s, size_t len, size_t at);
/* Whether @pattern is one of the hand-written splitters; if so, sets *ret. */
bool split_fast_find(const char *pattern, size_t len, enum split_fast *ret, bool *ret_fold);
