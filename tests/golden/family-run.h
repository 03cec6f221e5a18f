/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a model on a device without its tokenizer, and cuts the text into steps as the caller
 * chooses. Keys and values are stored as F32.
 */

#include "backend/backend.h"
#include "model/model.h"
#include "sched/runner.h"

enum { FAMILY_BLOCK = 64 }; /* tokens of a block */

struct family_run {
    struct format *format;
    struct model *model;
    struct graph *graph;
    struct runner *runner;
    const int32_t *tokens; /* [n_tokens], borrowed */
    uint32_t n_tokens, n_vocab;
};

/* Opens the model at @path on the device @on, for the text @tokens [n_tokens], which the caller
 * keeps until family_run_done(). On failure, there is nothing to free. Returns 0, an error of
 * format_open(), model_open() or backend_new(), or -EINVAL if a token is not in the vocabulary. */
int family_run_open(const char *path, const struct backend_params *on, const int32_t *tokens,
                    uint32_t n_tokens, struct family_run *ret_run, struct inf_err *reterr);
void family_run_done(struct family_run *r);

/* The functions below write the logits of all rows to @logits, [n_tokens, n_vocab]. They return 0,
 * or an error of runner_forward(), kv_table_init() or kv_table_adopt(). */

/* Computes the text in steps of @n_rows rows. */
int family_run_steps(struct family_run *r, uint32_t n_rows, float *logits);
/* Computes the text in two steps, the first of which has @n_rows rows. */
int family_run_cut(struct family_run *r, uint32_t n_rows, float *logits);
/* Computes the text together with another text of the same length, in steps with @n_rows rows of
 * each. */
int family_run_beside(struct family_run *r, uint32_t n_rows, float *logits);
/* Computes the first @n_blocks blocks of the text, names them, makes a snapshot, and drops the
 * sequence. Then another text overwrites the other blocks, and a new sequence continues the first
 * text from the named blocks. @n_blocks × FAMILY_BLOCK must be less than n_tokens. */
int family_run_resume(struct family_run *r, uint32_t n_blocks, float *logits);
