/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows one text through a grammar, token by token.
 *
 * A matcher belongs to one thread at a time. Several matchers of one grammar may be used by several
 * threads at once. A matcher holds a reference to its grammar.
 */

#include <infer/grammar.h>

#include "core/macros.h"

struct grammar_matcher;

/* Positive results of grammar_matcher_accept(). */
enum {
    MATCHER_REFUSED = 1, /* the token does not continue a text of the grammar */
};

/* Returns 0 or -ENOMEM. */
int grammar_matcher_new(struct inf_grammar *grammar, struct grammar_matcher **ret_matcher);
/* NULL is allowed; returns NULL. */
struct grammar_matcher *grammar_matcher_free(struct grammar_matcher *m);
DEFINE_CLEANUP(struct grammar_matcher *, grammar_matcher_free);
/* Makes a matcher at the same place of the same text as @m. -ENOMEM. */
int grammar_matcher_clone(const struct grammar_matcher *m, struct grammar_matcher **ret_matcher);

/*
 * Sets bit t % 32 of ret_mask[t / 32] for each token t that may come next, and clears all other
 * bits, [DIV_UP(n_vocab, 32)] words. Tokens that end the generation are permitted if the text is
 * complete. -E2BIG: a limit of the grammar's automaton was reached; -ENOMEM.
 */
int grammar_matcher_mask(struct grammar_matcher *m, uint32_t *ret_mask);
/* Appends a token. A token that ends the generation is accepted after a complete text. Returns 0,
 * -E2BIG, -ENOMEM, or MATCHER_REFUSED, which leaves the matcher unchanged. */
int grammar_matcher_accept(struct grammar_matcher *m, int32_t token);
/* How certain it is that a token that grammar_matcher_forced() finds will come. */
enum grammar_certainty {
    GRAMMAR_ONLY,   /* no other token may come */
    GRAMMAR_BYTES,  /* no other text may come, but other tokens could stand for the same text */
    GRAMMAR_LIKELY, /* other text may come: a longer token, or other white space */
};

#define GRAMMAR_FORCED_MAX 16u

struct grammar_forced {
    int32_t tokens[GRAMMAR_FORCED_MAX];
    enum grammar_certainty certainty[GRAMMAR_FORCED_MAX];
    uint32_t n;
};

/*
 * Finds the tokens of the text that must follow, because the grammar leaves no choice except that
 * of white space. The tokenizer encodes this text. @tokens [n_tokens] are those so far; the first
 * of them may stand before the text of the grammar. Finds at most @max tokens. -E2BIG: a limit of
 * the grammar's automaton was reached; -ENOMEM.
 */
int grammar_matcher_forced(struct grammar_matcher *m, const int32_t *tokens, uint32_t n_tokens,
                           uint32_t max, struct grammar_forced *ret);
/* Returns whether the text so far is a text of the grammar. */
bool grammar_matcher_is_complete(const struct grammar_matcher *m);
/* Returns whether only the end of the generation may follow. */
bool grammar_matcher_must_end(struct grammar_matcher *m);
