/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device that computes nothing, for tests of the code above devices
 *
 * It accepts any graph, also NULL. The logits of a row are a pure function of a seed and of the
 * tokens that the row's sequence has in the KV store, read through its block table. So a row at a
 * wrong position, a block that another sequence wrote, a missing copy, or data of a lost device all
 * change the logits.
 */

#include "backend/backend.h"

struct null_row {
    int32_t token;
    uint32_t pos;
    uint64_t history; /* hash of all tokens up to and including this one */
};

struct null_options {
    uint32_t n_vocab; /* width of the logits if there is no graph */
    uint64_t seed;
    uint32_t max_blocks; /* limit of a KV store; 0: none */
    uint64_t memory;     /* bytes of its own memory; 0: it uses the host's */
    uint32_t step_usec;  /* a run sleeps step_usec + n_rows × row_usec */
    uint32_t row_usec;
    uint64_t fail_step; /* number of the run, from 1, that fails with -EIO; 0: none */
    /* The device is lost in the run with this number, and at random in one of this many runs and
     * fetched rows; 0: never. */
    uint64_t lose_step;
    uint32_t lose_one_in;
    uint32_t n_bad_recovers; /* recover() fails this many times after each loss */
    bool makes_lists;        /* returns the largest logits where requested */
    bool has_nan_token;
    int32_t nan_token; /* a row of this token returns NaN */
    /* Replaces the logits of a row; may be NULL. */
    void (*logits)(void *data, const struct null_row *row, float *logits, uint32_t n_vocab);
    void *data;
};

int null_new(struct backend **ret_backend);
/* Before the first graph is compiled, or between runs. */
void null_configure(struct backend *b, const struct null_options *options);
uint64_t null_n_steps(const struct backend *b);
struct null_counts {
    uint64_t n_losses, n_recovers; /* includes failed calls of recover() */
    uint64_t n_lists, n_fetched;   /* rows returned as a list, and whole rows fetched afterwards */
};
struct null_counts null_count(const struct backend *b);
