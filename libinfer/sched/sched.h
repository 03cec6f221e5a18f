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

#include "core/file.h"
#include "sched/batch.h"
#include "sched/events.h"
#include "sched/request.h"
#include "sched/runner.h"
#include "sched/tier-choice.h"

struct sched_limits {
    uint32_t n_ctx;
    uint32_t max_seqs;
    uint32_t max_queue;
    bool no_prefix_cache;  /* requests share no blocks */
    struct kv_name origin; /* of all names of blocks */
    struct file_set files; /* of the weights: when they change nothing is computed any more */
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
    struct seq **ready; /* [max_seqs]: those that run and load nothing */
    uint32_t n_ready;
    struct batch_want *wants;    /* [max_seqs], as all up to parts */
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

/* What became of the device. Zeroed: nothing. */
struct loss {
    bool lost;
    uint32_t n_in_a_row;                                  /* losses since a step was complete */
    uint32_t n_without_token;                             /* and since one gave a token */
    uint32_t n_tries;                                     /* of opening it again */
    uint64_t pause_usec;                                  /* after the first of them */
    uint64_t retry_usec;                                  /* when the next one is due */
    char error[sizeof(((struct inf_err *)0)->text) + 64]; /* why requests end */
};

/* When blocks are loaded. */
struct fetching {
    double first_tok_s; /* of prompts, until it was measured */
    double margin;      /* how many times as fast as computing loading must seem */
    uint64_t landing;   /* bytes of a load that wait at a time for a device that takes copies */
    uint32_t n_refused; /* because computing is faster */
};

/* Of the time for copying blocks, what is left. */
struct spill {
    struct tier_batch *batch; /* that is being filled */
    double credit_usec;
    uint64_t grace_usec; /* after the last step: until then there may be more */
    uint64_t idle_usec;  /* when that is over */
};

enum spilled {
    SPILLED_ALL,
    SPILL_MORE,  /* at once */
    SPILL_LATER, /* when there is news */
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
    struct loss loss;
    struct file_set files;
    struct inf_err stale; /* why all requests end; code 0: they do not */

    struct tier *tier; /* owned; NULL: none, and the next three are not used */
    struct keep keep;
    struct fetching fetching;
    struct spill spill;
    uint64_t await_usec; /* a tick had nothing to compute and waits for the tier; 0: no */

    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct request *live; /* all that have not told their end */
    struct request *inbox, **inbox_end;
    bool stop, cancel_pending;
    bool news;         /* of the tier */
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
/* Before the start: blocks are kept by @params->impl too; its news are set here. Until it is
 * measured, prompts are taken to be computed with @first_tok_s. -EOPNOTSUPP: the device has no
 * bytes for it; -ENOMEM. */
int sched_add_tier(struct sched *s, const struct tier_params *params, double first_tok_s);
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

/* Sends all that runs back into the waiting list. */
void sched_preempt_all(struct sched *s);

/* step.c; the engine thread allocates nothing between begin and end of it. 0, or what the
 * device said. */
int step_init(struct step *step, const struct plan_limits *limits);
void step_done(struct step *step);
int sched_step(struct sched *s);
/* Picks those that compute; false: none. */
bool sched_pick_ready(struct sched *s);
/* Names the blocks that a sequence has filled. */
void sched_name_blocks(struct sched *s, struct seq *seq);

/* tier-fetch.c */
/* A sequence that is about to wait asks the tier for what it lacks. */
void sched_ask(struct sched *s, struct seq *seq);
/* Whether it had better wait for the answer. */
bool sched_awaits_answer(struct sched *s, const struct seq *seq);
/* Before a step: takes answers, begins and ends loads. */
void sched_fetch(struct sched *s);

/* tier-spill.c */
/* After a step, and without steps: copies blocks that the tier shall keep. */
void sched_spill_busy(struct sched *s);
enum spilled sched_spill_idle(struct sched *s);
/* Without steps: the same until all is kept, for so long at most. */
void sched_flush(struct sched *s, uint32_t msec);

/* device-loss.c */
/* The step found the device lost. */
void sched_lose_device(struct sched *s);
/* Opens a lost device again when that is due. False as long as there is none. */
bool sched_has_device(struct sched *s);
/* A step was complete and gave so many tokens. */
void sched_note_step(struct sched *s, uint32_t n_tokens);

/* file-change.c */
/* Ends all requests when the files of the weights are known to have changed, and forgets what was
 * computed. */
void sched_end_stale(struct sched *s);
/* Looks at the files before sequences are told to have ended well. */
void sched_check_ends(struct sched *s);

/* step-results.c */
/* Takes what the step sampled: tokens, text, ends. */
void sched_emit(struct sched *s);
/* Ends all that runs, or all that waits: the device failed, or the files changed. @error lives as
 * long as @s. */
void sched_fail_running(struct sched *s, enum inf_finish finish, const char *error);
void sched_fail_waiting(struct sched *s, enum inf_finish finish, const char *error);
/* Ends what is cancelled. */
void sched_apply_cancels(struct sched *s);
/* Tells the ends of choices and frees requests that are over; true when some could not be told
 * for want of memory. */
bool sched_retire(struct sched *s);
