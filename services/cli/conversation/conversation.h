/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A conversation with a model: messages so far, and one answer at a time, streamed to a file
 */

#include <signal.h>
#include <stdio.h>

#include <infer/engine.h>
#include <jansson.h>

#include "core/str.h"

struct conversation;

struct conversation_params {
    struct inf_model *model;
    struct inf_engine_params engine; /* its model field is ours */
    struct inf_sampling sampling;
    uint32_t max_tokens;                    /* per answer; 0: until the context is full */
    const char *system;                     /* NULL: none */
    const char *session;                    /* its name; NULL: none */
    const json_t *messages;                 /* to begin with; NULL: none; copied */
    bool raw;                               /* no chat template: text in, text on */
    const volatile sig_atomic_t *interrupt; /* non-zero ends the answer */
};

/* What the last answer cost. */
struct conversation_stats {
    uint32_t n_prompt, n_cached, n_generated;
    uint32_t n_first;            /* of these, generated when the first text came */
    double first_sec, total_sec; /* to the first text, to the end */
    enum inf_finish finish;
    size_t n_forgotten; /* messages that the model was not told any longer, from this answer on */
    uint32_t n_ctx;     /* tokens that the context holds */
    bool is_full;       /* the answer ended because it holds no more */
};

int conversation_new(const struct conversation_params *params, struct conversation **ret,
                     struct inf_err *reterr);
struct conversation *conversation_free(struct conversation *c);
DEFINE_CLEANUP(struct conversation *, conversation_free);

/* What was said; borrowed until the next call. */
json_t *conversation_messages(const struct conversation *c);
/* Forgets all messages but the system's; @system NULL keeps that. */
int conversation_reset(struct conversation *c, const char *system);
/* Says @text, writes the answer to @out as it comes, remembers both. Where the context has no room,
 * the oldest messages but the system's are not told to the model any longer, until half of it is
 * free: what stays is the beginning of many prompts then, which the KV cache knows. On failure the
 * conversation is as it was. -E2BIG: the text is too long for the context by itself. */
int conversation_say(struct conversation *c, const char *text, FILE *out,
                     struct conversation_stats *ret_stats, struct inf_err *reterr);
