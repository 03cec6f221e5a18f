/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes one attempt, at one temperature, to write the text of a window (30 s of audio).
 *
 * At temperature 0 an attempt takes the most likely tokens, or follows beams of the most likely
 * texts. At other temperatures it samples several texts and takes the most likely one. The caller
 * computes the steps, together with the steps of other windows: attempt_items() says what to
 * compute, and attempt_take() takes the results. The rules are those of OpenAI's whisper.
 */

#include "core/rng.h"
#include "sample/row.h"
#include "transcribe/decode-texts.h"
#include "transcribe/rules.h"
#include "transcribe/tokens.h"

enum { ATTEMPT_MAX_TEXTS = 16 };

/* Working memory that the attempts of one thread share. */
struct attempt_space {
    const struct row_kernels *kernels;
    float *masses, *peaks, *sums; /* masses of all tokens; peaks and sums of runs (sample/row.h) */
};

int attempt_space_init(struct attempt_space *space, const struct row_kernels *kernels, uint32_t n);
void attempt_space_done(struct attempt_space *space);

struct attempt_params {
    const int32_t *prompt; /* borrowed until the attempt is over */
    uint32_t n_prompt;
    uint32_t i_start; /* index of the token of the prompt that begins the transcript */
    double temperature;
    uint32_t n_texts; /* samples or beams; 1 … ATTEMPT_MAX_TEXTS */
    uint32_t n_context;
};

struct attempt_text {
    struct kv_table table;
    int32_t *said; /* [n_context / 2] tokens of the text */
    uint32_t n_said;
    double log_probability; /* sum over all tokens, including the end */
    bool ended;
};

struct attempt {
    struct attempt_params params;
    const struct speech_tokens *tokens;
    struct rules rules;
    uint32_t max_texts;
    struct attempt_text *texts; /* [max_texts], of which params.n_texts are used */
    /* For beam search: the beams of the next step, and the finished texts. */
    struct attempt_text *next, *finished;
    uint32_t n_finished;
    bool begun;
    double no_speech; /* probability that nobody speaks; NAN: unknown */
};

/* Allocates memory for @max_texts. -ENOMEM. */
int attempt_init(struct attempt *a, struct decode *d, const struct speech_tokens *tokens,
                 uint32_t max_texts);
void attempt_done(struct attempt *a);

void attempt_begin(struct attempt *a, const struct attempt_params *params);
/* Writes up to n_texts items for the next step to @items, and returns how many. */
uint32_t attempt_items(struct attempt *a, const struct kv_table *memory, struct decode_item *items);
/* Takes the logits of the items of attempt_items(), and overwrites the logits. Returns true when
 * the attempt is over. */
bool attempt_take(struct attempt *a, struct attempt_space *space, struct rng *rng, float *logits);
/* Returns the most likely text of an attempt that is over. */
const struct attempt_text *attempt_best(const struct attempt *a);
/* Releases the blocks of all texts. */
void attempt_clear(struct attempt *a);
