/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler: all requests of one model, one step at a time
 *
 * struct sched belongs to the engine thread, but for what stands under `lock`. A tick is: take new
 * requests in, apply cancellations, admit, make room in the KV pool, run one step, give out events.
 * sched_tick() may be called directly as long as no thread was started; tests do.
 */

#include <pthread.h>

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "sched/batch.h"
#include "sched/events.h"
#include "sched/request.h"
#include "sched/runner.h"

struct sched_limits {
    uint32_t n_ctx;
    uint32_t max_seqs;
    uint32_t max_queue;
};

/* One sequence's part of a step. */
struct step_part {
    struct seq *seq;
    uint32_t pos, n_rows;
    uint32_t i_logit, n_logits; /* its rows of logits: prompt_logits, then that of the last row */
    uint32_t n_prompt_logits;
    bool sampled; /* the part ended the known tokens */
    int status;   /* of sampling: 0, SAMPLE_BAD_ROW */
    int32_t token;
    float logprob;
    uint32_t n_top;
};

/* Memory of a step, all allocated at the start. */
struct step {
    struct batch_want *wants;    /* [max_seqs] */
    uint32_t *rows;              /* [max_seqs] */
    struct batch_seq *seqs;      /* [max_seqs] */
    int32_t *tokens;             /* [max_rows] */
    uint32_t *logit_rows;        /* [max_logits] */
    struct step_part *parts;     /* [max_seqs] */
    struct inf_top_logprob *top; /* [max_seqs, SAMPLE_MAX_TOP] */
    uint32_t *logit_parts;       /* [max_logits]: the part that each row of logits belongs to */
    uint32_t n_parts, n_logits;
    _Atomic uint32_t next_logit; /* while threads look at the rows of logits */
    uint32_t n_prompt_rows, n_decode_rows;
    uint32_t n_single; /* sequences that had one row left: for the pace */
    uint64_t usec;
};

struct sched {
    struct runner *runner;           /* owned */
    const struct inf_tokenizer *tok; /* borrowed */
    struct sched_limits limits;
    uint32_t n_vocab; /* tokens that may be picked: the tokenizer knows them */

    struct sampler **samplers; /* [n_samplers]: one for each thread of the device */
    uint32_t n_samplers;
    struct step step;
    struct seq *waiting; /* by age */
    uint32_t n_waiting;
    struct seq **running; /* [max_seqs], by age */
    uint32_t n_running;
    uint64_t next_age;
    uint32_t turn;
    struct batch_pace pace;
    double prefill_tokens, prefill_usec, decode_tokens, decode_usec; /* fading sums */

    struct events events;

    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct request *live; /* all that have not told their end */
    struct request *inbox, **inbox_end;
    bool stop, cancel_pending;
    uint32_t n_queued; /* requests of which no choice was admitted yet */
    uint32_t n_active; /* choices that were admitted and have not ended */
    uint64_t next_id;
    struct inf_engine_stats stats;
};

/* Takes *@runner on success. -ENOMEM, or what eventfd says. */
int sched_new(struct runner **runner, const struct inf_tokenizer *tok,
              const struct sched_limits *limits, struct sched **ret_sched);
/* Ends the thread; requests that run are forgotten without an event. */
struct sched *sched_free(struct sched *s);
DEFINE_CLEANUP(struct sched *, sched_free);
int sched_start(struct sched *s);

/* As the public functions; the request is valid (asserted). 0, INF_ENGINE_FULL, -ENOMEM. */
int sched_submit(struct sched *s, const struct inf_request *in, uint64_t *ret_id);
void sched_cancel(struct sched *s, uint64_t id);
void sched_stats(struct sched *s, struct inf_engine_stats *ret_stats);

/* One round of the engine thread; false when nothing is left to do. */
bool sched_tick(struct sched *s);

/* admit.c */
void sched_wait(struct sched *s, struct seq *seq);   /* puts a sequence into the waiting list */
void sched_unwait(struct sched *s, struct seq *seq); /* and takes it out */
void sched_admit(struct sched *s);
/* Gives every running sequence the blocks that its next token needs, or preempts the youngest. */
void sched_make_room(struct sched *s);

/* step.c; the engine thread allocates nothing between begin and end of it. 0, or what the
 * device said. */
int step_init(struct step *step, const struct plan_limits *limits);
void step_done(struct step *step);
int sched_step(struct sched *s);

/* emit.c */
/* Takes what the step sampled: tokens, text, ends. */
void sched_emit(struct sched *s);
/* Ends all that runs: the device failed. */
void sched_fail_running(struct sched *s, const char *error);
/* Ends what is cancelled. */
void sched_apply_cancels(struct sched *s);
/* Tells the ends of choices and frees requests that are over; true when some could not be told
 * for want of memory. */
bool sched_retire(struct sched *s);
