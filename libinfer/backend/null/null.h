/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the null device, which computes no model, for tests of the code that uses devices.
 *
 * The null device accepts any graph, also NULL. The logits of a row are a pure function of a seed
 * and of the tokens that the row's sequence has in the KV store, read through its block table. So
 * the logits are wrong if a row is at a wrong position, if another sequence wrote to a block, if a
 * copy is missing, or if data of a lost device are used. With several groups of state, each group
 * holds the tokens in its own way, and the logits are wrong if the data of one group are wrong. If
 * a batch has memory for exported rows, they have one column, a number that depends on the token
 * and its position.
 */

#include "backend/backend.h"

struct null_row {
    int32_t token;
    uint32_t pos;
    uint64_t history; /* hash of all tokens that the row sees, including its own */
};

struct null_options {
    uint32_t n_vocab; /* width of the logits if there is no graph */
    uint64_t seed;
    uint32_t max_blocks; /* limit of the blocks of a KV store; 0: no limit */
    uint64_t memory;     /* bytes of the device's own memory; 0: it uses the host's memory */
    uint32_t step_usec;  /* a run sleeps step_usec + n_rows × row_usec */
    uint32_t row_usec;
    uint64_t fail_step; /* number of the run that fails with -EIO, counted from 1; 0: no run
                           fails */
    /* The device is lost in run number lose_step; it is also lost at random, on average once in
     * lose_one_in runs and fetched rows. 0: never. */
    uint64_t lose_step;
    uint32_t lose_one_in;
    uint32_t n_bad_recovers; /* recover() fails this many times after each loss */
    bool makes_lists;        /* the device returns lists of the largest logits where the batch
                                requests them */
    bool has_nan_token;
    int32_t nan_token; /* if has_nan_token is set, the logits of a row with this token are NaN */
    /* The input of each row must be 0, or what the device exports for the token before. */
    bool checks_input;
    bool own_input; /* with checks_input: that of its own token, in place of the token before */
    /* Sets the logits of a row in place of the device; may be NULL. */
    void (*logits)(void *data, const struct null_row *row, float *logits, uint32_t n_vocab);
    void *data;
};

int null_new(struct backend **ret_backend);
/* Sets the options. Tests call this function before the first graph is compiled, or between
 * runs. */
void null_configure(struct backend *b, const struct null_options *options);
uint64_t null_n_steps(const struct backend *b);
struct null_counts {
    uint64_t n_losses, n_recovers; /* n_recovers includes failed calls of recover() */
    uint64_t n_lists, n_fetched;   /* rows returned as a list, and rows fetched whole afterwards */
};
struct null_counts null_count(const struct backend *b);
