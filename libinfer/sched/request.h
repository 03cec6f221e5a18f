/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests and their sequences
 *
 * The submitting thread creates a request, which then belongs to the engine thread, except for
 * `cancelled`. Each of its choices is a sequence:
 *
 *   WAITING ──admit──▶ RUNNING ──finish──▶ ENDED
 *      ▲                  │
 *      └─────preempt──────┘   keeps tokens, generator and text; drops KV blocks
 *
 * This sequence and others may find dropped blocks again by name (kv/prefix.h). The memory that a
 * running sequence needs is allocated at its first admission, so that a long queue is cheap.
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
    uint64_t age;     /* order of submission; a lower number is older */
    struct seq *next; /* link in the waiting list, in order of age */

    bool started;    /* the members below are allocated */
    int32_t *tokens; /* [req->max_total]: the prompt, then generated tokens */
    uint32_t n_tokens;
    uint32_t n_kv; /* tokens that are in the KV cache */
    struct kv_table table;
    struct kv_name *names; /* [req->max_total / tokens per block]; NULL: its blocks have no names */
    uint32_t n_names;      /* names made so far, of full blocks of `tokens` */
    struct fetch *fetch;   /* asks the tier for names [n_asked] from fetch_first on; NULL: none */
    uint32_t fetch_first, n_asked;
    uint64_t fetch_until_usec;   /* latest time to wait for an answer; during a load, its start */
    bool loading;                /* a load fills its blocks; it computes nothing meanwhile */
    uint32_t load_first, n_load; /* the blocks of the table that load now, */
    uint32_t load_end;           /* and the end of all blocks to load */
    uint8_t *landing;            /* staging buffer [n_landing] of blocks, for a device that takes
                                    copies; else NULL */
    uint32_t n_landing;
    uint32_t n_stored; /* how many of its first blocks the tier has */
    struct rng rng;
    struct output output;
    bool prompt_told; /* INF_EVENT_PROMPT was sent */

    enum inf_finish finish; /* valid in the state ENDED */
    uint32_t stop_index;
    const char *error; /* lives as long as the scheduler */
    bool finish_told;
};

/* Log-probabilities of a prompt, computed once for all choices. */
struct prompt_logprobs {
    uint32_t n_done; /* tokens with valid entries */
    struct output_token *tokens;
    struct inf_top_logprob *top; /* [n_prompt, n_top] */
};

struct request {
    uint64_t id;
    void *user;
    struct request *prev, *next; /* list of all live requests; under the engine's lock */
    struct request *next_in;     /* link in the inbox */
    atomic_bool cancelled;

    int32_t *prompt;
    uint32_t n_prompt;
    uint32_t max_total; /* limit of tokens, prompt and output together */
    bool ignore_eos, show_special, want_logprobs, want_prompt_logprobs;
    uint32_t n_top;
    struct sample_params sampling;
    struct stop_set stops;
    struct prompt_logprobs plp;

    uint32_t block_tokens;
    bool has_names; /* its blocks have names and can be shared with other requests */
    struct kv_name root;
    struct kv_name *names; /* [n_names], of the full blocks of the prompt */
    uint32_t n_names;
    struct tier_owner *owner; /* owner for the tier; NULL: the tier does not store its blocks */
    uint32_t n_seen;          /* prompt tokens that some choice had in the KV cache */
    uint32_t n_cached;        /* of n_seen, those that were cached before */

    bool started;    /* a choice was admitted, so the request no longer counts as queued */
    uint32_t n_live; /* choices whose end was not reported yet */
    uint32_t n_choices;
    struct seq seqs[];
};

/* Copies a valid request (asserted). @n_ctx limits prompt and output together. -ENOMEM. */
int request_new(const struct inf_request *in, uint32_t n_ctx, struct request **ret_request);
/* Names the blocks of the prompt, so that other requests may share them. -ENOMEM. */
int request_name_blocks(struct request *r, const struct inf_request *in,
                        const struct kv_name *origin, uint32_t block_tokens);
/* Records the owner of the blocks for the tier. -ENOMEM. */
int request_name_owner(struct request *r, const struct inf_request *in);
struct request *request_free(struct request *r);
DEFINE_CLEANUP(struct request *, request_free);

/* Allocates the memory of a running sequence. -ENOMEM, or an error of the tokenizer. */
int seq_start(struct seq *s, struct kv_pool *pool, const struct inf_tokenizer *tok);
/* Ends a load, or the wait for an answer of the tier. */
void seq_stop_fetch(struct seq *s);
/* Frees what seq_start() allocated, and any fetch. */
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
/* The names made so far of the first blocks of all its tokens; NULL: none. */
const struct kv_name *seq_names(const struct seq *s, uint32_t *ret_n);
/* Makes the names of all full blocks of its first @n_tokens tokens. */
void seq_make_names(struct seq *s, uint32_t n_tokens);
/* Whether each row must be computed even if its KV block is known. */
bool seq_needs_rows(const struct seq *s);
/* Records that tokens are now in the KV cache, computed or taken from shared blocks. */
void seq_note_kv(struct seq *s, bool computed);
/* How many of the next rows need logits for the log-probabilities of prompt tokens. */
uint32_t seq_n_prompt_logits(const struct seq *s);
