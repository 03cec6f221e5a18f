/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks products with packed weights, and measures their speed.
 *
 * Results are compared with sums of the packed weights in double precision. The bits of a row must
 * not depend on the other rows and columns of the same call.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "core/half.h"
#include "harness.h"
#include "quant/dtype.h"

static const enum inf_dtype dtypes[] = {INF_DTYPE_F32, INF_DTYPE_F16, INF_DTYPE_BF16};

struct packed {
    enum inf_dtype dtype; /* the format of the packed weights: F32, F16 or BF16 */
    uint32_t M, N, K;
    struct guarded w, x, act, bias, y;
    float *rows; /* [N, K]: W before it was packed */
    struct matmul_args args;
};

static void packed_init(struct check *c, struct packed *p, enum inf_dtype dtype, uint32_t M,
                        uint32_t N, uint32_t K, enum fill fill)
{
    const enum matmul_act kind = matmul_packed_kind(dtype);
    const size_t stride = matmul_act_bytes(kind, K), row = matmul_packed_bytes(dtype, K);

    *p = (struct packed){.dtype = dtype, .M = M, .N = N, .K = K};
    p->rows = NEW(float, (size_t)N *K);
    p->w = guarded_new(ALIGN_UP(N, MATMUL_N_STEP) * row, true);
    p->x = guarded_new((size_t)M * K * sizeof(float), true);
    p->act = guarded_new(stride * M, true);
    p->bias = guarded_new(N * sizeof(float), true);
    p->y = guarded_new((size_t)M * N * sizeof(float), true);
    fill_floats(c, FILL_NORMAL, p->rows, (size_t)N * K);
    fill_floats(c, FILL_NORMAL, p->bias.data, N);
    fill_floats(c, fill, p->x.data, (size_t)M * K);
    memset(p->w.data, 0, p->w.size);
    for (uint32_t n = 0; n < N; n++)
        matmul_pack(dtype, p->rows + (size_t)n * K, n, K, p->w.data);
    p->args = (struct matmul_args){
        .dtype = dtype,
        .w = p->w.data,
        .row_bytes = row,
        .kind = kind,
        .act = p->act.data,
        .act_stride = stride,
        .M = M,
        .K = K,
        .y = p->y.data,
        .ldy = N,
        .bias = N % 2 ? p->bias.data : NULL,
        .packed = true,
    };
    matmul_prepare(matmul_ops_get(c->flags), kind, p->x.data, K, K, 0, M, p->act.data);
}

static void packed_done(struct check *c, struct packed *p)
{
    bool ok = guarded_done(&p->w);

    ok &= guarded_done(&p->x);
    ok &= guarded_done(&p->act);
    ok &= guarded_done(&p->bias);
    ok &= guarded_done(&p->y);
    if (!ok)
        check_fail(c, "M %u N %u K %u wrote out of bounds", p->M, p->N, p->K);
    free(p->rows);
}

/* Returns element @k of row @m of x, as a product uses it. */
static double x_at(const struct packed *p, uint32_t m, uint32_t k)
{
    const float v = ((const float *)p->x.data)[(size_t)m * p->K + k];
    const struct matmul_i16 *b =
        (const void *)((const uint8_t *)p->act.data + m * p->args.act_stride);

    if (p->dtype == INF_DTYPE_F16)
        return (double)b[k / MATMUL_BLOCK].d * b[k / MATMUL_BLOCK].q[k % MATMUL_BLOCK];
    return p->dtype == INF_DTYPE_F32 ? (double)v : (double)bf16_to_f32(bf16_from_f32(v));
}

static double w_at(const struct packed *p, uint32_t n, uint32_t k)
{
    const float v = p->rows[(size_t)n * p->K + k];
    const struct matmul_blocks *b =
        (const void *)((const uint8_t *)p->w.data + n / PANEL_N * PANEL_N * p->args.row_bytes);

    b += k / MATMUL_BLOCK;
    if (p->dtype == INF_DTYPE_F16)
        return (double)b->d[n % PANEL_N] * b->q[k % MATMUL_BLOCK / 2][n % PANEL_N][k % 2];
    return p->dtype == INF_DTYPE_F32 ? (double)v : (double)bf16_to_f32(bf16_from_f32(v));
}

/* Checks that each number of the block that starts at @k is off by at most half a quantization
 * step. */
static void compare_block(struct check *c, const struct packed *p, uint32_t m, uint32_t k,
                          const char *fill)
{
    const uint32_t n = MIN(MATMUL_BLOCK, p->K - k);
    const float *x = (const float *)p->x.data + (size_t)m * p->K + k;
    double most = 0;

    for (uint32_t i = 0; i < n; i++)
        if (fabs((double)x[i]) > most)
            most = fabs((double)x[i]);
    for (uint32_t i = 0; i < n; i++) {
        const double e = fabs(x_at(p, m, k + i) - (double)x[i]);

        if (!(e <= most * 0.5005 / MATMUL_BLOCK_MAX + 0x1p-100))
            check_fail(c, "%s M %u N %u K %u: x[%u][%u] is wrong by %.3g of %.3g", fill, p->M, p->N,
                       p->K, m, k + i, e, most);
    }
}

/* Compares a product with its definition. F32 rows are compared with x itself; the tolerance covers
 * the rounding of the two parts of each number. */
static void compare(struct check *c, const struct packed *p, const char *fill)
{
    const bool two = p->dtype == INF_DTYPE_F32;
    const uint64_t n_terms = p->dtype == INF_DTYPE_F16
                                 ? 4 * (p->K / MATMUL_BLOCK + 1)
                                 : (two ? 3 : 1) * ((uint64_t)p->K + p->K / 16 + 2);
    const double rms = tolerance_rms(n_terms, 2) + (two ? tolerance_two_rms() : 0);
    const float *bias = p->args.bias, *y = p->y.data;
    double squares = 0;
    uint64_t n_squares = 0;

    for (uint32_t m = 0; m < p->M; m++) {
        for (uint32_t n = 0; n < p->N; n++) {
            double sum = bias ? bias[n] : 0, mag = fabs(sum), e;

            for (uint32_t k = 0; k < p->K; k++) {
                const double t = x_at(p, m, k) * w_at(p, n, k);

                sum += t;
                mag += fabs(t);
            }
            e = fabs(y[(size_t)m * p->N + n] - sum);
            if (mag > 1e-30) {
                squares += e / mag * (e / mag);
                n_squares++;
            }
            /* Numbers below the normal range count as zero. */
            if (!(e <= tolerance_sum(n_terms, 2, mag) + (two ? tolerance_two_sum(mag) : 0) +
                           p->K * 0x1p-120))
                check_fail(c, "%s M %u N %u K %u: y[%u][%u] is wrong by %.3g of %.3g", fill, p->M,
                           p->N, p->K, m, n, e, mag);
        }
    }
    if (n_squares > 0 && !(sqrt(squares / (double)n_squares) <= rms))
        check_fail(c, "%s M %u N %u K %u: error %.3g", fill, p->M, p->N, p->K,
                   sqrt(squares / (double)n_squares));
}

/* Checks that some rows and groups of columns, computed alone, have the same bits as in the whole
 * product. */
static void check_company(struct check *c, const struct packed *p)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const uint32_t groups = DIV_UP(p->N, MATMUL_N_STEP);
    const size_t n_y = (size_t)p->M * p->N;
    _cleanup_free_ float *y = NEW(float, n_y);

    for (unsigned i = 0; i < 4; i++) {
        const uint32_t m0 = rng_u32(&c->rng) % p->M, n_m = 1 + rng_u32(&c->rng) % (p->M - m0);
        const uint32_t g = rng_u32(&c->rng) % groups, n_g = 1 + rng_u32(&c->rng) % (groups - g);
        const uint32_t n0 = g * MATMUL_N_STEP, n1 = MIN((g + n_g) * MATMUL_N_STEP, p->N);
        struct matmul_args args = p->args;

        args.act = (const uint8_t *)args.act + m0 * args.act_stride;
        args.M = n_m;
        args.y = y;
        matmul_rows(ops, &args, n0, n1);
        for (uint32_t m = 0; m < n_m; m++)
            if (memcmp(y + (size_t)m * p->N + n0, (float *)p->y.data + (size_t)(m0 + m) * p->N + n0,
                       (n1 - n0) * sizeof(float)) != 0)
                check_fail(c, "M %u N %u K %u: %u rows from row %u on, columns %u … %u differ",
                           p->M, p->N, p->K, n_m, m0, n0, n1 - 1);
        c->n_cases++;
    }
}

static void check_packed(struct check *c, enum inf_dtype dtype, uint32_t M, uint32_t N, uint32_t K,
                         enum fill fill)
{
    struct packed p;

    packed_init(c, &p, dtype, M, N, K, fill);
    matmul_rows(matmul_ops_get(c->flags), &p.args, 0, N);
    compare(c, &p, fill_name(fill));
    for (uint32_t m = 0; dtype == INF_DTYPE_F16 && m < M; m++)
        for (uint32_t k = 0; k < K; k += MATMUL_BLOCK)
            compare_block(c, &p, m, k, fill_name(fill));
    check_company(c, &p);
    packed_done(c, &p);
    c->n_cases++;
}

/* Checks that a number in x that is not finite makes the same row of y not finite, and no other
 * row. */
static void check_nan(struct check *c, enum inf_dtype dtype, float bad)
{
    struct packed p;

    packed_init(c, &p, dtype, 3, 32, 70, FILL_NORMAL);
    ((float *)p.x.data)[70 + 69] = bad;
    matmul_prepare(matmul_ops_get(c->flags), p.args.kind, p.x.data, 70, 70, 0, 3, p.act.data);
    matmul_rows(matmul_ops_get(c->flags), &p.args, 0, 32);
    for (uint32_t i = 0; i < 3 * 32; i++)
        if (isfinite(((float *)p.y.data)[i]) != (i / 32 != 1))
            check_fail(c, "y[%u][%u] is %g with %g in row 1", i / 32, i % 32,
                       (double)((float *)p.y.data)[i], (double)bad);
    packed_done(c, &p);
    c->n_cases++;
}

void check_matmul_packed(struct check *c)
{
    static const uint32_t Ms[] = {1, 2, 5, 7, 9, 11, 15, 16, 17, 31, 32, 33, 48, 65, 103};
    static const uint32_t Ns[] = {1, 15, 16, 17, 32, 33, 64, 71, 96, 128};
    static const uint32_t Ks[] = {1, 2, 31, 32, 33, 64, 100, 384, 997, 1536};

    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++) {
        const enum inf_dtype dtype = dtypes[d];

        if (!matmul_packs(matmul_ops_get(c->flags), dtype))
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(Ms); i++)
            for (size_t j = 0; j < ARRAY_SIZE(Ns); j++)
                check_packed(c, dtype, Ms[i], Ns[j], Ks[rng_u32(&c->rng) % ARRAY_SIZE(Ks)],
                             FILL_NORMAL);
        for (size_t i = 0; i < ARRAY_SIZE(Ks); i++)
            check_packed(c, dtype, 33, 33, Ks[i], FILL_NORMAL);
        for (int f = 0; f < FILL_N; f++)
            check_packed(c, dtype, 20, 40, 384, (enum fill)f);
        check_nan(c, dtype, NAN);
        check_nan(c, dtype, -INFINITY);
    }
}

struct bench_job {
    const struct matmul_ops *ops;
    struct matmul_args args;
    uint32_t N;
};

static void bench_part(void *arg, unsigned i, unsigned n)
{
    const struct bench_job *job = arg;
    const uint32_t steps = job->N / 128;

    for (uint32_t j = steps * i / n; j < steps * (i + 1) / n; j++)
        matmul_rows(job->ops, &job->args, j * 128, (j + 1) * 128);
}

void bench_matmul_packed(struct check *c)
{
    static const uint32_t shapes[][2] = {{384, 1536}, {1536, 384}, {1024, 4096}};
    static const uint32_t Ms[] = {8, 24, 64, 512};

    printf("packed %s, %u threads, TOPS with M = 8, 24, 64, 512\n", c->rung, c->n_threads);
    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++)
        for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
            if (!matmul_packs(matmul_ops_get(c->flags), dtypes[d]))
                break;
            printf("%-4s K %4u N %4u:", dtype_info(dtypes[d])->name, shapes[s][0], shapes[s][1]);
            for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
                const uint32_t K = shapes[s][0], N = shapes[s][1];
                struct bench_job job = {.ops = matmul_ops_get(c->flags), .N = N};
                struct packed p;

                packed_init(c, &p, dtypes[d], Ms[i], N, K, FILL_NORMAL);
                job.args = p.args;
                printf(" %6.3f", 2.0 * Ms[i] * N * K * 1e-12 /
                                     bench_threads(c->n_threads, 0.25, bench_part, &job));
                packed_done(c, &p);
            }
            printf("\n");
        }
}
