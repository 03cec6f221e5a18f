/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the kernels of recurrent layers: convolutions and gated delta rules.
 *
 * The tolerance of a delta rule: keys have length 1 at most, decay and beta are at most 1, so a row
 * does not enlarge the error of a lane of the state S (recur/recur.h). Each row adds the error of
 * one sum of k_dim terms, whose magnitudes add up to at most |S| + |v|, and of two roundings of S.
 * A result adds the error of two such sums, times |q|.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/recur/recur.h"
#include "core/clock.h"
#include "harness.h"

static void conv_case(struct check *c, uint32_t n_taps, uint32_t n, enum fill fill)
{
    const struct recur_fns *fns = recur_pick(c->flags);
    const uint32_t ld = n + 5;
    struct guarded x = guarded_new((size_t)n_taps * n * sizeof(float), true);
    struct guarded taps = guarded_new(((size_t)(n_taps - 1) * ld + n) * sizeof(float), true);
    struct guarded bias = guarded_new(n * sizeof(float), true);
    struct guarded y = guarded_new(n * sizeof(float), true);
    const float *rows[8];

    fill_floats(c, fill, x.data, (size_t)n_taps * n);
    fill_floats(c, FILL_NORMAL, taps.data, (size_t)(n_taps - 1) * ld + n);
    fill_floats(c, FILL_NORMAL, bias.data, n);
    for (uint32_t j = 0; j < n_taps; j++)
        rows[j] = (const float *)x.data + (size_t)j * n;
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        const float *b = with_bias ? bias.data : NULL;

        fns->conv(y.data, rows, taps.data, ld, b, n_taps, n);
        for (uint32_t i = 0; i < n; i++) {
            double sum = b ? (double)b[i] : 0, size = fabs(sum);

            for (uint32_t j = 0; j < n_taps; j++) {
                const double term = (double)rows[j][i] * (double)((float *)taps.data)[j * ld + i];

                sum += term;
                size += fabs(term);
            }
            if (size < 1e38 &&
                !(fabs((double)((float *)y.data)[i] - sum) <= tolerance_sum(n_taps, 2, size)))
                check_fail(c, "conv %u x %u, %s: y[%u]", n_taps, n, fill_name(fill), i);
        }
    }
    if (!guarded_done(&x) || !guarded_done(&taps) || !guarded_done(&bias) || !guarded_done(&y))
        check_fail(c, "conv %u x %u wrote out of bounds", n_taps, n);
    c->n_cases++;
}

void check_conv(struct check *c)
{
    static const uint32_t sizes[] = {1, 3, 8, 15, 16, 17, 40, 64, 129, 256};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (uint32_t n_taps = 1; n_taps <= 5; n_taps++)
            for (int f = 0; f < FILL_N; f++)
                conv_case(c, n_taps, sizes[i], (enum fill)f);
}

enum { DELTA_MAX_ROWS = 24 };

/* Holds the inputs of a delta rule for the lanes of one block, and its results. */
struct delta_case {
    struct guarded state, q, k, gates, v, y;
    struct delta_args args;
};

static void delta_init(struct check *c, struct delta_case *d, uint32_t k_dim, uint32_t n,
                       uint32_t n_rows, enum fill fill)
{
    const bool at_end = k_dim % 2 == 0;
    const size_t keys = (size_t)n_rows * k_dim * sizeof(float);

    d->state = guarded_new((size_t)k_dim * n * sizeof(float), at_end);
    d->q = guarded_new(keys, at_end);
    d->k = guarded_new(keys, at_end);
    d->gates = guarded_new((size_t)n_rows * DELTA_GATES * sizeof(float), at_end);
    d->v = guarded_new((size_t)n_rows * n * sizeof(float), at_end);
    d->y = guarded_new((size_t)n_rows * n * sizeof(float), at_end);
    fill_floats(c, FILL_NORMAL, d->state.data, (size_t)k_dim * n);
    fill_floats(c, fill, d->q.data, (size_t)n_rows * k_dim);
    fill_floats(c, fill == FILL_MAX || fill == FILL_ALL_MIN ? FILL_NORMAL : fill, d->k.data,
                (size_t)n_rows * k_dim);
    fill_floats(c, fill == FILL_MAX || fill == FILL_ALL_MIN ? FILL_OUTLIER : fill, d->v.data,
                (size_t)n_rows * n);
    d->args =
        (struct delta_args){n_rows,        k_dim,     n, d->state.data, d->q.data, d->k.data, k_dim,
                            d->gates.data, d->v.data, n, d->y.data,     n};
    for (uint32_t t = 0; t < n_rows; t++) {
        float *q = (float *)d->q.data + (size_t)t * k_dim, *k = (float *)d->k.data + t * k_dim;
        float *gates = (float *)d->gates.data + t * DELTA_GATES;

        recur_ref.unit(q, q, 1e-6f, 0.3f, k_dim);
        recur_ref.unit(k, k, 1e-6f, 1, k_dim);
        gates[0] = t % 5 == 4 ? 0 : (float)rng_double(&c->rng);
        gates[1] = t % 7 == 6 ? 1 : (float)rng_double(&c->rng);
        gates[2] = recur_ref.dot(q, k, k_dim);
    }
}

static void delta_done(struct check *c, struct delta_case *d)
{
    bool ok = guarded_done(&d->state);

    ok &= guarded_done(&d->q);
    ok &= guarded_done(&d->k);
    ok &= guarded_done(&d->gates);
    ok &= guarded_done(&d->v);
    ok &= guarded_done(&d->y);
    if (!ok)
        check_fail(c, "delta wrote out of bounds");
    c->n_cases++;
}

/* Computes lane @i in double precision, and compares the results a->y and the state a->state of a
 * kernel with it. @start: the state before the first row. */
static void delta_compare(struct check *c, const struct delta_args *a, uint32_t i,
                          const float *start, const char *what)
{
    double s[128], most = 0;

    for (uint32_t j = 0; j < a->k_dim; j++)
        s[j] = (double)start[(size_t)j * a->n + i];
    for (uint32_t t = 0; t < a->n_rows; t++) {
        const float *k = a->k + t * a->ld_qk, *q = a->q + t * a->ld_qk;
        const double decay = (double)a->gates[t * DELTA_GATES];
        const double v = (double)a->v[t * a->ld_v + i];
        double kept = 0, size = 0, sum = 0, length = 0, limit;

        for (uint32_t j = 0; j < a->k_dim; j++) {
            size += s[j] * s[j];
            s[j] *= decay;
            kept += s[j] * (double)k[j];
        }
        most = fmax(most, sqrt(size) + fabs(v));
        for (uint32_t j = 0; j < a->k_dim; j++) {
            s[j] += (double)a->gates[t * DELTA_GATES + 1] * (v - kept) * (double)k[j];
            sum += s[j] * (double)q[j];
            length += (double)q[j] * (double)q[j];
        }
        limit = tolerance_sum((uint64_t)(t + 2) * (a->k_dim + 12), 0, most);
        if (!(fabs((double)a->y[t * a->ld_y + i] - sum) <= limit * (sqrt(length) + 1e-30)))
            check_fail(c, "delta %s: k_dim %u, n %u, row %u, lane %u: %.9g, expected %.9g", what,
                       a->k_dim, a->n, t, i, (double)a->y[t * a->ld_y + i], sum);
        for (uint32_t j = 0; t + 1 == a->n_rows && j < a->k_dim; j++)
            if (!(fabs((double)a->state[(size_t)j * a->n + i] - s[j]) <= limit))
                check_fail(c, "delta %s: k_dim %u, n %u, state %u of lane %u", what, a->k_dim, a->n,
                           j, i);
    }
}

/* Runs the rows in two calls with a border at row @cut. The bits must be those of one call. */
static void delta_cut(struct check *c, const struct delta_args *a, const float *start, uint32_t cut)
{
    const size_t n_state = (size_t)a->k_dim * a->n, n_y = (size_t)a->n_rows * a->n;
    _cleanup_free_ float *state = NEW(float, n_state), *y = NEW(float, n_y);
    struct delta_args b = *a;

    if (!state || !y)
        exit(2);
    memcpy(state, start, n_state * sizeof(float));
    b.state = state;
    b.y = y;
    b.n_rows = cut;
    recur_pick(c->flags)->delta(&b);
    b.n_rows = a->n_rows - cut;
    b.q += cut * b.ld_qk;
    b.k += cut * b.ld_qk;
    b.gates += cut * DELTA_GATES;
    b.v += cut * b.ld_v;
    b.y += cut * b.ld_y;
    recur_pick(c->flags)->delta(&b);
    c->n_same++;
    if (memcmp(state, a->state, n_state * sizeof(float)) != 0 ||
        memcmp(y, a->y, n_y * sizeof(float)) != 0) {
        c->n_other++;
        check_fail(c, "delta k_dim %u, n %u: a border at row %u changes bits", a->k_dim, a->n, cut);
    }
}

static void delta_case(struct check *c, uint32_t k_dim, uint32_t n, uint32_t n_rows, enum fill fill)
{
    _cleanup_free_ float *start = NEW(float, (size_t)k_dim *n);
    struct delta_case d;

    if (!start)
        exit(2);
    delta_init(c, &d, k_dim, n, n_rows, fill);
    memcpy(start, d.args.state, (size_t)k_dim * n * sizeof(float));
    recur_pick(c->flags)->delta(&d.args);
    for (uint32_t i = 0; i < n; i++)
        delta_compare(c, &d.args, i, start, fill_name(fill));
    for (uint32_t cut = 1; cut < n_rows; cut += 5)
        delta_cut(c, &d.args, start, cut);
    delta_done(c, &d);
}

/* Checks that NaN and infinity in one lane's value stay in this lane. */
static void delta_lane_case(struct check *c, float value)
{
    enum { K = 20, N = 32, ROWS = 4, LANE = 5 };
    struct delta_case clean, dirty;
    const struct rng rng = c->rng;

    delta_init(c, &clean, K, N, ROWS, FILL_NORMAL);
    c->rng = rng;
    delta_init(c, &dirty, K, N, ROWS, FILL_NORMAL);
    ((float *)dirty.v.data)[N + LANE] = value;
    recur_pick(c->flags)->delta(&clean.args);
    recur_pick(c->flags)->delta(&dirty.args);
    for (uint32_t i = 0; i < ROWS * N; i++) {
        const float a = clean.args.y[i], b = dirty.args.y[i];
        const bool touched = i % N == LANE && i >= N;

        if (touched ? isfinite(b) : memcmp(&a, &b, sizeof(a)) != 0)
            check_fail(c, "delta: %g in lane %d, result %u is %g", (double)value, LANE, i,
                       (double)b);
    }
    delta_done(c, &clean);
    delta_done(c, &dirty);
}

void check_delta(struct check *c)
{
    static const uint32_t k_dims[] = {1, 2, 7, 16, 27, 64, 128},
                          ns[] = {1, 4, 8, 15, 16, 17, 31, 32};

    for (size_t i = 0; i < ARRAY_SIZE(k_dims); i++)
        for (size_t j = 0; j < ARRAY_SIZE(ns); j++)
            for (int f = 0; f < FILL_N; f++)
                delta_case(c, k_dims[i], ns[j], 1 + (uint32_t)(rng_u32(&c->rng) % DELTA_MAX_ROWS),
                           (enum fill)f);
    delta_lane_case(c, NAN);
    delta_lane_case(c, INFINITY);
}

void bench_conv(struct check *c)
{
    enum { N = 256, TAPS = 4, ROUNDS = 100000 };
    static float x[TAPS][N], taps[TAPS * N], y[N];
    const float *const rows[TAPS] = {x[0], x[1], x[2], x[3]};
    uint64_t begin;

    fill_floats(c, FILL_NORMAL, x[0], (size_t)TAPS * N);
    fill_floats(c, FILL_NORMAL, taps, (size_t)TAPS * N);
    begin = clock_nsec();
    for (int i = 0; i < ROUNDS; i++)
        recur_pick(c->flags)->conv(y, rows, taps, N, NULL, TAPS, N);
    printf("conv %s: %.3f ns per column and row\n", c->rung,
           (double)(clock_nsec() - begin) / ((double)ROUNDS * N));
}

/* Times the blocks of one head of 128 x 128 on one thread, as in a prompt and as in decoding.
 * Each element of S needs four operations of a vector unit. */
void bench_delta(struct check *c)
{
    enum { K = 128, ROWS = 32 };

    for (uint32_t n_rows = 1; n_rows <= ROWS; n_rows *= ROWS) {
        struct delta_case d;
        uint64_t best = UINT64_MAX;

        delta_init(c, &d, K, DELTA_LANES, n_rows, FILL_NORMAL);
        for (unsigned i = 0; i < 2000; i++) {
            const uint64_t begin = clock_nsec();

            for (unsigned j = 0; j < 4; j++)
                recur_pick(c->flags)->delta(&d.args);
            best = MIN(best, clock_nsec() - begin);
        }
        printf("delta %s: %u rows per call, %.0f ns per row and head of 128 x 128, "
               "%.1f operations per ns\n",
               c->rung, n_rows, (double)best / n_rows, 4.0 * K * K * n_rows / (double)best);
        delta_done(c, &d);
    }
}
