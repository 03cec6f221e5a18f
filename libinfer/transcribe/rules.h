/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Applies rules to the next token of Whisper's decoder.
 *
 * Times are tokens: all ids from `timestamp_begin` on, one for every 20 ms of the window. They
 * occur in pairs, as the end of a segment and the start of the next, or alone before the end of the
 * text. They never decrease, and a segment is not empty. The rules set the logits of forbidden
 * tokens to -infinity. The rules are those of OpenAI's whisper. Ids come from the tokenizer, and
 * lists from the model.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rules {
    uint32_t n_vocab;
    int32_t end_of_text;      /* text tokens have lower ids */
    int32_t no_timestamps;    /* < 0: the model has no such token */
    int32_t timestamp_begin;  /* all ids from here on are times */
    const int32_t *forbidden; /* never sampled; borrowed, each below n_vocab */
    size_t n_forbidden;
    const int32_t *not_first; /* not sampled at the beginning: a blank, the end of the text */
    size_t n_not_first;
    bool timestamps;       /* false: there are no rules about times */
    uint32_t max_first_at; /* limit of the first time, in steps of 20 ms; UINT32_MAX: none */
};

/* Applies all rules to @logits, [n_vocab]. @said: the tokens after the prompt so far. */
void rules_apply(const struct rules *r, const int32_t *said, size_t n_said, float *logits);

/* Returns the index in @ids of the most likely of these @n_ids tokens; -1 if there are none. */
int32_t rules_likeliest(const float *logits, const int32_t *ids, size_t n_ids);
