/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares products with coded matrices (quant/coded.h) with the reference, which decodes weights
 * and sums in double precision, and checks that a row has the same bits in every batch. Also
 * measures the speed of these products.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul.h"
#include "harness.h"
#include "quant/coded.h"
#include "quant/dtype.h"

static const enum inf_dtype coded_dtypes[] = {
    INF_DTYPE_GPTQ2, INF_DTYPE_GPTQ3, INF_DTYPE_GPTQ4, INF_DTYPE_GPTQ8,
    INF_DTYPE_AWQ4,  INF_DTYPE_CT4,   INF_DTYPE_CT8,   INF_DTYPE_INT8,
    INF_DTYPE_FP8,   INF_DTYPE_NF4,   INF_DTYPE_CTFP4,
};

/* The shape of a case. */
struct shape {
    uint32_t M, N, K, group;
    enum inf_dtype dtype, scale_type;
    bool ordered, zeros, bias;
    uint32_t group_rows; /* of FP8 */
};

struct coding {
    struct shape s;
    struct coded coded;
    struct guarded codes, scales, zeros, order, x, act, bias, y;
    struct matmul_args args;
};

static float nf4_table[16];

static void fill_bytes(struct check *c, struct guarded *g)
{
    for (size_t i = 0; i < g->size; i++)
        ((uint8_t *)g->data)[i] = (uint8_t)(rng_u32(&c->rng) >> 24);
}

/* Fills scales with numbers around 2^-5. */
static void fill_scales(struct check *c, const struct coding *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = rng_u32(&c->rng);
        const float f = ldexpf(1 + (float)(r % 1024) / 1024, (int)(r >> 16) % 4 - 6);
        const uint16_t bf16 = (uint16_t)(0x3c00 + (r % 0x200)), f16 = (uint16_t)(0x2400 + r % 2048);

        if (t->s.dtype == INF_DTYPE_CTFP4)
            ((uint8_t *)t->scales.data)[i] = (uint8_t)(40 + r % 40);
        else if (t->s.scale_type == INF_DTYPE_F32)
            memcpy((float *)t->scales.data + i, &f, 4);
        else
            memcpy((uint16_t *)t->scales.data + i, t->s.scale_type == INF_DTYPE_F16 ? &f16 : &bf16,
                   2);
    }
}

static size_t zero_bytes(const struct shape *s, size_t n_scales)
{
    return s->dtype == INF_DTYPE_CT4 || s->dtype == INF_DTYPE_CT8
               ? DIV_UP((size_t)s->N * coded_kind(s->dtype).bits, 32u) * 4 * DIV_UP(s->K, s->group)
               : n_scales * coded_kind(s->dtype).bits / 8;
}

/* Shuffles the columns. */
static void fill_order(struct check *c, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = rng_u32(&c->rng) % (i + 1), k = order[i];

        order[i] = order[j];
        order[j] = k;
    }
}

static void coding_init(struct check *c, struct coding *t, const struct shape *s)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const enum matmul_act kind = matmul_act_kind(ops, s->dtype);
    const size_t act = matmul_act_bytes(kind, s->K);
    const size_t n_scales = (size_t)DIV_UP(s->N, s->group_rows) * DIV_UP(s->K, s->group);
    const unsigned bits = coded_kind(s->dtype).bits;

    *t = (struct coding){.s = *s};
    t->codes = guarded_new((size_t)s->N * s->K * bits / 8, true);
    t->scales = guarded_new(n_scales * (s->dtype == INF_DTYPE_CTFP4      ? 1
                                        : s->scale_type == INF_DTYPE_F32 ? 4
                                                                         : 2),
                            true);
    t->zeros = guarded_new(zero_bytes(s, n_scales), true);
    t->order = guarded_new(s->K * sizeof(uint32_t), true);
    t->x = guarded_new((size_t)s->M * s->K * sizeof(float), true);
    t->act = guarded_new(act * s->M, false);
    t->bias = guarded_new(s->N * sizeof(float), true);
    t->y = guarded_new((size_t)s->M * s->N * sizeof(float), true);
    fill_bytes(c, &t->codes);
    fill_bytes(c, &t->zeros);
    fill_scales(c, t, n_scales);
    fill_order(c, t->order.data, s->K);
    fill_floats(c, FILL_NORMAL, t->bias.data, s->N);
    fill_floats(c, FILL_NORMAL, t->x.data, (size_t)s->M * s->K);
    for (int i = 0; i < 16; i++)
        nf4_table[i] = rng_normal(&c->rng);
    for (size_t i = 0; s->dtype == INF_DTYPE_FP8 && i < t->codes.size; i++)
        if ((((uint8_t *)t->codes.data)[i] & 0x7f) == 0x7f) /* NaN */
            ((uint8_t *)t->codes.data)[i] = 1;
    t->coded = (struct coded){
        .dtype = s->dtype,
        .rows = s->N,
        .cols = s->K,
        .codes = t->codes.data,
        .scales = t->scales.data,
        .zeros = s->zeros ? t->zeros.data : NULL,
        .order = s->ordered ? t->order.data : NULL,
        .table = nf4_table,
        .scale_type = s->scale_type,
        .group = s->group,
        .group_rows = s->group_rows,
        .zero_add = s->N % 64 != 0,
        .factor = s->dtype == INF_DTYPE_CTFP4 ? 3.5f : 1,
    };
    t->args = (struct matmul_args){
        .dtype = s->dtype,
        .kind = kind,
        .act = t->act.data,
        .act_stride = act,
        .M = s->M,
        .K = s->K,
        .y = t->y.data,
        .ldy = s->N,
        .bias = s->bias ? t->bias.data : NULL,
    };
    matmul_prepare(ops, kind, t->x.data, s->K, s->K, 0, s->M, t->act.data);
}

static void coding_run(struct check *c, struct coding *t)
{
    t->args.coded = &t->coded;
    matmul_rows(matmul_ops_get(c->flags), &t->args, 0, t->s.N);
}

static void coding_done(struct check *c, struct coding *t)
{
    bool ok = guarded_done(&t->codes);

    ok &= guarded_done(&t->scales);
    ok &= guarded_done(&t->zeros);
    ok &= guarded_done(&t->order);
    ok &= guarded_done(&t->x);
    ok &= guarded_done(&t->act);
    ok &= guarded_done(&t->bias);
    ok &= guarded_done(&t->y);
    if (!ok)
        check_fail(c, "%s M %u N %u K %u wrote out of bounds", dtype_info(t->s.dtype)->name, t->s.M,
                   t->s.N, t->s.K);
}

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

/* Compares the results with sums in double precision. With codes of 8 bits, a kernel multiplies x
 * by the code and by the zero, and each of the two products is rounded. */
static void compare(struct check *c, const struct coding *t)
{
    const bool wide = coded_kind(t->s.dtype).has_zero && coded_kind(t->s.dtype).bits == 8;
    _cleanup_free_ float *w = NEW(float, t->s.K);

    for (uint32_t n = 0; n < t->s.N; n++) {
        coded_decode(&t->coded, n, 0, t->s.K, w);
        for (uint32_t m = 0; m < t->s.M; m++) {
            const float y = ((const float *)t->y.data)[m * (size_t)t->s.N + n];
            double sum = t->s.bias ? ((const float *)t->bias.data)[n] : 0, all = fabs(sum);

            for (uint32_t k = 0; k < t->s.K; k++) {
                const double x = prepared(t, m, k);

                sum += x * w[k];
                all += fabs(x) *
                       (fabs((double)w[k]) +
                        (wide ? 256 * (double)coded_scale(&t->coded, n, k / t->s.group) : 0));
            }
            if (!(fabs((double)y - sum) <= tolerance_sum(t->s.K, 4, all)))
                check_fail(c, "%s M %u N %u K %u group %u: y[%u][%u] is %.9g, expected %.9g",
                           dtype_info(t->s.dtype)->name, t->s.M, t->s.N, t->s.K, t->s.group, m, n,
                           (double)y, sum);
        }
    }
}

static void check_shape(struct check *c, const struct shape *s)
{
    struct coding t;

    coding_init(c, &t, s);
    coding_run(c, &t);
    compare(c, &t);
    coding_done(c, &t);
    c->n_cases++;
}

/* Checks that a row has the same bits alone, in other batches and with other borders of columns. */
static void check_batches(struct check *c, const struct shape *s)
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
static struct shape shape_draw(struct check *c, enum inf_dtype dtype, uint32_t M, uint32_t K)
{
    const struct coded_kind kind = coded_kind(dtype);
    const uint32_t r = rng_u32(&c->rng) >> 8, narrow = kind.bits == 8 && kind.has_zero ? 32 : 16;
    const uint32_t groups[] = {narrow, 32, 128, K};
    struct shape s = {.M = M,
                      .N = 32 * (1 + r % 9) + (kind.by_place ? 0 : r / 8 % 3 * 8),
                      .K = K,
                      .group = groups[r / 32 % 4],
                      .dtype = dtype,
                      .scale_type = (enum inf_dtype)(r / 128 % 3),
                      .zeros = kind.has_zero && (kind.by_place || r / 512 % 2),
                      .ordered = kind.has_zero && dtype != INF_DTYPE_AWQ4 && r / 1024 % 3 == 0,
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
    static const uint32_t Ks[] = {32, 160, 512, 1312};
    static const uint32_t Ms[] = {1, 2, 4, 5, 19};

    for (size_t d = 0; d < ARRAY_SIZE(coded_dtypes); d++) {
        /* The reference, whose flags are 0, is slow, so it gets only two of the widths. */
        for (size_t k = 0; k < (c->flags ? ARRAY_SIZE(Ks) : 2); k++)
            for (size_t m = 0; m < ARRAY_SIZE(Ms); m++) {
                const struct shape s = shape_draw(c, coded_dtypes[d], Ms[m], Ks[k]);

                check_shape(c, &s);
            }
        for (int i = 0; i < 4; i++) {
            const struct shape s = shape_draw(c, coded_dtypes[d], 19, c->flags ? 1312 : 96);

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
        const struct shape s = {.M = Ms[i],
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
