/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes grammars in the Lark notation of libinfer (docs/grammars.md).
 *
 * The first error is kept in `error`. After an error, all functions do nothing.
 */

#include <infer/tokenizer.h>
#include <jansson.h>

#include "core/str.h"

struct lark {
    struct str out;                  /* the rule that is being written, and all rules before it */
    struct str later;                /* complete rules that the rules in `out` need */
    unsigned n_rules;                /* number of rules that lark_begin_rule() began */
    const struct inf_tokenizer *tok; /* borrowed; knows which markers are special tokens; NULL: none
                                        are */
    bool loose;                      /* lark_json() ignores keywords of a schema that it cannot
                                        enforce */
    int error;
};

void lark_puts(struct lark *l, const char *text);
void lark_printf(struct lark *l, const char *format, ...) PRINTF(2, 3);
/* Writes a literal text. */
void lark_text(struct lark *l, const char *text, size_t len);
/* Writes an expression that matches each string of an array. */
void lark_one_of(struct lark *l, const json_t *strings);
/* Writes a text, and its special tokens as tokens. NULL: writes nothing. */
void lark_marker(struct lark *l, const char *marker);
/* Writes an expression that matches the JSON values of @schema. @schema is an object or a
 * boolean. */
void lark_json(struct lark *l, const json_t *schema);
/* Writes a regular expression. */
void lark_regex(struct lark *l, const char *regex);
/* Returns whether the marker begins with a special token. In a grammar only this token, and no
 * text, matches the beginning of such a marker. */
bool lark_is_special(const struct lark *l, const char *marker);
/*
 * Adds a terminal @name that is any text without the @n markers. A NULL ends the list of markers
 * early. Markers that are special tokens need no exclusion.
 */
void lark_text_without(struct lark *l, const char *name, const char *const *markers, size_t n);
/* Begins a rule within another one. Returns the number of the new rule, whose name is r_NUMBER.
 * @saved keeps the outer rule until lark_end_rule(). */
unsigned lark_begin_rule(struct lark *l, struct str *saved);
void lark_end_rule(struct lark *l, struct str *saved);
void lark_done(struct lark *l);
