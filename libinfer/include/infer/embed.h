/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

/*
 * Embeddings: vectors and scores of texts
 *
 * An embedder owns a thread that computes texts in batches of tokens. Texts of different lengths
 * share a batch without padding. A result does not depend on the other texts of the batch or on the
 * number of threads. Small requests run before large requests, and interrupt a large request
 * between two of its matrix products.
 *
 * Any thread may call inf_embedder_submit(), inf_embedder_cancel() and inf_embedder_stats(). Only
 * one thread at a time may call inf_embedder_next_result() and inf_embedder_wait_result().
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_embedder;

/* Conditions that functions return as positive numbers. */
enum {
    INF_EMBED_FULL = 1, /* the limit of waiting tokens is reached: try again later */
};

enum inf_embed_kind {
    INF_EMBED_VECTORS, /* one vector per text */
    INF_EMBED_ROWS,    /* one vector per token */
    INF_EMBED_SCORES,  /* scores of a classifier for a text or a pair; for a decoder, the logits
                          of the tokens "no" and "yes" */
};

enum inf_pooling {
    INF_POOLING_MODEL, /* as the model's files say; if they do not say, the default for its
                          architecture */
    INF_POOLING_MEAN,
    INF_POOLING_CLS, /* the vector of the first token */
    INF_POOLING_LAST,
};

struct inf_embedder_params {
    struct inf_model *model; /* the embedder takes its own reference */
    const char *device;      /* as in infer/device.h; NULL: "auto" */
    const char *cache_dir;   /* as in inf_device_params */
    const char *isa;         /* highest instruction set to use: "ref", "avx2", "avx512"…; NULL:
                                the best */
    uint32_t n_threads;      /* 0: the CPUs that affinity and the cgroup's quota allow */
    enum inf_embed_kind kind;
    enum inf_pooling pooling;
    /* True: weights are multiplied in the format in which they are stored, F16 and F32 weights with
     * float arithmetic and quantized weights with integer arithmetic, even where a converted copy
     * would be faster or more exact. False: on some CPUs, F16 and F32 weights are multiplied in
     * faster ways. BF16 copies of weights and sums in F16 give vectors whose cosine to the exact
     * vectors is about 0.99999. F32 weights that are split into two BF16 numbers give a cosine of 1
     * - 2e-10; scores and token vectors are never computed with split weights. */
    bool exact;
    uint32_t max_tokens;       /* limit per text; 0: as the model's files say, or the trained length
                                  up to 8192 */
    uint32_t batch_tokens;     /* tokens of texts that are computed together; a longer text is
                                  computed alone; 0: 512 */
    uint64_t max_queue_tokens; /* limit of tokens in all waiting requests together, except that a
                                  request is accepted if none waits; 0: 4,194,304 */
};

/* A text or a pair of texts, as inf_tokenizer_encode_texts() returns it. */
struct inf_embed_text {
    const int32_t *tokens;
    const uint8_t *types; /* token types [n_tokens]; NULL: all 0. Models with fewer than two token
                             types ignore `types` */
    size_t n_tokens;      /* at least one */
    /* For INF_EMBED_ROWS of encoders: all tokens of the text attend only to its first n_seen
     * tokens; a token after the first n_seen does not even attend to itself (the query expansion
     * of ColBERT). 0: tokens attend to all tokens. In a layer with a window, the window of each
     * token must contain at least one of the first n_seen tokens. */
    size_t n_seen;
};

enum inf_normalize {
    INF_NORMALIZE_MODEL, /* as the model's files say; as INF_NORMALIZE_YES if they do not say */
    INF_NORMALIZE_YES,   /* scale vectors to length 1 */
    INF_NORMALIZE_NO,
};

/* inf_embedder_submit() copies a request and everything that it points to, except @user. */
struct inf_embed_request {
    const struct inf_embed_text *texts;
    size_t n_texts;               /* at least one */
    const char *task;             /* task of a model with task adapters; NULL: its first task */
    uint32_t dimensions;          /* keep only the first dimensions of each vector (Matryoshka);
                                     0: all */
    enum inf_normalize normalize; /* applied after the reduction to @dimensions; never to scores */
    bool bulk;                    /* schedule this request as a large one, even if it is small */
    void *user;                   /* returned in the result */
};

struct inf_embed_result {
    uint64_t request;
    void *user;
    int error; /* 0; -ECANCELED; -ESTALE: the model's files changed; or the error of the device */
    size_t n_texts;
    uint32_t width;       /* floats per vector */
    const float *vectors; /* [n_vectors, width], in the order of the texts; NULL on error */
    const size_t *first;  /* INF_EMBED_ROWS: [n_texts + 1] index of the first vector of each text */
    size_t n_vectors;
    uint64_t n_tokens; /* tokens that were computed */
};

struct inf_embedder_stats {
    uint64_t n_requests, n_rejected, n_texts, n_tokens, n_batches;
    uint64_t n_waiting_tokens;
    uint64_t n_interrupted; /* times that small requests interrupted a batch of a large request */
    double busy_seconds;
};

/* Creates an embedder and starts its thread. Returns 0; -EOPNOTSUPP: the model cannot produce the
 * requested output, or the device cannot run the model; -ESTALE: the model's files changed;
 * -ENOMEM; -EINVAL. */
INF_PUBLIC int inf_embedder_new(const struct inf_embedder_params *params,
                                struct inf_embedder **ret_embedder, struct inf_err *reterr);
/* Cancels all requests and joins the thread. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_embedder *inf_embedder_free(struct inf_embedder *embedder);

/* Returns 0 and sets *ret_id (never 0); INF_EMBED_FULL; -EINVAL with the reason (no texts, an empty
 * text, a token outside the vocabulary, too many dimensions); -E2BIG: a text has more than
 * max_tokens; -ESTALE: the model's files changed; -ENOMEM. */
INF_PUBLIC int inf_embedder_submit(struct inf_embedder *embedder,
                                   const struct inf_embed_request *request, uint64_t *ret_id,
                                   struct inf_err *reterr);
/* Cancels a request; its result has the error -ECANCELED. An unknown id is ignored. */
INF_PUBLIC void inf_embedder_cancel(struct inf_embedder *embedder, uint64_t id);

/* Returns an eventfd that is readable while results wait. The embedder owns the descriptor. */
INF_PUBLIC int inf_embedder_event_fd(const struct inf_embedder *embedder);
/* Returns the next result, which the caller frees, or NULL if there is none. Never blocks. */
INF_PUBLIC struct inf_embed_result *inf_embedder_next_result(struct inf_embedder *embedder);
/* Waits up to @timeout_msec for a result (-1: without limit). The function is for callers without
 * an event loop. */
INF_PUBLIC struct inf_embed_result *inf_embedder_wait_result(struct inf_embedder *embedder,
                                                             int timeout_msec);
/* NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_embed_result *inf_embed_result_free(struct inf_embed_result *result);

INF_PUBLIC void inf_embedder_stats(struct inf_embedder *embedder,
                                   struct inf_embedder_stats *ret_stats);
/* Returns the name of the @i-th task that the model is adapted to, or NULL past the last one.
 * Borrowed. */
INF_PUBLIC const char *inf_embedder_task(const struct inf_embedder *embedder, uint32_t i);
/* Returns the number of floats per vector, or of scores per text. */
INF_PUBLIC uint32_t inf_embedder_width(const struct inf_embedder *embedder);
/* Returns the limit in use: max_tokens of the parameters, or its default. */
INF_PUBLIC uint32_t inf_embedder_max_tokens(const struct inf_embedder *embedder);
INF_PUBLIC uint32_t inf_embedder_n_threads(const struct inf_embedder *embedder);
/* Returns the device in use, for example "cpu". Borrowed. */
INF_PUBLIC const char *inf_embedder_device(const struct inf_embedder *embedder);
/* Returns the instruction set in use, for example "avx512". Borrowed. */
INF_PUBLIC const char *inf_embedder_isa(const struct inf_embedder *embedder);

/* Returns the cosine of the angle between two vectors of @n floats; 0 if one of the vectors is
 * zero. */
INF_PUBLIC double inf_similarity(const float *a, const float *b, size_t n);
/* Computes the score of late interaction (Khattab and Zaharia 2020): the sum, over the @n_a vectors
 * of @a, of the largest dot product with any of the @n_b vectors of @b. */
INF_PUBLIC double inf_similarity_rows(const float *a, size_t n_a, const float *b, size_t n_b,
                                      size_t width);

#ifdef __cplusplus
}
#endif
#endif
