/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Speculation: a step verifies drafted tokens, which are guesses of the tokens that follow a text.
 *
 * A sequence that decodes has one row in a step, for its last token. With a draft of k tokens it
 * has 1 + k rows. The engine chooses a token from the logits of the first row exactly as without a
 * draft. If this token equals the first drafted token, the second row has the logits that the next
 * step would have computed, because a row does not depend on the other rows. So the engine chooses
 * the next token from the second row, and so on. The first chosen token that differs from the draft
 * is kept, and no further row is used. The same tokens are chosen from the same logits with the
 * same random numbers, so the text has the same bits as without drafts. K and V of the rejected
 * tokens are overwritten by the next step.
 *
 * This holds for the CPU. On a GPU the last bits of a row depend on the number of rows of the step
 * (docs/vulkan.md), so drafts can change a text there, as simultaneous requests can.
 */

#include <stdbool.h>
#include <stdint.h>

#include "draft/cost.h"
#include "draft/memory.h"
#include "draft/rates.h"
#include "sched/drafter.h"

struct batch;
struct draft;
struct sched;
struct seq;
struct step_part;

enum speculation_kind {
    SPECULATION_OFF,
    SPECULATION_NGRAM,  /* drafts tokens that followed the same tokens earlier in this text */
    SPECULATION_SUFFIX, /* also tokens that followed them in recent answers of the key */
    SPECULATION_MODEL,  /* drafts what the drafter chooses */
    SPECULATION_AUTO,   /* like SPECULATION_SUFFIX, or like SPECULATION_MODEL if a drafter was
                           added, whichever promises more */
};

struct speculation {
    uint32_t max_draft;
    bool accepts;                /* the device adds accepted tokens to RECURRENT state */
    bool ignores_cost;           /* steps verify all drafts, whatever they cost */
    bool looks_up;               /* tokens are looked up in texts */
    struct draft_memory *memory; /* NULL: answers are not remembered */
    struct drafter *drafter;     /* owned; NULL: there is no draft model */
    double credit_usec;          /* how long the draft model may compute for drafts that are only
                                    compared */
    uint32_t i_probe;            /* the sequence of the next such draft */
    struct draft_rates rates;
    struct draft_cost cost;
    /* [max_seqs]: the sequences of the current step */
    struct draft *drafts;
    struct draft_offer *offers;
    uint32_t *n_taken;
    struct draft_offer *mixed; /* for each sequence the offer of the draft model, if it is better */
    uint32_t *n_mixed;
    struct seq **behind;
    uint32_t *n_accepted; /* [max_seqs]: accepted drafted tokens of each part of the step */
};

/* Creates the state of speculation for @max_seqs sequences. -ENOMEM. */
int speculation_new(enum speculation_kind kind, uint32_t max_draft, uint32_t max_seqs,
                    struct speculation **ret_speculation);
struct speculation *speculation_free(struct speculation *x);

/* Decides how the state of RECURRENT groups follows accepted tokens. @runner: that of the model. */
void sched_init_drafts(struct sched *s, const struct runner *runner);
/* Allocates the memory that drafts of a sequence need; called after seq_start(). If this fails,
 * nothing is drafted for this sequence. */
void sched_start_draft(struct sched *s, struct seq *seq);
/* Remembers the text of a choice that has ended. */
void sched_end_draft(struct sched *s, struct seq *seq);
/* Drafts tokens for the sequences of a step that only decodes, and adds them to the rows of the
 * step. */
void sched_draft(struct sched *s);
/* Removes the rejected drafted tokens of a step from the KV cache. Called after the accepted tokens
 * were counted, or after a failure. */
void sched_end_step_draft(struct sched *s, struct seq *seq);
/* Marks the drafted rows of a batch, if the device does not add them to RECURRENT state at once. */
void sched_mark_drafted(struct sched *s);
/* Adds the accepted tokens of the step to the state of RECURRENT groups. @batch: that of the step.
 */
void sched_accept(struct sched *s, const struct batch *batch);
/* Records how many tokens of the sequence are computed after the step. If a token was rejected, and
 * the state of RECURRENT groups includes it, the state goes back. */
void sched_keep_rows(const struct sched *s, const struct step_part *part);
/* Records which drafted tokens of a part were accepted. */
void sched_note_draft(struct sched *s, struct step_part *part);
/* Corrects the counts of a part: its text has ended after the first @n_used tokens that were
 * chosen. */
void sched_drop_picks(struct step_part *part, uint32_t n_used);
/* Adds the drafts of a step to the statistics. The caller holds the lock. */
void sched_count_drafts(struct sched *s);
/* Records the time of a step. */
void sched_note_draft_time(struct sched *s);

/* These functions are for speculate.c and model-draft.c. */
/* Returns how many rows of a part belong to the text: all except those of rejected tokens. */
uint32_t sched_n_right_rows(const struct step_part *part);
/* Returns how many tokens a draft of the sequence may have, according to the request and the length
 * of the text; 0: none. */
uint32_t sched_draft_limit(const struct sched *s, const struct seq *seq);
/* Drafts the tokens that the engine will write, @n at most, or shortens a draft so that it has none
 * of them, no token that ends the text, and none that the grammar refuses. Where the grammar leaves
 * no choice, adds the tokens that must come, up to @n in all. */
void sched_fit_draft(const struct sched *s, struct seq *seq, uint32_t n, struct draft *draft);
/* Fills in what a draft of @n tokens of the classes @classes [n] promises. */
void sched_make_offer(const struct sched *s, const struct seq *seq, const uint8_t *classes,
                      uint32_t n, struct draft_offer *ret_offer);
/* model-draft.c: lets the draft model draft where it promises more than the drafts that were looked
 * up. These promise @gain times the tokens per second of plain steps. Changes the drafts of the
 * step and n_taken. */
void sched_draft_by_model(struct sched *s, uint32_t max_extra, double gain);
/* Passes the hidden states of the step to a drafter that needs them. */
void sched_take_hidden(struct sched *s);
/* Adds a share of the time of a step to the time that drafts that are only compared may take. */
void sched_earn_probes(struct sched *s);
