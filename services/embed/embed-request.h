/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request, from its body to its answer (see model-request.h)
 *
 * Three stages: the body is read, its texts become tokens, and what was computed is written. Tokens
 * are made beside the loop; so are the other two when they are large.
 */

#include <infer/embed.h>
#include <infer/tokenizer.h>

#include "common/http/problem.h"
#include "common/service/jobs.h"
#include "common/wire/json.h"
#include "core/str.h"
#include "embed/embed-params.h"
#include "embed/embed-resident.h"
#include "embed/inputs.h"
#include "embed/late-interaction.h"
#include "host/model-request.h"

struct call;
struct embed;
struct http_request;
struct model_host;

/* What differs between endpoints. All three may run beside the loop, and none touches
 * c->request.http. */
struct endpoint {
    const char *const *fields; /* all that the body may have */
    enum inf_embed_kind kind;  /* unless `read` says otherwise */
    bool tei;                  /* errors are those of text-embeddings-inference */
    /* Reads and checks the body. */
    int (*read)(struct call *c, struct problem *problem);
    /* Makes c->texts, with the model at hand. */
    int (*prepare)(struct call *c, struct problem *problem);
    /* Writes c->out of c->result. -ENOMEM. */
    int (*answer)(struct call *c);
};

struct call {
    struct model_request request;
    struct embed *embed;
    const struct endpoint *endpoint;
    bool tei;
    enum inf_embed_kind kind;
    json_t *body;
    struct params params;
    struct inputs inputs; /* texts, documents, or sentences */
    struct inputs more;   /* what they are compared with */
    struct input query;   /* of a ranking */

    /* The endpoints' own fields. */
    bool base64, raw_scores, with_texts, is_matrix;
    uint32_t top_n; /* 0: all */

    bool may_be_shortened; /* a manifest says so of the vectors of the model */
    struct embed_resident *resident;
    int status;             /* of a stage */
    struct problem problem; /* of a stage */
    uint32_t i_task;        /* of params.task among those of the model */
    struct inf_embed_text *texts;
    struct inf_encoding *encodings; /* [n_texts], what texts point into */
    size_t n_texts;
    uint64_t n_tokens;
    enum interaction_role role; /* of the texts, for models of late interaction */
    uint8_t *kept;              /* [n_tokens], whether a token's vector is asked for; NULL: all */
    uint64_t embed_id;          /* 0: not submitted, or over */
    struct inf_embed_result *result;
    struct str out;
};

/* For params.begin of the host; @endpoint: a struct endpoint. */
void call_new(struct model_host *host, const void *endpoint, struct http_request *http);
/* From an embedder; takes the result. */
void call_on_result(struct call *c, struct inf_embed_result *result);

/* tokens.c: texts become tokens, for `prepare`. */
int tokens_of_inputs(struct call *c, struct problem *problem);
int tokens_of_ranking(struct call *c, struct problem *problem);

/* adapters.c: where params.task stands among those of the model, to c->i_task. A task may have a
 * prompt's name behind a dot, "retrieval.query", which goes to params.prompt. */
int tasks_find(struct call *c, struct problem *problem);

/* token-vectors.c: whether a result has a vector of each token. */
bool token_vectors_are_made(const struct call *c);
/* Refuses what would take more memory than a request may; else tells which tokens count, to
 * c->kept. */
int token_vectors_prepare(struct call *c, struct problem *problem);
/* The others leave c->result. */
void token_vectors_drop(struct call *c);
/* Appends the vectors of text @i to c->out, [[0.1,0.2],[0.3,0.4]]. -ENOMEM. */
int token_vectors_put(struct call *c, size_t i);

/* embeddings.c: reads what requests for vectors share, texts in field @param. */
int embeddings_read_common(struct call *c, const char *param, struct problem *problem);

/* For `answer`: appends {"prompt_tokens":…,"total_tokens":…} to c->out. */
int call_put_usage(struct call *c);

extern const struct endpoint endpoint_embeddings; /* embeddings.c */
extern const struct endpoint endpoint_embed;
extern const struct endpoint endpoint_embed_all;     /* token-vectors.c */
extern const struct endpoint endpoint_rerank;        /* rerank.c */
extern const struct endpoint endpoint_v1_similarity; /* similarity.c */
extern const struct endpoint endpoint_similarity;
