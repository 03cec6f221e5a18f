/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Splits a text in Lark's notation into words. */

#include "core/macros.h"
#include "grammar/builder.h"

enum lark_kind {
    LARK_END,  /* end of the text */
    LARK_LINE, /* end of a statement: the end of a line that the next line does not continue */
    LARK_NAME, /* letters, digits and "_"; begins with no digit */
    LARK_NUMBER,
    LARK_STRING,    /* a string with its quotes */
    LARK_REGEX,     /* a regular expression with its slashes */
    LARK_TOKEN,     /* a token with its angle brackets */
    LARK_DIRECTIVE, /* a directive with its percent sign */
    LARK_BLOCK,     /* a text in braces after a directive, with its braces */
    LARK_SIGN,      /* one other character, or ".." or "->" */
};

struct lark_word {
    enum lark_kind kind;
    unsigned line;
    const char *text;
    size_t len;
    const char *flags; /* the letters after a string or a regular expression */
    size_t n_flags;
};

struct lark_lexer {
    const char *text;
    size_t len, at;
    unsigned line, brackets, depth; /* depth: blocks around the text */
    bool wants_block;               /* the last word is a directive that is followed by a block */
    struct inf_err *reterr;
};

/* Reads the next word. -EINVAL. */
int lark_lex(struct lark_lexer *l, struct lark_word *ret_word);
