/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device that computes nothing, for tests of what stands above devices
 *
 * It takes any graph (NULL too). The logits of a row are a pure function of the tokens that the
 * row's sequence has in the KV store, read through its block table, and of a seed: a row at a
 * wrong position, a block that another sequence wrote, or a copy that was forgotten all show as
 * different logits.
 */

#include "backend/backend.h"

struct null_row {
    int32_t token;
    uint32_t pos;
    uint64_t history; /* hash of all tokens up to and with this one */
};

struct null_options {
    uint32_t n_vocab; /* width of the logits when there is no graph */
    uint64_t seed;
    uint32_t step_usec; /* a run sleeps step_usec + n_rows × row_usec */
    uint32_t row_usec;
    uint64_t fail_step; /* the run of this number, counted from 1, fails with -EIO; 0: none */
    bool has_nan_token;
    int32_t nan_token; /* a row of this token answers NaN */
    /* Replaces the logits of a row; may be NULL. */
    void (*logits)(void *data, const struct null_row *row, float *logits, uint32_t n_vocab);
    void *data;
};

int null_new(struct backend **ret_backend);
/* Before the first graph is compiled, or between runs. */
void null_configure(struct backend *b, const struct null_options *options);
uint64_t null_n_steps(const struct backend *b);
