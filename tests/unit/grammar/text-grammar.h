/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks texts against a grammar of bytes, and writes random texts of the grammar, for tests. */

#include "core/str.h"
#include "grammar/automaton.h"

struct text_grammar {
    struct program *program;
    struct automaton automaton;
};

/* Compiles a JSON Schema. Returns the same errors as inf_grammar_new(). */
int text_grammar_init(struct text_grammar *g, const char *schema, size_t len, bool loose,
                      struct inf_err *reterr);
void text_grammar_done(struct text_grammar *g);
/* Returns how many bytes at the beginning of the text the grammar permits. *ret_complete: whether
 * the grammar permits the whole text as a complete text. */
size_t text_grammar_follow(struct text_grammar *g, const char *text, size_t len,
                           bool *ret_complete);
/* Appends a random text of the grammar. After @budget bytes the function prefers bytes that lead to
 * an end. Returns false if the text does not end within 50 times @budget bytes, or if no further
 * byte is permitted although the text is not complete. */
bool text_grammar_walk(struct text_grammar *g, uint64_t seed, size_t budget, struct str *ret);
