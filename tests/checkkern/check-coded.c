/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares products with coded matrices (quant/coded.h) with the reference, which decodes weights
 * and sums in double precision, and checks that a row has the same bits in every batch. Also
 * measures the speed of these products.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coding.h"
#include "quant/dtype.h"

static const enum inf_dtype coded_dtypes[] = {
    INF_DTYPE_GPTQ2, INF_DTYPE_GPTQ3, INF_DTYPE_GPTQ4, INF_DTYPE_GPTQ8,
    INF_DTYPE_AWQ4,  INF_DTYPE_CT4,   INF_DTYPE_CT8,   INF_DTYPE_INT8,
    INF_DTYPE_FP8,   INF_DTYPE_NF4,   INF_DTYPE_CTFP4,
};

/* Returns element @k of prepared row @m. */
static double prepared(const struct coding *t, uint32_t m, uint32_t k)
{
    const uint8_t *row = (const uint8_t *)t->act.data + m * t->args.act_stride;
    float f[2];
    int8_t q;

    if (t->args.kind == MATMUL_ACT_F32) {
        memcpy(f, row + 4 * (size_t)k, 4);
        return f[0];
    }
    row += 48 * (size_t)(k / 32); /* struct matmul_q8 */
    memcpy(&q, row + k % 32, 1);
    memcpy(f, row + 32, sizeof(f));
    return (double)f[0] * q;
}

/* Returns the largest magnitude of the values of NF4. */
static double table_most(const float *table)
{
    double most = 0;

    for (int i = 0; i < 16; i++)
        most = MAX(most, fabs((double)table[i]));
    return most;
}

/* Compares the results with sums in double precision. With codes of 8 bits, a kernel multiplies x
 * by the code and by the zero, and each of the two products is rounded. */
static void compare(struct check *c, const struct coding *t)
{
    const bool wide = coded_kind(t->s.dtype).has_zero && coded_kind(t->s.dtype).bits == 8;
    const double most = t->s.dtype == INF_DTYPE_NF4 ? table_most(t->coded.table) : 0;
    _cleanup_free_ float *w = NEW(float, t->s.K);

    for (uint32_t n = 0; n < t->s.N; n++) {
        coded_decode(&t->coded, n, 0, t->s.K, w);
        for (uint32_t m = 0; m < t->s.M; m++) {
            const float y = ((const float *)t->y.data)[m * (size_t)t->s.N + n];
            double sum = t->s.bias ? ((const float *)t->bias.data)[n] : 0, all = fabs(sum);
            double largest = 0;

            for (uint32_t k = 0; k < t->s.K; k++) {
                const double x = prepared(t, m, k);

                sum += x * w[k];
                all += fabs(x) *
                       (fabs((double)w[k]) +
                        (wide ? 256 * (double)coded_scale(&t->coded, n, k / t->s.group) : 0));
                if (most > 0)
                    largest += fabs(x) * most * coded_scale(&t->coded, n, k / t->s.group);
            }
            if (!(fabs((double)y - sum) <=
                  tolerance_sum(t->s.K, 4, all) + tolerance_table(largest)))
                check_fail(c, "%s M %u N %u K %u group %u: y[%u][%u] is %.9g, expected %.9g",
                           dtype_info(t->s.dtype)->name, t->s.M, t->s.N, t->s.K, t->s.group, m, n,
                           (double)y, sum);
        }
    }
}

static void check_shape(struct check *c, const struct coding_shape *s)
{
    struct coding t;

    coding_init(c, &t, s);
    coding_run(c, &t);
    compare(c, &t);
    coding_done(c, &t);
    c->n_cases++;
}

/* Checks that a row has the same bits alone, in other batches, and with other borders of columns.
 */
static void check_batches(struct check *c, const struct coding_shape *s)
{
    _cleanup_free_ float *y = NEW(float, (size_t)s->M * s->N);
    struct coding t;

    coding_init(c, &t, s);
    coding_run(c, &t);
    for (uint32_t m = 0; m < s->M; m++) {
        struct matmul_args args = t.args;
        const uint32_t border = MIN(16 * (m % 5), s->N);

        args.coded = &t.coded;
        args.act = (const uint8_t *)args.act + m * args.act_stride;
        args.M = MIN(1 + m % 6, s->M - m);
        args.y = y;
        matmul_rows(matmul_ops_get(c->flags), &args, 0, border);
        args.coded_first = border;
        args.y = y + border;
        args.bias = t.args.bias ? t.args.bias + border : NULL;
        matmul_rows(matmul_ops_get(c->flags), &args, 0, s->N - border);
        if (memcmp(y, t.args.y + (size_t)m * s->N, (size_t)args.M * s->N * sizeof(float)) != 0)
            check_fail(c, "%s group %u: row %u differs in another batch",
                       dtype_info(s->dtype)->name, s->group, m);
        c->n_cases++;
    }
    coding_done(c, &t);
}

/* Returns a shape that the format permits. */
static struct coding_shape shape_draw(struct check *c, enum inf_dtype dtype, uint32_t M, uint32_t K)
{
    const struct coded_kind kind = coded_kind(dtype);
    const uint32_t r = rng_u32(&c->rng) >> 8, narrow = kind.bits == 8 && kind.has_zero ? 32 : 16;
    const uint32_t groups[] = {narrow, 32, 128, K};
    struct coding_shape s = {.M = M,
                             .N = 32 * (1 + r % 9) + (kind.by_place ? 0 : r / 8 % 3 * 8),
                             .K = K,
                             .group = groups[r / 32 % 4],
                             .dtype = dtype,
                             .scale_type = (enum inf_dtype)(r / 128 % 3),
                             .zeros = kind.has_zero && (kind.by_place || r / 512 % 2),
                             .ordered =
                                 kind.has_zero && dtype != INF_DTYPE_AWQ4 && r / 1024 % 3 == 0,
                             .bias = r / 4096 % 2,
                             .group_rows = 1};

    if (dtype == INF_DTYPE_AWQ4)
        s.N -= r / 8 % 3 * 8;
    if (dtype == INF_DTYPE_CTFP4)
        s.group = 16;
    if (dtype == INF_DTYPE_FP8)
        s.group_rows = r / 8192 % 2 ? 128 : 1;
    return s;
}

void check_coded(struct check *c)
{
    /* Products without a panel need a K that is a multiple of 64. */
    static const uint32_t Ks[] = {32, 160, 512, 1312, 1344};
    static const uint32_t Ms[] = {1, 2, 4, 5, 19};

    for (size_t d = 0; d < ARRAY_SIZE(coded_dtypes); d++) {
        /* The reference, whose flags are 0, is slow, so it gets only two of the widths. */
        for (size_t k = 0; k < (c->flags ? ARRAY_SIZE(Ks) : 2); k++)
            for (size_t m = 0; m < ARRAY_SIZE(Ms); m++) {
                const struct coding_shape s = shape_draw(c, coded_dtypes[d], Ms[m], Ks[k]);

                check_shape(c, &s);
            }
        for (int i = 0; i < 8; i++) {
            struct coding_shape s = shape_draw(c, coded_dtypes[d], 19,
                                               !c->flags ? 96
                                               : i % 2   ? 1312
                                                         : 1344);

            /* The executor gives kernels of AWQ up to 512 columns at once. */
            if (i < 2 && c->flags)
                s.N += 512;
            check_batches(c, &s);
        }
    }
}

struct bench_job {
    const struct matmul_ops *ops;
    struct coding t;
};

static void bench_part(void *arg, unsigned i, unsigned n)
{
    struct bench_job *job = arg;
    /* The CPU's executor computes this many columns at once. */
    const uint32_t step = job->t.s.dtype == INF_DTYPE_AWQ4 ? 512 : 128;
    const uint32_t steps = job->t.s.N / step, end = steps * (i + 1) / n;

    for (uint32_t p = steps * i / n; p < end; p++) {
        struct matmul_args args = job->t.args;

        args.coded = &job->t.coded;
        args.coded_first = step * p;
        args.y += step * p;
        matmul_rows(job->ops, &args, 0, step);
    }
}

static void bench_one(struct check *c, enum inf_dtype dtype, bool ordered)
{
    static const uint32_t Ms[] = {1, 4, 64};

    printf("%s%s:", dtype_info(dtype)->name, ordered ? " in an order" : "");
    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
        const struct coding_shape s = {.M = Ms[i],
                                       .N = Ms[i] < 64 ? 24576 : 4096,
                                       .K = 2048,
                                       .group = dtype == INF_DTYPE_CTFP4 ? 16
                                                : dtype == INF_DTYPE_NF4 ? 64
                                                                         : 128,
                                       .dtype = dtype,
                                       .scale_type =
                                           dtype == INF_DTYPE_NF4 ? INF_DTYPE_F32 : INF_DTYPE_F16,
                                       .zeros = coded_kind(dtype).by_place,
                                       .ordered = ordered,
                                       .group_rows = 1};
        struct bench_job job = {.ops = matmul_ops_get(c->flags)};
        double seconds, bytes;

        coding_init(c, &job.t, &s);
        seconds = bench_threads(c->n_threads, 0.25, bench_part, &job);
        bytes = (double)s.N * s.K * coded_kind(dtype).bits / 8;
        if (Ms[i] < 64)
            printf(" M=%u %.1f GB/s,", Ms[i],
                   (bytes + (double)coded_plane_bytes(&job.t.coded)) / seconds * 1e-9);
        else
            printf(" M=%u %.3f TOPS\n", Ms[i], 2.0 * Ms[i] * s.N * s.K / seconds * 1e-12);
        coding_done(c, &job.t);
    }
}

void bench_coded(struct check *c)
{
    const double gbs = bench_read_gbs(c->n_threads, c->flags);

    printf("coded matrices, %s, %u threads, K 2048; memory %.1f GB/s\n", c->rung, c->n_threads,
           gbs);
    for (size_t d = 0; d < ARRAY_SIZE(coded_dtypes); d++)
        bench_one(c, coded_dtypes[d], false);
    bench_one(c, INF_DTYPE_GPTQ4, true);
}
