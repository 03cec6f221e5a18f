/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DRY ("don't repeat yourself"), a penalty for tokens that would continue a repetition
 *
 * The stage looks for earlier places of the text with the same tokens as at the end of the text.
 * The token after such a place would continue the repetition. If the repetition is already n tokens
 * long, and n is at least the allowed length, the logit of that token is lowered by
 *     multiplier × base ^ (n - allowed length)
 * with the longest n that applies to the token. A breaker is a text, such as a line break, that a
 * repetition never includes; a token with a breaker in it gets no penalty. Source: the sampler
 * "dry" of llama.cpp, in the state of autumn 2025.
 */

#include <stdbool.h>
#include <stdint.h>

/* A token in which a breaker begins. If the breaker continues after the token, the tokens
 * tails[tail … tail + n_tail) follow. n_tail 0: the token contains the whole breaker. */
struct dry_head {
    int32_t token;
    uint32_t tail, n_tail;
};

/* The breakers of a request. Heads are sorted by token. */
struct dry_breakers {
    struct dry_head *heads;
    uint32_t n_heads;
    int32_t *tails;
};

struct dry {
    float multiplier, base;
    uint32_t allowed;             /* allowed length */
    uint32_t last_n;              /* UINT32_MAX: all */
    struct dry_breakers breakers; /* owned */
};

void dry_breakers_done(struct dry_breakers *b);

static inline bool dry_is_on(const struct dry *d)
{
    return d->multiplier != 0 && d->base >= 1;
}

/*
 * Finds the tokens that get a penalty after the text @tokens. Sets counts[t] of each such token t
 * to 1 plus the number of repeated tokens; @counts [n_vocab] is all zero before. @repeats [n] is
 * scratch memory. Returns how many of the last tokens were searched: all tokens with counts are
 * among them.
 */
uint32_t dry_find(const struct dry *d, const int32_t *tokens, uint32_t n, uint32_t n_vocab,
                  uint32_t *repeats, uint32_t *counts);
/* Returns the penalty for a token whose count is @count > 0. */
float dry_penalty(const struct dry *d, int32_t token, uint32_t count);
