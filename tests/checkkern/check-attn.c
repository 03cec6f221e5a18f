/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels of attention: small products against the reference, and bit for bit however they are
 * cut; steps of the softmax
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/attn.h"
#include "backend/cpu/elem.h"
#include "core/clock.h"
#include "harness.h"

static const char *const format_names[] = {"f32", "f16", "bf16"};

/* A product with its memory: B in all formats holds the same numbers as far as they can. */
struct product {
    uint32_t M, N, K;
    size_t lda, ldb, ldc;
    struct guarded a, b, c;
    struct attn_mul_args args;
};

static void product_init(struct check *ck, struct product *p, uint32_t M, uint32_t N, uint32_t K,
                         enum attn_format format)
{
    const size_t elem = format == ATTN_F32 ? sizeof(float) : sizeof(uint16_t);

    *p = (struct product){.M = M, .N = N, .K = K, .lda = K + 3, .ldb = N + M % 3, .ldc = N + 5};
    p->a = guarded_new((p->lda * (M - 1) + K) * sizeof(float), true);
    p->b = guarded_new((p->ldb * (K - 1) + N) * elem, true);
    p->c = guarded_new((p->ldc * (M - 1) + N) * sizeof(float), true);
    fill_floats(ck, FILL_NORMAL, p->a.data, p->lda * (M - 1) + K);
    fill_floats(ck, FILL_NORMAL, p->c.data, p->ldc * (M - 1) + N);
    for (size_t i = 0; i < p->ldb * (K - 1) + N; i++) {
        const float x = rng_normal(&ck->rng);

        if (format == ATTN_F32)
            ((float *)p->b.data)[i] = x;
        else if (format == ATTN_F16)
            elem_ref.f16_store((uint16_t *)p->b.data + i, &x, 1);
        else
            elem_ref.bf16_store((uint16_t *)p->b.data + i, &x, 1);
    }
    p->args =
        (struct attn_mul_args){p->c.data, p->ldc, p->a.data, p->lda, p->b.data, p->ldb, M, N, K};
}

static void product_done(struct check *ck, struct product *p)
{
    bool ok = guarded_done(&p->a);

    ok &= guarded_done(&p->b);
    ok &= guarded_done(&p->c);
    if (!ok)
        check_fail(ck, "M %u N %u K %u wrote out of bounds", p->M, p->N, p->K);
    ck->n_cases++;
}

static void product_case(struct check *ck, uint32_t M, uint32_t N, uint32_t K,
                         enum attn_format format)
{
    const struct attn_fns *fns = attn_pick(ck->flags);
    const size_t elem = format == ATTN_F32 ? sizeof(float) : sizeof(uint16_t);
    struct product p;
    size_t n_c;

    product_init(ck, &p, M, N, K, format);
    n_c = p.ldc * (M - 1) + N;

    _cleanup_free_ float *start = NEW(float, n_c), *whole = NEW(float, n_c);
    _cleanup_free_ float *expected = NEW(float, n_c);

    memcpy(start, p.c.data, n_c * sizeof(float));
    memcpy(expected, start, n_c * sizeof(float));
    fns->mul[format](&p.args);
    memcpy(whole, p.c.data, n_c * sizeof(float));
    p.args.c = expected;
    attn_ref.mul[format](&p.args);
    p.args.c = p.c.data;
    for (uint32_t m = 0; m < M; m++)
        for (uint32_t n = 0; n < N; n++) {
            const size_t i = m * p.ldc + n;
            const double e = fabs((double)whole[i] - (double)expected[i]);

            /* Terms are normal: 6 of them bound the mean magnitude generously. */
            if (!(e <= tolerance_sum(K + 1, 2, 6.0 * (K + 1))))
                check_fail(ck, "%s M %u N %u K %u: c[%u][%u] is %.9g, expected %.9g",
                           format_names[format], M, N, K, m, n, (double)whole[i],
                           (double)expected[i]);
        }

    /* Row by row, and k in two calls. */
    memcpy(p.c.data, start, n_c * sizeof(float));
    for (uint32_t m = 0; m < M; m++) {
        struct attn_mul_args args = p.args;

        args.M = 1;
        args.a += m * p.lda;
        args.c += m * p.ldc;
        args.K = K / 3;
        if (args.K > 0)
            fns->mul[format](&args);
        args.a += K / 3;
        args.b = (const uint8_t *)args.b + K / 3 * p.ldb * elem;
        args.K = K - K / 3;
        fns->mul[format](&args);
    }
    if (memcmp(p.c.data, whole, n_c * sizeof(float)) != 0)
        check_fail(ck, "%s M %u N %u K %u: cutting changed bits", format_names[format], M, N, K);
    product_done(ck, &p);
}

void check_attention_mul(struct check *c)
{
    static const uint32_t Ms[] = {1, 2, 3, 4, 5, 6, 7, 11, 13, 64};
    static const uint32_t Ns[] = {1, 8, 16, 20, 48, 64, 80, 96, 127, 128, 256};
    static const uint32_t Ks[] = {1, 2, 16, 63, 64, 128};

    for (int f = 0; f < ATTN_FORMAT_N; f++)
        for (size_t i = 0; i < ARRAY_SIZE(Ms); i++)
            for (size_t j = 0; j < ARRAY_SIZE(Ns); j++)
                product_case(c, Ms[i], Ns[j], Ks[rng_u32(&c->rng) % ARRAY_SIZE(Ks)],
                             (enum attn_format)f);
}

/* Of e = exp(x): x is a difference that was rounded to float, which moves e by |x| roundings. */
static double exp_tolerance(float e)
{
    const double x = e > 0 ? -log((double)e) : 104;

    return tolerance_sum((uint64_t)fabs(x) + 4, 4, (double)e);
}

static void softmax_case(struct check *c, uint32_t n, enum fill fill, float old_max, float old_sum)
{
    struct guarded s = guarded_new(n * sizeof(float), true);
    _cleanup_free_ float *expected = NEW(float, n);
    float max = old_max, sum = old_sum, max_ref = old_max, sum_ref = old_sum, factor, factor_ref;

    fill_floats(c, fill, s.data, n);
    memcpy(expected, s.data, n * sizeof(float));
    factor = attn_pick(c->flags)->softmax(s.data, n, &max, &sum);
    factor_ref = attn_ref.softmax(expected, n, &max_ref, &sum_ref);
    if (max != max_ref)
        check_fail(c, "softmax n %u %s: max %.9g, expected %.9g", n, fill_name(fill), (double)max,
                   (double)max_ref);
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs((double)((float *)s.data)[i] - (double)expected[i]) <=
              exp_tolerance(expected[i])))
            check_fail(c, "softmax n %u %s: s[%u] is %.9g, expected %.9g", n, fill_name(fill), i,
                       (double)((float *)s.data)[i], (double)expected[i]);
    if (!(fabs((double)sum - (double)sum_ref) <= tolerance_sum(n + 60, 4, (double)sum_ref)) ||
        !(fabs((double)factor - (double)factor_ref) <= exp_tolerance(factor_ref)))
        check_fail(c, "softmax n %u %s: sum %.9g and factor %.9g, expected %.9g and %.9g", n,
                   fill_name(fill), (double)sum, (double)factor, (double)sum_ref,
                   (double)factor_ref);
    if (!guarded_done(&s))
        check_fail(c, "softmax n %u wrote out of bounds", n);
    c->n_cases++;
}

void check_softmax(struct check *c)
{
    for (uint32_t n = 1; n <= 66; n++)
        for (int f = 0; f < FILL_N; f++) {
            if (f == FILL_MAX || f == FILL_ALL_MIN)
                continue; /* scores of 3e38 have no neighbours to compare with */
            softmax_case(c, n, (enum fill)f, -INFINITY, 0);
            softmax_case(c, n, (enum fill)f, 0.5f, 3);
            softmax_case(c, n, (enum fill)f, 50, 3);
        }
}

enum { BENCH_M = 64, BENCH_N = 64, BENCH_K = 128, BENCH_ROUNDS = 3000 };

void bench_attention_mul(struct check *c)
{
    static float a[BENCH_M * BENCH_K], b[BENCH_K * BENCH_N], y[BENCH_M * BENCH_N];
    static const uint32_t Ms[] = {1, 2, 6, 64};

    fill_floats(c, FILL_NORMAL, a, ARRAY_SIZE(a));
    memset(b, 0, sizeof(b));
    for (int f = 0; f < ATTN_FORMAT_N; f++)
        for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
            const struct attn_mul_args args = {y,       BENCH_N, a,       BENCH_K, b,
                                               BENCH_N, Ms[i],   BENCH_N, BENCH_K};
            const uint64_t begin = clock_nsec();

            for (int j = 0; j < BENCH_ROUNDS; j++)
                attn_pick(c->flags)->mul[f](&args);
            printf("mul %-5s M %-3u %-8s %8.1f GFLOP/s\n", format_names[f], Ms[i], c->rung,
                   2.0 * Ms[i] * BENCH_N * BENCH_K * BENCH_ROUNDS / (double)(clock_nsec() - begin));
        }
}

void bench_softmax(struct check *c)
{
    float s[64], max = -INFINITY, sum = 0;
    uint64_t begin;

    fill_floats(c, FILL_NORMAL, s, 64);
    begin = clock_nsec();
    for (int i = 0; i < 100 * BENCH_ROUNDS; i++)
        attn_pick(c->flags)->softmax(s, 64, &max, &sum);
    printf("softmax %-8s %7.3f ns per element\n", c->rung,
           (double)(clock_nsec() - begin) / (6400.0 * BENCH_ROUNDS));
}
