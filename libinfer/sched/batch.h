/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which tokens a step computes
 *
 * Pure functions of what the running sequences want, of limits, and of how long steps took. All
 * that decode (one token left) come first, then prompts share the rest: each gets an equal part,
 * what one does not need goes to the others, and who is first changes with @turn, so that none
 * starves. How many rows of prompts a step has follows from its time: beside sequences that decode
 * it shall take BATCH_SLOWDOWN times what they take alone, so that their text flows evenly. Where
 * more prompts wait than sequences decode, as when many arrive at once, prompts get more: few rows
 * at a time are read slowly, and a crowd that waits is worth some time of those who were first.
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
    uint32_t chunk;      /* rows of prompts in a step; 0: none as long as some decode */
};

/* Fills @ret_rows [n]: tokens of each sequence in this step, 0 for those that wait a turn. */
void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows);

#define BATCH_STEP_USEC 200000 /* of a step with prompts alone: cancelling waits for it */
#define BATCH_SLOWDOWN  2.0
#define BATCH_CROWD     4.0 /* times that at most, where as many prompts wait for each that decodes */
#define BATCH_MIN_CHUNK 32 /* rows of a prompt in a step without sequences that decode */
#define BATCH_MIN_MIXED 4  /* and with some */
/* Steps without prompts that tell what decoding takes: so many at first, and then one after so
 * many with prompts. What is older than so many steps is forgotten. */
#define BATCH_MEASURE 2
#define BATCH_REFRESH 32
#define BATCH_FORGET  1000

/* Steps of so many sequences, and up to twice as many, that decoded alone. */
struct batch_class {
    uint32_t n;       /* that were measured */
    double usec;      /* that one takes */
    uint32_t n_mixed; /* steps with prompts since the last one */
    uint64_t at;      /* the number of that one */
};

/* What steps took, as far as the next one depends on it. Zeroed: nothing is known. */
struct batch_pace {
    uint64_t n_steps;
    uint32_t chunk;                 /* rows of prompts when none decodes; 0: the first */
    struct batch_class classes[16]; /* by log2 of the number of sequences */
    double row_usec; /* what one more row of a prompt takes beside them; 0: unknown */
};

/* Rows of prompts, of which there are @n_prompts, that the next step shall have beside @n_decode
 * decoding sequences; 0: a step without shall be measured first. */
uint32_t batch_pace_chunk(const struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompts,
                          uint32_t max_rows);
/* A step of so many rows took @usec. */
void batch_pace_note(struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompt,
                     uint32_t max_rows, uint64_t usec);
