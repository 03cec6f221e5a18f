/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares what the answers of /api/chat and /api/generate have in common.
 *
 * A stream consists of lines, each of which is a JSON object. The last one has "done": true, the
 * reason of the end, and durations in nanoseconds.
 */

#include "chat/generation.h"

#define OLLAMA_STREAM_TYPE "application/x-ndjson"

/* g->own of these endpoints. */
struct ollama_own {
    json_t *model;     /* string: the model as the request names it; NULL: it names none */
    bool loads;        /* the request has no prompt: the model is loaded, and nothing is written */
    bool raw;          /* /api/generate: the prompt goes to the model as it is */
    struct str tokens; /* /api/generate: the ids of the written tokens, each with a comma before
                          it */
    uint64_t ready_usec, prompt_usec; /* when the model was loaded, and when the prompt was
                                         computed */
};

/* c->own of these endpoints. */
struct ollama_choice {
    struct str logprobs;   /* of tokens that were not sent yet, as elements of a JSON array */
    struct made_call call; /* a call whose arguments are not complete */
    bool has_call;
};

/* Reads what both endpoints have; @more: their own fields. `loads` must be set afterwards. */
int ollama_read(struct generation *g, const char *const *more, struct problem *problem);
/* Decides that the request has no prompt. */
void ollama_only_loads(struct generation *g);
/* For `prepare`, before everything else. */
void ollama_begin_prepare(struct generation *g);
/* Whether a template can switch its model's thinking, or reads what it thought. */
bool ollama_template_thinks(const char *source);

/* The following functions append to g->out. -ENOMEM. */
int ollama_put_head(struct generation *g);
/* Writes {"role":"assistant",…}. @calls: elements of the array of calls; may be NULL, like the
 * texts. */
struct ollama_message {
    struct http_text content, thinking;
    const struct made_call *calls;
    size_t n_calls;
};
int ollama_put_message(struct str *out, const struct ollama_message *message);
/* Writes ,"logprobs":[…] if they were requested, and empties @logprobs. */
int ollama_put_logprobs(struct generation *g, struct str *logprobs);
/* Writes the fields of the last object, and closes it. @more: further fields, each with a comma
 * before it; may be NULL. */
int ollama_put_end(struct generation *g, const char *more);
/* Writes the answer to a request without a prompt; @answer: its field with the empty answer. */
int ollama_put_loaded(struct generation *g, const char *answer);

/* For struct chat_api. */
int ollama_begin(struct generation *g);
int ollama_tokens(struct generation *g, struct choice *c, const struct inf_event *event);
void ollama_choice_done(struct choice *c);
void ollama_own_done(struct generation *g);
