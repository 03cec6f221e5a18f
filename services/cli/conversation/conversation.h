/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds a conversation with a model: stores the messages, and streams one answer at a time to a
 * file.
 */

#include <signal.h>
#include <stdio.h>

#include <infer/engine.h>
#include <jansson.h>

#include "core/str.h"

struct conversation;
struct model_message;

struct conversation_params {
    struct inf_model *model;
    struct inf_engine_params engine; /* conversation_new() sets its field `model` to the model
                                        above */
    struct inf_sampling sampling;
    uint32_t max_tokens;               /* per answer; 0: until the context is full */
    const char *system;                /* NULL: none */
    const struct model_message *first; /* [n_first]: a new conversation begins with them */
    size_t n_first;
    const char *const *stops;               /* NULL-terminated texts that end an answer; NULL:
                                               none */
    const char *session;                    /* name of the saved conversation; NULL: none */
    const json_t *messages;                 /* the messages of a saved conversation, copied; NULL:
                                               it is a new one */
    bool raw;                               /* no chat template: the model continues the text */
    const volatile sig_atomic_t *interrupt; /* a non-zero value stops the answer */
};

/* Struct conversation_stats has statistics of the last answer. */
struct conversation_stats {
    uint32_t n_prompt, n_cached, n_generated;
    uint32_t n_accepted, n_rejected; /* drafted tokens */
    uint32_t n_first;                /* number of generated tokens when the first text arrived */
    double first_sec, total_sec;     /* seconds until the first text, and until the end */
    enum inf_finish finish;
    size_t n_forgotten; /* messages that were dropped from the prompt for this answer, and stay
                           dropped */
    uint32_t n_ctx;     /* size of the context in tokens */
    bool is_full;       /* the answer ended because the context was full */
};

int conversation_new(const struct conversation_params *params, struct conversation **ret,
                     struct inf_err *reterr);
struct conversation *conversation_free(struct conversation *c);
DEFINE_CLEANUP(struct conversation *, conversation_free);

/* Returns the messages; borrowed, valid until the next call for this conversation. */
json_t *conversation_messages(const struct conversation *c);
/* Removes all messages except the system message and those with which a new conversation begins;
 * @system, if not NULL, replaces the system message. */
int conversation_reset(struct conversation *c, const char *system);
/* Adds the message @text, streams the answer to @out, and stores the message and the answer. If the
 * context is too small for prompt and answer, the oldest messages after the system message are
 * dropped from the prompt until half of the context is free. Because many messages are dropped at
 * once, the following prompts have the same beginning, whose computed keys and values can be
 * reused. On failure the conversation is unchanged. -E2BIG: the text alone is too long for the
 * context. */
int conversation_say(struct conversation *c, const char *text, FILE *out,
                     struct conversation_stats *ret_stats, struct inf_err *reterr);
