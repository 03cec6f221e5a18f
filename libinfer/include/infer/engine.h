/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_ENGINE_H
#define INFER_ENGINE_H

/*
 * Text generation: one model, many concurrent requests
 *
 * An engine owns a thread that computes all requests together, in batches. Requests join and leave
 * the batch between steps, and a long prompt is computed in chunks while other requests decode.
 * Callers submit requests with inf_engine_submit() and take events with inf_engine_next_event(). A
 * request can have several choices: texts that are generated for one prompt. The events of one
 * choice come in order. The keys and values of computed tokens are kept in the KV cache, in blocks
 * of a fixed number of tokens. On the CPU, the greedy output of a request does not depend on the
 * other requests in the batch; on a GPU, the last bits of logits can.
 *
 * Any thread may call inf_engine_submit(), inf_engine_cancel() and inf_engine_stats(). Only one
 * thread at a time may call inf_engine_next_event() and inf_engine_wait_event().
 */

#include <infer/grammar.h>
#include <infer/histogram.h>
#include <infer/model.h>
#include <infer/sampling.h>
#include <infer/tier.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_engine;

/* Conditions that functions return as positive numbers. */
enum {
    INF_ENGINE_FULL = 1, /* the queue is full: try again later */
};

struct inf_engine_params {
    struct inf_model *model;   /* the engine takes its own reference */
    const char *device;        /* as in infer/device.h; NULL: "auto" */
    const char *cache_dir;     /* as in inf_device_params */
    bool cpu_else;             /* the CPU computes a model that the device cannot compute;
                                  with "auto" this is always so */
    uint64_t device_bytes;     /* limit of GPU memory to use; the CPU runs the layers that do not
                                  fit; 0: all free memory */
    bool cache_read_only;      /* use the kernels that inf_device_open() left in cache_dir, but
                                  write nothing */
    const char *isa;           /* highest instruction set to use: "ref", "avx2", "avx512"…; NULL:
                                  the best, but without AMX for weights in BF16 */
    uint32_t n_threads;        /* 0: the CPUs that affinity and the cgroup's quota allow */
    uint32_t n_ctx;            /* tokens per sequence; 0: the smaller of the trained length and
                                  8192, or less if the KV cache holds less */
    uint32_t max_seqs;         /* limit of sequences that run at the same time; 0: 16 */
    uint32_t max_queue;        /* limit of waiting requests; 0: 256 */
    uint32_t max_batch_tokens; /* limit of tokens that one step computes; 0: 512 */
    const char *kv_type;       /* number format of the KV cache: "f32", "f16", "bf16" or "fp8";
                                  "q8_0" or "q4_0" if the head size is a multiple of 32; "q3_0" if
                                  it is a multiple of 128; docs/formats.md has further ones.
                                  "q8_0:q4_0" gives one format for keys and one for values.
                                  "+recent" after rotated formats such as q4_0 keeps the keys and
                                  values that attention reads most in more bits. "/LAYERS=TYPE"
                                  after that gives some layers other formats. NULL or "auto": the
                                  most precise format with which a text of n_ctx tokens fits into
                                  the KV cache, as infer/kv.h describes; usually "f16", or "f32" for
                                  models in F32 */
    uint64_t kv_bytes; /* size of the KV cache in bytes; 0: enough for 4 sequences of n_ctx tokens,
                          up to a limit. The limit is a quarter of the machine's memory. On a GPU
                          with its own memory, the limit is a quarter of that memory, or all memory
                          that the model leaves free there, whichever is more. If n_ctx is set, the
                          default is at least enough for one sequence. The cache is never larger
                          than the device can hold */
    bool no_prefix_cache; /* do not keep the KV blocks of requests for later requests */
    /* How the engine guesses tokens, which one step then verifies together (sched/speculate.h). On
     * the CPU the text stays the same. "ngram": the tokens that followed the same tokens earlier in
     * the prompt or the text; "suffix": also those that followed them in recent answers of the same
     * tenant and salt; "model": the tokens that draft_model chooses; "eagle3", "dflash" and
     * "gemma4-assistant": the same, and draft_model must be a draft head of this kind; "mtp": the
     * tokens that the model's own layer for further tokens chooses; "auto": whichever of these
     * gains more; "none": no guesses; NULL: "model" with a draft_model, else "none" */
    const char *draft_kind;
    uint32_t max_draft; /* limit of the drafted tokens of a sequence in one step; 0: 16 */
    /* A smaller model with the same vocabulary, or a draft head that was trained for the model: a
     * head of EAGLE-3 or of DFlash, or an assistant of Gemma 4. The engine takes its own reference;
     * its keys and values are part of kv_bytes. NULL: none */
    struct inf_model *draft_model;
    struct inf_tier *tier;  /* stores KV blocks outside the engine's memory; must outlive the
                               engine; NULL: none */
    const char *tier_model; /* name of the model in the tier; NULL: "" */
};

#define INF_NO_DRAFT  UINT32_MAX /* a value of n_draft: nothing is drafted */
#define INF_DRAFT_MAX 16         /* limit of max_draft */

struct inf_stop {
    const char *text;
    size_t len;
};

/*
 * A channel: the part of a text in which the model reasons before it answers. The part begins with
 * the tokens @open, or at the beginning of the text if the prompt ends inside of the part. It ends
 * with the tokens @close. A text has at most one such part, at its beginning. Only the tokens @lead
 * may stand before the part. The part is not searched for stop strings and stop_tokens.
 */
struct inf_channel {
    const int32_t *open, *close; /* n_close 0: there is no such part */
    size_t n_open, n_close;
    const int32_t *lead; /* tokens that may stand before @open, such as line breaks */
    size_t n_lead;
    bool is_open;    /* the prompt ends inside of the part */
    uint32_t budget; /* number of tokens in the part after which the engine itself writes @forced;
                        0: as soon as the part begins; UINT32_MAX: no limit */
    const int32_t *forced; /* the tokens that the engine writes to end the part; n_forced 0: the
                              tokens @close */
    size_t n_forced;
    bool beside_length; /* max_tokens counts only the tokens after the part */
};

/* inf_engine_submit() copies a request and everything that it points to, except @user. */
struct inf_request {
    const int32_t *tokens; /* the prompt; at least one token */
    size_t n_tokens;
    uint32_t max_tokens; /* limit of generated tokens per choice; 0: until the context is full */
    uint32_t n_choices;  /* texts to generate; they share the prompt's KV blocks; 0: 1 */
    struct inf_sampling sampling;
    const struct inf_stop *stops; /* texts that end the generation, even if they span several
                                     tokens; they are not part of the output */
    size_t n_stops;
    bool ignore_eos; /* EOS does not end the generation; with a grammar, EOS is not chosen as long
                        as the grammar permits another token */
    uint32_t min_tokens;        /* before the text has this many tokens, no token that ends the
                                   generation is chosen, and stop strings are not searched; a
                                   grammar that permits only the end still ends the generation */
    const int32_t *stop_tokens; /* further tokens that end the generation, even with ignore_eos */
    size_t n_stop_tokens;
    struct inf_grammar *grammar; /* what the text may be, see infer/grammar.h; the engine takes a
                                    reference of its own; NULL: any text */
    struct inf_channel channel;
    bool show_special;           /* the text includes special tokens */
    const int32_t *shown_tokens; /* special tokens that the text includes in any case, even if they
                                    end it */
    size_t n_shown_tokens;
    int n_logprobs;       /* log-probabilities to report; -1: none; 0: of the chosen token; n: also
                             of the n most likely tokens */
    bool post_logprobs;   /* the log-probabilities of generated tokens are computed after all stages
                             of sampling, instead of from raw logits; tokens that a stage left out
                             are not reported */
    bool prompt_logprobs; /* INF_EVENT_PROMPT reports the logprobs of the prompt's tokens, which
                             `echo` needs */
    bool progress;        /* the first choice has events INF_EVENT_PROGRESS */
    uint32_t n_draft;     /* limit of the drafted tokens per step; 0: that of the engine */
    uint32_t min_draft;   /* shorter drafts are not computed */
    float draft_p_min; /* a draft ends before a token whose estimated chance is smaller, 0 to 1 */
    /* A request reuses the whole KV blocks that earlier requests with the same tenant and salt
     * computed for the same beginning of the prompt. On the CPU, reuse does not change the text. */
    bool no_cache;            /* reuse no blocks, and leave none for other requests */
    const char *cache_tenant; /* NULL: "" */
    const char *cache_salt;   /* any bytes; may be NULL if the length is 0 */
    size_t cache_salt_len;
    const char *session; /* name of the conversation in the engine's tier; NULL: none */
    void *user;          /* returned in the events */
};

enum inf_event_kind {
    INF_EVENT_PROGRESS, /* a part of the prompt is computed, see n_computed; the first of these
                           events comes before anything is computed; sent only if the request has
                           `progress` */
    INF_EVENT_PROMPT,   /* the prompt is computed; the event has the logprobs of its tokens if they
                           were requested */
    INF_EVENT_TOKENS,   /* new final text, with its tokens */
    INF_EVENT_FINISH,   /* the choice ended; it has no further events */
};

enum inf_finish {
    INF_FINISH_STOP,      /* an end-of-generation token */
    INF_FINISH_STOP_TEXT, /* a stop string, see stop_index */
    INF_FINISH_LENGTH,    /* max_tokens is reached, or the context is full */
    INF_FINISH_CANCELLED,
    INF_FINISH_ERROR, /* see error */
    INF_FINISH_STALE, /* the model's files changed, see error: the text so far may be wrong */
};

struct inf_top_logprob {
    int32_t token;
    float logprob;
};

struct inf_token_logprob {
    int32_t token;
    float logprob; /* from raw logits, before bias, penalties and temperature, unless post_logprobs
                      is set; NAN for the first token of a prompt */
    uint32_t n_top;
    const struct inf_top_logprob *top; /* in descending order of logprob; of equal ones, the lower
                                          id first */
};

/* The memory that an event points to is borrowed until the next call of inf_engine_next_event(). If
 * the comment of a member names kinds of events, only these events set the member. */
struct inf_event {
    enum inf_event_kind kind;
    uint64_t request;
    uint32_t choice;
    void *user;

    const char *text; /* TOKENS: whole code points; empty only at the end of a choice, if its last
                         tokens add no text */
    size_t text_len;
    const struct inf_token_logprob *tokens; /* TOKENS and PROMPT; logprob is set if requested */
    size_t n_tokens;

    enum inf_finish finish; /* FINISH */
    uint32_t stop_index;
    int32_t stop_token; /* FINISH: the token that ended the choice; -1: none did */
    const char *error;

    uint32_t n_prompt;    /* prompt tokens; set in all kinds of event */
    uint32_t n_cached;    /* prompt tokens that were found in the KV cache when the request
                             started */
    uint32_t n_computed;  /* PROGRESS: prompt tokens that are in the KV cache */
    uint32_t n_generated; /* tokens of this choice so far */
    uint32_t n_channel;   /* number of those tokens that belong to the channel, including the tokens
                             that begin and end the channel */
    /* Drafted tokens of this choice so far: those that became part of the text, and the others. */
    uint32_t n_draft_accepted, n_draft_rejected;
    bool last; /* FINISH: all choices of the request have ended */
};

struct inf_engine_stats {
    uint64_t n_requests, n_finished, n_cancelled, n_errors, n_rejected;
    uint64_t n_prompt_tokens, n_generated_tokens, n_steps;
    uint64_t n_device_losses;      /* times that the device was lost and opened again */
    uint32_t n_waiting, n_running; /* numbers of sequences */
    /* Numbers of KV blocks. Layers whose blocks have the same shape and live equally long form a
     * group. Only one group is counted: the first group of layers with full attention, or the first
     * group if no layer has full attention. */
    uint32_t n_blocks, n_blocks_used;
    uint32_t n_blocks_idle;             /* unused blocks that are kept for later requests */
    uint64_t kv_used_bytes;             /* blocks of all groups that sequences use */
    uint64_t kv_idle_bytes;             /* blocks of all groups that are kept for later requests */
    double prefill_tok_s, decode_tok_s; /* during the last seconds of work; 0: not measured yet */
    double busy_seconds;
    struct inf_histogram queue_seconds; /* from the submission of a choice until it first runs */
    struct inf_histogram first_token_seconds; /* from the submission of a choice until its first
                                                 token */
    struct inf_histogram next_token_seconds;  /* from one token of a choice to the next */
    struct inf_histogram step_tokens;         /* tokens that a step computes */
    struct inf_histogram step_seqs;           /* sequences that a step computes */
    uint64_t n_drafts, n_drafted, n_draft_accepted; /* n_drafted: the tokens of verified drafts */
    /* By position i in a draft: how often tokens 0 … i - 1, and tokens 0 … i, were accepted. */
    uint64_t draft_tried[INF_DRAFT_MAX], draft_accepted[INF_DRAFT_MAX];
    /* Statistics of the tier */
    bool has_tier;                             /* a tier was given, and the device supports it */
    uint64_t n_tier_loaded, tier_loaded_bytes; /* valid blocks that were loaded from the tier */
    uint64_t n_tier_kept, tier_kept_bytes;     /* blocks that were stored in the tier */
    uint64_t n_tier_bad;     /* loaded blocks with invalid bytes, which were computed instead */
    uint64_t n_tier_refused; /* loads that were not tried because computing seemed faster */
    uint64_t n_tier_failed;  /* calls of the tier's functions that failed */
};

/* Creates an engine and starts its thread. Returns 0; -EOPNOTSUPP: the device or instruction set is
 * not available, or kv_type does not fit the model; -ESTALE: the model's files changed; -ENOMEM;
 * -EINVAL. */
INF_PUBLIC int inf_engine_new(const struct inf_engine_params *params,
                              struct inf_engine **ret_engine, struct inf_err *reterr);
/* Cancels all requests and joins the thread. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_engine *inf_engine_free(struct inf_engine *engine);

/*
 * Returns 0 and sets *ret_id (never 0); INF_ENGINE_FULL; -EINVAL with the reason (an empty prompt,
 * a token outside the vocabulary, NaN…); -E2BIG: the prompt fills the context or is longer than it;
 * -ESTALE with the reason: the model's files changed; -ENOMEM.
 */
INF_PUBLIC int inf_engine_submit(struct inf_engine *engine, const struct inf_request *request,
                                 uint64_t *ret_id, struct inf_err *reterr);
/* Cancels a request: all its choices end with INF_FINISH_CANCELLED before the next step. An unknown
 * id is ignored. */
INF_PUBLIC void inf_engine_cancel(struct inf_engine *engine, uint64_t id);

/* Returns an eventfd that is readable while events wait. The engine owns the descriptor. */
INF_PUBLIC int inf_engine_event_fd(const struct inf_engine *engine);
/* Returns 1 and fills *ret_event, or 0 if no event waits. Never blocks. */
INF_PUBLIC int inf_engine_next_event(struct inf_engine *engine, struct inf_event *ret_event);
/* Waits up to @timeout_msec (-1: without limit) for an event. Returns as inf_engine_next_event()
 * does. The function is for callers without an event loop. */
INF_PUBLIC int inf_engine_wait_event(struct inf_engine *engine, int timeout_msec,
                                     struct inf_event *ret_event);

INF_PUBLIC void inf_engine_stats(struct inf_engine *engine, struct inf_engine_stats *ret_stats);
/* Return the values in use: those of the parameters, or their defaults. */
INF_PUBLIC uint32_t inf_engine_n_ctx(const struct inf_engine *engine);
INF_PUBLIC uint32_t inf_engine_n_threads(const struct inf_engine *engine);
/* Returns the device in use, "cpu" or "vulkan:0". Borrowed. */
INF_PUBLIC const char *inf_engine_device(const struct inf_engine *engine);
/* Returns the instruction set in use, for example "avx512". Borrowed. */
INF_PUBLIC const char *inf_engine_isa(const struct inf_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
