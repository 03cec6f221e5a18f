/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the lists of the largest logits (core/top.h) against the rows that they come from.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "core/clock.h"
#include "core/top.h"
#include "checkkern/devices/device.h"

enum { N_ROWS = 12 };

/* The kinds of rows. Row i of a step has kind i, so a step of N_ROWS rows has all kinds. */
enum look {
    LOOK_NORMAL,
    LOOK_EQUAL,      /* all the same */
    LOOK_TIES,       /* few different values */
    LOOK_LONE,       /* one number, the others are -infinity */
    LOOK_FEW,        /* some numbers, the others are -infinity */
    LOOK_NONE,       /* only -infinity */
    LOOK_NAN,        /* normal with a NaN */
    LOOK_INFINITE,   /* normal with an infinity */
    LOOK_ASCENDING,  /* the largest come last */
    LOOK_DESCENDING, /* the largest come first */
    LOOK_WIDE,       /* far apart */
    LOOK_ZEROS,      /* 0 and -0 */
};

static float look_at(struct check *c, enum look look, uint32_t i, uint32_t n)
{
    const float x = rng_normal(&c->rng);

    switch (look) {
    case LOOK_NORMAL:
        return 3 * x;
    case LOOK_EQUAL:
        return 2.5f;
    case LOOK_TIES:
        return rintf(x);
    case LOOK_LONE:
        return i == n / 3 ? 1 : -INFINITY;
    case LOOK_FEW:
        return i % (n / 9 + 1) == 2 ? x : -INFINITY;
    case LOOK_NONE:
        return -INFINITY;
    case LOOK_NAN:
        return i == n / 2 ? NAN : x;
    case LOOK_INFINITE:
        return i == n / 5 ? INFINITY : x;
    case LOOK_ASCENDING:
        return (float)i;
    case LOOK_DESCENDING:
        return (float)(n - i);
    case LOOK_WIDE:
        return 3e4f * x;
    case LOOK_ZEROS:
        return i % 2 ? 0.0f : -0.0f;
    }
    return x;
}

/* Makes the expected list by its definition: takes the largest value repeatedly. */
static void expect(const float *x, uint32_t n, uint32_t n_wanted, struct top_row *t)
{
    double sum = 0;
    int32_t last = -1;

    *t = (struct top_row){.n_wanted = n_wanted};
    for (uint32_t i = 0; i < n; i++)
        if (isnan(x[i]) || x[i] == INFINITY)
            return;
    while (t->n < n_wanted) {
        int32_t best = -1;

        for (uint32_t i = 0; i < n; i++) {
            const bool behind =
                last < 0 || x[i] < x[last] || (x[i] == x[last] && (int32_t)i > last);

            if (behind && x[i] > -INFINITY && (best < 0 || x[i] > x[best]))
                best = (int32_t)i;
        }
        if (best < 0)
            break;
        t->ids[t->n] = best;
        t->values[t->n++] = x[best];
        last = best;
    }
    for (uint32_t i = 0; t->n > 0 && i < n; i++)
        sum += exp((double)x[i] - (double)t->values[0]);
    t->log_sum = log(sum);
}

static void compare(struct check *c, const struct top_row *got, const float *x, uint32_t n,
                    unsigned look)
{
    struct top_row want;

    expect(x, n, got->n_wanted, &want);
    if (got->n != want.n) {
        check_fail(c, "width %u, look %u: %u of %u, expected %u", n, look, got->n, got->n_wanted,
                   want.n);
        return;
    }
    for (uint32_t i = 0; i < want.n; i++)
        if (got->ids[i] != want.ids[i] || got->values[i] != want.values[i]) {
            check_fail(c, "width %u, look %u: number %u is %d with %.9g, expected %d with %.9g", n,
                       look, i, got->ids[i], (double)got->values[i], want.ids[i],
                       (double)want.values[i]);
            return;
        }
    /* The sum has @n terms of at most 1 in any order. Each term has an error of at most (3 + 2 |x|)
     * ulp; only terms with a small |x| matter. */
    if (want.n > 0 && !(fabs(got->log_sum - want.log_sum) <= 2e-5 + n * 0x1p-24))
        check_fail(c, "width %u, look %u: log sum %.9g, expected %.9g", n, look, got->log_sum,
                   want.log_sum);
}

/* Runs a step that requests a list of @wanted[i] values for row i, or the whole row if that is 0.
 * If the device makes lists, checks them, and fetches the whole rows of these lists. Then checks
 * all whole rows. */
static void step(struct bed *bed, const float *x, uint32_t n, const uint32_t *wanted,
                 uint32_t n_rows)
{
    const struct backend_ops *ops = bed->backend->ops;
    _cleanup_free_ struct top_row *tops = NEW(struct top_row, N_ROWS);
    _cleanup_free_ float *y = NEW(float, (size_t)N_ROWS *n), *row = NEW(float, n);
    const int32_t tokens[N_ROWS] = {0};
    const struct batch_seq seq = {0, n_rows, 0, 1, {bed->order}};
    uint32_t rows[N_ROWS];
    const struct batch batch = {n_rows, tokens, 1, &seq, n_rows, rows, x};

    for (uint32_t i = 0; i < n_rows; i++) {
        rows[i] = i;
        tops[i] = (struct top_row){.n_wanted = wanted[i], .n = 99};
    }
    if (ops->run(bed->backend, bed->plan, bed->store, &batch, y, tops) < 0) {
        check_fail(bed->c, "a step with lists fails");
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        const float *whole = y + (size_t)i * n;

        if (ops->logits && wanted[i] > 0) {
            compare(bed->c, &tops[i], x + (size_t)i * n, n, i);
            if (ops->logits(bed->backend, bed->plan, i, row) < 0)
                check_fail(bed->c, "row %u cannot be fetched", i);
            whole = row;
        }
        /* NaN has many bit patterns, and -0 may become 0. */
        for (uint32_t j = 0; j < n; j++)
            if (whole[j] != x[(size_t)i * n + j] &&
                !(isnan(whole[j]) && isnan(x[(size_t)i * n + j])))
                check_fail(bed->c, "width %u: row %u, column %u is %g", n, i, j, (double)whole[j]);
        bed->c->n_cases++;
    }
}

static void tops_case(struct check *c, uint32_t n)
{
    static const uint32_t all[] = {1, 64, 40, 7, 64, 3, 5, 64, 64, 0, 10, 20};
    static const uint32_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint32_t none[N_ROWS] = {0};
    struct case_memory m = {.n = 0};
    float *x = case_floats(c, &m, FILL_NORMAL, (size_t)N_ROWS * n);
    struct graph *g;
    struct bed bed;

    for (unsigned i = 0; i < N_ROWS; i++)
        for (uint32_t j = 0; j < n; j++)
            x[(size_t)i * n + j] = look_at(c, (enum look)i, j, n);
    if (graph_new(&g) < 0)
        exit(2);
    graph_output(g, graph_scale(g, graph_rows(g, graph_input(g, n)), 1));
    if (bed_init(&bed, c, g, NULL, N_ROWS, N_ROWS)) {
        step(&bed, x, n, all, N_ROWS);
        step(&bed, x, n, ones, N_ROWS);
        step(&bed, x, n, none, N_ROWS);
        step(&bed, x, n, all, 1);
        step(&bed, x, n, all + 1, 1);
        step(&bed, x, n, all, 4);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

void check_graph_tops(struct check *c)
{
    static const uint32_t widths[] = {1, 5, 63, 64, 65, 300, 1024, 4099, 32000, 151936};

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
        tops_case(c, widths[i]);
}

void bench_graph_tops(struct check *c)
{
    (void)c;
}
