/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Struct generation is one API request that needs a model (see model-request.h).
 *
 * A request passes through these steps: its body is read; it waits for the model; a preparer thread
 * makes the prompts; they are submitted to the engine; the engine's events are written in the
 * format of the API; the answer ends. The HTTP request, the engine (once per prompt) and the
 * preparer's job each hold a reference to the generation.
 */

#include <infer/engine.h>
#include <jansson.h>

#include "chat/chat-api.h"
#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "chat/conversation.h"
#include "chat/params.h"
#include "chat/reply/parser.h"
#include "common/wire/session-id.h"
#include "common/wire/tenant.h"
#include "core/str.h"
#include "host/model-request.h"

struct generation;

struct prompt {
    int32_t *tokens;
    size_t n_tokens;
    char *text; /* text of the tokens, for `echo`; NULL: not requested */
    size_t text_len;
    uint64_t engine_id; /* 0: not submitted, or finished */
    uint32_t n_cached;
    /* Monotonic times: start, last progress and end of the prompt's computation; 0: not yet. */
    uint64_t start_usec, progress_usec, computed_usec;
    uint64_t n_processed; /* tokens that were computed so far, without n_cached */
    bool is_cut;          /* the service itself ended the text; the answer says that the limit of
                             tokens was reached */
};

/* A call of a tool in an answer that is not streamed. */
struct made_call {
    char *id;
    struct str name, arguments; /* is_custom: `arguments` holds the input */
    bool is_custom;             /* the input is a text instead of JSON arguments */
};

struct choice {
    struct generation *generation;
    uint32_t index;
    struct prompt *prompt;
    struct str text, reasoning; /* the answer without its calls, if it is not streamed */
    struct made_call *calls;
    size_t n_calls, calls_cap;
    struct reply_parser parser;
    uint32_t n_generated, n_reasoning; /* numbers of tokens so far */
    uint32_t n_accepted, n_rejected;   /* drafted tokens so far */
    uint64_t last_usec;                /* time of the last token */
    bool has_new_line;                 /* the text has a line break */
    bool is_cut;                       /* further text is dropped */
    uint32_t n_line_spaces;            /* white space at the beginning of the last line, so far */
    bool in_line;                      /* the last line has more than white space */
    enum finish finish;
    const char *stop_text; /* FINISH_STOP_TEXT: the stop string; belongs to g->params */
    void *own;             /* [api->choice_size] the API's own data */
};

struct generation {
    struct model_request request;
    struct chat *chat;
    const struct chat_api *api;
    void *own; /* [api->own_size] the API's own data */
    char id[REQUEST_ID_SIZE];
    char tenant[TENANT_SIZE], session[SESSION_ID_SIZE];
    int64_t created;
    json_t *body;
    struct params params;
    struct reply reply; /* how the answers are parsed */
    struct reply_tokens tokens;
    struct inf_channel channel; /* the part of an answer in which the model thinks; points to
                                   channel_tokens */
    int32_t *channel_tokens;
    struct inf_grammar *grammar;      /* NULL: any text; owned reference */
    struct conversation conversation; /* empty if the body has prompts instead of messages */
    int status; /* result of `read` or `prepare`; negative: `problem` has the error */
    struct problem problem;

    struct inf_sampling manifest; /* defaults of sampling in the model's manifest */
    struct chat_resident *resident;
    struct prompt *prompts;
    size_t n_prompts;
    struct choice *choices;
    size_t n_choices, n_finished;
    struct str out;
    uint64_t first_usec; /* when the first token came; 0: not yet */
    bool loads, saves;   /* set by `read`: chat_api.load and chat_api.save are needed */
};

/* The callback params.begin of the host. @api is a struct chat_api. */
void generation_new(struct model_host *host, const void *api, struct http_request *http);
/* Handles an event of the engine. */
void generation_on_event(struct generation *g, const struct inf_event *event);
/* A prompt whose tokens are only counted may have this many tokens, even if the context is
 * shorter. */
#define GENERATION_MAX_COUNTED ((size_t)1 << 17)
/* Returns how many tokens a prompt may have. */
size_t generation_max_prompt(const struct generation *g);
/* Fills in @problem for a prompt that does not fit into the context. The prompt has @n_tokens
 * tokens, or more than that if @more is set. Returns -EINVAL. */
int generation_context_problem(const struct generation *g, size_t n_tokens, bool more,
                               struct problem *problem);
/* Encodes one prompt and appends it to g->prompts; for `prepare`. */
int generation_add_prompt(struct generation *g, const char *text, size_t len, unsigned flags,
                          struct problem *problem);
/* Calls @add for each prompt of the field "prompt", an array. @n_field is the field with the number
 * of answers to each prompt, for errors. */
int generation_add_prompts(struct generation *g, json_t *prompts, const char *n_field,
                           int (*add)(struct generation *g, json_t *prompt,
                                      struct problem *problem),
                           struct problem *problem);
/* Appends a prompt of @tokens to g->prompts. Takes over @tokens, even on failure. */
int generation_add_tokens(struct generation *g, int32_t *tokens, size_t n_tokens,
                          struct problem *problem);

struct models_entry;
/* generation-model.c: finds the model of the request. NULL: @problem says why there is none. */
const struct models_entry *generation_find_model(struct generation *g, struct problem *problem);
/* Returns whether the model belongs to another service. If it does, names that service in the
 * headers of the answer, and fills in @problem (common/wire/elsewhere.h). */
bool generation_send_elsewhere(struct generation *g, const struct models_entry *entry,
                               struct problem *problem);
/* Returns the limit of tokens of a choice; 0: the context is the limit. */
uint32_t generation_max_tokens(const struct generation *g);

/* Numbers of tokens, summed over the prompts and choices of a request. */
struct usage {
    uint64_t n_prompt, n_cached, n_generated, n_reasoning;
    uint64_t n_accepted, n_rejected; /* drafted tokens */
};
struct usage generation_usage(const struct generation *g);
/* The callback `count` of requests: adds the tokens and the times of the answer. */
void generation_numbers(const struct model_request *request, uint64_t numbers[HISTORY_NUMBERS]);
/* Returns how the API names the reason for which a choice ended; NULL while the choice runs. */
const char *generation_finish_word(const struct generation *g, const struct choice *c);
