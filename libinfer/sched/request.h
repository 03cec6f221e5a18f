/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests and their sequences
 *
 * A request is made by the thread that submits it and belongs to the engine thread afterwards,
 * but for `cancelled`. Each of its choices is a sequence:
 *
 *   WAITING ──admit──▶ RUNNING ──finish──▶ ENDED
 *      ▲                  │
 *      └─────preempt──────┘   tokens, generator and text stay; KV blocks go
 *
 * What a sequence needs while it runs is allocated when it is admitted first, so that a long queue
 * is cheap.
 */

#include <stdatomic.h>

#include "core/rng.h"
#include "kv/pool.h"
#include "sample/sampler.h"
#include "sched/output.h"

struct request;

enum seq_state {
    SEQ_WAITING,
    SEQ_RUNNING,
    SEQ_ENDED,
};

struct seq {
    struct request *req;
    uint32_t choice;
    enum seq_state state;
    uint64_t age;     /* order of submission: lower is older */
    struct seq *next; /* in the waiting list, by age */

    bool started;    /* what follows exists */
    int32_t *tokens; /* [req->max_total]: prompt, then what was generated */
    uint32_t n_tokens;
    uint32_t n_kv; /* tokens that are in the KV store */
    struct kv_table table;
    struct rng rng;
    struct output output;
    bool prompt_told; /* INF_EVENT_PROMPT has left */

    enum inf_finish finish; /* ENDED */
    uint32_t stop_index;
    const char *error; /* static */
    bool finish_told;
};

/* Log-probabilities of a prompt, computed once for all choices. */
struct prompt_logprobs {
    uint32_t n_done; /* tokens whose entries are valid */
    struct output_token *tokens;
    struct inf_top_logprob *top; /* [n_prompt, n_top] */
};

struct request {
    uint64_t id;
    void *user;
    struct request *prev, *next; /* all live requests; under the engine's lock */
    struct request *next_in;     /* inbox */
    atomic_bool cancelled;

    int32_t *prompt;
    uint32_t n_prompt;
    uint32_t max_total; /* tokens of prompt and output */
    bool ignore_eos, show_special, want_logprobs, want_prompt_logprobs;
    uint32_t n_top;
    struct sample_params sampling;
    struct stop_set stops;
    struct prompt_logprobs plp;

    bool started;    /* a choice was admitted once: no longer counted as queued */
    uint32_t n_live; /* choices that have not told their end */
    uint32_t n_choices;
    struct seq seqs[];
};

/* Copies a valid request (asserted). @n_ctx bounds prompt and output. -ENOMEM. */
int request_new(const struct inf_request *in, uint32_t n_ctx, struct request **ret_request);
struct request *request_free(struct request *r);
DEFINE_CLEANUP(struct request *, request_free);

/* Allocates what a running sequence needs. -ENOMEM, or what the tokenizer says. */
int seq_start(struct seq *s, struct kv_pool *pool, const struct inf_tokenizer *tok);
/* Gives everything back that seq_start() took. */
void seq_stop(struct seq *s);
void seq_end(struct seq *s, enum inf_finish finish, const char *error);

static inline uint32_t seq_n_generated(const struct seq *s)
{
    return s->started ? s->n_tokens - s->req->n_prompt : 0;
}
static inline uint32_t seq_n_left(const struct seq *s)
{
    return s->n_tokens - s->n_kv;
}
/* Of the next rows, those whose logits give log-probabilities of prompt tokens. */
uint32_t seq_n_prompt_logits(const struct seq *s);
