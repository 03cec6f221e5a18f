/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch policy. A part of a prompt has at least BATCH_MIN_CHUNK rows where it can: kernels
 * decode a weight once for many rows, and many tiny parts would finish no prompt early.
 */
#include "sched/batch.h"

#include <assert.h>

#include "core/macros.h"

/* Cuts a part so that its rows of logits fit; each sequence has one row of logits for sure. */
static uint32_t fit_logits(const struct batch_want *want, uint32_t n_rows, uint32_t spare)
{
    return want->n_logits > 0 ? MIN(n_rows, 1 + spare) : n_rows;
}

/* Rows of logits that @n_rows need beyond the one that every sequence has. */
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
    if (n_prompts == 0)
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
            spare += extra_logits(&want[i], ret_rows[i]);
            rows = MAX(fit_logits(&want[i], rows, spare), ret_rows[i]);
            spare -= extra_logits(&want[i], rows);
            more = rows - ret_rows[i];
            ret_rows[i] = rows;
            budget -= more;
        }
    }
}

uint32_t batch_next_chunk(uint32_t chunk, uint32_t max_rows, uint32_t n_rows, uint64_t usec)
{
    const uint64_t least = MIN(BATCH_MIN_CHUNK, max_rows);
    uint64_t fit;

    if (n_rows == 0)
        return chunk;
    fit = (uint64_t)n_rows * BATCH_STEP_USEC / MAX(usec, 1);
    /* Growth only by what was tried: a short last part says little about a long one. */
    if (fit >= chunk)
        fit = n_rows >= chunk ? MIN(fit, 2 * (uint64_t)chunk) : chunk;
    /* Kernels work on tiles of rows. */
    fit -= fit % BATCH_MIN_CHUNK;
    return (uint32_t)MIN(MAX(fit, least), max_rows);
}
