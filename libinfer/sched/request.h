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
 * Blocks that go may be found again by their names, by this sequence and by others (kv/prefix.h).
 * What a sequence needs while it runs is allocated when it is admitted first, so that a long queue
 * is cheap.
 */

#include <stdatomic.h>

#include "core/rng.h"
#include "kv/pool.h"
#include "sample/sampler.h"
#include "sched/output.h"
#include "sched/tier.h"

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
    struct kv_name *names; /* [req->max_total / tokens of a block]; NULL: its blocks have none */
    uint32_t n_names;      /* that are made, of full blocks of `tokens` */
    struct fetch *fetch;   /* of its names [n_asked] from fetch_first on; NULL: none */
    uint32_t fetch_first, n_asked;
    uint64_t fetch_until_usec;   /* how long an answer is waited for; when loading, its begin */
    bool loading;                /* into its blocks: it computes nothing */
    uint32_t load_first, n_load; /* the blocks of the table that come now, */
    uint32_t load_end;           /* and the end of all that shall come */
    uint8_t *landing;            /* [n_landing] blocks, for a device that takes copies; else NULL */
    uint32_t n_landing;
    uint32_t n_stored; /* of its first blocks the tier has so many */
    struct rng rng;
    struct output output;
    bool prompt_told; /* INF_EVENT_PROMPT has left */

    enum inf_finish finish; /* ENDED */
    uint32_t stop_index;
    const char *error; /* lives as long as the scheduler */
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

    uint32_t block_tokens;
    bool has_names; /* shares blocks with other requests */
    struct kv_name root;
    struct kv_name *names; /* [n_names], of the full blocks of the prompt */
    uint32_t n_names;
    struct tier_owner *owner; /* of names that the tier knows too */
    uint32_t n_seen;          /* tokens of the prompt that some choice had in the KV store */
    uint32_t n_cached;        /* of these, those that were there before */

    bool started;    /* a choice was admitted once: no longer counted as queued */
    uint32_t n_live; /* choices that have not told their end */
    uint32_t n_choices;
    struct seq seqs[];
};

/* Copies a valid request (asserted). @n_ctx bounds prompt and output. -ENOMEM. */
int request_new(const struct inf_request *in, uint32_t n_ctx, struct request **ret_request);
/* Names the prompt's blocks, so that other requests may share them. -ENOMEM. */
int request_name_blocks(struct request *r, const struct inf_request *in,
                        const struct kv_name *origin, uint32_t block_tokens);
/* Says whose they are to the tier. -ENOMEM. */
int request_name_owner(struct request *r, const struct inf_request *in);
struct request *request_free(struct request *r);
DEFINE_CLEANUP(struct request *, request_free);

/* Allocates what a running sequence needs. -ENOMEM, or what the tokenizer says. */
int seq_start(struct seq *s, struct kv_pool *pool, const struct inf_tokenizer *tok);
/* Ends a load, or the wait for an answer. */
void seq_stop_fetch(struct seq *s);
/* Gives everything back that seq_start() took, and a fetch. */
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
/* Names of the first blocks of all tokens that it has, as far as they are made; NULL: none. */
const struct kv_name *seq_names(const struct seq *s, uint32_t *ret_n);
/* Makes names of all full blocks among its first @n_tokens tokens. */
void seq_make_names(struct seq *s, uint32_t n_tokens);
/* Whether each row must be computed, though what it writes may be known. */
bool seq_needs_rows(const struct seq *s);
/* Notes that tokens came into the KV store: by being computed, or from blocks of others. */
void seq_note_kv(struct seq *s, bool computed);
/* Of the next rows, those whose logits give log-probabilities of prompt tokens. */
uint32_t seq_n_prompt_logits(const struct seq *s);
