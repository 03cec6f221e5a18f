/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks products with packed ternary weights against the reference and, bit for bit, against each
 * other, and measures their speed.
 *
 * The integer sums are exact, so the prepared rows of all rungs (instruction set levels) are equal,
 * and results have three roundings.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul.h"
#include "harness.h"

/* Holds one product with its buffers: N rows of W, N / 4 stored rows. */
struct ternary {
    uint32_t M, N, K;
    float factor;
    struct guarded w, x, act, bias, y;
    struct matmul_args args;
};

static void ternary_init(struct check *c, struct ternary *t, uint32_t M, uint32_t N, uint32_t K,
                         bool with_bias)
{
    const size_t act_bytes = matmul_act_bytes(MATMUL_ACT_ROW8, K);

    *t = (struct ternary){.M = M, .N = N, .K = K, .factor = 0.3f};
    t->w = guarded_new((size_t)N / 4 * K, true);
    t->x = guarded_new((size_t)M * K * sizeof(float), true);
    t->act = guarded_new(act_bytes * M, false);
    t->bias = guarded_new(N * sizeof(float), true);
    t->y = guarded_new((size_t)M * N * sizeof(float), true);
    fill_floats(c, FILL_NORMAL, t->bias.data, N);
    for (size_t i = 0; i < (size_t)N / 4 * K; i++)
        ((uint8_t *)t->w.data)[i] = (uint8_t)(rng_u32(&c->rng) >> 24);
    t->args = (struct matmul_args){
        .dtype = INF_DTYPE_BITNET,
        .w = t->w.data,
        .row_bytes = K / 4,
        .kind = MATMUL_ACT_ROW8,
        .act = t->act.data,
        .act_stride = act_bytes,
        .M = M,
        .K = K,
        .y = t->y.data,
        .ldy = N,
        .bias = with_bias ? t->bias.data : NULL,
        .planes[WEIGHT_SCALES] = &t->factor,
        .quarter = N / 4,
    };
}

static void ternary_run(struct check *c, struct ternary *t)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);

    t->args.planes[WEIGHT_SCALES] = &t->factor;
    matmul_prepare(ops, MATMUL_ACT_ROW8, t->x.data, t->K, t->K, 0, t->M, t->act.data);
    matmul_rows(ops, &t->args, 0, t->N);
}

static void ternary_done(struct check *c, struct ternary *t)
{
    bool ok = guarded_done(&t->w);

    ok &= guarded_done(&t->x);
    ok &= guarded_done(&t->act);
    ok &= guarded_done(&t->bias);
    ok &= guarded_done(&t->y);
    if (!ok)
        check_fail(c, "M %u N %u K %u wrote out of bounds", t->M, t->N, t->K);
}

/* Compares the prepared rows and the results with those of the reference. */
static void compare_with_ref(struct check *c, const struct ternary *t, const char *what)
{
    const size_t n_act = t->args.act_stride * t->M, n_y = (size_t)t->M * t->N;
    _cleanup_free_ uint8_t *act = NEW(uint8_t, n_act);
    _cleanup_free_ float *ref = NEW(float, n_y);
    struct matmul_args args = t->args;

    memcpy(act, t->act.data, n_act); /* so that bytes between the rows are equal */
    matmul_prepare(matmul_ops_get(0), MATMUL_ACT_ROW8, t->x.data, t->K, t->K, 0, t->M, act);
    if (memcmp(act, t->act.data, n_act) != 0)
        check_fail(c, "%s K %u: the prepared rows differ from the reference", what, t->K);
    args.y = ref;
    matmul_rows(matmul_ops_get(0), &args, 0, t->N);
    for (size_t i = 0; i < n_y; i++) {
        const float y = ((const float *)t->y.data)[i];
        const float bias = t->args.bias ? t->args.bias[i % t->N] : 0;
        const double most = fabs((double)ref[i]) + 2 * fabs((double)bias);

        if (!(fabs((double)y - (double)ref[i]) <= tolerance_sum(1, 3, most)))
            check_fail(c, "%s M %u N %u K %u: y[%zu] is %.9g, expected %.9g", what, t->M, t->N,
                       t->K, i, (double)y, (double)ref[i]);
    }
}

static void check_case(struct check *c, uint32_t M, uint32_t N, uint32_t K, enum fill fill,
                       int byte)
{
    struct ternary t;

    ternary_init(c, &t, M, N, K, N % 8 == 0);
    fill_floats(c, fill, t.x.data, (size_t)M * K);
    if (byte >= 0)
        memset(t.w.data, byte, (size_t)N / 4 * K);
    ternary_run(c, &t);
    compare_with_ref(c, &t, fill_name(fill));
    ternary_done(c, &t);
    c->n_cases++;
}

/* Checks that a row has the same bits alone, in other batches, and with other borders of columns,
 * and that NaN stays in its row. */
static void check_rows(struct check *c, float bad)
{
    const uint32_t M = 19, N = 4 * 37, K = 224;
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    _cleanup_free_ float *y = NEW(float, (size_t)M *N);
    struct ternary t;

    ternary_init(c, &t, M, N, K, true);
    fill_floats(c, FILL_NORMAL, t.x.data, (size_t)M * K);
    ((float *)t.x.data)[5 * K + 7] = bad;
    ternary_run(c, &t);
    for (uint32_t m = 0; m < M; m++)
        for (uint32_t n = 0; n < N; n++)
            if (isfinite(t.args.y[m * N + n]) != (m != 5 || isfinite(bad)))
                check_fail(c, "y[%u][%u] with %g in row 5", m, n, (double)bad);
    for (uint32_t m = 0; m < M; m++) {
        struct matmul_args args = t.args;
        const uint32_t p = 4 * (m % 9);

        args.act = (const uint8_t *)args.act + m * args.act_stride;
        args.M = MIN(1 + m % 3, M - m);
        args.y = y;
        matmul_rows(ops, &args, 0, p);
        args.w = (const uint8_t *)args.w + p * args.row_bytes;
        args.y = y + p / 4;
        args.bias = t.args.bias + p / 4;
        matmul_rows(ops, &args, 0, N - p);
        if (memcmp(y, t.args.y + (size_t)m * N, args.M * N * sizeof(float)) != 0)
            check_fail(c, "row %u differs in another batch", m);
        c->n_cases++;
    }
    ternary_done(c, &t);
}

void check_bitnet(struct check *c)
{
    static const uint32_t Ks[] = {4, 36, 64, 96, 224, 256, 2560, 6912};
    static const uint32_t Ms[] = {1, 2, 3, 6, 7, 13};

    for (size_t i = 0; i < ARRAY_SIZE(Ks); i++)
        for (size_t m = 0; m < ARRAY_SIZE(Ms); m++)
            check_case(c, Ms[m], 4 * (1 + rng_u32(&c->rng) % 21), Ks[i], FILL_NORMAL, -1);
    for (int f = 0; f < FILL_N; f++) {
        check_case(c, 3, 16, 320, (enum fill)f, -1);
        check_case(c, 3, 16, 320, (enum fill)f, 0);
        check_case(c, 3, 16, 320, (enum fill)f, 0xff);
    }
    check_rows(c, 1);
    check_rows(c, NAN);
    check_rows(c, -INFINITY);
}

struct bench_job {
    const struct matmul_ops *ops;
    struct ternary t;
};

static void bench_part(void *arg, unsigned i, unsigned n)
{
    const struct bench_job *job = arg;
    struct matmul_args args = job->t.args;
    const uint32_t steps = job->t.N / MATMUL_N_STEP;
    const uint32_t p0 = steps * i / n * MATMUL_N_STEP, p1 = steps * (i + 1) / n * MATMUL_N_STEP;

    args.planes[WEIGHT_SCALES] = &job->t.factor;
    matmul_rows(job->ops, &args, p0, p1);
}

void bench_bitnet(struct check *c)
{
    static const uint32_t Ms[] = {1, 2, 8, 64, 512};
    const double gbs = bench_read_gbs(c->n_threads, c->flags);
    const uint32_t K = 2560;

    printf("bitnet %s, %u threads, K %u; memory %.1f GB/s:", c->rung, c->n_threads, K, gbs);
    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
        const uint32_t N = Ms[i] < 64 ? 65536 : 4096;
        struct bench_job job = {.ops = matmul_ops_get(c->flags)};
        double seconds;

        ternary_init(c, &job.t, Ms[i], N, K, false);
        fill_floats(c, FILL_NORMAL, job.t.x.data, (size_t)Ms[i] * K);
        matmul_prepare(job.ops, MATMUL_ACT_ROW8, job.t.x.data, K, K, 0, Ms[i], job.t.act.data);
        seconds = bench_threads(c->n_threads, 0.25, bench_part, &job);
        if (Ms[i] == 1)
            printf(" M=1 %.1f GB/s", (double)N / 4 * K / seconds * 1e-9);
        else
            printf(", M=%u %.3f TOPS", Ms[i], 2.0 * Ms[i] * N * K / seconds * 1e-12);
        ternary_done(c, &job.t);
    }
    putchar('\n');
}
