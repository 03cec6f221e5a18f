/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the tokens in which the breakers of DRY (sample/dry.h) begin.
 *
 * A breaker is a text that a repetition never includes. It is given as a text, but repetitions are
 * found by tokens. A token may contain a whole breaker. A token may also end with the beginning of
 * a breaker; then the tokens of the rest of the breaker must follow. The bytes of all tokens are
 * collected for the first request that has breakers.
 */

#include <pthread.h>

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "sample/dry.h"

#define BREAKERS_MAX       32u
#define BREAKERS_MAX_BYTES 40u /* of one breaker */
#define BREAKERS_MAX_TAIL  20u /* tokens of the rest of a breaker that are compared */

struct breakers {
    const struct inf_tokenizer *tok; /* borrowed */
    uint32_t n_vocab;
    pthread_mutex_t lock;
    char *bytes;     /* of all tokens; NULL: not collected yet */
    uint32_t *start; /* [n_vocab + 1] */
};

void breakers_init(struct breakers *b, const struct inf_tokenizer *tok, uint32_t n_vocab);
void breakers_done(struct breakers *b);
/* Finds the tokens of @n ≤ BREAKERS_MAX breakers, which are not empty and have at most
 * BREAKERS_MAX_BYTES bytes (asserted). Any thread may call this function. Returns 0, -ENOMEM, or an
 * error of the tokenizer. */
int breakers_find(struct breakers *b, const struct inf_breaker *list, size_t n,
                  struct dry_breakers *ret_breakers);
