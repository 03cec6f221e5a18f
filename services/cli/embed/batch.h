/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends requests of `sconce embed`, each for several lines.
 *
 * Each batch has a thread of its own, so that the service computes one batch while the command
 * reads or writes another batch. A line that the service refuses is marked, and the other lines are
 * sent again.
 */

#include <infer/types.h>
#include <pthread.h>

#include "cli/embed/lines.h"

struct embed_ask {
    const char *address;
    const char *key, *model, *task, *prompt_name; /* NULL: not given */
    uint32_t dimensions;                          /* 0: all */
    bool truncate, token_vectors;
};

struct embed_batch {
    const struct embed_ask *ask;
    struct embed_line *lines; /* [cap], of which n are used */
    size_t n, cap;
    float *vectors; /* [number of vectors, width] */
    size_t *first; /* [number of lines with a text + 1]: index of each text's first vector; the last
                      element is the number of vectors */
    uint32_t width;
    int r; /* 0, or the error of the whole request, whose text is in `err` */
    struct inf_err err;
    pthread_t thread;
    bool started;
};

int embed_batch_init(struct embed_batch *batch, const struct embed_ask *ask, size_t cap);
void embed_batch_done(struct embed_batch *batch);
/* Starts the thread; 0 or -errno. */
int embed_batch_start(struct embed_batch *batch);
/* Waits for the result; 0, or an error of the whole batch, with its text in batch->err. */
int embed_batch_wait(struct embed_batch *batch);
/* Empties the batch for other lines. */
void embed_batch_clear(struct embed_batch *batch);
