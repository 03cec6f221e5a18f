/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A grammar of bytes for tests: accepts texts, and writes random ones. */

#include "core/str.h"
#include "grammar/automaton.h"

struct text_grammar {
    struct program *program;
    struct automaton automaton;
};

/* Compiles a JSON Schema. Errors as inf_grammar_new(). */
int text_grammar_init(struct text_grammar *g, const char *schema, size_t len, bool loose,
                      struct inf_err *reterr);
void text_grammar_done(struct text_grammar *g);
/* Returns how many bytes of the text may be written; *ret_complete: the text is whole. */
size_t text_grammar_follow(struct text_grammar *g, const char *text, size_t len,
                           bool *ret_complete);
/* Appends a random text of the grammar; behind @budget bytes it tries to come to an end. Returns
 * false if there is no end within 50 times the budget, or if the text comes to a dead end. */
bool text_grammar_walk(struct text_grammar *g, uint64_t seed, size_t budget, struct str *ret);
