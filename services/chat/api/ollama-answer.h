/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the data and functions that /api/chat and /api/generate share.
 *
 * A stream consists of lines, each of which is a JSON object. The last object has "done": true, the
 * reason why the answer ended, and durations in nanoseconds.
 */

#include "chat/generation.h"

/* In requests to these endpoints, g->own points to this structure. */
struct ollama_own {
    json_t *model;     /* string: the name of the model in the request; NULL: the request names no
                          model */
    bool loads;        /* the request has no prompt: the model is only loaded */
    bool raw;          /* /api/generate: the prompt goes to the model as it is */
    struct str tokens; /* /api/generate: the ids of the generated tokens, each with a comma before
                          it */
    uint64_t ready_usec, prompt_usec; /* when the model was loaded, and when the prompt was
                                         computed */
};

/* In requests to these endpoints, `own` of each struct choice points to this structure. */
struct ollama_choice {
    struct str logprobs;   /* probabilities of tokens that were not sent yet, as elements of a JSON
                              array */
    struct made_call call; /* a call whose arguments are not complete */
    bool has_call;
};

/* Reads the fields that /api/chat and /api/generate have in common. @more names the fields that
 * only the requested endpoint has. If there is no prompt, the caller must call ollama_only_loads()
 * afterwards. */
int ollama_read(struct generation *g, const char *const *more, struct problem *problem);
/* Notes that the request has no prompt, and therefore only loads or unloads the model. */
void ollama_only_loads(struct generation *g);
/* Notes when the model was loaded. `prepare` must call it first. */
void ollama_begin_prepare(struct generation *g);
/* Returns whether a template has markers of thinking, or reads a variable that controls
 * thinking. */
bool ollama_template_thinks(const char *source);

/* The following functions append to g->out or to @out. -ENOMEM. */
int ollama_put_head(struct generation *g);
/* Struct ollama_message has the contents of the object {"role":"assistant",…}. The texts and
 * `calls` may be NULL. */
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
/* Writes the answer to a request without a prompt. @answer is the field with the empty answer. */
int ollama_put_loaded(struct generation *g, const char *answer);

/* The following functions are for struct chat_api. */
int ollama_begin(struct generation *g);
int ollama_tokens(struct generation *g, struct choice *c, const struct inf_event *event);
void ollama_choice_done(struct choice *c);
void ollama_own_done(struct generation *g);

/* These members of struct chat_api are the same for both endpoints. */
#define OLLAMA_SHARED                                                                              \
    .finishes = {[FINISH_STOP] = "stop",                                                           \
                 [FINISH_STOP_TEXT] = "stop",                                                      \
                 [FINISH_LENGTH] = "length",                                                       \
                 [FINISH_CALLS] = "stop"},                                                         \
    .sampling = &sampling_ollama, .own_size = sizeof(struct ollama_own),                           \
    .choice_size = sizeof(struct ollama_choice), .stream_type = "application/x-ndjson",            \
    .begin = ollama_begin, .choice_done = ollama_choice_done, .done = ollama_own_done
