/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A suffix automaton: it knows every part of the texts that were added to it, and which token
 * followed this part most often.
 *
 * The automaton of a text (Blumer et al. 1985) has one state for all parts of the text that end at
 * the same places. A state therefore knows how often its parts occur, and the transitions of a
 * state are the tokens that followed them. Tokens are added one at a time, in constant time on
 * average. For each token, counts are updated in at most 32 states, those of the longest parts that
 * end with it, so that a text that repeats one token costs no more than others. The memory is
 * allocated once: nothing is allocated when tokens are added. Drafts by counts follow Oliaro et al.
 * 2024 (SuffixDecoding).
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/macros.h"

struct suffix;

/* A part of the added texts: the last @len tokens of some text. State 0 with length 0 is the empty
 * part. */
struct suffix_place {
    uint32_t state, len;
};

/* Creates an automaton for at most @max_tokens tokens, 1 to 2^24. It reserves about 120 bytes for
 * each token; the system provides this memory when it is first used. -ENOMEM. */
int suffix_new(uint32_t max_tokens, struct suffix **ret_suffix);
struct suffix *suffix_free(struct suffix *x);
DEFINE_CLEANUP(struct suffix *, suffix_free);

/* Adds the next token of the current text. Returns false, and changes nothing, if the automaton is
 * full. */
bool suffix_add(struct suffix *x, int32_t token);
/* Drops all texts. */
void suffix_clear(struct suffix *x);
/* Ends the current text: the next token begins another one. */
void suffix_end_text(struct suffix *x);
/* Returns the number of tokens that were added. */
uint32_t suffix_n_tokens(const struct suffix *x);

/* Returns the longest part with which the current text ends and which also occurs earlier in the
 * added texts. */
struct suffix_place suffix_repeated(const struct suffix *x);
/* Returns the longest part with which a text ends after @token, if the text ended with @place
 * before. */
struct suffix_place suffix_follow(const struct suffix *x, struct suffix_place place, int32_t token);
/* Writes to @ret_tokens the token that most often followed @place, then the token that most often
 * followed this one, and so on, up to @n tokens. The newer of two equally frequent tokens is taken.
 * Returns the number of tokens. *ret_share is the share of the occurrences of @place that were
 * followed by the first of the tokens; it is not set if the result is 0. */
uint32_t suffix_draft(const struct suffix *x, struct suffix_place place, uint32_t n,
                      int32_t *ret_tokens, float *ret_share);
