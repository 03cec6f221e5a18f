/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Struct call is a request of the embed service (see model-request.h).
 *
 * A request has three stages: the body is read, its texts become tokens, and the answer is written.
 * A preparer thread makes the tokens. If the body or the answer is large, a preparer thread also
 * reads or writes it; otherwise the loop does.
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

/* Describes one endpoint: its fields, and the functions that process its requests. All three
 * functions may run on a preparer thread, so they do not access c->request.http. */
struct endpoint {
    const char *const *fields; /* all fields that the body may have */
    enum inf_embed_kind kind;  /* what the model makes: vectors or scores; `read` may set another
                                  kind */
    /* Reads and checks the body. */
    int (*read)(struct call *c, struct problem *problem);
    /* Makes c->texts with the tokenizer of the loaded model. */
    int (*prepare)(struct call *c, struct problem *problem);
    /* Writes c->result, which is NULL if the request had no texts, to c->out. -ENOMEM. */
    int (*answer)(struct call *c);
};

struct call {
    struct model_request request;
    struct embed *embed;
    const struct endpoint *endpoint;
    bool tei; /* a ranking in the format of text-embeddings-inference */
    enum inf_embed_kind kind;
    json_t *body;
    struct params params;
    struct inputs inputs; /* texts, documents, or sentences */
    struct inputs more;   /* for similarity: the texts with which `inputs` are compared */
    struct input query;   /* the query of a ranking */

    /* Fields that only some endpoints use. */
    bool base64, raw_scores, with_texts, is_matrix;
    uint32_t top_n; /* 0: all */
    bool has_keep;
    uint64_t keep_usec; /* has_keep: how long the model stays after its last use */

    bool may_be_shortened; /* a manifest says that vectors of the model may be shortened */
    struct embed_resident *resident;
    uint64_t ready_usec; /* when the model was loaded */
    int status;          /* result of the last stage; negative: `problem` has the error */
    struct problem problem;
    uint32_t i_task; /* index of params.task among the tasks of the model */
    struct inf_embed_text *texts;
    struct inf_encoding *encodings; /* [n_texts]; texts point into them */
    size_t n_texts;
    uint64_t n_tokens;
    enum interaction_role role; /* role of the texts, for models of late interaction */
    uint8_t *kept;     /* [n_tokens] whether a token's vector is requested; NULL: all are */
    uint64_t embed_id; /* 0: not submitted, or finished */
    struct inf_embed_result *result;
    struct str out;
};

/* The callback params.begin of the host. @endpoint is a struct endpoint. */
void call_new(struct model_host *host, const void *endpoint, struct http_request *http);
/* Handles a result of the embedder and takes ownership of it. */
void call_on_result(struct call *c, struct inf_embed_result *result);

/* tokens.c: implementations of `prepare` that make tokens of texts. */
int tokens_of_inputs(struct call *c, struct problem *problem);
int tokens_of_ranking(struct call *c, struct problem *problem);

/* adapters.c: sets c->i_task to the index of params.task among the tasks of the model. A task may
 * end with a dot and the name of a prompt, "retrieval.query"; the name goes to params.prompt. */
int adapter_find_task(struct call *c, struct problem *problem);

/* token-vectors.c: returns whether the result has a vector for each token. */
bool token_vectors_are_made(const struct call *c);
/* Refuses a request that needs too much memory; otherwise marks in c->kept the tokens whose vectors
 * are needed. */
int token_vectors_prepare(struct call *c, struct problem *problem);
/* Removes the vectors of tokens that are not marked in c->kept from c->result. */
void token_vectors_drop(struct call *c);
/* Appends the vectors of text @i to c->out, in the form [[0.1,0.2],[0.3,0.4]]. -ENOMEM. */
int token_vectors_put(struct call *c, size_t i);

/* embeddings.c: reads the fields that requests for vectors share; @param is the field with the
 * texts. */
int embeddings_read_common(struct call *c, const char *param, struct problem *problem);

/* Appends {"prompt_tokens":…,"total_tokens":…} to c->out, for functions `answer` of endpoints. */
int call_put_usage(struct call *c);

extern const struct endpoint endpoint_embeddings; /* embeddings.c */
extern const struct endpoint endpoint_llama_embeddings;
extern const struct endpoint endpoint_embed;
extern const struct endpoint endpoint_embed_all; /* token-vectors.c */
extern const struct endpoint endpoint_rerank;    /* rerank.c */
extern const struct endpoint endpoint_cohere_rerank;
extern const struct endpoint endpoint_score;
extern const struct endpoint endpoint_ollama_embed; /* ollama-embed.c */
extern const struct endpoint endpoint_ollama_embeddings;
extern const struct endpoint endpoint_v1_similarity; /* similarity.c */
extern const struct endpoint endpoint_similarity;
