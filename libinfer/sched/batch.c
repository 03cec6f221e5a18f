/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch policy chooses how many rows each sequence computes in a step.
 *
 * The part of a prompt that a step computes has at least BATCH_MIN_CHUNK rows if possible. Kernels
 * decode each weight once for all rows of a step, so small parts from many prompts would gain
 * nothing and would only delay all of these prompts.
 */
#include "sched/batch.h"

#include <assert.h>

#include "core/macros.h"

#define FIRST_CHUNK 64

/* Shortens a part of @n_rows rows so that its rows of logits fit. Each sequence always gets one row
 * of logits; @spare is the number of further rows of logits that are left. */
static uint32_t fit_logits(const struct batch_want *want, uint32_t n_rows, uint32_t spare)
{
    return want->n_logits > 0 ? MIN(n_rows, 1 + spare) : n_rows;
}

/* Returns how many rows of logits a part of @n_rows rows needs in addition to the one that every
 * sequence has. */
static uint32_t extra_logits(const struct batch_want *want, uint32_t n_rows)
{
    const uint32_t n = MIN(n_rows, want->n_logits) + (n_rows == want->n_left);

    return n > 1 ? n - 1 : 0;
}

void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows)
{
    uint32_t n_decode = 0, n_prompts, budget, part, spare;

    assert(limits->max_rows >= n && limits->max_logits >= n);
    for (uint32_t i = 0; i < n; i++) {
        assert(want[i].n_left > 0);
        ret_rows[i] = want[i].n_left == 1;
        n_decode += ret_rows[i];
    }
    n_prompts = n - n_decode;
    if (n_prompts == 0 || (n_decode > 0 && limits->chunk == 0))
        return;

    budget = MIN(limits->max_rows - n_decode, MAX(limits->chunk, 1));
    part = MAX(budget / n_prompts, BATCH_MIN_CHUNK);
    spare = limits->max_logits - n;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < n && budget > 0; k++) {
            const uint32_t i = (turn + k) % n;
            uint32_t rows, more;

            if (want[i].n_left == 1)
                continue;
            rows = ret_rows[i] + MIN(budget, pass == 0 ? part : budget);
            rows = MIN(rows, want[i].n_left);
            if (want[i].n_max > 0)
                rows = MIN(rows, want[i].n_max);
            spare += extra_logits(&want[i], ret_rows[i]);
            rows = MAX(fit_logits(&want[i], rows, spare), ret_rows[i]);
            spare -= extra_logits(&want[i], rows);
            more = rows - ret_rows[i];
            ret_rows[i] = rows;
            budget -= more;
        }
    }
}

static uint32_t class_of(uint32_t n)
{
    const uint32_t last = ARRAY_SIZE(((struct batch_pace *)NULL)->classes) - 1;

    return MIN(31 - (uint32_t)__builtin_clz(n), last);
}

static double batch_slowdown(uint32_t n_decode, uint32_t n_prompts)
{
    return BATCH_SLOWDOWN * MIN(MAX((double)n_prompts / n_decode, 1), BATCH_CROWD);
}

uint32_t batch_pace_chunk(const struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompts,
                          uint32_t max_rows)
{
    const struct batch_class *c;
    double rows = BATCH_MIN_MIXED;

    if (n_decode == 0)
        return MIN(pace->chunk > 0 ? pace->chunk : FIRST_CHUNK, max_rows);
    c = &pace->classes[class_of(n_decode)];
    if (c->n < BATCH_MEASURE || c->n_mixed >= BATCH_REFRESH || pace->n_steps - c->at > BATCH_FORGET)
        return 0;
    if (pace->row_usec > 0)
        rows = MAX(rows, (batch_slowdown(n_decode, n_prompts) - 1) * c->usec / pace->row_usec);
    rows = MIN(rows, (double)max_rows);
    return (uint32_t)rows;
}

static void note_prompts(struct batch_pace *pace, uint32_t n, uint32_t max_rows, uint64_t usec)
{
    const uint64_t chunk = batch_pace_chunk(pace, 0, 1, max_rows);
    uint64_t fit = (uint64_t)n * BATCH_STEP_USEC / MAX(usec, 1);

    if (pace->row_usec == 0)
        pace->row_usec = (double)usec / n;
    /* The time of a step with fewer prompt rows than the chunk does not predict the time of a
     * larger step. So the chunk grows only after a step with the full chunk was measured. */
    if (n < chunk && usec <= BATCH_STEP_USEC)
        return;
    fit = MIN(fit, 2 * chunk);
    /* Kernels process rows in tiles, so the chunk is a multiple of BATCH_MIN_CHUNK. */
    fit -= fit % BATCH_MIN_CHUNK;
    pace->chunk = (uint32_t)MIN(MAX(fit, (uint64_t)BATCH_MIN_CHUNK), max_rows);
}

/* Records the time of a step without prompts. Other load on the machine makes steps longer, never
 * shorter. So a shorter time replaces the recorded time at once, and a longer time changes it
 * gradually. */
static void note_alone(struct batch_pace *pace, struct batch_class *c, uint64_t usec)
{
    const double sample = (double)MAX(usec, 1);

    if (pace->n_steps - c->at > BATCH_FORGET)
        c->n = 0;
    if (c->n == 0 || sample < c->usec)
        c->usec = sample;
    else
        c->usec += (MIN(sample, 2 * c->usec) - c->usec) / 4;
    c->n = MIN(c->n + 1, (uint32_t)BATCH_MEASURE);
    c->n_mixed = 0;
    c->at = pace->n_steps;
}

/* Records the time of a step with prompts and decoding sequences. The cost of a prompt row is
 * averaged over steps, because it grows with the row's position in its prompt, and falls with the
 * number of rows in the step. */
static void note_mixed(struct batch_pace *pace, struct batch_class *c, uint32_t n_prompt,
                       uint64_t usec)
{
    const double sample = MAX(((double)usec - c->usec) / n_prompt, 1);

    c->n_mixed++;
    if (pace->row_usec == 0)
        pace->row_usec = sample;
    else
        pace->row_usec += (MIN(sample, 4 * pace->row_usec) - pace->row_usec) / 2;
}

void batch_pace_note(struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompt,
                     uint32_t max_rows, uint64_t usec)
{
    pace->n_steps++;
    if (n_decode == 0)
        note_prompts(pace, n_prompt, max_rows, usec);
    else if (n_prompt == 0)
        note_alone(pace, &pace->classes[class_of(n_decode)], usec);
    else
        note_mixed(pace, &pace->classes[class_of(n_decode)], n_prompt, usec);
}
