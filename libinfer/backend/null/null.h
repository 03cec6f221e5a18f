/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device that computes nothing, for tests of what stands above devices
 *
 * It takes any graph (NULL too). The logits of a row are a pure function of the tokens that the
 * row's sequence has in the KV store, read through its block table, and of a seed: a row at a
 * wrong position, a block that another sequence wrote, a copy that was forgotten, or what a lost
 * device held all show as different logits.
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
    uint32_t max_blocks; /* of a KV store; 0: any number */
    uint64_t memory;     /* bytes of its own; 0: the host's */
    uint32_t step_usec;  /* a run sleeps step_usec + n_rows × row_usec */
    uint32_t row_usec;
    uint64_t fail_step; /* the run of this number, counted from 1, fails with -EIO; 0: none */
    /* The device is lost by the run of this number, and at random by one in so many runs and
     * fetched rows; 0: never. */
    uint64_t lose_step;
    uint32_t lose_one_in;
    uint32_t n_bad_recovers; /* recover() fails so many times after each loss */
    bool makes_lists;        /* answers with the largest logits where that is wanted */
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
struct null_counts {
    uint64_t n_losses, n_recovers; /* recover() that failed included */
    uint64_t n_lists, n_fetched;   /* rows answered with a list, and whole ones fetched after it */
};
struct null_counts null_count(const struct backend *b);
