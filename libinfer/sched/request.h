/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines requests and their sequences.
 *
 * The submitting thread creates a request. From then on the request belongs to the engine thread,
 * except for `cancelled`. A request can ask for several answers (choices). Each choice is a
 * sequence, in one of three states:
 *
 *   WAITING ──admit──▶ RUNNING ──finish──▶ ENDED
 *      ▲                  │
 *      └─────preempt──────┘   keeps tokens, generator and text; drops KV blocks
 *
 * The dropped blocks keep their names for a while (kv/prefix.h), so the same sequence or other
 * sequences may find them again. The memory of a running sequence is allocated at its first
 * admission, so that a long queue needs little memory. "The tier" is tier 2 of the KV cache, which
 * keeps blocks on disk (tier.h).
 */

#include <stdatomic.h>

#include "core/rng.h"
#include "draft/memory.h"
#include "draft/rates.h"
#include "kv/pool.h"
#include "sample/sampler.h"
#include "sched/channel.h"
#include "sched/drafter.h"
#include "sched/masks.h"
#include "sched/output.h"
#include "sched/tier.h"

struct request;

enum seq_state {
    SEQ_WAITING,
    SEQ_RUNNING,
    SEQ_ENDED,
};

/* Tokens that are guessed to follow the text of a sequence. */
struct draft {
    int32_t tokens[DRAFT_MAX];
    uint8_t classes[DRAFT_MAX]; /* of the tokens, as in draft/rates.h */
    uint32_t n;
};

/* The state of a sequence that drafts need (speculate.c). */
struct seq_draft {
    bool wanted;            /* tokens are drafted for the sequence */
    struct seq_model model; /* the state of the draft model */
    struct suffix *own;     /* the automaton of its own text; NULL: no token is looked up in it */
    uint32_t n_taken; /* the first n_taken tokens of the text are in `own`, or were left out */
    struct draft_memory_place place; /* of the text in the answers of the same key */
    uint32_t n_followed;             /* tokens of the text that `place` includes */
    struct draft_own_rates rates[DRAFT_SOURCES];
    /* If a draft is not verified, it is compared with the tokens that the following steps choose.
     * `pending` is this draft, and n_compared is the number of its tokens that were right so
     * far. */
    struct draft pending;
    uint32_t n_compared;
    struct draft verified; /* the draft of the current step; n 0: none */
    /* If the device does not accept drafted rows (`accepts` in speculate.h): after a rejected
     * draft, the state of RECURRENT groups is that before the draft. The next step computes the
     * n_replay tokens in the text after this state again, and verifies no draft. */
    uint32_t n_replay;
    struct mask *masks; /* [DRAFT_MAX]: masks of the rows after drafted tokens; NULL: no
                           grammar */
    uint32_t n_accepted, n_rejected; /* drafted tokens so far */
};

struct seq {
    struct request *req;
    uint32_t choice;
    enum seq_state state;
    uint64_t age;     /* order of submission; a lower number means an older sequence */
    struct seq *next; /* link in the waiting list, in order of age */

    bool started;    /* the members below are allocated */
    int32_t *tokens; /* [req->max_total]: the prompt, then generated tokens; during a step, drafted
                        tokens follow */
    uint32_t n_tokens;
    uint32_t n_kv; /* tokens that are in the KV cache */
    struct kv_table table;
    struct kv_name *names; /* [req->max_total / tokens per block]; NULL: the sequence's blocks have
                              no names */
    uint32_t n_names;      /* number of names made so far, for full blocks of `tokens` */
    struct fetch *fetch;   /* a request to the tier for n_asked blocks of the chain, the first of
                              which is names[fetch_first]; NULL: there is none */
    uint32_t fetch_first, n_asked;
    uint64_t fetch_until_usec;   /* time until which the sequence waits for an answer of the tier;
                                    during a load, the time when the load started */
    bool loading;                /* bytes from the tier are being written to the sequence's blocks;
                                    meanwhile no step computes rows of the sequence */
    uint32_t load_first, n_load; /* the first block of the fetch's list that is loading now, and
                                    how many blocks are loading */
    uint32_t load_end;           /* number in the list after the last block to load */
    double load_tokens;          /* tokens that need not be computed, for each block of the load */
    uint8_t *landing;            /* staging buffer of n_landing bytes, if the CPU cannot write to
                                    the device's block memory; else NULL */
    uint64_t n_landing;
    uint32_t n_stored; /* the tier has the first n_stored blocks of the sequence */
    bool tier_failed;  /* a load was incomplete: the tier is not asked again */
    /* Borders between blocks (marks.c), as numbers of blocks before them; 0: none. mark_shared: the
     * border up to which another sequence has the same blocks. mark_last: the border of the newest
     * snapshot, if this snapshot is dropped when the next one is made. */
    uint32_t mark_shared, mark_last;
    struct sample_state sampling;
    struct channel_state channel;
    struct mask mask; /* its matcher is kept while the sequence waits again */
    struct seq_draft draft;
    struct output output;
    uint64_t token_usec; /* time of the last token; 0: there is none */
    bool prompt_told;    /* INF_EVENT_PROMPT was sent */
    bool progress_told;  /* a first INF_EVENT_PROGRESS was sent */
    uint32_t n_progress; /* tokens of the last INF_EVENT_PROGRESS */

    enum inf_finish finish; /* valid in the state ENDED */
    uint32_t stop_index;
    int32_t stop_token; /* valid in the state ENDED; -1: no token ended the choice */
    const char *error;  /* lives as long as the scheduler */
    bool finish_told;
};

/* Holds the log-probabilities of a prompt, computed once for all choices. */
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
    uint32_t max_total;  /* limit of the tokens of prompt and output together */
    uint32_t max_tokens; /* as in struct inf_request */
    uint32_t min_tokens;
    bool ignore_eos, show_special, want_logprobs, want_prompt_logprobs, want_progress;
    uint32_t n_top;
    uint64_t submit_usec;
    struct sample_params sampling;
    struct stop_set stops;
    int32_t *ends; /* [n_ends]: the tokens that end a text: first the n_eog tokens of the model,
                      then stop_tokens of the request */
    uint32_t n_ends, n_eog;
    int32_t *shown; /* [n_shown]: special tokens that the text includes */
    uint32_t n_shown;
    struct channel channel;
    struct inf_grammar *grammar;   /* a reference; NULL: any text is permitted */
    uint32_t max_draft, min_draft; /* tokens of a draft; 0: no drafts, no minimum */
    float min_chance;              /* drafts end before a token with a smaller chance */
    struct prompt_logprobs plp;

    uint32_t block_tokens;
    bool has_names; /* the request's blocks have names, so other requests can share them */
    struct kv_name root;
    struct kv_name *names; /* [n_names]: names of the full blocks of the prompt */
    uint32_t n_names;
    struct tier_owner *owner; /* owner of the blocks in the tier; NULL: they are not stored */
    uint32_t n_seen;          /* number of the prompt's first tokens that some choice has had in the
                                 KV cache */
    uint32_t n_cached;        /* number of these tokens that were not computed for this request */

    bool started;    /* a choice was admitted, so the request no longer counts as queued */
    uint32_t n_live; /* choices whose end was not reported yet */
    uint32_t n_choices;
    struct seq seqs[];
};

/* Values of the engine that a request needs. */
struct request_limits {
    uint32_t n_ctx;     /* limit of the tokens of prompt and output together */
    const int32_t *eog; /* [n_eog]: the tokens that end a text of the model */
    uint32_t n_eog;
    const struct inf_tokenizer *tok; /* outlives the request */
};

/* Creates a request from a copy of @in, which must be valid (asserted). Returns 0 or -ENOMEM. */
int request_new(const struct inf_request *in, const struct request_limits *limits,
                struct request **ret_request);
/* Names the blocks of the prompt, so that other requests may share them. Returns 0 or -ENOMEM. */
int request_name_blocks(struct request *r, const struct inf_request *in,
                        const struct kv_name *origin, uint32_t block_tokens);
/* Records the owner for whom the tier stores the blocks. Returns 0 or -ENOMEM. */
int request_name_owner(struct request *r, const struct inf_request *in);
struct request *request_free(struct request *r);
DEFINE_CLEANUP(struct request *, request_free);

/* Allocates the memory of a running sequence. Returns 0, -ENOMEM, or an error of the tokenizer. */
int seq_start(struct seq *s, struct kv_pool *pool, const struct inf_tokenizer *tok);
/* Ends the load of the sequence's blocks, or the wait for an answer of the tier. */
void seq_stop_fetch(struct seq *s);
/* Frees what seq_start() allocated, and drops the request to the tier if there is one. */
void seq_stop(struct seq *s);
void seq_end(struct seq *s, enum inf_finish finish, const char *error);

static inline uint32_t seq_n_generated(const struct seq *s)
{
    return s->started ? s->n_tokens - s->req->n_prompt : 0;
}
/* Returns whether the choice has as many tokens as it may have. */
static inline bool seq_is_full(const struct seq *s)
{
    const struct request *req = s->req;

    return s->n_tokens == req->max_total ||
           (req->channel.beside_length && req->max_tokens > 0 &&
            seq_n_generated(s) - s->channel.n_tokens >= req->max_tokens);
}
/* Finds the tokens that the next token must not be, because they would end the text, when
 * @n_generated tokens were generated and the text is at @place (channel.h). */
void seq_forbidden(const struct seq *s, uint32_t n_generated, enum channel_place place,
                   struct sample_text *text);
static inline uint32_t seq_n_left(const struct seq *s)
{
    return s->n_tokens - s->n_kv;
}
/* Returns the names that were made so far for the first blocks of prompt and output, or NULL if the
 * blocks have no names. */
const struct kv_name *seq_names(const struct seq *s, uint32_t *ret_n);
/* Computes the names of all full blocks of the sequence's first @n_tokens tokens. */
void seq_make_names(struct seq *s, uint32_t n_tokens);
/* Returns whether every row of the prompt must be computed for the log-probabilities, even if a
 * block with its K and V exists. */
bool seq_needs_rows(const struct seq *s);
/* Records that the sequence's first n_kv tokens are now in the KV cache. @computed: this request
 * computed the tokens that are new in the cache; otherwise they came from shared or loaded
 * blocks. */
void seq_note_kv(struct seq *s, bool computed);
/* Returns how many of the sequence's next rows need logits for the log-probabilities of prompt
 * tokens. */
uint32_t seq_n_prompt_logits(const struct seq *s);
