/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

/*
 * Embeddings: vectors and scores of texts
 *
 * An embedder owns a thread that computes texts in batches of tokens. Texts of any lengths share a
 * batch without padding. A result does not depend on the other texts of the batch or on the number
 * of threads. Small requests run before large ones and interrupt them between two products of a
 * layer.
 *
 * Any thread may call submit, cancel and stats; only one thread at a time may call next_result.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_embedder;

/* Positive conditions. */
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
    INF_POOLING_MODEL, /* as the model's files say, else the default of its kind */
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
    /* True: weights are multiplied as they are stored, F16 and F32 weights as floats and quantized
     * weights as sums of integers, even where copies would be faster or more exact. False: some
     * CPUs use faster ways for F16 and F32. BF16 copies and F16 sums give vectors with a cosine of
     * about 0.99999 to the exact ones. F32 weights that are split into two BF16 give 1 - 2e-10;
     * scores and token vectors never use them. */
    bool exact;
    uint32_t max_tokens;       /* per text; 0: as the model's files say */
    uint32_t batch_tokens;     /* of texts computed together; a longer text is computed alone; 0:
                                  512 */
    uint64_t max_queue_tokens; /* of waiting requests; 0: 4 million */
};

/* A text or a pair of texts, as inf_tokenizer_encode_texts() returns it. */
struct inf_embed_text {
    const int32_t *tokens;
    const uint8_t *types; /* token types [n_tokens]; NULL: all 0. Models with fewer than two
                             token types ignore them */
    size_t n_tokens;      /* at least one */
    /* For INF_EMBED_ROWS of encoders: all tokens attend only to the first n_seen tokens. The tokens
     * behind them attend to these as well, but not to themselves (the query expansion of ColBERT).
     * 0: all tokens are visible. In a layer with a window, each token must reach a visible one. */
    size_t n_seen;
};

enum inf_normalize {
    INF_NORMALIZE_MODEL, /* as the model's files say; yes if they do not say */
    INF_NORMALIZE_YES,   /* scale vectors to length 1 */
    INF_NORMALIZE_NO,
};

/* inf_embedder_submit() copies all of it. */
struct inf_embed_request {
    const struct inf_embed_text *texts;
    size_t n_texts;               /* at least one */
    const char *task;             /* task of a model with task adapters; NULL: its first task */
    uint32_t dimensions;          /* keep only the first dimensions of each vector (Matryoshka);
                                     0: all */
    enum inf_normalize normalize; /* applied after the truncation; never applied to scores */
    bool bulk;                    /* schedule as a large request; large requests always are */
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
    uint64_t n_interrupted; /* times that a small request interrupted a batch between two layers */
    double busy_seconds;
};

/* -EOPNOTSUPP: the model cannot produce the requested output, or the device cannot run it; -ESTALE:
 * the model's files changed; -ENOMEM; -EINVAL. */
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

/* An eventfd that is readable while results wait. The embedder owns it. */
INF_PUBLIC int inf_embedder_event_fd(const struct inf_embedder *embedder);
/* Returns the next result, which the caller frees, or NULL if there is none. Never blocks. */
INF_PUBLIC struct inf_embed_result *inf_embedder_next_result(struct inf_embedder *embedder);
/* Waits up to @timeout_msec for a result (-1: without limit). For callers without an event loop. */
INF_PUBLIC struct inf_embed_result *inf_embedder_wait_result(struct inf_embedder *embedder,
                                                             int timeout_msec);
/* NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_embed_result *inf_embed_result_free(struct inf_embed_result *result);

INF_PUBLIC void inf_embedder_stats(struct inf_embedder *embedder,
                                   struct inf_embedder_stats *ret_stats);
/* Name of the @i-th task that the model is adapted to, or NULL past the last one. Borrowed. */
INF_PUBLIC const char *inf_embedder_task(const struct inf_embedder *embedder, uint32_t i);
/* Floats per vector, or the number of scores per text. */
INF_PUBLIC uint32_t inf_embedder_width(const struct inf_embedder *embedder);
/* The limit in use: max_tokens of the parameters, or its default. */
INF_PUBLIC uint32_t inf_embedder_max_tokens(const struct inf_embedder *embedder);
INF_PUBLIC uint32_t inf_embedder_n_threads(const struct inf_embedder *embedder);
/* The device in use, for example "cpu". Borrowed. */
INF_PUBLIC const char *inf_embedder_device(const struct inf_embedder *embedder);
/* The instruction set in use, for example "avx512". Borrowed. */
INF_PUBLIC const char *inf_embedder_isa(const struct inf_embedder *embedder);

/* The cosine of the angle between two vectors of @n floats; 0 if one of them is zero. */
INF_PUBLIC double inf_similarity(const float *a, const float *b, size_t n);
/* Late interaction (Khattab and Zaharia 2020): for each of the @n_a vectors of @a, the largest dot
 * product with any of the @n_b vectors of @b; the sum of these. */
INF_PUBLIC double inf_similarity_rows(const float *a, size_t n_a, const float *b, size_t n_b,
                                      size_t width);

#ifdef __cplusplus
}
#endif
#endif
