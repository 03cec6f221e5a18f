/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch policy chooses how many rows each sequence computes in a step.
 *
 * If prompts get equal parts, a part has at least BATCH_MIN_CHUNK rows if possible. Kernels decode
 * each weight once for all rows of a step, so small parts from many prompts would gain nothing and
 * would only delay all of these prompts.
 */
#include "sched/batch.h"

#include <assert.h>

#include "core/macros.h"

#define FIRST_CHUNK 64

/* Shortens a part of @n_rows rows so that its rows of logits fit. Every sequence has one row of
 * logits; @spare is the number of additional rows of logits that are still free. */
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

/* The rows of a step, and of logits, that are not given to any sequence yet. */
struct batch_rest {
    const struct batch_want *want;
    uint32_t *rows; /* of each sequence */
    uint32_t budget, spare;
};

/* Gives prompt @i up to @most more rows. */
static void give_rows(struct batch_rest *b, uint32_t i, uint32_t most)
{
    const struct batch_want *want = &b->want[i];
    uint32_t rows = MIN(b->rows[i] + MIN(b->budget, most), want->n_left);

    if (want->n_max > 0)
        rows = MIN(rows, want->n_max);
    b->spare += extra_logits(want, b->rows[i]);
    rows = MAX(fit_logits(want, rows, b->spare), b->rows[i]);
    b->spare -= extra_logits(want, rows);
    b->budget -= rows - b->rows[i];
    b->rows[i] = rows;
}

/* Gives every prompt an equal part, then gives the rest to the prompts that need more. */
static void give_parts(struct batch_rest *b, uint32_t n, uint32_t n_prompts, uint32_t turn)
{
    const uint32_t part = MAX(b->budget / n_prompts, BATCH_MIN_CHUNK);

    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < n && b->budget > 0; k++)
            if (b->want[(turn + k) % n].n_left > 1)
                give_rows(b, (turn + k) % n, pass == 0 ? part : b->budget);
}

/* Returns the first prompt that has more than @least tokens left, or that has exactly @least tokens
 * left and an index of at least @after. Prompts are ordered by the tokens left, then by index.
 * Returns @n if there is none. */
static uint32_t next_shortest(const struct batch_want *want, uint32_t n, uint32_t least,
                              uint32_t after)
{
    uint32_t best = n;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t left = want[i].n_left;

        if (left > 1 && (left > least || (left == least && i >= after)) &&
            (best == n || left < want[best].n_left))
            best = i;
    }
    return best;
}

/* Gives rows to the prompt that needs the fewest, then to the next one, and so on. */
static void give_shortest(struct batch_rest *b, uint32_t n)
{
    uint32_t i = next_shortest(b->want, n, 0, 0);

    while (i < n && b->budget > 0) {
        give_rows(b, i, b->budget);
        i = next_shortest(b->want, n, b->want[i].n_left, i + 1);
    }
}

void batch_plan(const struct batch_want *want, uint32_t n, const struct batch_limits *limits,
                uint32_t turn, uint32_t *ret_rows)
{
    struct batch_rest b = {.want = want, .rows = ret_rows};
    uint32_t n_decode = 0;

    assert(limits->max_rows >= n && limits->max_logits >= n);
    for (uint32_t i = 0; i < n; i++) {
        assert(want[i].n_left > 0);
        ret_rows[i] = want[i].n_left == 1;
        n_decode += ret_rows[i];
    }
    if (n_decode == n || (n_decode > 0 && limits->chunk == 0))
        return;

    b.budget = MIN(limits->max_rows - n_decode, MAX(limits->chunk, 1));
    b.spare = limits->max_logits - n;
    if (turn % BATCH_EQUAL == 0)
        give_parts(&b, n, n - n_decode, turn / BATCH_EQUAL);
    else
        give_shortest(&b, n);
}

static uint32_t class_of(uint32_t n)
{
    const uint32_t last = ARRAY_SIZE(((struct batch_pace *)NULL)->classes) - 1;

    return MIN(31 - (uint32_t)__builtin_clz(n), last);
}

uint32_t batch_pace_chunk(const struct batch_pace *pace, uint32_t n_decode, uint32_t n_prompts,
                          uint32_t max_rows)
{
    const double slowdown = BATCH_SLOWDOWN * MIN(MAX(n_prompts, 1u), BATCH_CROWD);
    const struct batch_class *c;
    double rows = BATCH_MIN_MIXED;

    if (n_decode == 0)
        return MIN(pace->chunk > 0 ? pace->chunk : FIRST_CHUNK, max_rows);
    c = &pace->classes[class_of(n_decode)];
    if (c->n < BATCH_MEASURE || c->n_mixed >= BATCH_REFRESH || pace->n_steps - c->at > BATCH_FORGET)
        return 0;
    if (pace->row_usec > 0)
        rows = MAX(rows, (slowdown - 1) * c->usec / pace->row_usec);
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
