/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The batch policy: which tokens a step computes
 *
 * Pure functions of what the running sequences need, of the limits, and of the time of earlier
 * steps. Sequences that decode (one token left) come first. Prompts share the remaining rows: each
 * gets an equal part, what one does not need goes to the others, and @turn rotates the order so
 * that none starves. The number of prompt rows in a step follows from its time: beside decoding
 * sequences the step shall take BATCH_SLOWDOWN times as long as these take alone, so that their
 * text flows evenly. If more prompts wait than sequences decode, for example when many requests
 * arrive at once, prompts get more rows. Reading few rows at a time is inefficient, and a short
 * delay for few sequences helps many waiting requests.
 */

#include <stdbool.h>
#include <stdint.h>

struct batch_want {
    uint32_t n_left;   /* tokens that are not in the KV cache yet; at least 1 */
    uint32_t n_logits; /* of the next rows, how many need logits in addition to the last row */
};

struct batch_limits {
    uint32_t max_rows;   /* per step; at least the number of sequences */
    uint32_t max_logits; /* per step; at least the number of sequences */
    uint32_t chunk;      /* prompt rows per step; 0: none while sequences decode */
};

/* Fills @ret_rows [n]: tokens of each sequence in this step, 0 for those that must wait. */
void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows);

/* Target for a step with only prompts: canceling waits for it. */
#define BATCH_STEP_USEC 200000
#define BATCH_SLOWDOWN  2.0
/* Most multiples of BATCH_SLOWDOWN, reached when this many prompts wait per decoding sequence. */
#define BATCH_CROWD     4.0
#define BATCH_MIN_CHUNK 32 /* least prompt rows of a step in which no sequence decodes */
#define BATCH_MIN_MIXED 4  /* least prompt rows of a step in which some do */
/* Steps without prompts measure the time of decoding alone: BATCH_MEASURE steps at first, then one
 * after every BATCH_REFRESH steps with prompts. Measurements older than BATCH_FORGET steps are
 * dropped. */
#define BATCH_MEASURE 2
#define BATCH_REFRESH 32
#define BATCH_FORGET  1000

/* Measurements of decode-only steps with n to 2n sequences. */
struct batch_class {
    uint32_t n;       /* number of measurements */
    double usec;      /* time of one step */
    uint32_t n_mixed; /* steps with prompts since the last measurement */
    uint64_t at;      /* number of the step of the last measurement */
};

/* Measured times of steps, on which the next step depends. All zero: nothing is known. */
struct batch_pace {
    uint64_t n_steps;
    uint32_t chunk;                 /* prompt rows when no sequence decodes; 0: the initial value */
    struct batch_class classes[16]; /* by log2 of the number of sequences */
    double row_usec;                /* time of one more prompt row in a mixed step; 0: unknown */
};

/* Number of prompt rows that the next step shall have for @n_prompts prompts beside @n_decode
 * decoding sequences. 0: a step without prompts must be measured first. */
uint32_t batch_pace_chunk(const struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompts,
                          uint32_t max_rows);
/* Records that a step with these rows took @usec. */
void batch_pace_note(struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompt,
                     uint32_t max_rows, uint64_t usec);
