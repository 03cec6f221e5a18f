/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splits segments of text into words. A splitter is called a pre-tokenizer elsewhere.
 *
 * A splitter is a list of steps. tokenizer.json contains this list; a GGUF file contains only the
 * name of a splitter, and pre-names.c has the steps for each name. The steps that most models use
 * are hand-written, and give the same words as the regular expressions that define them.
 */

#include "tokenizer/pattern.h"
#include "tokenizer/text.h"

enum split_kind {
    SPLIT_REGEX,
    SPLIT_STRING,
    SPLIT_FAST,  /* a hand-written splitter; each match is a word */
    SPLIT_BYTES, /* ByteLevel: adds a leading space if `prepend` says so, and replaces bytes by
                    characters */
    SPLIT_METASPACE,
    SPLIT_WORDS, /* "Whitespace": \w+|[^\w\s]+ */
    SPLIT_SPACES,
    SPLIT_PUNCTUATION,
    SPLIT_DIGITS,
    SPLIT_SCRIPTS,
    SPLIT_CHAR, /* CharDelimiterSplit */
    SPLIT_LENGTH,
    SPLIT_ASCII_GROUPS, /* groups of three ASCII digits, counted from the right */
    SPLIT_GROUPS_OF_3,  /* groups of three digits, counted from the right; the first one includes
                           the text before it */
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
    SPLIT_O200K,       /* as in llama.cpp: letters beyond ASCII have no case */
    SPLIT_TEKKEN,      /* like SPLIT_O200K, but without contractions, and digits are single words */
    SPLIT_O200K_MARKS, /* like SPLIT_O200K, but marks are letters */
};

enum split_prepend {
    SPLIT_PREPEND_NEVER,
    SPLIT_PREPEND_FIRST,
    SPLIT_PREPEND_ALWAYS,
    SPLIT_PREPEND_FORCED, /* even if the text already starts with the prefix */
};

/* A step. The comment of a member names the kinds of steps that use the member. */
struct split_step {
    enum split_kind kind;
    enum split_behavior behavior;
    enum uni_version version;
    bool invert;
    bool fold; /* FAST: the contraction 's also matches 'ſ, as (?i:'s) does */
    enum split_fast fast;
    struct pattern *regex; /* owned */
    const char *text;      /* STRING, METASPACE, CHAR; borrowed */
    size_t text_len;
    enum split_prepend prepend; /* METASPACE, BYTES */
    bool split;                 /* METASPACE */
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

/* Returns the end of the word that starts at @at, which must be less than @len. */
size_t split_fast_word(const struct split_step *st, const char *s, size_t len, size_t at);
/* Returns whether there is a hand-written splitter for the expression @pattern; if so, sets *ret
 * and *ret_fold. */
bool split_fast_find(const char *pattern, size_t len, enum split_fast *ret, bool *ret_fold);
/* Returns the expression of a hand-written splitter; NULL: no expression gives exactly its words.
 */
const char *split_fast_pattern(enum split_fast fast);
