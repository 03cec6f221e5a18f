/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns the tokens of a choice (one answer to a request) into the text that can be sent.
 *
 * The text consists of whole code points. The end of the text is held back while it may be the
 * beginning of a stop string. A token is sent together with the last byte of its text. The engine
 * thread owns struct output.
 */

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "core/str.h"
#include "sched/stops.h"

struct output_token {
    int32_t token;
    float logprob;
    uint32_t n_top;
    uint64_t begin, end; /* position of the token's bytes in the text of the choice */
};

struct output {
    struct inf_detok *detok;
    bool searches;                /* the text is searched for stop strings */
    const struct stop_set *stops; /* borrowed */
    uint32_t *stop_state;
    uint32_t top_stride; /* largest number of alternatives per token */

    struct str held; /* text that was not sent yet */
    uint64_t base;   /* position of held in the text of the choice */
    uint64_t final;  /* text before this position may be sent */
    bool ended;
    struct output_token *tokens; /* tokens that were not sent yet */
    struct inf_top_logprob *top; /* [n_tokens, top_stride] */
    uint32_t n_tokens, tokens_cap;
    size_t top_cap;
};

/* Conditions that functions return as positive numbers. */
enum {
    OUTPUT_STOPPED = 1, /* a stop string is complete; the text ends before it */
};

struct output_params {
    const struct inf_tokenizer *tok;
    const struct stop_set *stops; /* must outlive the output */
    bool show_special;
    const int32_t *shown; /* [n_shown]: special tokens that are shown in any case */
    uint32_t n_shown;
    uint32_t n_top;
    const int32_t *prompt; /* [n_prompt]: the context of the first token */
    uint32_t n_prompt;
};

int output_init(struct output *o, const struct output_params *params);
void output_done(struct output *o);

/* Adds one token with its most likely alternatives @top. The text is not searched for stop strings
 * before the first call with @search. Returns 0, OUTPUT_STOPPED with *ret_stop, -ENOMEM, or an
 * error of the tokenizer. After OUTPUT_STOPPED the output takes no more tokens, but the text that
 * it has can still be sent. */
int output_push(struct output *o, const struct output_token *token,
                const struct inf_top_logprob *top, bool search, uint32_t *ret_stop);
/* Ends the output: held text can be sent now. Returns the same results as output_push(). */
int output_end(struct output *o, uint32_t *ret_stop);

/* Describes the part of the output that can be sent now. */
struct output_part {
    const char *text;
    size_t len;
    const struct output_token *tokens;
    const struct inf_top_logprob *top;
    uint32_t n_tokens;
};

/* Returns false if there is nothing to send. *ret_part is valid until the next call of a function
 * of this file for @o. */
bool output_ready(const struct output *o, struct output_part *ret_part);
/* Removes @part from the output after it was sent. */
void output_drop(struct output *o, const struct output_part *part);
