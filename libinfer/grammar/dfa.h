/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Deterministic automata over bytes, for the operations that are possible only with regular nodes
 *
 * All functions return -ENOMEM, or -E2BIG if a result has more than DFA_MAX_STATES states or if the
 * limit of @work is exceeded. Functions with an nfa use its counter.
 */

#include "core/macros.h"
#include "grammar/nfa.h"

#define DFA_MAX_STATES 20000
#define DFA_DEAD       UINT32_MAX

/* State 0 is the start. Each state to which an edge leads can reach a final state. */
struct dfa {
    uint32_t n, n_classes;
    uint8_t class_of[256];
    uint32_t *next; /* [n][n_classes] */
    bool *is_final; /* [n] */
};

struct dfa *dfa_free(struct dfa *dfa);
DEFINE_CLEANUP(struct dfa *, dfa_free);

/* Makes the automaton of the texts that @nfa accepts if it starts in the state @start. @nfa must
 * have no calls, and its tokens are ignored. */
int dfa_from_nfa(const struct nfa *nfa, uint32_t start, struct dfa **ret_dfa);
/* Makes the automaton of the texts that both automata accept. */
int dfa_and(const struct dfa *x, const struct dfa *y, struct work *work, struct dfa **ret_dfa);
/* Makes the automaton of the texts of valid UTF-8 that @x does not accept. */
int dfa_not(const struct dfa *x, struct work *work, struct dfa **ret_dfa);
/* Makes the automaton of the texts of UTF-8 that end with the first occurrence of the bytes @end.
 */
int dfa_until(const uint32_t *end, uint32_t n, struct work *work, struct dfa **ret_dfa);
/* Makes the automaton of the texts of @x as they are written inside of a JSON string, see
 * grammar_json_escaped(). */
int dfa_json_escaped(const struct dfa *x, struct work *work, struct dfa **ret_dfa);
/* Adds the states of @dfa to @nfa. Where @dfa ends, @nfa continues at @next. */
int dfa_to_nfa(const struct dfa *dfa, struct nfa *nfa, uint32_t next, uint32_t *ret_start);
/* Adds states that read the texts of @dfa inside of a JSON string, see grammar_json_escaped(). */
int dfa_escaped_to_nfa(const struct dfa *dfa, struct nfa *nfa, uint32_t next, uint32_t *ret_start);

/* Gives two states different numbers in @part, [n], if the shortest or the longest texts that they
 * accept differ in length. -ENOMEM. */
int dfa_lengths(const struct dfa *dfa, uint32_t *part);

/* States between the bytes of a code point. */
enum {
    UTF8_START = 0, /* between code points */
    UTF8_STATES = 8,
    UTF8_INVALID = 255,
};

/* Returns the state that follows @state after @byte, or UTF8_INVALID. */
uint8_t utf8_step(uint8_t state, uint8_t byte);
