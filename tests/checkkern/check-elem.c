/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the kernels for single rows (norms, rotary embedding, activations, conversions of numbers)
 * against the reference.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/elem/elem.h"
#include "core/clock.h"
#include "harness.h"

static const uint32_t lengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 80, 127, 128, 1024, 1031};

/* Struct rows holds inputs and two outputs of n floats; accesses outside of them crash or are
 * reported. */
struct rows {
    uint32_t n;
    struct guarded a, b, c, y, expected;
};

static void rows_init(struct check *c, struct rows *r, uint32_t n, enum fill fill)
{
    const bool at_end = n % 2 == 0;

    r->n = n;
    r->a = guarded_new(n * sizeof(float), at_end);
    r->b = guarded_new(n * sizeof(float), at_end);
    r->c = guarded_new(n * sizeof(float), at_end);
    r->y = guarded_new(n * sizeof(float), at_end);
    r->expected = guarded_new(n * sizeof(float), true);
    fill_floats(c, fill, r->a.data, n);
    fill_floats(c, FILL_NORMAL, r->b.data, n);
    fill_floats(c, FILL_NORMAL, r->c.data, n);
}

static void rows_done(struct check *c, struct rows *r)
{
    bool ok = guarded_done(&r->a);

    ok &= guarded_done(&r->b);
    ok &= guarded_done(&r->c);
    ok &= guarded_done(&r->y);
    ok &= guarded_done(&r->expected);
    if (!ok)
        check_fail(c, "n %u wrote out of bounds", r->n);
    c->n_cases++;
}

/* Compares results with the reference. The bound is that of a float sum of @n_terms terms whose
 * magnitudes add up to the expected result, plus @floor for results near 0. */
static void compare(struct check *c, const struct rows *r, unsigned n_terms, float floor,
                    const char *what)
{
    const float *y = r->y.data, *e = r->expected.data;

    for (uint32_t i = 0; i < r->n; i++) {
        const double limit = tolerance_sum(n_terms, 4, fabs((double)e[i])) + (double)floor;

        if (isnan(e[i]) && isnan(y[i]))
            continue;
        if (isinf(e[i]) && y[i] == e[i])
            continue;
        if (!(fabs((double)y[i] - (double)e[i]) <= limit))
            check_fail(c, "%s n %u: y[%u] is %.9g, expected %.9g", what, r->n, i, (double)y[i],
                       (double)e[i]);
    }
}

static void norm_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill)
{
    struct rows r;

    rows_init(c, &r, n, fill);
    elem_ref.rms_norm(r.expected.data, r.a.data, r.b.data, 1e-6f, n);
    fns->rms_norm(r.y.data, r.a.data, r.b.data, 1e-6f, n);
    /* In float the squares of the largest values are infinite, so the result is 0, and is not
     * compared. */
    if (fill != FILL_MAX && fill != FILL_ALL_MIN)
        compare(c, &r, n / 16 + 8, 1e-44f, fill_name(fill));
    memcpy(r.y.data, r.a.data, n * sizeof(float));
    fns->rms_norm(r.y.data, r.y.data, r.b.data, 1e-6f, n);
    if (fill != FILL_MAX && fill != FILL_ALL_MIN)
        compare(c, &r, n / 16 + 8, 1e-44f, "in place");
    rows_done(c, &r);
}

void check_norm(struct check *c)
{
    const struct elem_fns *fns = elem_pick(c->flags);

    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++)
            norm_case(c, fns, lengths[i], (enum fill)f);
}

static void rope_case(struct check *c, const struct elem_fns *fns, uint32_t n, bool pairs)
{
    struct rows r;
    float magnitude = 0;

    rows_init(c, &r, n, FILL_NORMAL);
    memcpy(r.expected.data, r.a.data, n * sizeof(float));
    memcpy(r.y.data, r.a.data, n * sizeof(float));
    for (uint32_t i = 0; i < n; i++)
        magnitude =
            fmaxf(magnitude, fabsf(((float *)r.a.data)[i]) *
                                 (fabsf(((float *)r.b.data)[i]) + fabsf(((float *)r.c.data)[i])));
    (pairs ? elem_ref.rope_pairs : elem_ref.rope_half)(r.expected.data, r.b.data, r.c.data, n);
    (pairs ? fns->rope_pairs : fns->rope_half)(r.y.data, r.b.data, r.c.data, n);
    /* The two terms may cancel each other, so the bound depends on their magnitudes. */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = pairs ? i ^ 1 : (i + n / 2) % n;
        const float *x = r.a.data, *co = r.b.data, *s = r.c.data;
        const double m = fabs((double)x[i] * (double)co[i]) + fabs((double)x[j] * (double)s[i]);

        if (!(fabs((double)((float *)r.y.data)[i] - (double)((float *)r.expected.data)[i]) <=
              tolerance_sum(2, 1, m)))
            check_fail(c, "%s n %u: y[%u]", pairs ? "pairs" : "half", n, i);
    }
    rows_done(c, &r);
}

void check_rope(struct check *c)
{
    static const uint32_t even[] = {2, 4, 6, 8, 14, 16, 20, 24, 32, 34, 64, 80, 96, 128, 130, 256};

    for (size_t i = 0; i < ARRAY_SIZE(even); i++) {
        rope_case(c, elem_pick(c->flags), even[i], false);
        rope_case(c, elem_pick(c->flags), even[i], true);
    }
}

static void silu_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill)
{
    struct rows r;

    rows_init(c, &r, n, fill);
    if (n >= 8 && fill == FILL_NORMAL)
        memcpy(r.a.data,
               (const float[]){-INFINITY, INFINITY, -88.5f, 88.5f, -104.5f, 104.5f, -0.0f, NAN},
               8 * sizeof(float));
    elem_ref.silu_mul(r.expected.data, r.a.data, r.b.data, n);
    fns->silu_mul(r.y.data, r.a.data, r.b.data, n);
    if (n >= 8 && fill == FILL_NORMAL)
        ((float *)r.y.data)[0] = ((float *)r.expected.data)[0]; /* -inf / inf may give any result */
    compare(c, &r, 4, 1e-36f, fill_name(fill));
    rows_done(c, &r);
}

void check_silu(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++)
            silu_case(c, elem_pick(c->flags), lengths[i], (enum fill)f);
}

static void layer_norm_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill)
{
    double mean = 0, var = 0, most = 0;
    struct rows r;

    rows_init(c, &r, n, fill);
    for (uint32_t i = 0; i < n; i++) {
        mean += (double)((float *)r.a.data)[i] / n;
        most = fmax(most, fabs((double)((float *)r.a.data)[i]));
    }
    for (uint32_t i = 0; i < n; i++)
        var += pow((double)((float *)r.a.data)[i] - mean, 2) / n;
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        const float *b = with_bias ? r.c.data : NULL;

        elem_ref.layer_norm(r.expected.data, r.a.data, r.b.data, b, 1e-5f, n);
        fns->layer_norm(r.y.data, r.a.data, r.b.data, b, 1e-5f, n);
        for (uint32_t i = 0; i < n && fill == FILL_NORMAL; i++) {
            const double y = (double)((float *)r.y.data)[i],
                         e = (double)((float *)r.expected.data)[i];
            /* The error of the mean, divided by the standard deviation, is the error of a sum of n
             * terms. */
            const double size = most / sqrt(var + 1e-5) * fabs((double)((float *)r.b.data)[i]);

            if (!(fabs(y - e) <= tolerance_sum(n / 16 + 16, 4, size + fabs(e))))
                check_fail(c, "n %u: y[%u] is %.9g, expected %.9g", n, i, y, e);
        }
    }
    rows_done(c, &r);
}

void check_layer_norm(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++)
            layer_norm_case(c, elem_pick(c->flags), lengths[i], (enum fill)f);
}

/* Checks GELU of normal and of extreme numbers, where the tail of the normal distribution is 0. */
static void gelu_case(struct check *c, const struct elem_fns *fns, uint32_t n, bool erf)
{
    struct rows r;

    rows_init(c, &r, n, FILL_NORMAL);
    for (uint32_t i = 0; i < n; i++)
        ((float *)r.a.data)[i] *= i % 3 == 0 ? 4.0f : 1.0f;
    if (n >= 8)
        memcpy(r.a.data, (const float[]){INFINITY, 1e30f, -1e30f, -14.5f, 14.5f, -5.5f, -0.0f, NAN},
               8 * sizeof(float));
    (erf ? elem_ref.gelu_erf : elem_ref.gelu_tanh)(r.expected.data, r.a.data, n);
    (erf ? fns->gelu_erf : fns->gelu_tanh)(r.y.data, r.a.data, n);
    for (uint32_t i = 0; i < n; i++) {
        const double x = (double)((float *)r.a.data)[i], e = (double)((float *)r.expected.data)[i];
        const double y = (double)((float *)r.y.data)[i];
        /* Before exp() the exponent is rounded, and this error becomes a relative error of the
         * result. The exponent is x² / 2 with erf, and 1.6 (x + 0.045 x³) with tanh. */
        const double exponent = erf ? x * x / 2 : 1.6 * fabs(x) + 0.072 * fabs(x * x * x);
        const double limit = tolerance_sum(8, 4, fabs(e)) * (1 + fmin(exponent, 100)) + 1e-36;

        if ((isnan(e) && isnan(y)) || y == e)
            continue;
        if (!(fabs(y - e) <= limit))
            check_fail(c, "%s n %u: of %.9g %.9g, expected %.9g", erf ? "erf" : "tanh", n, x, y, e);
    }
    rows_done(c, &r);
}

void check_gelu(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        gelu_case(c, elem_pick(c->flags), lengths[i], true);
        gelu_case(c, elem_pick(c->flags), lengths[i], false);
    }
}

/* Checks the activations of gates. The exponent of the limited unit is rounded before exp(), and
 * this error becomes a relative error of the result. */
static void gates_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill)
{
    struct rows r;

    rows_init(c, &r, n, fill);
    if (n >= 8 && fill == FILL_NORMAL)
        memcpy(r.a.data,
               (const float[]){INFINITY, 1e30f, -1e30f, -88.5f, 88.5f, -104.5f, -0.0f, NAN},
               8 * sizeof(float));
    elem_ref.sigmoid(r.expected.data, r.a.data, n);
    fns->sigmoid(r.y.data, r.a.data, n);
    compare(c, &r, 4, 1e-36f, "sigmoid");
    elem_ref.silu(r.expected.data, r.a.data, n);
    fns->silu(r.y.data, r.a.data, n);
    compare(c, &r, 4, 1e-36f, "silu");
    elem_ref.swiglu_limited(r.expected.data, r.a.data, r.b.data, n);
    fns->swiglu_limited(r.y.data, r.a.data, r.b.data, n);
    compare(c, &r, 180, 1e-36f, "swiglu_limited");
    elem_ref.swiglu_limited(r.expected.data, r.b.data, r.a.data, n);
    fns->swiglu_limited(r.y.data, r.b.data, r.a.data, n);
    compare(c, &r, 16, 1e-36f, "swiglu_limited of extreme values");
    memcpy(r.expected.data, r.b.data, n * sizeof(float));
    memcpy(r.y.data, r.b.data, n * sizeof(float));
    elem_ref.add_scaled(r.expected.data, r.c.data, 0.75f, n);
    fns->add_scaled(r.y.data, r.c.data, 0.75f, n);
    /* The two terms may cancel each other. Normal numbers of the checks are below 8. */
    compare(c, &r, 0, (float)tolerance_sum(2, 1, 16), "add_scaled");
    rows_done(c, &r);
}

void check_gates(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++)
            gates_case(c, elem_pick(c->flags), lengths[i], (enum fill)f);
}

/* Checks the cap with small numbers, which it hardly changes, and with numbers far beyond the
 * cap. */
static void cap_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill,
                     float cap)
{
    struct rows r;

    rows_init(c, &r, n, fill);
    for (uint32_t i = 0; i < n; i += 3)
        ((float *)r.a.data)[i] *= 0.01f;
    if (n >= 8 && fill == FILL_NORMAL)
        memcpy(r.a.data,
               (const float[]){INFINITY, -INFINITY, -1e30f, 0.35f * cap, 0.18f * cap, -0.17f * cap,
                               -0.0f, NAN},
               8 * sizeof(float));
    elem_ref.cap(r.expected.data, r.a.data, cap, n);
    fns->cap(r.y.data, r.a.data, cap, n);
    compare(c, &r, 8, 1e-42f, fill_name(fill));
    rows_done(c, &r);
}

void check_cap(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++) {
            cap_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, 1);
            cap_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, 50);
        }
}

static void level_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill,
                       float least)
{
    struct rows r;

    rows_init(c, &r, n, fill);
    elem_ref.level(r.expected.data, r.a.data, r.b.data, least, n);
    fns->level(r.y.data, r.a.data, r.b.data, least, n);
    compare(c, &r, n / 16 + 8, 1e-44f, fill_name(fill));
    elem_ref.level(r.expected.data, r.b.data, r.a.data, least, n);
    fns->level(r.y.data, r.b.data, r.a.data, least, n);
    /* In float the squares of the smallest values are 0. */
    compare(c, &r, n / 16 + 8, fill == FILL_DENORMAL ? 1e-36f : 1e-44f, "inputs exchanged");
    memcpy(r.expected.data, r.y.data, n * sizeof(float));
    memcpy(r.y.data, r.b.data, n * sizeof(float));
    fns->level(r.y.data, r.y.data, r.a.data, least, n);
    if (memcmp(r.y.data, r.expected.data, n * sizeof(float)) != 0)
        check_fail(c, "level in place, n %u, %s", n, fill_name(fill));
    rows_done(c, &r);
}

void check_level(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++) {
            level_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, 1e-5f);
            level_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, 2);
        }
}

/* The error of the mean and of the deviation is that of sums of n terms as large as the largest
 * element. */
static void peaks_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill,
                       float f)
{
    struct rows r;
    double most = 0;

    rows_init(c, &r, n, fill);
    if (n == 33 && fill == FILL_NORMAL)
        ((float *)r.a.data)[7] = NAN;
    for (uint32_t i = 0; i < n; i++) {
        const double x = fabs((double)((float *)r.a.data)[i]);

        /* This expression replaces fmax(), on which gcc 12 for arm64 stops with an internal
         * error. */
        most = x > most ? x : most;
    }
    elem_ref.peaks(r.expected.data, r.a.data, f, n);
    fns->peaks(r.y.data, r.a.data, f, n);
    compare(c, &r, n / 16 + 8,
            (float)(tolerance_sum(n / 16 + 16, 4, most * (2 + fabs((double)f))) + 1e-22),
            fill_name(fill));
    rows_done(c, &r);
}

void check_peaks(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++) {
            peaks_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, 1.6448536f);
            peaks_case(c, elem_pick(c->flags), lengths[i], (enum fill)f, -0.5f);
        }
}

/* Checks conversions and sums, whose results must have the same bits as the reference. */
static void exact_case(struct check *c, const struct elem_fns *fns, uint32_t n, enum fill fill)
{
    struct rows r;

    rows_init(c, &r, n, fill);
#define SAME(what)                                                                                 \
    do {                                                                                           \
        if (memcmp(r.y.data, r.expected.data, n * sizeof(float)) != 0)                             \
            check_fail(c, what " n %u, %s", n, fill_name(fill));                                   \
    } while (0)
    memset(r.y.data, 0, n * sizeof(float));
    memset(r.expected.data, 0, n * sizeof(float));
    fns->f16_store(r.y.data, r.a.data, n);
    elem_ref.f16_store(r.expected.data, r.a.data, n);
    SAME("f16_store");
    memcpy(r.c.data, r.y.data, n * sizeof(uint16_t));
    fns->f16_load(r.y.data, r.c.data, n);
    elem_ref.f16_load(r.expected.data, r.c.data, n);
    SAME("f16_load");
    fns->bf16_store(r.y.data, r.a.data, n);
    elem_ref.bf16_store(r.expected.data, r.a.data, n);
    memcpy(r.c.data, r.expected.data, n * sizeof(uint16_t));
    if (memcmp(r.y.data, r.expected.data, n * sizeof(uint16_t)) != 0)
        check_fail(c, "bf16_store n %u, %s", n, fill_name(fill));
    fns->bf16_load(r.y.data, r.c.data, n);
    elem_ref.bf16_load(r.expected.data, r.c.data, n);
    SAME("bf16_load");
    fns->add(r.y.data, r.a.data, r.b.data, n);
    elem_ref.add(r.expected.data, r.a.data, r.b.data, n);
    SAME("add");
    fns->mul(r.y.data, r.a.data, r.b.data, n);
    elem_ref.mul(r.expected.data, r.a.data, r.b.data, n);
    SAME("mul");
    fns->scale(r.y.data, r.a.data, 1.75f, n);
    elem_ref.scale(r.expected.data, r.a.data, 1.75f, n);
    SAME("scale");
#undef SAME
    rows_done(c, &r);
}

void check_convert(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (int f = 0; f < FILL_N; f++)
            exact_case(c, elem_pick(c->flags), lengths[i], (enum fill)f);
}

enum { BENCH_N = 3072, BENCH_ROUNDS = 20000 };

static void bench_print(const struct check *c, const char *what, uint64_t nsec)
{
    printf("%-10s %-8s %7.3f ns per element\n", what, c->rung,
           (double)nsec / ((double)BENCH_ROUNDS * BENCH_N));
}

/* Times one kernel on a row in the L1 cache. */
#define BENCH(name, what, call)                                                                    \
    void bench_##name(struct check *c)                                                             \
    {                                                                                              \
        static float a[BENCH_N], b[BENCH_N], y[BENCH_N];                                           \
        const struct elem_fns *fns = elem_pick(c->flags);                                          \
        uint64_t begin;                                                                            \
                                                                                                   \
        fill_floats(c, FILL_NORMAL, a, BENCH_N);                                                   \
        fill_floats(c, FILL_NORMAL, b, BENCH_N);                                                   \
        begin = clock_nsec();                                                                      \
        for (int i = 0; i < BENCH_ROUNDS; i++)                                                     \
            call;                                                                                  \
        bench_print(c, what, clock_nsec() - begin);                                                \
    }

BENCH(norm, "rms_norm", fns->rms_norm(y, a, b, 1e-6f, BENCH_N))
BENCH(rope, "rope_half", fns->rope_half(y, a, b, BENCH_N))
BENCH(silu, "silu_mul", fns->silu_mul(y, a, b, BENCH_N))
BENCH(layer_norm, "layer_norm", fns->layer_norm(y, a, b, b, 1e-6f, BENCH_N))
BENCH(gelu, "gelu_erf", fns->gelu_erf(y, a, BENCH_N))
BENCH(gates, "swiglu", fns->swiglu_limited(y, a, b, BENCH_N))
BENCH(cap, "cap", fns->cap(y, a, 30, BENCH_N))
BENCH(level, "level", fns->level(y, a, b, 1e-5f, BENCH_N))
BENCH(peaks, "peaks", fns->peaks(y, a, 1.6448536f, BENCH_N))
BENCH(convert, "f16_store", fns->f16_store((uint16_t *)y, a, BENCH_N))
