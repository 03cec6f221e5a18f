/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the parts of a draft that drafter.c, drafter-blocks.c, drafter-pick.c and assistant.c
 * share. */

#include "sched/drafter.h"

/* Begins a step without rows. */
void drafter_begin_step(struct drafter *d);
/* Adds @n_rows rows of the text from position @pos on to the step. A token that the draft model
 * does not have is replaced. @hidden [n_rows, n_hidden]: the input of the rows; NULL if the drafter
 * has a draft model. */
void drafter_add_rows(struct drafter *d, const struct seq *seq, uint32_t pos, uint32_t n_rows,
                      const float *hidden);
/* Requests the logits of the last row that was added. */
void drafter_want_logits(struct drafter *d, uint32_t i_job);
/* Runs the step; with blocks, only stores its keys and values. Returns 0 or the error of the
 * device. */
int drafter_run_step(struct drafter *d);
/* Makes room for @n_rows rows after the computed tokens. Returns the number of rows for which there
 * is room. */
uint32_t drafter_make_room(struct seq_model *m, uint32_t n_rows);
/* Records that the state includes @n more tokens of the text, and drops their hidden states. */
void drafter_count_rows(const struct drafter *d, struct seq_model *m, uint32_t n);
/* Drops the states and the drafts of the first @n jobs. */
void drafter_fail_jobs(struct drafter *d, uint32_t n);

/* drafter-pick.c */
/* Copies the state of the sequence's sampling, so that a draft changes nothing in it. */
void drafter_copy_sampling(struct draft_job *job);
/* Chooses the drafted token after the first job->n as the engine would choose it for the request.
 * Returns false if the draft must end. */
bool drafter_pick(const struct drafter *d, struct sampler *sampler, struct draft_job *job,
                  float *logits);
/* Chooses a token of each job with logits in the step, or ends its draft. */
void drafter_take_logits(struct drafter *d);

/* drafter-blocks.c: does what drafter_draft() does, for blocks. */
int drafter_draft_blocks(struct drafter *d, uint32_t n, uint64_t *ret_usec, uint32_t *ret_n_seqs);
