/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares products with MXFP4 whose scales are in a separate array (a plane), bit for bit, with
 * products with the same weights as MXFP4 of GGUF files. check-matmul.c compares products with
 * MXFP4 of GGUF files with the reference. Also measures the speed of these products.
 */

#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul.h"
#include "harness.h"
#include "quant/block.h"
#include "quant/fp4-planes.h"

/* N rows of W in both formats. Row i of W is row i × step of the planes. */
struct planar {
    uint32_t M, N, K, step;
    struct guarded codes, scales, joined, x, act, bias, y, y_joined;
    struct matmul_args args;
};

static void planar_init(struct check *c, struct planar *t, uint32_t M, uint32_t N, uint32_t K,
                        uint32_t step, bool with_bias)
{
    const size_t n_blocks = (size_t)N * step * (K / 32), act = matmul_act_bytes(MATMUL_ACT_Q8, K);
    const uint32_t row_blocks = K / 32;

    *t = (struct planar){.M = M, .N = N, .K = K, .step = step};
    t->codes = guarded_new(n_blocks * 16, true);
    t->scales = guarded_new(n_blocks, true);
    t->joined = guarded_new((size_t)N * row_blocks * sizeof(struct block_mxfp4), true);
    t->x = guarded_new((size_t)M * K * sizeof(float), true);
    t->act = guarded_new(act * M, false);
    t->bias = guarded_new(N * sizeof(float), true);
    t->y = guarded_new((size_t)M * N * sizeof(float), true);
    t->y_joined = guarded_new((size_t)M * N * sizeof(float), true);
    for (size_t i = 0; i < n_blocks * 16; i++)
        ((uint8_t *)t->codes.data)[i] = (uint8_t)(rng_u32(&c->rng) >> 24);
    for (size_t i = 0; i < n_blocks; i++)
        ((uint8_t *)t->scales.data)[i] = (uint8_t)(112 + rng_u32(&c->rng) % 12);
    for (uint32_t i = 0; i < N; i++)
        fp4_planes_join((const uint8_t *)t->codes.data + (size_t)i * step * row_blocks * 16,
                        (const uint8_t *)t->scales.data + (size_t)i * step * row_blocks, row_blocks,
                        (uint8_t *)t->joined.data +
                            (size_t)i * row_blocks * sizeof(struct block_mxfp4));
    fill_floats(c, FILL_NORMAL, t->bias.data, N);
    fill_floats(c, FILL_NORMAL, t->x.data, (size_t)M * K);
    t->args = (struct matmul_args){
        .dtype = INF_DTYPE_FP4_PLANES,
        .w = t->codes.data,
        .row_bytes = (size_t)step * row_blocks * 16,
        .kind = matmul_act_kind(matmul_ops_get(c->flags), INF_DTYPE_FP4_PLANES),
        .act = t->act.data,
        .act_stride = act,
        .M = M,
        .K = K,
        .y = t->y.data,
        .ldy = N,
        .bias = with_bias ? t->bias.data : NULL,
        .planes[WEIGHT_SCALES] = t->scales.data,
        .plane_type = PLANE_E8M0,
        .group = 32,
    };
    matmul_prepare(matmul_ops_get(c->flags), MATMUL_ACT_Q8, t->x.data, K, K, 0, M, t->act.data);
}

static void planar_done(struct check *c, struct planar *t)
{
    bool ok = guarded_done(&t->codes);

    ok &= guarded_done(&t->scales);
    ok &= guarded_done(&t->joined);
    ok &= guarded_done(&t->x);
    ok &= guarded_done(&t->act);
    ok &= guarded_done(&t->bias);
    ok &= guarded_done(&t->y);
    ok &= guarded_done(&t->y_joined);
    if (!ok)
        check_fail(c, "fp4_planes M %u N %u K %u wrote out of bounds", t->M, t->N, t->K);
}

static void check_case(struct check *c, uint32_t M, uint32_t N, uint32_t K, uint32_t step)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const uint32_t cut = N / 64 * 32; /* the columns are computed in two ranges */
    struct matmul_args joined;
    struct planar t;

    planar_init(c, &t, M, N, K, step, N % 2 == 0);
    joined = t.args;
    joined.dtype = INF_DTYPE_MXFP4;
    joined.w = t.joined.data;
    joined.row_bytes = K / 32 * sizeof(struct block_mxfp4);
    joined.y = t.y_joined.data;
    matmul_rows(ops, &joined, 0, N);
    matmul_rows(ops, &t.args, 0, cut);
    matmul_rows(ops, &t.args, cut, N);
    c->n_cases++;
    if (memcmp(t.y.data, t.y_joined.data, t.y.size) != 0)
        check_fail(c, "fp4_planes M %u N %u K %u step %u differs from mxfp4", M, N, K, step);
    planar_done(c, &t);
}

void check_fp4_planes(struct check *c)
{
    static const uint32_t Ks[] = {32, 64, 96, 256, 2880, 7680, MATMUL_PLANES_K};
    static const uint32_t Ms[] = {1, 2, 3, 17};

    for (size_t i = 0; i < ARRAY_SIZE(Ks); i++)
        for (size_t m = 0; m < ARRAY_SIZE(Ms); m++)
            check_case(c, Ms[m], 1 + rng_u32(&c->rng) % 101, Ks[i], 1 + (uint32_t)(i + m) % 2);
}

struct bench_job {
    const struct matmul_ops *ops;
    const struct matmul_args *args;
    uint32_t N;
};

static void bench_part(void *arg, unsigned i, unsigned n)
{
    const struct bench_job *job = arg;
    const uint32_t steps = job->N / MATMUL_N_STEP;

    matmul_rows(job->ops, job->args, steps * i / n * MATMUL_N_STEP,
                steps * (i + 1) / n * MATMUL_N_STEP);
}

void bench_fp4_planes(struct check *c)
{
    static const uint32_t Ms[] = {1, 4, 64};
    const uint32_t K = 2880, N = 32768;

    printf("fp4_planes %s, %u threads, K %u, as a share of the speed of mxfp4:", c->rung,
           c->n_threads, K);
    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
        struct bench_job job = {.ops = matmul_ops_get(c->flags), .N = Ms[i] < 64 ? N : N / 16};
        struct matmul_args joined;
        struct planar t;
        double split, whole;

        planar_init(c, &t, Ms[i], job.N, K, 2, false);
        joined = t.args;
        joined.dtype = INF_DTYPE_MXFP4;
        joined.w = t.joined.data;
        joined.row_bytes = K / 32 * sizeof(struct block_mxfp4);
        job.args = &t.args;
        split = bench_threads(c->n_threads, 0.25, bench_part, &job);
        job.args = &joined;
        whole = bench_threads(c->n_threads, 0.25, bench_part, &job);
        printf(" M=%u %.2f (%.1f GB/s)", Ms[i], whole / split,
               (double)job.N * (K / 32) * 17 / split * 1e-9);
        planar_done(c, &t);
    }
    putchar('\n');
}
