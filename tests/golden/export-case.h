/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs graphs that export hidden states, or have them as input, for tests. */

#include "model/model.h"
#include "sched/runner.h"

enum { EXPORT_TOKENS = 128 };

/* Creates a runner for the graph @g of @m. @n_vocab: the width of the logits; @n_hidden: that of
 * the exported rows. */
struct runner *export_runner(const struct model *m, const struct graph *g, uint32_t n_vocab,
                             uint32_t n_hidden);
/* Computes @n tokens in two steps, the first of which has @n_first tokens, and requests the logits
 * of all rows. @to: the logits, [n, n_vocab], or NULL. @hidden: the exported rows, [n, n_hidden].
 */
void export_forward(struct runner *r, const int32_t *tokens, uint32_t n, uint32_t n_first,
                    const float *input, float *to, float *hidden);
/* Does this with the empty table @table, which has the tokens afterwards. */
void export_forward_to(struct runner *r, struct kv_table *table, const int32_t *tokens, uint32_t n,
                       uint32_t n_first, const float *input, float *to, float *hidden);
double export_nmse(const float *x, const float *want, size_t n);

/* The names of a draft head and of its target among the tiny models. */
struct export_pair {
    const char *head, *target;
};

/* Calls @compare for each pair with the path of the head (a directory, then a GGUF file), the
 * directory with its golden numbers, and the path of the target. */
void export_pairs(const struct export_pair *pairs, size_t n,
                  void (*compare)(const char *path, const char *dir, const char *target));
