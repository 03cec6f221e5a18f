/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

/*
 * Vectors and scores of texts
 *
 * An embedder owns a thread that computes texts in batches by their tokens: texts of any lengths
 * lie side by side, and nothing is padded. A result does not depend on what else is in the batch,
 * nor on the number of threads. Small requests go before large ones, which they interrupt between
 * two products of a layer.
 *
 * submit, cancel and stats may be called by any thread; next_result by one thread at a time.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_embedder;

/* Positive conditions. */
enum {
    INF_EMBED_FULL = 1, /* as many tokens wait as may: try again later */
};

enum inf_embed_kind {
    INF_EMBED_VECTORS, /* one vector a text */
    INF_EMBED_ROWS,    /* one vector a token */
    INF_EMBED_SCORES,  /* what a classifier says of a text or pair; decoders are asked for the
                          logits of the tokens "no" and "yes" */
};

enum inf_pooling {
    INF_POOLING_MODEL, /* as the model's files say, or what is usual for its kind */
    INF_POOLING_MEAN,
    INF_POOLING_CLS, /* the first token's vector */
    INF_POOLING_LAST,
};

struct inf_embedder_params {
    struct inf_model *model; /* the embedder takes its own reference */
    const char *device;      /* as in infer/device.h; NULL: "auto" */
    const char *cache_dir;   /* as in inf_device_params */
    const char *isa;         /* highest rung to use; NULL: the best */
    uint32_t n_threads;      /* 0: the CPUs that affinity and the cgroup's quota allow */
    enum inf_embed_kind kind;
    enum inf_pooling pooling;
    bool exact; /* weights are multiplied as they lie: those of F16 and F32 as floats, also by CPUs
                   that are faster with copies in BF16, or with sums in F16 (vectors then differ by
                   a cosine of about 0.99999), or with copies of F32 in two BF16 (1 - 2e-10; never
                   for scores and vectors of tokens). Those of quantised weights are sums of
                   integers, also where copies are faster, or more exact. */
    uint32_t max_tokens;       /* of one text; 0: what the model's files say */
    uint32_t batch_tokens;     /* of texts computed together; longer ones are alone; 0: 512 */
    uint64_t max_queue_tokens; /* of requests that wait; 0: 4 million */
};

/* A text or pair as inf_tokenizer_encode_texts() makes it. */
struct inf_embed_text {
    const int32_t *tokens;
    const uint8_t *types; /* [n_tokens], or NULL: all are 0. Models with fewer than two kinds of
                             tokens do not read them */
    size_t n_tokens;      /* at least one */
    /* ROWS of encoders: those behind the first n_seen are seen by no token, themselves included;
     * they see the first (ColBERT's expansion of queries). 0: all are seen. A layer with a window
     * must reach from each to one that is seen. */
    size_t n_seen;
};

enum inf_normalize {
    INF_NORMALIZE_MODEL, /* as the model's files say; without a word in them: yes */
    INF_NORMALIZE_YES,   /* to length 1 */
    INF_NORMALIZE_NO,
};

/* Everything is copied by submit. */
struct inf_embed_request {
    const struct inf_embed_text *texts;
    size_t n_texts;               /* at least one */
    const char *task;             /* of a model that is adapted to tasks; NULL: its first */
    uint32_t dimensions;          /* the first ones of each vector alone (Matryoshka); 0: all */
    enum inf_normalize normalize; /* after that; scores never are */
    bool bulk;                    /* large requests are so anyway */
    void *user;                   /* comes back in the result */
};

struct inf_embed_result {
    uint64_t request;
    void *user;
    int error; /* 0; -ECANCELED; -ESTALE: the model's files changed; or what kept the device from
                  computing */
    size_t n_texts;
    uint32_t width;       /* floats of a vector */
    const float *vectors; /* [n_vectors, width], in the order of the texts; NULL on error */
    const size_t *first;  /* ROWS: [n_texts + 1], where the vectors of a text begin */
    size_t n_vectors;
    uint64_t n_tokens; /* that were computed */
};

struct inf_embedder_stats {
    uint64_t n_requests, n_rejected, n_texts, n_tokens, n_batches;
    uint64_t n_waiting_tokens;
    uint64_t n_interrupted; /* times that a small request went between the layers of a batch */
    double busy_seconds;
};

/* -EOPNOTSUPP: the model makes no such thing, or the device cannot; -ESTALE: its files changed;
 * -ENOMEM; -EINVAL. */
INF_PUBLIC int inf_embedder_new(const struct inf_embedder_params *params,
                                struct inf_embedder **ret_embedder, struct inf_err *reterr);
/* Drops what runs and joins the thread. NULL is fine; returns NULL. */
INF_PUBLIC struct inf_embedder *inf_embedder_free(struct inf_embedder *embedder);

/* 0 and *ret_id (never 0); INF_EMBED_FULL; -EINVAL with the reason (no texts, an empty one, a token
 * outside the vocabulary, more dimensions than there are); -E2BIG: a text has more than max_tokens;
 * -ESTALE: the model's files changed; -ENOMEM. */
INF_PUBLIC int inf_embedder_submit(struct inf_embedder *embedder,
                                   const struct inf_embed_request *request, uint64_t *ret_id,
                                   struct inf_err *reterr);
/* Its result comes with -ECANCELED. Unknown ids are ignored. */
INF_PUBLIC void inf_embedder_cancel(struct inf_embedder *embedder, uint64_t id);

/* An eventfd that is readable while results wait; the embedder owns it. */
INF_PUBLIC int inf_embedder_event_fd(const struct inf_embedder *embedder);
/* The next result, which the caller frees, or NULL when none waits. Never blocks. */
INF_PUBLIC struct inf_embed_result *inf_embedder_next_result(struct inf_embedder *embedder);
/* Waits up to @timeout_msec (-1: for ever). For callers without a loop. */
INF_PUBLIC struct inf_embed_result *inf_embedder_wait_result(struct inf_embedder *embedder,
                                                             int timeout_msec);
/* NULL is fine; returns NULL. */
INF_PUBLIC struct inf_embed_result *inf_embed_result_free(struct inf_embed_result *result);

INF_PUBLIC void inf_embedder_stats(struct inf_embedder *embedder,
                                   struct inf_embedder_stats *ret_stats);
/* The @i-th task that the model is adapted to, borrowed; NULL past the last. */
INF_PUBLIC const char *inf_embedder_task(const struct inf_embedder *embedder, uint32_t i);
/* Floats of a vector, or the number of scores. */
INF_PUBLIC uint32_t inf_embedder_width(const struct inf_embedder *embedder);
/* What 0 in the parameters became. */
INF_PUBLIC uint32_t inf_embedder_max_tokens(const struct inf_embedder *embedder);
INF_PUBLIC uint32_t inf_embedder_n_threads(const struct inf_embedder *embedder);
/* The device in use, "cpu"; borrowed. */
INF_PUBLIC const char *inf_embedder_device(const struct inf_embedder *embedder);
/* The rung in use, "avx512"; borrowed. */
INF_PUBLIC const char *inf_embedder_isa(const struct inf_embedder *embedder);

/* The cosine of the angle between two vectors of @n floats; 0 when one of them is zero. */
INF_PUBLIC double inf_similarity(const float *a, const float *b, size_t n);
/* Late interaction (Khattab and Zaharia 2020): for each of the @n_a vectors of a the largest dot
 * product with one of the @n_b of b, summed. */
INF_PUBLIC double inf_similarity_rows(const float *a, size_t n_a, const float *b, size_t n_b,
                                      size_t width);

#ifdef __cplusplus
}
#endif
#endif
