/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API request that needs a model, from its body to its last byte (see model-request.h)
 *
 * Steps: read the body; wait for the model; make prompts, on a thread beside the loop; submit them
 * to the engine; write events in the format of the endpoint; end. The HTTP request, the engine
 * (once per prompt) and the preparing job each hold a reference.
 */

#include <infer/engine.h>
#include <jansson.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "chat/params.h"
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
};

struct choice {
    uint32_t index;
    struct prompt *prompt;
    struct str text;     /* of the answer, if it is not streamed */
    struct str logprobs; /* JSON in the endpoint's format */
    struct str logprobs_more[3];
    uint32_t n_generated;
    int32_t offset;     /* of the next token in the text, in code points; for logprobs */
    const char *finish; /* static: "stop", "length"; NULL: running */
    bool started;       /* some of it was sent */
};

/* The differences between endpoints. */
struct endpoint {
    const char *id_prefix;
    const char *const *fields; /* field names in addition to params_names */
    bool generates;            /* false: `prepare` writes the whole answer into g->out */
    /* Reads and checks the body; may run on a thread beside the loop. */
    int (*read)(struct generation *g, struct problem *problem);
    /* Makes g->prompts, with the loaded model; runs on a thread beside the loop. */
    int (*prepare)(struct generation *g, struct problem *problem);
    /* These functions write into g->out as events of a stream, or into the choice. */
    int (*begin)(struct generation *g);
    int (*tokens)(struct generation *g, struct choice *c, const struct inf_event *event);
    int (*finish)(struct generation *g, struct choice *c);
    /* Writes the usage event of a stream, or the whole answer. */
    int (*end)(struct generation *g);
};

struct generation {
    struct model_request request;
    struct chat *chat;
    const struct endpoint *endpoint;
    char id[REQUEST_ID_SIZE];
    char tenant[TENANT_SIZE], session[SESSION_ID_SIZE];
    int64_t created;
    json_t *body;
    struct params params;
    int status; /* of reading and preparing */
    struct problem problem;

    /* Fields of single endpoints. */
    uint32_t max_tokens;   /* 0: the default */
    int n_logprobs;        /* as in inf_request */
    bool echo, score_only; /* score_only: max_tokens is 0 */
    json_t *messages;      /* borrowed from body, like the next two */
    json_t *documents, *kwargs;

    struct chat_resident *resident;
    struct prompt *prompts;
    size_t n_prompts;
    struct choice *choices;
    size_t n_choices, n_finished;
    struct str head; /* see generation_put_head() */
    struct str out;
    bool first_token;
};

/* For params.begin of the host. @endpoint: a struct endpoint. */
void generation_new(struct model_host *host, const void *endpoint, struct http_request *http);
/* Called for each event of the engine. */
void generation_on_event(struct generation *g, const struct inf_event *event);
/* Encodes one prompt and appends it to g->prompts; for `prepare`. */
int generation_add_prompt(struct generation *g, const char *param, const char *text, size_t len,
                          unsigned flags, struct problem *problem);
int generation_add_tokens(struct generation *g, int32_t *tokens, size_t n_tokens,
                          struct problem *problem);

/* Sums over prompts and choices. */
struct usage {
    uint64_t n_prompt, n_cached, n_generated;
};
/* Appends the start of an answer, or of each event of a stream, up to "choices":[ to g->out. The
 * text is made once, so @object must be the same each time. */
int generation_put_head(struct generation *g, const char *object);
/* Appends the usage object. */
int generation_put_usage(const struct generation *g, struct str *out);

extern const struct endpoint endpoint_chat;        /* chat-completions.c */
extern const struct endpoint endpoint_completions; /* completions.c */
extern const struct endpoint endpoint_tokenize;    /* tokenize.c */
extern const struct endpoint endpoint_detokenize;
extern const struct endpoint endpoint_apply_template;
