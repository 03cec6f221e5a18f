/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The APIs of the chat service
 *
 * Each endpoint of an API is defined by one struct chat_api and one row in routes.h. The functions
 * of the struct read the body of an HTTP request into the service's own structures (params.h,
 * conversation.h), and write the answer. The row in routes.h also names the format of errors.
 * Everything else is the same for all APIs.
 */

#include <infer/engine.h>

#include "chat/reply/piece.h"
#include "common/http/problem.h"
#include "core/macros.h"

struct choice;
struct generation;
struct http_request;
struct model_host;

/* The reason for which a choice ended. A choice is one answer to a prompt (choice.h). */
enum finish {
    FINISH_NONE, /* the choice has not ended */
    FINISH_STOP,
    FINISH_STOP_TEXT, /* the choice ended at a stop string of the request */
    FINISH_LENGTH,
    FINISH_CALLS, /* the answer ends with calls of tools */
    N_FINISHES,
};

/* All strings are static. Functions may be NULL where their comment says so. */
struct chat_api {
    const char *id_prefix;               /* the beginning of the ids of answers */
    const char *prompt_field;            /* the name of the prompt's field, for errors */
    const char *finishes[N_FINISHES];    /* the API's name for each enum finish */
    const char *tool_schema;             /* path of the schema within a tool, for errors; NULL:
                                            function.parameters */
    const struct inf_sampling *sampling; /* the API's default of every sampling parameter; NULL:
                                            OpenAI's defaults */
    size_t own_size, choice_size;        /* the sizes of g->own and c->own, which start as zeros */
    bool computes_only;                  /* no text is generated: `prepare` writes the answer */
    bool any_service;  /* the model may belong to another service, which then gets the request */
    bool takes_pieces; /* `piece` is also called for answers that are not streamed */
    /* Handles the whole request, without a model. If it is set, the other fields are unused. May be
     * NULL. */
    void (*take)(struct model_host *host, struct http_request *http);

    /* Reads and checks g->body, a JSON object. May run in a thread other than that of the event
     * loop. */
    int (*read)(struct generation *g, struct problem *problem);
    /* Gets the data that the request needs from other services. Called after `read` if g->loads is
     * set. Does not run in the thread of the event loop. May be NULL. */
    int (*load)(struct generation *g, struct problem *problem);
    /* Makes g->prompts with the loaded model, or writes the answer. Runs in a preparer thread,
     * except if params.unloads is set: it then runs in the thread of the event loop, has no model,
     * and must write the answer. If `prepare` makes no prompts and writes nothing, the answer has
     * no choices. */
    int (*prepare)(struct generation *g, struct problem *problem);

    /* The following functions write into g->out: events of a stream, or the answer. Each returns 0
     * or -ENOMEM. */
    const char *stream_type;  /* content type of streams */
    const char *stream_pause; /* sent every few seconds until the first token; NULL: nothing is
                                 sent */
    const char *stream_end;   /* the last bytes of a stream; NULL: none */
    /* Streams only: writes the first events. */
    int (*begin)(struct generation *g);
    /* Called for each event with tokens, before `piece`. The event has the probabilities of the
     * tokens if the request asks for them. The probabilities of a prompt's tokens come in events of
     * the kind INF_EVENT_PROMPT. May be NULL. */
    int (*tokens)(struct generation *g, struct choice *c, const struct inf_event *event);
    /* Streams only, unless takes_pieces is set: writes a piece of a choice. */
    int (*piece)(struct generation *g, struct choice *c, const struct piece *piece);
    /* Streams only, if the request has `return_progress`: called when a part of c->prompt was
     * computed. May be NULL. */
    int (*progress)(struct generation *g, struct choice *c);
    /* Called when a choice ended. c->finish is the reason for which it ended; the function may
     * change it. */
    int (*finish)(struct generation *g, struct choice *c);
    /* Sends the answer to other services. Called when all choices ended, before `end`, if g->saves
     * is set. Does not run in the thread of the event loop. May be NULL. */
    void (*save)(struct generation *g);
    /* Streams only: called when an error ends the stream, before the event of the error is sent.
     * May be NULL. */
    int (*fail)(struct generation *g, const struct problem *problem);
    /* Called when all choices ended: writes the last events of a stream, or the whole answer. */
    int (*end)(struct generation *g);
    /* Free the data to which the fields of c->own and of g->own point. May be NULL. */
    void (*choice_done)(struct choice *c);
    void (*done)(struct generation *g);
};

extern const struct chat_api api_openai_chat; /* api/openai-chat.c */
extern const struct chat_api api_llama_chat;
extern const struct chat_api api_mistral_fim;
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
extern const struct chat_api api_models_load; /* api/model-routes.c */
extern const struct chat_api api_models_unload;
