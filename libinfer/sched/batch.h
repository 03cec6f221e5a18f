/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which tokens a step computes
 *
 * A pure function of what the running sequences want and of limits. All that decode (one token
 * left) come first, then prompts share the rest: each gets an equal part, what one does not need
 * goes to the others, and who is first changes with @turn, so that none starves.
 */

#include <stdbool.h>
#include <stdint.h>

struct batch_want {
    uint32_t n_left;   /* tokens that are not in the KV store yet, at least 1 */
    uint32_t n_logits; /* of the next rows, how many need logits beside the last row of all */
};

struct batch_limits {
    uint32_t max_rows;   /* of a step; at least the number of sequences */
    uint32_t max_logits; /* of a step; at least the number of sequences */
    uint32_t chunk;      /* rows of prompts in a step */
};

/* Fills @ret_rows [n]: tokens of each sequence in this step, 0 for those that wait a turn. */
void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows);

#define BATCH_STEP_USEC 80000
#define BATCH_MIN_CHUNK 32
/*
 * The next chunk after a step that computed @n_rows of prompts in @usec: a step shall take
 * BATCH_STEP_USEC, so that cancelling and decoding do not wait for long, and a chunk stays within
 * [BATCH_MIN_CHUNK, max_rows].
 */
uint32_t batch_next_chunk(uint32_t chunk, uint32_t max_rows, uint32_t n_rows, uint64_t usec);
