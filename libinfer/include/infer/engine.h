/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_ENGINE_H
#define INFER_ENGINE_H

/*
 * The engine: many requests, one model
 *
 * An engine owns a thread that batches all requests together: they join and leave between steps,
 * long prompts are computed in chunks beside the decoding of others. Requests go in with
 * inf_engine_submit(), events come out of inf_engine_next_event(), in order per choice.
 * Greedy output of a request does not depend on the other requests in the batch.
 *
 * submit, cancel and stats may be called by any thread; next_event by one thread at a time.
 */

#include <infer/model.h>
#include <infer/tier.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_engine;

/* Positive conditions. */
enum {
    INF_ENGINE_FULL = 1, /* the queue is at its limit: try again later */
};

struct inf_engine_params {
    struct inf_model *model;   /* the engine takes its own reference */
    const char *device;        /* as in infer/device.h; NULL: "auto" */
    const char *cache_dir;     /* as in inf_device_params */
    uint64_t device_bytes;     /* most memory to take of a GPU; layers that do not fit are the
                                  CPU's; 0: what is free */
    bool cache_read_only;      /* what inf_device_open() left there is used, and nothing written */
    const char *isa;           /* highest rung to use: "ref", "avx2", "avx512"…; NULL: the best */
    uint32_t n_threads;        /* 0: the CPUs that affinity and the cgroup's quota allow */
    uint32_t n_ctx;            /* tokens that one sequence may hold; 0: min(trained, 8192) */
    uint32_t max_seqs;         /* sequences computed at the same time; 0: 16 */
    uint32_t max_queue;        /* requests waiting; 0: 256 */
    uint32_t max_batch_tokens; /* rows of one step; 0: 512 */
    const char *kv_type;       /* numbers of the KV cache: "f32", "f16", "bf16", "fp8", or, with
                                  heads of a multiple of 32 elements, "q8_0" and "q4_0"; two of
                                  them are of keys and of values: "q8_0:q4_0"; NULL or "auto": "f16", and
                                  "f32" for models in F32 */
    uint64_t kv_bytes;         /* memory for the KV cache; 0: what n_ctx × 4 sequences need, within
                                  a quarter of the machine's memory, or what a GPU has beside the
                                  model; never more than the device holds */
    bool no_prefix_cache;      /* what requests leave in the KV cache is not kept for later ones */
    struct inf_tier *tier;     /* keeps it beyond this engine, which it outlives; NULL: none */
    const char *tier_model;    /* the model's name there; NULL: "" */
};

struct inf_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -100 or less forbids */
};

/* Zeroed is greedy without penalties, but for the fields whose neutral value is noted. */
struct inf_sampling {
    float temperature;        /* 0: greedy */
    float top_p;              /* 0 or 1: off */
    float min_p;              /* 0: off */
    float typical_p;          /* 0 or 1: off */
    uint32_t top_k;           /* 0: off */
    float repetition_penalty; /* 0 or 1: off; divides positive logits, multiplies negative */
    float presence_penalty;   /* OpenAI's, over generated tokens */
    float frequency_penalty;  /* OpenAI's, over generated tokens */
    uint32_t penalty_last_n;  /* window of repetition_penalty, prompt included; 0: 64 */
    bool has_seed;
    uint64_t seed; /* choice i of a request uses seed + i */
    const struct inf_logit_bias *logit_bias;
    size_t n_logit_bias;
};

struct inf_stop {
    const char *text;
    size_t len;
};

/* Everything is copied by submit. */
struct inf_request {
    const int32_t *tokens; /* the prompt; at least one */
    size_t n_tokens;
    uint32_t max_tokens; /* per choice; 0: until the context is full */
    uint32_t n_choices;  /* 0: 1; the choices share the prompt's KV blocks */
    struct inf_sampling sampling;
    const struct inf_stop *stops; /* matched on text, across tokens; not part of the output */
    size_t n_stops;
    bool ignore_eos;
    bool show_special;    /* text includes special tokens */
    int n_logprobs;       /* -1: none; 0: of the chosen token; n: and the n most likely */
    bool prompt_logprobs; /* INF_EVENT_PROMPT tells them, for `echo` with logprobs */
    /* What of a prompt other requests of the same tenant and salt have left in the KV cache, in
     * whole blocks from its beginning, is not computed again. The text is the same. */
    bool no_cache;            /* neither takes from others, nor leaves anything to them */
    const char *cache_tenant; /* NULL: "" */
    const char *cache_salt;   /* any bytes; may be NULL when the length is 0 */
    size_t cache_salt_len;
    const char *session; /* names the conversation in the engine's tier; NULL: none */
    void *user;          /* comes back in the events */
};

enum inf_event_kind {
    INF_EVENT_PROMPT, /* the prompt is computed; logprobs of its tokens when asked for */
    INF_EVENT_TOKENS, /* text became final; its tokens with it */
    INF_EVENT_FINISH, /* the choice ended; no event of this choice follows */
};

enum inf_finish {
    INF_FINISH_STOP,      /* end-of-generation token */
    INF_FINISH_STOP_TEXT, /* a stop string, see stop_index */
    INF_FINISH_LENGTH,    /* max_tokens, or the context is full */
    INF_FINISH_CANCELLED,
    INF_FINISH_ERROR, /* see error */
    INF_FINISH_STALE, /* the model's files changed, see error: what was told may be wrong */
};

struct inf_top_logprob {
    int32_t token;
    float logprob;
};

struct inf_token_logprob {
    int32_t token;
    float
        logprob; /* of raw logits: before bias, penalties and temperature; NAN: first of a prompt */
    uint32_t n_top;
    const struct inf_top_logprob *top; /* descending; ties by lower id */
};

/* Borrowed memory, valid until the next call of inf_engine_next_event(). */
struct inf_event {
    enum inf_event_kind kind;
    uint64_t request;
    uint32_t choice;
    void *user;

    const char *text; /* TOKENS: whole code points, may be empty while a token waits */
    size_t text_len;
    const struct inf_token_logprob *tokens; /* TOKENS and PROMPT; logprob is set when asked for */
    size_t n_tokens;

    enum inf_finish finish; /* FINISH */
    uint32_t stop_index;
    const char *error;

    uint32_t n_prompt;    /* tokens, all kinds of event */
    uint32_t n_cached;    /* of these, found in the KV cache when the request began */
    uint32_t n_generated; /* by this choice so far */
    bool last;            /* FINISH: all choices of the request have ended */
};

struct inf_engine_stats {
    uint64_t n_requests, n_finished, n_cancelled, n_errors, n_rejected;
    uint64_t n_prompt_tokens, n_generated_tokens, n_steps;
    uint64_t n_device_losses;      /* each was followed by opening the device again */
    uint32_t n_waiting, n_running; /* sequences */
    uint32_t n_blocks, n_blocks_used;
    uint32_t n_blocks_idle;             /* not used, and kept for later requests */
    double prefill_tok_s, decode_tok_s; /* over the last seconds of work; 0: none yet */
    double busy_seconds;
    /* of the tier */
    bool has_tier;                             /* the device can use the one that was given */
    uint64_t n_tier_loaded, tier_loaded_bytes; /* blocks that came from there, and were right */
    uint64_t n_tier_kept, tier_kept_bytes;     /* and that went there */
    uint64_t n_tier_bad;                       /* that were wrong, and computed */
    uint64_t n_tier_refused;                   /* times that computing seemed faster than loading */
    uint64_t n_tier_failed;                    /* calls */
};

/* -EOPNOTSUPP: device or isa is not there, or kv_type does not fit; -ESTALE: the model's files
 * changed; -ENOMEM; -EINVAL. */
INF_PUBLIC int inf_engine_new(const struct inf_engine_params *params,
                              struct inf_engine **ret_engine, struct inf_err *reterr);
/* Cancels what runs and joins the thread. NULL is fine; returns NULL. */
INF_PUBLIC struct inf_engine *inf_engine_free(struct inf_engine *engine);

/*
 * 0 and *ret_id (never 0); INF_ENGINE_FULL; -EINVAL with the reason (an empty prompt, a token
 * outside the vocabulary, NaN…); -E2BIG: the prompt leaves no room in the context; -ESTALE: the
 * model's files changed, with the reason.
 */
INF_PUBLIC int inf_engine_submit(struct inf_engine *engine, const struct inf_request *request,
                                 uint64_t *ret_id, struct inf_err *reterr);
/* All choices end with INF_FINISH_CANCELLED before the next step. Unknown ids are ignored. */
INF_PUBLIC void inf_engine_cancel(struct inf_engine *engine, uint64_t id);

/* An eventfd that is readable while events wait; the engine owns it. */
INF_PUBLIC int inf_engine_event_fd(const struct inf_engine *engine);
/* 1 and *ret_event, or 0 when none waits. Never blocks. */
INF_PUBLIC int inf_engine_next_event(struct inf_engine *engine, struct inf_event *ret_event);
/* Waits up to @timeout_msec (-1: for ever) for an event; 1 or 0. For callers without a loop. */
INF_PUBLIC int inf_engine_wait_event(struct inf_engine *engine, int timeout_msec,
                                     struct inf_event *ret_event);

INF_PUBLIC void inf_engine_stats(struct inf_engine *engine, struct inf_engine_stats *ret_stats);
/*
 * Whether the engine keeps keys and values as @kv_type (as in the parameters): 0 when it does, 1
 * when another engine of its model on its device could; -EINVAL: unknown; -EOPNOTSUPP: the model's
 * heads or the device do not allow it, with the reason. May be called on any thread.
 */
INF_PUBLIC int inf_engine_kv_type(const struct inf_engine *engine, const char *kv_type,
                                  struct inf_err *reterr);
/* What 0 in the parameters became. */
INF_PUBLIC uint32_t inf_engine_n_ctx(const struct inf_engine *engine);
INF_PUBLIC uint32_t inf_engine_n_threads(const struct inf_engine *engine);
/* The device in use, "cpu" or "vulkan:0"; borrowed. */
INF_PUBLIC const char *inf_engine_device(const struct inf_engine *engine);
/* The rung in use, "avx512"; borrowed. */
INF_PUBLIC const char *inf_engine_isa(const struct inf_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
