/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the types and functions that the files of the Lark reader share. */

#include "grammar/lark-lex.h"
#include "grammar/names.h"

#define LARK_MAX_TEXT   (1u << 20) /* bytes */
#define LARK_MAX_DEPTH  200
#define LARK_MAX_REPEAT 1000000000

struct lark {
    struct grammar_builder *b;
    struct lark_lexer lexer;
    struct lark_word word; /* the current word */
    struct names names;
    struct nodes *ignored; /* terminals that may stand between other terminals */
    grammar_node ignore;   /* rule of a list of ignored terminals; BUILDER_NONE: there are none */
    bool in_terminal;      /* nothing is ignored inside of terminals */
    unsigned depth;
    struct inf_err *reterr;
};

int lark_fail(const struct lark *l, const char *what);
int lark_next(struct lark *l);
bool lark_is(const struct lark *l, enum lark_kind kind, const char *text);
/* Moves to the next word if the current word is the sign @text. Returns 1 if it is, 0 if it is not,
 * or a negative errno value. */
int lark_skip(struct lark *l, const char *text);
int lark_expect(struct lark *l, const char *text);
/* Reads alternatives up to a word that cannot belong to them. */
int lark_choice(struct lark *l, grammar_node *ret_node);
/* Decodes a string with its quotes. The caller frees *ret_text. */
int lark_string(const struct lark *l, const struct lark_word *word, char **ret_text,
                size_t *ret_len);
/* Reads a grammar that is nested in @depth other grammars. */
int lark_read(struct grammar_builder *b, const char *text, size_t len, unsigned depth,
              grammar_node *ret_node, struct inf_err *reterr);
