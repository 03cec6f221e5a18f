/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The batch policy chooses which tokens a step computes.
 *
 * The functions of the policy are pure: their results depend only on what the running sequences
 * need, on the limits, and on the time that earlier steps took. A row is one token of one sequence.
 * Sequences that decode (one token left) come first. The remaining rows go to the prompt that needs
 * the fewest, then to the next one, and so on. So prompts that arrive together are finished one
 * after another, and half of them in about half of the time. In every BATCH_EQUAL-th step each
 * prompt gets an equal part instead. If a prompt needs fewer rows than its part, the other prompts
 * get the rest. The argument @turn rotates the order of the prompts in these steps, so that no
 * prompt starves. The number of prompt rows is chosen by the expected time of the step. If
 * sequences decode, the step shall take BATCH_SLOWDOWN times as long as a step with these sequences
 * alone, so that their texts grow evenly. If several prompts wait, for example when many requests
 * arrive at once, prompts get more rows. Computing few prompt rows at a time is inefficient, and a
 * short delay of the texts helps many waiting requests.
 */

#include <stdbool.h>
#include <stdint.h>

struct batch_want {
    uint32_t n_left;   /* tokens that are not in the KV cache yet; at least 1 */
    uint32_t n_logits; /* number of the next rows that need logits; the row of the last token is not
                          counted */
    uint32_t n_max;    /* limit of the tokens of this step; 0: none */
};

struct batch_limits {
    uint32_t max_rows;   /* per step; not less than the number of sequences */
    uint32_t max_logits; /* per step; not less than the number of sequences */
    uint32_t chunk;      /* prompt rows per step; 0: none while sequences decode */
};

/* Fills @ret_rows [n] with the number of tokens of each sequence in this step; 0: the sequence must
 * wait. */
void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows);

/* Target time of a step with only prompts. It is short because a cancellation waits for the end of
 * a step. */
#define BATCH_STEP_USEC 200000
#define BATCH_SLOWDOWN  1.75
/* If several prompts wait, BATCH_SLOWDOWN is multiplied by their number, but by at most
 * BATCH_CROWD. */
#define BATCH_CROWD     4u
#define BATCH_EQUAL     8  /* steps from one step with equal parts to the next */
#define BATCH_MIN_CHUNK 32 /* fewest prompt rows of a step in which no sequence decodes */
#define BATCH_MIN_MIXED 3  /* fewest prompt rows of a step in which some sequences decode */
/* The time of decoding alone is measured by steps without prompts: BATCH_MEASURE steps at first,
 * then one after every BATCH_REFRESH steps with prompts. Measurements older than BATCH_FORGET steps
 * are dropped. */
#define BATCH_MEASURE 2
#define BATCH_REFRESH 32
#define BATCH_FORGET  1000

/* Measurements for steps in which the number of decoding sequences is between one power of two and
 * the next. */
struct batch_class {
    uint32_t n;       /* number of measurements */
    double usec;      /* time of one step */
    uint32_t n_mixed; /* steps with prompts since the last measurement */
    uint64_t at;      /* number of the step of the last measurement */
};

/* Measured times of steps, which determine the size of the next step. All zero: nothing is
 * known. */
struct batch_pace {
    uint64_t n_steps;
    uint32_t chunk;                 /* prompt rows when no sequence decodes; 0: the initial value */
    struct batch_class classes[16]; /* by log2 of the number of sequences */
    double row_usec;                /* time that one prompt row adds to a step with decoding
                                       sequences; 0: unknown */
};

/* Returns the number of prompt rows for the next step, in which @n_prompts prompts wait and
 * @n_decode sequences decode. 0: a step without prompts must be measured first. */
uint32_t batch_pace_chunk(const struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompts,
                          uint32_t max_rows);
/* Records that a step with @n_decode decoding rows and @n_prompt prompt rows took @usec
 * microseconds. */
void batch_pace_note(struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompt,
                     uint32_t max_rows, uint64_t usec);
