/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler runs all requests of one model, one step at a time.
 *
 * struct sched belongs to the engine thread, except for the members that the lock in `thread`
 * protects. A tick, sched_tick(), takes new requests from the inbox, applies cancellations, admits
 * sequences, makes room in the KV pool, runs one step and sends events. Tests start no thread and
 * call sched_tick() directly. "The tier" is tier 2 of the KV cache, which keeps blocks on disk
 * (tier.h).
 */

#include <infer/engine.h>
#include <infer/tokenizer.h>

#include "core/file.h"
#include "core/loop-thread.h"
#include "sched/batch.h"
#include "sched/breakers.h"
#include "sched/events.h"
#include "sched/request.h"
#include "sched/runner.h"
#include "sched/speculate.h"
#include "sched/tier-choice.h"

struct sched_limits {
    uint32_t n_ctx;
    uint32_t max_seqs;
    uint32_t max_queue;
    bool no_prefix_cache;  /* requests do not share blocks */
    struct kv_name origin; /* goes into the names of all blocks */
    struct file_set files; /* files of the weights: if one of them changes, all requests end */
    enum speculation_kind speculation;
    uint32_t max_draft; /* tokens of a draft; 0: DRAFT_MAX */
};

/* A token that a step chooses. */
struct step_pick {
    struct channel_state channel; /* of the text before the token */
    int32_t forced;               /* the only token that may come; -1: any */
    int status; /* result of sampling: 0, a condition of sampler_pick(), or an error of the
                   grammar */
    int32_t token;
    float logprob;
    uint32_t n_top;
};

/* One sequence's part of a step. */
struct step_part {
    struct seq *seq;
    uint32_t pos, n_rows;
    uint32_t i_logit, n_logits; /* rows of logits of the part: first the rows for the
                                   log-probabilities of the prompt, then the row of the last
                                   token, then the rows of the drafted tokens */
    uint32_t n_prompt_logits;
    uint32_t n_replay;   /* first rows, computed again (struct seq_draft) */
    uint32_t n_draft;    /* drafted tokens, which stand in seq->tokens after the text */
    uint32_t n_picked;   /* chosen tokens: one after the last token and after each accepted draft
                            token, but none after the end; 0: the last token is not reached */
    uint32_t n_accepted; /* drafted tokens that became part of the text */
};

/* Memory that steps use, allocated once when the engine starts. */
struct step {
    struct seq **ready; /* [max_seqs]: running sequences that are not loading */
    uint32_t n_ready;
    struct batch_want *wants;    /* [max_seqs] */
    uint32_t *rows;              /* [max_seqs] */
    struct batch_seq *seqs;      /* [max_seqs] */
    int32_t *tokens;             /* [max_rows] */
    uint32_t *logit_rows;        /* [max_logits] */
    struct step_part *parts;     /* [max_seqs] */
    struct step_pick *picks;     /* [max_logits]: the token chosen from each row of logits */
    struct inf_top_logprob *top; /* [max_logits, SAMPLE_MAX_TOP] */
    uint32_t *logit_parts;       /* [max_logits]: the part that each row of logits belongs to */
    uint32_t n_parts, n_logits;
    _Atomic uint32_t next_logit; /* the row of logits that a thread takes next */
    uint32_t n_prompt_rows, n_decode_rows, n_draft_rows, n_replay_rows;
    uint32_t n_single;         /* sequences with one row left, for batch_pace_note() */
    uint64_t usec, draft_usec; /* draft_usec: the part in which a draft model computed */
};

/* State of the recovery from a lost device. All members except pause_usec are zero until a device
 * is lost. */
struct loss {
    bool lost;
    uint32_t n_in_a_row;                                  /* losses since the last complete step */
    uint32_t n_without_token;                             /* losses since the last new token */
    uint32_t n_tries;                                     /* tries to open the device again */
    uint64_t pause_usec;                                  /* first pause between tries */
    uint64_t retry_usec;                                  /* time of the next try */
    char error[sizeof(((struct inf_err *)0)->text) + 64]; /* reason that ended requests report */
};

/* State of all loads of blocks from the tier. */
struct fetching {
    double first_tok_s; /* assumed speed of prompts in tokens per second, until it is measured */
    double margin;      /* blocks are loaded only if computing them takes at least this many times
                           as long as loading */
    uint64_t landing;   /* bytes of the staging buffer of a load; only devices whose block memory
                           the CPU cannot write to need one */
    uint32_t n_refused; /* number of loads that were not tried because computing seemed faster */
};

/* Describes the groups of the model's state (graph/state.h) for the choice of marks (marks.c). */
struct mark_rules {
    bool is_plain;      /* the only group is FULL, so computing can be resumed at each border */
    bool has_chain;     /* there is a FULL group */
    bool has_windows;   /* there is a WINDOW group */
    bool has_snapshots; /* there is a RECURRENT group */
    uint32_t every;     /* each multiple of this number of blocks is a mark */
};

/* State of copying blocks for storage in the tier. */
struct spill {
    struct tier_batch *batch; /* batch that is being filled */
    double credit_usec;       /* how long copying may still take while steps run */
    uint64_t grace_usec;      /* length of the pause between the last step and the copying of all
                                 blocks */
    uint64_t idle_usec;       /* end of that pause */
};

enum spilled {
    SPILLED_ALL,
    SPILL_MORE,  /* continue at once */
    SPILL_LATER, /* continue when the tier reports news, or after a pause */
};

struct sched {
    struct runner *runner;           /* owned */
    const struct inf_tokenizer *tok; /* borrowed */
    struct sched_limits limits;
    uint32_t n_vocab; /* number of tokens that may be sampled; the tokenizer knows all these
                         tokens */

    int32_t *eog; /* [n_eog]: the tokens that end a text */
    uint32_t n_eog;

    struct sampler **samplers; /* one per thread of the device */
    struct masks masks;
    struct speculation *speculation; /* owned; NULL: nothing is drafted */
    struct breakers breakers;
    struct step step;
    struct mark_rules marks;
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
    struct inf_err stale; /* the reason why all requests must end; code 0: the files are
                             unchanged */

    struct tier *tier; /* owned; NULL: there is no tier, and the next three members are unused */
    struct keep keep;
    struct fetching fetching;
    struct spill spill;
    uint64_t await_usec; /* time until which the engine waits for the tier if a tick had nothing to
                            compute; 0: it does not wait */

    struct loop_thread thread; /* the lock in it protects all members below */
    struct request *live;      /* all requests whose end was not reported yet */
    struct request *inbox, **inbox_end;
    bool cancel_pending;
    bool news;         /* the tier has news */
    uint32_t n_queued; /* requests without an admitted choice */
    uint32_t n_active; /* choices that are admitted and have not ended */
    uint64_t next_id;
    struct inf_engine_stats stats;
};

/* Creates a scheduler, which takes ownership of *@runner. Returns 0, or -ENOMEM or an error of
 * eventfd(); then the caller keeps *@runner. */
int sched_new(struct runner **runner, const struct inf_tokenizer *tok,
              const struct sched_limits *limits, struct sched **ret_sched);
/* Ends the thread. Requests that have not ended are dropped without an event. */
struct sched *sched_free(struct sched *s);
DEFINE_CLEANUP(struct sched *, sched_free);
/* Adds a tier; the thread must not have started yet. @params->impl stores the blocks; this function
 * itself sets the callback `news` of the parameters. @first_tok_s is the assumed speed of prompts
 * until it is measured. Returns 0, -EOPNOTSUPP if the device cannot export blocks, or -ENOMEM. */
int sched_add_tier(struct sched *s, const struct tier_params *params, double first_tok_s);
/* Adds a draft model, for kinds of speculation that use one, before the thread starts. Takes
 * ownership of *@runner. -ENOMEM; then the caller keeps *@runner. */
int sched_add_drafter(struct sched *s, struct runner **runner);
int sched_start(struct sched *s);

/* Like inf_engine_submit(). Asserts that the request is valid. Returns 0, INF_ENGINE_FULL, -ENOMEM,
 * or an error of the tokenizer. */
int sched_submit(struct sched *s, const struct inf_request *in, uint64_t *ret_id);
void sched_cancel(struct sched *s, uint64_t id);
void sched_stats(struct sched *s, struct inf_engine_stats *ret_stats);

/* Does one round of the engine thread's work. Returns false if no work is left. */
bool sched_tick(struct sched *s);

/* admit.c */
void sched_enqueue(struct sched *s, struct seq *seq); /* inserts @seq into the waiting list */
void sched_dequeue(struct sched *s, struct seq *seq); /* removes @seq from the waiting list */
void sched_admit(struct sched *s);
/* Gives every running sequence the blocks for its next token. If the pool is full, the youngest
 * sequences are preempted. */
void sched_make_room(struct sched *s);

/* Moves the running sequence number @i back to the waiting list. */
void sched_preempt(struct sched *s, uint32_t i);
/* Moves all running sequences back to the waiting list. */
void sched_preempt_all(struct sched *s);

/* marks.c */
/* Returns how many rows of a sequence a step may have, so that it ends at a mark; 0: any number. */
uint32_t sched_max_rows(const struct sched *s, const struct seq *seq);
/* Makes the snapshots of the marks that a step has passed. Before the step, the sequence had @pos
 * computed tokens. */
void sched_note_marks(struct sched *s, struct seq *seq, uint32_t pos);
/* Makes the end of a sequence a mark in the tier. */
void sched_end_marks(struct sched *s, struct seq *seq);
/* Chooses blocks for the tier: the blocks of all groups but FULL groups that are needed to resume
 * computing after @border blocks. @kept: the tier already has these blocks. */
void sched_keep_mark(struct sched *s, struct seq *seq, uint32_t border, bool kept);
/* Returns whether the waiting sequence @seq could be resumed at a mark that the running sequence
 * @other will reach. The mark must be beyond the @n_usable tokens after which @seq can be resumed
 * now.
 */
bool sched_will_reach(struct sched *s, const struct seq *seq, struct seq *other, uint32_t n_usable);
/* Called when a sequence is admitted. If the pool has FULL blocks of the sequence beyond the
 * @n_usable tokens after which it can be resumed, makes the end of these blocks a mark of the
 * sequence. */
void sched_note_shared(struct sched *s, struct seq *seq, uint32_t n_usable);

/* step.c: runs steps. The engine thread allocates nothing between the beginning and the end of a
 * step. sched_step() returns 0 or the error of the device. */
int step_init(struct step *step, const struct plan_limits *limits);
void step_done(struct step *step);
int sched_step(struct sched *s);
/* Returns pick number @k of a part. */
static inline struct step_pick *step_pick(const struct step *step, const struct step_part *part,
                                          uint32_t k)
{
    return &step->picks[part->i_logit + part->n_prompt_logits + k];
}
/* Selects the running sequences that the next step computes. Returns false if there are none. */
bool sched_pick_ready(struct sched *s);
/* Names the blocks that a sequence has filled. */
void sched_name_blocks(struct sched *s, struct seq *seq);

/* tier-fetch.c */
/* Asks the tier for those blocks of a sequence that the pool does not have. The scheduler calls it
 * when the sequence begins to wait. */
void sched_ask(struct sched *s, struct seq *seq);
/* Returns whether the sequence should wait for the tier's answer. */
bool sched_awaits_answer(struct sched *s, const struct seq *seq);
/* Takes the tier's answers, and starts and ends loads. A tick calls it before the step. */
void sched_fetch(struct sched *s);

/* tier-spill.c */
/* These functions copy blocks for the tier. A tick calls sched_spill_busy() after a step; the
 * engine thread calls sched_spill_idle() while no steps run. */
void sched_spill_busy(struct sched *s);
enum spilled sched_spill_idle(struct sched *s);
/* Copies blocks until the tier has stored all of them, for at most @msec milliseconds. The engine
 * calls it while no steps run. */
void sched_flush(struct sched *s, uint32_t msec);

/* device-loss.c */
/* Handles a step that found the device lost. */
void sched_lose_device(struct sched *s);
/* Returns whether the device can be used. If it is lost, first tries to open it again when the next
 * try is due. */
bool sched_has_device(struct sched *s);
/* Records that a step was complete and generated @n_tokens tokens. */
void sched_note_step(struct sched *s, uint32_t n_tokens);

/* file-change.c */
/* Ends all requests and drops the names of all computed blocks, because the files of the weights
 * have changed. */
void sched_end_stale(struct sched *s);
/* Checks the files of the weights before the ends of sequences are reported as successful. */
void sched_check_ends(struct sched *s);

/* step-results.c */
/* Takes the results of the step: appends tokens and text, and ends choices that are finished. */
void sched_emit(struct sched *s);
/* These functions end all running or all waiting sequences because the device failed or the files
 * changed. @error must live as long as @s. */
void sched_fail_running(struct sched *s, enum inf_finish finish, const char *error);
void sched_fail_waiting(struct sched *s, enum inf_finish finish, const char *error);
/* Ends the choices of canceled requests. */
void sched_apply_cancels(struct sched *s);
/* Reports the ends of choices and frees finished requests. Returns true if there was not enough
 * memory to report all ends. */
bool sched_retire(struct sched *s);
