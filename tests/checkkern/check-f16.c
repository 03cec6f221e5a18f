/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks products of F16 weights with rows of F16 or int16, bit for bit, against definitions in
 * scalars (matmul-avx512fp16.c, matmul-int16-avx512.c).
 *
 * The F16 instructions of the CPU round every sum, so a check by tolerance would need a wide
 * tolerance. The 64 bits of a long double hold each sum of products exactly before it is rounded:
 * weights of a block are multiples of 2^-24 below 2^16, prepared numbers are multiples of 2^-24 up
 * to 2^-6, and sums are below 2^15.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "core/clock.h"
#include "core/half.h"
#include "harness.h"

/* Rounds to nearest even with 11 bits; no number here overflows. */
static long double round_half(long double v)
{
    int exp;

    frexpl(v, &exp);
    exp = MAX(exp - 11, -24);
    return ldexpl(rintl(ldexpl(v, -exp)), exp);
}

static void prepare_block(const float *x, uint32_t n, struct matmul_f16 *ret_block)
{
    struct matmul_f16 b = {0};
    float top = 0;
    int exp;

    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            b.d = NAN;
        else
            top = fmaxf(top, fabsf(x[i]));
    frexpf(top, &exp);
    if (!isnan(b.d) && top >= 0x1p-100f) {
        b.d = ldexpf(1, exp - 1);
        for (uint32_t i = 0; i < n; i++)
            b.h[i] = f16_from_f32(ldexpf(x[i], -6 - exp));
    }
    *ret_block = b;
}

/* Returns @sum plus 32 products of a row of W and a prepared block. */
static float add_block(float sum, const uint16_t *w, uint32_t n, const struct matmul_f16 *b)
{
    long double half[2] = {0};
    uint32_t top = 0;
    int up;

    for (uint32_t i = 0; i < n; i++)
        top = MAX(top, w[i] & 0x7fffu);
    up = 30 - MAX((int)(top >> 10), 1);
    for (uint32_t i = 0; i < n; i++)
        half[i % 2] = round_half(half[i % 2] + ldexpl(f16_to_f32(w[i]), up) * f16_to_f32(b->h[i]));
    return fmaf(ldexpf((float)round_half(half[0] + half[1]), 7 - up), b->d, sum);
}

/* Rounds a block of x to int16. */
static void prepare_apart(const float *x, uint32_t n, struct matmul_i16 *ret_block)
{
    struct matmul_i16 b = {0};
    float top = 0;

    for (uint32_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(x[i]));
    if (top >= 0x1p-100f)
        b.d = top / MATMUL_BLOCK_MAX;
    for (uint32_t i = 0; b.d > 0 && i < n; i++)
        b.q[matmul_apart_place(i)] = (int16_t)rintf(x[i] * (MATMUL_BLOCK_MAX / top));
    *ret_block = b;
}

static float product_apart(const uint16_t *w, uint32_t K, const struct matmul_i16 *row, float bias)
{
    float y = bias;

    for (uint32_t k = 0; k < K; k += MATMUL_BLOCK, row++) {
        const uint32_t n = MIN(K - k, MATMUL_BLOCK);
        uint32_t top = 0;
        int64_t sum = 0;
        int up;

        for (uint32_t i = k; i < k + n; i++)
            top = MAX(top, w[i] & 0x7fffu);
        up = 26 - MAX((int)(top >> 10), 1);
        for (uint32_t i = 0; i < n; i++)
            sum += row->q[matmul_apart_place(i)] * (int64_t)rintf(ldexpf(f16_to_f32(w[k + i]), up));
        y = fmaf((float)sum, ldexpf(row->d, -up), y);
    }
    return y;
}

static float product(const uint16_t *w, uint32_t K, const struct matmul_f16 *row, float bias)
{
    float y = bias;

    for (uint32_t k0 = 0; k0 < K; k0 += PANEL_K_PAIRS) {
        float sum = 0;

        for (uint32_t k = k0; k < MIN(K, k0 + PANEL_K_PAIRS); k += 32)
            sum = add_block(sum, w + k, MIN(K - k, 32u), row + k / 32);
        y += sum;
    }
    return y;
}

struct rows {
    enum matmul_act kind; /* F16 or APART */
    uint32_t M, N, K;
    struct guarded w, x, act, bias, y;
};

/* Fills weights and rows with numbers of all magnitudes. */
static void rows_init(struct check *c, struct rows *r, enum matmul_act kind, uint32_t M, uint32_t N,
                      uint32_t K)
{
    const size_t act_bytes = matmul_act_bytes(kind, K);

    *r = (struct rows){
        .kind = kind,
        .M = M,
        .N = N,
        .K = K,
        .w = guarded_new((size_t)N * K * sizeof(uint16_t), true),
        .x = guarded_new((size_t)M * K * sizeof(float), true),
        .act = guarded_new(M * act_bytes, false),
        .bias = guarded_new(N * sizeof(float), true),
        .y = guarded_new((size_t)M * N * sizeof(float), true),
    };
    fill_floats(c, FILL_NORMAL, r->x.data, (size_t)M * K);
    fill_floats(c, FILL_NORMAL, r->bias.data, N);
    for (uint32_t i = 0; i < M * K; i++)
        ((float *)r->x.data)[i] *= ldexpf(1, (int)(i / K * 23 % 97) - 48 - (int)(i % 64 / 4));
    for (uint32_t i = 0; i < N * K; i++) {
        const uint32_t bits = rng_u32(&c->rng) >> 16, exp = bits >> 10 & 31, n = i / K;

        ((uint16_t *)r->w.data)[i] = (uint16_t)((bits & 0x83ff) | exp % (n % 31 + 1) << 10);
    }
}

static void rows_done(struct check *c, struct rows *r)
{
    bool ok = guarded_done(&r->w);

    ok &= guarded_done(&r->x);
    ok &= guarded_done(&r->act);
    ok &= guarded_done(&r->bias);
    ok &= guarded_done(&r->y);
    if (!ok)
        check_fail(c, "M %u N %u K %u wrote out of bounds", r->M, r->N, r->K);
}

static void compare_prepared(struct check *c, const struct rows *r)
{
    const size_t act_bytes = matmul_act_bytes(r->kind, r->K);
    const bool half = r->kind == MATMUL_ACT_F16;
    const uint32_t step = half ? 32 : MATMUL_BLOCK;
    const size_t n_bytes = half ? sizeof(struct matmul_f16) : sizeof(struct matmul_i16);

    for (uint32_t m = 0; m < r->M; m++)
        for (uint32_t k = 0; k < r->K; k += step) {
            const uint8_t *got = (const uint8_t *)r->act.data + m * act_bytes;
            const float *x = (const float *)r->x.data + (size_t)m * r->K + k;
            struct matmul_f16 f;
            struct matmul_i16 i;

            if (half)
                prepare_block(x, MIN(r->K - k, step), &f);
            else
                prepare_apart(x, MIN(r->K - k, step), &i);
            if (memcmp(got + k / step * n_bytes, half ? (void *)&f : &i, n_bytes) != 0)
                check_fail(c, "K %u: row %u is prepared differently at %u", r->K, m, k);
        }
}

static void check_rows(struct check *c, enum matmul_act kind, uint32_t M, uint32_t N, uint32_t K)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const size_t act_bytes = matmul_act_bytes(kind, K);
    struct rows r;

    rows_init(c, &r, kind, M, N, K);
    matmul_prepare(ops, kind, r.x.data, K, K, 0, M, r.act.data);
    compare_prepared(c, &r);
    matmul_rows(ops,
                &(struct matmul_args){.dtype = INF_DTYPE_F16,
                                      .w = r.w.data,
                                      .row_bytes = K * sizeof(uint16_t),
                                      .kind = kind,
                                      .act = r.act.data,
                                      .act_stride = act_bytes,
                                      .M = M,
                                      .K = K,
                                      .y = r.y.data,
                                      .ldy = N,
                                      .bias = r.bias.data},
                0, N);
    for (uint32_t i = 0; i < M * N; i++) {
        const uint32_t m = i / N, n = i % N;
        const uint16_t *w = (const uint16_t *)r.w.data + (size_t)n * K;
        const void *row = (const uint8_t *)r.act.data + m * act_bytes;
        const float got = ((const float *)r.y.data)[i], bias = ((float *)r.bias.data)[n];
        const float expected =
            kind == MATMUL_ACT_F16 ? product(w, K, row, bias) : product_apart(w, K, row, bias);

        if (got != expected)
            check_fail(c, "M %u N %u K %u: y[%u][%u] is %.9g, not %.9g", M, N, K, m, n, (double)got,
                       (double)expected);
    }
    rows_done(c, &r);
    c->n_cases++;
}

/* Returns whether rows of x for F16 weights have blocks of F16 or of int16. */
static bool has_blocks(enum matmul_act kind)
{
    return kind == MATMUL_ACT_F16 || kind == MATMUL_ACT_APART;
}

void check_matmul_f16(struct check *c)
{
    static const uint32_t Ks[] = {1, 2, 31, 32, 33, 64, 131, 256, 448, 512, 768, 997};
    static const uint32_t Ms[] = {1, 2, 3, 5, 13};
    static const uint32_t Ns[] = {16, 33, 71};

    const enum matmul_act kind = matmul_act_kind(matmul_ops_get(c->flags), INF_DTYPE_F16);

    if (!has_blocks(kind))
        return;
    for (size_t k = 0; k < ARRAY_SIZE(Ks); k++)
        for (size_t m = 0; m < ARRAY_SIZE(Ms); m++)
            check_rows(c, kind, Ms[m], Ns[(k + m) % ARRAY_SIZE(Ns)], Ks[k]);
}

void bench_matmul_f16(struct check *c)
{
    const enum matmul_act kind = matmul_act_kind(matmul_ops_get(c->flags), INF_DTYPE_F16);
    const uint32_t K = 4096, M = 512;
    struct rows r;
    uint64_t best = UINT64_MAX;

    if (!has_blocks(kind))
        return;
    rows_init(c, &r, kind, M, 1, K);
    for (unsigned i = 0; i < 5; i++) {
        const uint64_t start = clock_nsec();

        matmul_prepare(matmul_ops_get(c->flags), kind, r.x.data, K, K, 0, M, r.act.data);
        best = MIN(best, clock_nsec() - start);
    }
    printf("prepare rows for F16 %s: %.2f ns per 32 elements\n", c->rung,
           (double)best * 32 / ((double)M * K));
    rows_done(c, &r);
}
