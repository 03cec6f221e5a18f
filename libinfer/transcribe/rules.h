/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What Whisper's decoder may say next
 *
 * Times are tokens: all ids from `timestamp_begin` on, one for every 20 ms of the window. They come
 * in pairs, the end of a segment and the start of the next, or alone before the end; they do not go
 * back, and a segment is not empty. Rules set the logits of what they forbid to -infinity. They are
 * those of OpenAI's whisper; ids come from the tokenizer and lists from the model.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rules {
    uint32_t n_vocab;
    int32_t end_of_text;      /* text has lower ids */
    int32_t no_timestamps;    /* < 0: the model has no such token */
    int32_t timestamp_begin;  /* all ids from here to the end are times */
    const int32_t *forbidden; /* never said; borrowed, each below n_vocab */
    size_t n_forbidden;
    const int32_t *not_first; /* not said at the beginning: a blank, the end of the text */
    size_t n_not_first;
    bool timestamps;       /* else there are no rules about times */
    uint32_t max_first_at; /* latest first time, in steps of 20 ms; UINT32_MAX: any */
};

/* Applies all rules to @logits, [n_vocab]. @said: the tokens behind the prompt, up to now. */
void rules_apply(const struct rules *r, const int32_t *said, size_t n_said, float *logits);

/* Log of the softmax of @logits at @id; exp() of it is the probability. */
double rules_log_probability(const float *logits, uint32_t n, int32_t id);
/* The likeliest of the @n_ids tokens @ids, an index into them; -1 when there are none. */
int32_t rules_likeliest(const float *logits, const int32_t *ids, size_t n_ids);
