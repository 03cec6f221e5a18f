/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From a choice's tokens to the text that may leave
 *
 * Tokens go in; text comes out as whole code points, without the part that may still become a
 * stop string. A token leaves with the last byte of its text. The engine thread owns it.
 */

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "core/str.h"
#include "sched/stops.h"

struct output_token {
    int32_t token;
    float logprob;
    uint32_t n_top;
    uint64_t begin, end; /* its bytes in the text of the choice */
};

struct output {
    struct inf_detok *detok;
    const struct stop_set *stops; /* borrowed */
    uint32_t *stop_state;
    uint32_t top_stride; /* most alternatives of a token */

    struct str held; /* text that has not left */
    uint64_t base;   /* offset of held in the text of the choice */
    uint64_t final;  /* text before it may leave */
    bool ended;
    struct output_token *tokens; /* those that have not left */
    struct inf_top_logprob *top; /* [n_tokens, top_stride] */
    uint32_t n_tokens, cap;
};

/* Positive conditions. */
enum {
    OUTPUT_STOPPED = 1, /* a stop string is complete: the text ends before it */
};

/* @stops must outlive it. The prompt tells the detokeniser what came before. */
int output_init(struct output *o, const struct inf_tokenizer *tok, bool show_special,
                const struct stop_set *stops, uint32_t n_top, const int32_t *prompt,
                uint32_t n_prompt);
void output_done(struct output *o);

/* One more token with its alternatives. 0, OUTPUT_STOPPED and *ret_stop, -ENOMEM, or what the
 * tokenizer says. After OUTPUT_STOPPED only reading is allowed. */
int output_push(struct output *o, int32_t token, float logprob, const struct inf_top_logprob *top,
                uint32_t n_top, uint32_t *ret_stop);
/* No token follows: what is held back becomes final. The same results. */
int output_end(struct output *o, uint32_t *ret_stop);

/* What may leave now. */
struct output_part {
    const char *text;
    size_t len;
    const struct output_token *tokens;
    const struct inf_top_logprob *top;
    uint32_t n_tokens;
};

/* False when nothing is worth an event. Borrowed until the next call. */
bool output_ready(const struct output *o, struct output_part *ret_part);
/* @part has left. */
void output_drop(struct output *o, const struct output_part *part);
