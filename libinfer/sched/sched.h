/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler: all requests of one model, one step at a time
 *
 * struct sched belongs to the engine thread, except for the members under its lock. A tick takes
 * new requests in, applies cancellations, admits sequences, makes room in the KV pool, runs one
 * step and sends events. sched_tick() may be called directly if no thread was started, as tests do.
 */

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "core/file.h"
#include "core/loop-thread.h"
#include "sched/batch.h"
#include "sched/events.h"
#include "sched/request.h"
#include "sched/runner.h"
#include "sched/tier-choice.h"

struct sched_limits {
    uint32_t n_ctx;
    uint32_t max_seqs;
    uint32_t max_queue;
    bool no_prefix_cache;  /* requests do not share blocks */
    struct kv_name origin; /* part of all block names */
    struct file_set files; /* files of the weights: if they change, all computing stops */
};

/* One sequence's part of a step. */
struct step_part {
    struct seq *seq;
    uint32_t pos, n_rows;
    uint32_t i_logit, n_logits; /* its rows of logits: first the rows for prompt_logprobs, then the
                                   row of the last token */
    uint32_t n_prompt_logits;
    bool sampled; /* the part reached the last known token, so a new token is sampled */
    int status;   /* result of sampling: 0 or SAMPLE_BAD_ROW */
    int32_t token;
    float logprob;
    uint32_t n_top;
};

/* Memory of a step, allocated once at the start. */
struct step {
    struct seq **ready; /* [max_seqs]: running sequences that are not loading */
    uint32_t n_ready;
    struct batch_want *wants;    /* [max_seqs] */
    uint32_t *rows;              /* [max_seqs] */
    struct batch_seq *seqs;      /* [max_seqs] */
    int32_t *tokens;             /* [max_rows] */
    uint32_t *logit_rows;        /* [max_logits] */
    struct step_part *parts;     /* [max_seqs] */
    struct inf_top_logprob *top; /* [max_seqs, SAMPLE_MAX_TOP] */
    uint32_t *logit_parts;       /* [max_logits]: the part that each row of logits belongs to */
    uint32_t n_parts, n_logits;
    _Atomic uint32_t next_logit; /* next row to take, while threads process the rows of logits */
    uint32_t n_prompt_rows, n_decode_rows;
    uint32_t n_single; /* sequences with one row left, to measure the pace */
    uint64_t usec;
};

/* State of device loss. All zero: no loss. */
struct loss {
    bool lost;
    uint32_t n_in_a_row;                                  /* losses since the last complete step */
    uint32_t n_without_token;                             /* losses since the last new token */
    uint32_t n_tries;                                     /* tries to open the device again */
    uint64_t pause_usec;                                  /* first pause between tries */
    uint64_t retry_usec;                                  /* time of the next try */
    char error[sizeof(((struct inf_err *)0)->text) + 64]; /* reason with which requests end */
};

/* State of loading blocks from the tier. */
struct fetching {
    double first_tok_s; /* assumed prompt speed until it is measured */
    double margin;      /* blocks are loaded if computing them takes this many times as long */
    uint64_t landing;   /* size of the staging buffer of a load, for a device that takes copies */
    uint32_t n_refused; /* loads that were not tried because computing seemed faster */
};

/* State of copying blocks for the tier. */
struct spill {
    struct tier_batch *batch; /* batch that is being filled */
    double credit_usec;
    uint64_t grace_usec; /* pause after the last step, in which more steps may follow */
    uint64_t idle_usec;  /* end of that pause */
};

enum spilled {
    SPILLED_ALL,
    SPILL_MORE,  /* continue at once */
    SPILL_LATER, /* continue when the tier has news */
};

struct sched {
    struct runner *runner;           /* owned */
    const struct inf_tokenizer *tok; /* borrowed */
    struct sched_limits limits;
    uint32_t n_vocab; /* tokens that may be sampled: those that the tokenizer knows */

    struct sampler **samplers; /* [n_samplers]: one per thread of the device */
    uint32_t n_samplers;
    struct step step;
    struct seq *waiting; /* in order of age */
    uint32_t n_waiting;
    struct seq **running; /* [max_seqs], in order of age */
    uint32_t n_running;
    uint64_t next_age;
    uint32_t turn;
    struct batch_pace pace;
    double prefill_tokens, prefill_usec, decode_tokens, decode_usec; /* decaying sums */

    struct events events;
    struct loss loss;
    struct file_set files;
    struct inf_err stale; /* the reason why all requests end; code 0: there is none */

    struct tier *tier; /* owned; NULL: there is no tier, and the next three members are unused */
    struct keep keep;
    struct fetching fetching;
    struct spill spill;
    uint64_t await_usec; /* time until which a tick without work waits for the tier; 0: it does not
                            wait */

    struct loop_thread thread; /* its lock protects all members below */
    struct request *live;      /* all requests whose end was not reported */
    struct request *inbox, **inbox_end;
    bool cancel_pending;
    bool news;         /* the tier has news */
    uint32_t n_queued; /* requests without an admitted choice */
    uint32_t n_active; /* choices that are admitted and have not ended */
    uint64_t next_id;
    struct inf_engine_stats stats;
};

/* Takes ownership of *@runner on success. -ENOMEM, or an error of eventfd(). */
int sched_new(struct runner **runner, const struct inf_tokenizer *tok,
              const struct sched_limits *limits, struct sched **ret_sched);
/* Ends the thread. Running requests are dropped without an event. */
struct sched *sched_free(struct sched *s);
DEFINE_CLEANUP(struct sched *, sched_free);
/* Adds a tier, before the thread starts. @params->impl stores blocks; this function sets its news
 * callback. @first_tok_s is the assumed speed of prompts until it is measured. -EOPNOTSUPP: the
 * device cannot export blocks; -ENOMEM. */
int sched_add_tier(struct sched *s, const struct tier_params *params, double first_tok_s);
int sched_start(struct sched *s);

/* Like inf_engine_submit(). Asserts that the request is valid. Returns 0, INF_ENGINE_FULL or
 * -ENOMEM. */
int sched_submit(struct sched *s, const struct inf_request *in, uint64_t *ret_id);
void sched_cancel(struct sched *s, uint64_t id);
void sched_stats(struct sched *s, struct inf_engine_stats *ret_stats);

/* One round of the engine thread. Returns false if no work is left. */
bool sched_tick(struct sched *s);

/* admit.c */
void sched_enqueue(struct sched *s, struct seq *seq); /* inserts a sequence into the waiting list */
void sched_dequeue(struct sched *s, struct seq *seq); /* removes it from the list */
void sched_admit(struct sched *s);
/* Gives every running sequence the blocks for its next token, or preempts the youngest sequence. */
void sched_make_room(struct sched *s);

/* Moves all running sequences back to the waiting list. */
void sched_preempt_all(struct sched *s);

/* step.c: the engine thread allocates nothing between the beginning and the end of a step.
 * sched_step() returns 0 or the error of the device. */
int step_init(struct step *step, const struct plan_limits *limits);
void step_done(struct step *step);
int sched_step(struct sched *s);
/* Selects the sequences that compute. Returns false if there are none. */
bool sched_pick_ready(struct sched *s);
/* Names the blocks that a sequence has filled. */
void sched_name_blocks(struct sched *s, struct seq *seq);

/* tier-fetch.c */
/* Asks the tier for missing blocks of a sequence that is about to wait. */
void sched_ask(struct sched *s, struct seq *seq);
/* Whether the sequence should wait for the answer. */
bool sched_awaits_answer(struct sched *s, const struct seq *seq);
/* Before a step: takes answers, starts and ends loads. */
void sched_fetch(struct sched *s);

/* tier-spill.c */
/* Copy blocks for the tier: sched_spill_busy() after a step, sched_spill_idle() while there are no
 * steps. */
void sched_spill_busy(struct sched *s);
enum spilled sched_spill_idle(struct sched *s);
/* While there are no steps: copies until all blocks are stored, for at most @msec. */
void sched_flush(struct sched *s, uint32_t msec);

/* device-loss.c */
/* Handles a step that found the device lost. */
void sched_lose_device(struct sched *s);
/* Opens a lost device again when that is due. Returns false while there is no device. */
bool sched_has_device(struct sched *s);
/* Records a complete step that gave @n_tokens tokens. */
void sched_note_step(struct sched *s, uint32_t n_tokens);

/* file-change.c */
/* Ends all requests after the files of the weights have changed, and drops the names of computed
 * blocks. */
void sched_end_stale(struct sched *s);
/* Checks the files before sequences are reported as successful. */
void sched_check_ends(struct sched *s);

/* step-results.c */
/* Takes the results of the step: tokens, text, ends. */
void sched_emit(struct sched *s);
/* Ends all running or all waiting sequences because the device failed or the files changed. @error
 * lives as long as @s. */
void sched_fail_running(struct sched *s, enum inf_finish finish, const char *error);
void sched_fail_waiting(struct sched *s, enum inf_finish finish, const char *error);
/* Ends the choices of canceled requests. */
void sched_apply_cancels(struct sched *s);
/* Reports the ends of choices and frees finished requests. Returns true if memory was too short to
 * report all of them. */
bool sched_retire(struct sched *s);
