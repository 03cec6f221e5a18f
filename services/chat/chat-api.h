/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The APIs of the chat service
 *
 * An endpoint of an API is one struct chat_api and one row in routes.h. It reads a body into a
 * request in the service's own terms (params.h, conversation.h), and writes the answer. The row in
 * routes.h also names the format of errors. Everything else is the same for all APIs.
 */

#include <infer/engine.h>

#include "chat/reply/piece.h"
#include "common/http/problem.h"
#include "core/macros.h"

struct choice;
struct generation;
struct http_request;
struct model_host;

/* Why a choice ended. */
enum finish {
    FINISH_NONE, /* it has not */
    FINISH_STOP,
    FINISH_STOP_TEXT, /* at a stop string of the request */
    FINISH_LENGTH,
    FINISH_CALLS, /* the answer ends with calls of tools */
    N_FINISHES,
};

/* All strings are static. Functions may be NULL where their comment says so. */
struct chat_api {
    const char *id_prefix;               /* of the ids of its answers */
    const char *prompt_field;            /* the field of the prompt, for errors */
    const char *finishes[N_FINISHES];    /* how the API names the reasons of the end */
    const char *tool_schema;             /* path of the schema within a tool, for errors; NULL:
                                            function.parameters */
    const struct inf_sampling *sampling; /* the API's defaults of sampling, all of them; NULL:
                                            OpenAI's */
    size_t own_size, choice_size;        /* of g->own and of c->own, which are zeroed at first */
    bool computes_only;                  /* no text is generated: `prepare` writes the answer */
    bool takes_pieces; /* `piece` is called for answers that are no streams, too */
    /* Takes over the whole request, which needs no model; the other fields are unused. May be
     * NULL. */
    void (*take)(struct model_host *host, struct http_request *http);

    /* Reads and checks g->body, an object. May run on a thread beside the loop. */
    int (*read)(struct generation *g, struct problem *problem);
    /* Called if g->loads: gets what the request needs from other services. Runs on a thread beside
     * the loop after `read`. May be NULL. */
    int (*load)(struct generation *g, struct problem *problem);
    /* Makes g->prompts, with the loaded model, or writes the answer. Runs on a thread beside the
     * loop. If params.unloads is set, it writes the answer on the loop, without a model. Without
     * prompts the answer is empty. */
    int (*prepare)(struct generation *g, struct problem *problem);

    /* The following functions write into g->out: events of a stream, or the answer. -ENOMEM. */
    const char *stream_type;  /* content type of streams */
    const char *stream_pause; /* sent while nothing else is to be sent; NULL: nothing */
    const char *stream_end;   /* the last bytes of a stream; NULL: none */
    /* Streams only: the first events. */
    int (*begin)(struct generation *g);
    /* Called for an event with the probabilities of tokens, if they were requested, before
     * `piece`. A prompt's come with INF_EVENT_PROMPT. May be NULL. */
    int (*tokens)(struct generation *g, struct choice *c, const struct inf_event *event);
    /* Streams only: a piece of a choice. */
    int (*piece)(struct generation *g, struct choice *c, const struct piece *piece);
    /* Streams only, if the request has `return_progress`: a part of c->prompt is computed. May be
     * NULL. */
    int (*progress)(struct generation *g, struct choice *c);
    /* A choice ended, for the reason in c->finish, which may be changed. */
    int (*finish)(struct generation *g, struct choice *c);
    /* Called if g->saves, when all choices ended: sends the answer to other services. Runs on a
     * thread beside the loop before `end`. May be NULL. */
    void (*save)(struct generation *g);
    /* Streams only: an error breaks the stream off; the error's own event follows. May be NULL. */
    int (*fail)(struct generation *g, const struct problem *problem);
    /* All choices ended: the last events of a stream, or the whole answer. */
    int (*end)(struct generation *g);
    /* Free what c->own and g->own hold. May be NULL. */
    void (*choice_done)(struct choice *c);
    void (*done)(struct generation *g);
};

extern const struct chat_api api_openai_chat; /* api/openai-chat.c */
extern const struct chat_api api_llama_chat;
extern const struct chat_api api_count_tokens;
extern const struct chat_api api_openai_completions; /* api/openai-completions.c */
extern const struct chat_api api_anthropic_messages; /* api/anthropic-answer.c */
extern const struct chat_api api_anthropic_count;
extern const struct chat_api api_ollama_chat;      /* api/ollama-chat.c */
extern const struct chat_api api_ollama_generate;  /* api/ollama-generate.c */
extern const struct chat_api api_llama_completion; /* api/llama-answer.c */
extern const struct chat_api api_llama_infill;
extern const struct chat_api api_responses; /* api/responses.c */
extern const struct chat_api api_responses_count;
extern const struct chat_api api_kept;     /* kept.c */
extern const struct chat_api api_tokenize; /* api/tokenize.c */
extern const struct chat_api api_detokenize;
extern const struct chat_api api_apply_template;
