/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An assistant: a draft head that reads the keys and values of the large model (drafter.h).
 *
 * The runner of an assistant has the pool of the large model, and its rows have the blocks of the
 * sequence. An assistant keeps no state, so it never has to follow a text, needs no blocks, and
 * works at once after a sequence was preempted or read from the tier. It needs only the hidden
 * state of the last computed token. Every step that chooses a token computes this state: the graph
 * of the large model exports the hidden states of only those rows that have logits.
 *
 * The first row of a draft has the last token of the text, which is not computed yet, and this
 * hidden state. Each further row has the drafted token before, and the hidden state that the
 * assistant itself made. All rows have the position of the first one.
 */

#include "graph/batch.h"

struct drafter;
struct seq;

/* Allocates the memory of a sequence. Without memory, nothing is drafted for it. */
void assistant_start(const struct drafter *d, struct seq *seq);
/* Takes the hidden state [runner->n_hidden] of the last computed token of the text. */
void assistant_take(const struct drafter *d, struct seq *seq, const float *hidden);
/* Returns 1 if a draft can begin now, else UINT32_MAX. */
uint32_t assistant_follow(const struct drafter *d, const struct seq *seq);
/* Adds the first row of a job to the step; @n_left_rows: rows that the step may still get. If there
 * are none, the draft stays empty. */
void assistant_begin(struct drafter *d, uint32_t i_job, uint32_t n_left_rows);
/* Returns the part of a batch for a row of a draft; @i_row is its row in the batch. */
struct batch_seq assistant_part(const struct seq *seq, uint32_t i_row);
