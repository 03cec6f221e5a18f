/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Some lines of `sconce embed` on their way through the gateway
 *
 * A batch is asked for on a thread of its own, so that the service computes one while another is
 * read or written. A line that the service refuses is marked, and the others are asked for again.
 */

#include <infer/types.h>
#include <pthread.h>

#include "cli/embed/lines.h"

struct embed_ask {
    const char *address;
    const char *key, *model, *task, *prompt_name; /* NULL where not given */
    uint32_t dimensions;                          /* 0: all */
    bool truncate, token_vectors;
};

struct embed_batch {
    const struct embed_ask *ask;
    struct embed_line *lines; /* [cap], n are there */
    size_t n, cap;
    float *vectors; /* [first[those with a text], width] */
    size_t *first;  /* where the vectors of a text begin, and where the last ones end */
    uint32_t width;
    int r; /* of asking; then: */
    struct inf_err err;
    pthread_t thread;
    bool started;
};

int embed_batch_init(struct embed_batch *batch, const struct embed_ask *ask, size_t cap);
void embed_batch_done(struct embed_batch *batch);
/* -errno. */
int embed_batch_start(struct embed_batch *batch);
/* Waits; 0, or what went wrong with the batch as a whole, in batch->err. */
int embed_batch_wait(struct embed_batch *batch);
/* Empties it, for other lines. */
void embed_batch_clear(struct embed_batch *batch);
