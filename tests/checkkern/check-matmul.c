/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks matrix products against the reference and, bit for bit, against each other, and measures
 * their speed.
 *
 * All rungs (instruction set levels) except the reference add terms in the same order. Therefore
 * the results of each rung must equal those of the lowest such rung exactly.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/half.h"
#include "harness.h"
#include "quant/coded.h"
#include "quant/dtype.h"
#include "weights.h"

/* Struct product holds one product with its buffers. */
struct product {
    enum inf_dtype dtype;
    uint32_t M, N, K;
    uint64_t row_bytes;
    struct guarded w, x, act, bias, y, scales, offsets; /* the last two: planes of W */
    struct plane_choice planes;                         /* group 0: no planes */
    struct matmul_args args;
};

/* Returns whether check-bitnet.c, check-coded.c or check-fp4-planes.c checks a format. */
static bool has_own_check(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_BITNET || dtype == INF_DTYPE_FP4_PLANES || coded_kind(dtype).bits > 0;
}

/* Makes a product. If the format has planes, they are stored as *@planes says, or, if @planes is
 * NULL, in one of the permitted ways. Returns false if rows of K elements do not exist. */
static bool product_init_planes(struct check *c, struct product *p, enum inf_dtype dtype,
                                uint32_t M, uint32_t N, uint32_t K, bool with_bias,
                                const struct plane_choice *planes)
{
    const enum matmul_act kind = matmul_act_kind(matmul_ops_get(c->flags), dtype);

    *p = (struct product){.dtype = dtype, .M = M, .N = N, .K = K};
    size_t n_plane = 0;

    if (!dtype_row_bytes(dtype, K, &p->row_bytes) || has_own_check(dtype))
        return false;
    if (dtype_info(dtype)->planes) {
        p->planes = planes ? *planes : weights_choose_planes(c, dtype, K);
        n_plane = (size_t)N * (K / p->planes.group) * plane_bytes(p->planes.type);
    }
    p->w = guarded_new(p->row_bytes * N, true);
    p->x = guarded_new((size_t)M * K * sizeof(float), true);
    p->act = guarded_new(matmul_act_bytes(kind, K) * M, false);
    p->bias = guarded_new(N * sizeof(float), true);
    p->scales = guarded_new(n_plane, true);
    p->offsets = guarded_new(n_plane, true);
    p->y = guarded_new((size_t)M * N * sizeof(float), true);
    fill_floats(c, FILL_NORMAL, p->bias.data, N);
    p->args = (struct matmul_args){
        .dtype = dtype,
        .w = p->w.data,
        .row_bytes = p->row_bytes,
        .kind = kind,
        .act = p->act.data,
        .act_stride = matmul_act_bytes(kind, K),
        .M = M,
        .K = K,
        .y = p->y.data,
        .ldy = N,
        .bias = with_bias ? p->bias.data : NULL,
        .planes[WEIGHT_SCALES] = p->scales.data,
        .planes[WEIGHT_ZEROS] = p->offsets.data,
        .plane_type = p->planes.type,
        .group = p->planes.group,
    };
    return true;
}

static bool product_init(struct check *c, struct product *p, enum inf_dtype dtype, uint32_t M,
                         uint32_t N, uint32_t K, bool with_bias)
{
    return product_init_planes(c, p, dtype, M, N, K, with_bias, NULL);
}

static void product_fill_planes(struct check *c, struct product *p, enum weight_fill fill)
{
    const uint64_t n = p->planes.group > 0 ? (uint64_t)p->N * (p->K / p->planes.group) : 0;

    weights_fill_plane(c, fill, p->planes.type, p->scales.data, n);
    weights_fill_plane(c, fill, p->planes.type, p->offsets.data, n);
}

static void product_fill(struct check *c, struct product *p, enum weight_fill weights,
                         enum fill fill)
{
    weights_fill(c, p->dtype, weights, p->w.data, (uint64_t)p->N * p->K);
    fill_floats(c, fill, p->x.data, (size_t)p->M * p->K);
    product_fill_planes(c, p, weights);
}

static void product_prepare(struct product *p, const struct matmul_ops *ops)
{
    matmul_prepare(ops, p->args.kind, p->x.data, p->K, p->K, 0, p->M, p->act.data);
}

static void product_done(struct check *c, struct product *p)
{
    bool ok = guarded_done(&p->w);

    ok &= guarded_done(&p->x);
    ok &= guarded_done(&p->act);
    ok &= guarded_done(&p->bias);
    ok &= guarded_done(&p->y);
    ok &= guarded_done(&p->scales);
    ok &= guarded_done(&p->offsets);
    if (!ok)
        check_fail(c, "%s M %u N %u K %u wrote out of bounds", dtype_info(p->dtype)->name, p->M,
                   p->N, p->K);
}

/* Returns element k of a prepared row. */
static double act_value(const struct product *p, uint32_t m, uint32_t k)
{
    const uint8_t *row = (const uint8_t *)p->args.act + m * p->args.act_stride;
    float d;

    if (p->args.kind == MATMUL_ACT_F32)
        return ((const float *)row)[k];
    if (p->args.kind == MATMUL_ACT_BF16)
        return bf16_to_f32(((const uint16_t *)row)[k]);
    if (p->args.kind == MATMUL_ACT_F16) {
        uint16_t h;

        memcpy(&h, row + k / 32 * 68 + k % 32 * 2, sizeof(h));
        memcpy(&d, row + k / 32 * 68 + 64, sizeof(d));
        return 128.0 * d * f16_to_f32(h);
    }
    if (p->args.kind == MATMUL_ACT_APART) {
        const struct matmul_i16 *b = (const struct matmul_i16 *)row + k / MATMUL_BLOCK;

        return (double)b->d * b->q[matmul_apart_place(k % MATMUL_BLOCK)];
    }
    row += k / 32 * 48;
    memcpy(&d, row + 32, sizeof(d));
    return (double)d * (int8_t)row[k % 32];
}

/* Returns the sum of the magnitudes of the terms of element (m, n). *ret_root gets the root of the
 * sum of the squares of the block sums, each over 32 terms. @mags: the magnitudes of the weights of
 * row n. */
static double magnitude(const struct product *p, uint32_t m, uint32_t n, const float *mags,
                        double *ret_root)
{
    double sum = p->args.bias ? fabs(p->args.bias[n]) : 0, squares = sum * sum;

    for (uint32_t k = 0; k < p->K; k += 32) {
        double block = 0;

        for (uint32_t i = k; i < MIN(p->K, k + 32); i++)
            block += mags[i] * fabs(act_value(p, m, i));
        sum += block;
        squares += block * block;
    }
    *ret_root = sqrt(squares);
    return sum;
}

/* Writes the magnitudes of the terms of row @n of W. */
static void row_magnitudes(const struct product *p, uint32_t n, float *mags)
{
    const struct dtype_info *info = dtype_info(p->dtype);
    const uint8_t *row = (const uint8_t *)p->w.data + n * p->row_bytes;

    if (info->planes) {
        const size_t at = (size_t)n * (p->K / p->planes.group) * plane_bytes(p->planes.type);
        const struct plane_row planes = {
            .codes = row,
            .planes = {(const uint8_t *)p->scales.data + at, (const uint8_t *)p->offsets.data + at},
            .type = p->planes.type,
            .group = p->planes.group};

        weights_planes_magnitudes(p->dtype, &planes, mags, p->K);
        return;
    }
    for (uint32_t k = 0; k < p->K; k += info->block_elems)
        weights_magnitudes(p->dtype, row + k / info->block_elems * info->block_bytes, mags + k);
}

/* Returns what tolerance_apart_sum() needs to know about element (m, n): the sum of the magnitudes
 * of row m of x, each multiplied by the largest weight of its block in row n of W. *ret_root gets
 * the root of the sum of the squares. */
static double most_magnitude(const struct product *p, uint32_t m, const float *mags,
                             double *ret_root)
{
    double sum = 0, squares = 0;

    for (uint32_t k = 0; k < p->K; k += MATMUL_BLOCK) {
        const uint32_t end = MIN(p->K, k + MATMUL_BLOCK);
        double most = 0;

        for (uint32_t i = k; i < end; i++)
            most = fmax(most, mags[i]);
        for (uint32_t i = k; i < end; i++) {
            const double term = most * fabs(act_value(p, m, i));

            sum += term;
            squares += term * term;
        }
    }
    *ret_root = sqrt(squares);
    return sum;
}

static void compare_with_ref(struct check *c, struct product *p, const char *what)
{
    const struct dtype_info *info = dtype_info(p->dtype);
    const bool half = p->args.kind == MATMUL_ACT_F16, apart = p->args.kind == MATMUL_ACT_APART;
    const uint32_t chunk = p->args.kind == MATMUL_ACT_F32  ? 128
                           : p->args.kind == MATMUL_ACT_Q8 ? 0
                                                           : 256;
    const uint64_t n_terms = chunk ? MIN(p->K, chunk) + p->K / chunk : p->K / 16 * 2;
    /* The instruction for BF16 treats numbers below the normal range as zero. */
    const double flushed = p->args.kind == MATMUL_ACT_BF16 ? p->K * 0x1p-126 : 0;
    const float *y = p->y.data;
    struct matmul_args args = p->args;
    const size_t n_y = (size_t)p->M * p->N;
    _cleanup_free_ float *ref = NEW(float, n_y);
    _cleanup_free_ float *mags = NEW(float, p->K);
    const double rms = tolerance_rms(n_terms, 6) + (half ? tolerance_half_rms() : 0);
    double squares = 0, root;
    uint64_t n_squares = 0;

    args.y = ref;
    matmul_rows(matmul_ops_get(0), &args, 0, p->N);
    for (uint32_t n = 0; n < p->N; n++) {
        row_magnitudes(p, n, mags);
        for (uint32_t m = 0; m < p->M; m++) {
            const double mag = magnitude(p, m, n, mags, &root);
            const double most = apart ? most_magnitude(p, m, mags, &root) : 0;
            const double allowed = tolerance_sum(n_terms, 6, mag) + flushed +
                                   (half ? tolerance_half_sum(mag) : 0) + tolerance_apart_sum(most);
            const double e = fabs((double)y[m * p->N + n] - ref[m * p->N + n]);

            const double expected =
                rms * (half ? root : mag) + (apart ? tolerance_apart_rms() * root : 0);

            if (mag > 1e-30) {
                squares += e / expected * (e / expected);
                n_squares++;
            }
            if (!(e <= allowed))
                check_fail(c, "%s %s M %u N %u K %u: y[%u][%u] is %.9g, expected %.9g ± %.2g",
                           info->name, what, p->M, p->N, p->K, m, n, (double)y[m * p->N + n],
                           (double)ref[m * p->N + n], allowed);
        }
    }
    if (n_squares > 0 && !(sqrt(squares / (double)n_squares) <= 1))
        check_fail(c, "%s %s M %u N %u K %u: error %.3g times the limit", info->name, what, p->M,
                   p->N, p->K, sqrt(squares / (double)n_squares));
}

/* Returns the operations of the lowest ISA level that is not the reference. */
static const struct matmul_ops *lowest_ops(void)
{
    unsigned flags;

    for (size_t i = 0; cpu_rung_at(i); i++)
        if (cpu_rung_flags(cpu_rung_at(i), &flags) == 0 &&
            matmul_ops_get(flags) != matmul_ops_get(0))
            return matmul_ops_get(flags);
    return matmul_ops_get(0);
}

static void check_case(struct check *c, enum inf_dtype dtype, uint32_t M, uint32_t N, uint32_t K,
                       enum weight_fill weights, enum fill fill)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    struct matmul_args args;
    struct product p;
    char what[64];

    if (!check_draws(c) || !product_init(c, &p, dtype, M, N, K, N % 2 == 0))
        return;
    product_fill(c, &p, weights, fill);
    product_prepare(&p, ops);
    matmul_rows(ops, &p.args, 0, N);
    snprintf(what, sizeof(what), "weights %d, rows %s", weights, fill_name(fill));
    compare_with_ref(c, &p, what);
    if (ops != matmul_ops_get(0) && p.args.kind == matmul_act_kind(lowest_ops(), dtype)) {
        const size_t n_y = (size_t)M * N;
        _cleanup_free_ float *y = NEW(float, n_y);

        args = p.args;
        args.y = y;
        matmul_rows(lowest_ops(), &args, 0, N);
        if (memcmp(y, p.y.data, (size_t)M * N * sizeof(float)) != 0)
            check_fail(c, "%s %s M %u N %u K %u: the bits differ from those of %s",
                       dtype_info(dtype)->name, what, M, N, K, matmul_ops_name(lowest_ops()));
    }
    product_done(c, &p);
    c->n_cases++;
}

/* Checks F16 as floats, if the rung multiplies F16 in blocks of int16. */
static void check_floats(struct check *c)
{
    static const uint32_t Ks[] = {1, 31, 33, 64, 128, 224, 768, 997};
    static const uint32_t Ms[] = {1, 2, 4, 13};
    const unsigned flags = c->flags;

    if (matmul_act_kind(matmul_ops_get(flags), INF_DTYPE_F16) != MATMUL_ACT_APART)
        return;
    c->flags |= MATMUL_FLOATS;
    for (size_t k = 0; k < ARRAY_SIZE(Ks); k++)
        for (size_t m = 0; m < ARRAY_SIZE(Ms); m++)
            check_case(c, INF_DTYPE_F16, Ms[m], 71, Ks[k], WEIGHT_ENCODED, FILL_NORMAL);
    c->flags = flags;
}

void check_matmul(struct check *c)
{
    static const uint32_t Ks[] = {1,   2,   3,   5,   31,  32,  33,   64,   127, 131,
                                  224, 256, 416, 512, 768, 997, 1024, 1312, 2304};
    static const uint32_t Ns[] = {1, 15, 16, 17, 32, 33, 63, 71};
    static const uint32_t Ms[] = {1, 2, 3, 5, 7, 13};

    /* Checks every length with random numbers of rows and columns. */
    for (int d = 0; d < INF_DTYPE_N; d++)
        for (size_t i = 0; i < ARRAY_SIZE(Ks); i++)
            check_case(c, (enum inf_dtype)d, Ms[rng_u32(&c->rng) % ARRAY_SIZE(Ms)],
                       Ns[rng_u32(&c->rng) % ARRAY_SIZE(Ns)], Ks[i], i % 2, FILL_NORMAL);
    for (int d = 0; d < INF_DTYPE_N; d++) {
        for (size_t i = 0; i < ARRAY_SIZE(Ns); i++)
            check_case(c, (enum inf_dtype)d, 2, Ns[i], 512, WEIGHT_RANDOM, FILL_NORMAL);
        for (int w = 0; w < WEIGHT_FILL_N; w++)
            for (int f = 0; f < FILL_N; f++)
                check_case(c, (enum inf_dtype)d, 3, 16, 768, (enum weight_fill)w, (enum fill)f);
    }
    check_floats(c);
}

/* Checks that NaN in x gives NaN in y, in the same row only. */
static void check_nan(struct check *c, enum inf_dtype dtype, float bad)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    struct product p;

    if (!product_init(c, &p, dtype, 3, 32, 512, false))
        return;
    product_fill(c, &p, WEIGHT_ENCODED, FILL_NORMAL);
    ((float *)p.x.data)[512 + 300] = bad;
    product_prepare(&p, ops);
    matmul_rows(ops, &p.args, 0, 32);
    for (uint32_t i = 0; i < 3 * 32; i++)
        if (isfinite(((float *)p.y.data)[i]) != (i / 32 != 1))
            check_fail(c, "%s: y[%u][%u] is %g with %g in row 1", dtype_info(dtype)->name, i / 32,
                       i % 32, (double)((float *)p.y.data)[i], (double)bad);
    product_done(c, &p);
    c->n_cases++;
}

static void check_same(struct check *c, const struct product *p, const float *y, uint32_t m,
                       uint32_t n0, uint32_t n1, const char *how)
{
    const float *all = p->y.data;

    if (memcmp(all + m * p->N + n0, y, (n1 - n0) * sizeof(float)) != 0)
        check_fail(c, "%s K %u: row %u, columns %u-%u differ with %s", dtype_info(p->dtype)->name,
                   p->K, m, n0, n1, how);
    c->n_cases++;
}

static void check_batches(struct check *c, enum inf_dtype dtype, uint32_t N, uint32_t K)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const size_t n_y = (size_t)512 * N;
    _cleanup_free_ float *y = NEW(float, n_y);
    const bool is_ref = ops == matmul_ops_get(0);
    struct product p;
    char how[32];

    if (!check_draws(c) || !product_init(c, &p, dtype, is_ref ? 64 : 512, N, K, true))
        return;
    product_fill(c, &p, WEIGHT_RANDOM, FILL_NORMAL);
    product_prepare(&p, ops);
    matmul_rows(ops, &p.args, 0, N);
    for (uint32_t M = 1; M <= 64; M += is_ref ? 21 : 1) {
        struct matmul_args args = p.args;
        const uint32_t m0 = rng_u32(&c->rng) % (p.M - M + 1);

        args.act = (const uint8_t *)p.args.act + m0 * args.act_stride;
        args.M = M;
        args.y = y;
        matmul_rows(ops, &args, 0, N);
        snprintf(how, sizeof(how), "M %u", M);
        for (uint32_t m = 0; m < M; m++)
            check_same(c, &p, y + (size_t)m * N, m0 + m, 0, N, how);
    }
    for (unsigned i = 0; i < 8; i++) {
        struct matmul_args args = p.args;
        const uint32_t n0 = rng_u32(&c->rng) % N, n1 = n0 + 1 + rng_u32(&c->rng) % (N - n0);

        args.M = 1 + i;
        args.y = y;
        matmul_rows(ops, &args, n0, n1);
        for (uint32_t m = 0; m < args.M; m++)
            check_same(c, &p, y + (size_t)m * N + n0, m, n0, n1, "other borders");
    }
    product_done(c, &p);
}

void check_matmul_invariance(struct check *c)
{
    for (int d = 0; d < INF_DTYPE_N; d++) {
        check_batches(c, (enum inf_dtype)d, 71, 768);
        check_nan(c, (enum inf_dtype)d, NAN);
        check_nan(c, (enum inf_dtype)d, -INFINITY);
    }
    check_batches(c, INF_DTYPE_F32, 40, 301);
}

/* Checks that prepared rows have the same bits as those of the reference. */
void check_prepare(struct check *c)
{
    const uint32_t K = 32 * 37;

    for (int f = 0; f < FILL_N + 3; f++) {
        const size_t bytes = matmul_act_bytes(MATMUL_ACT_Q8, K);
        struct guarded x = guarded_new(K * sizeof(float), true);
        struct guarded a = guarded_new(bytes, false), b = guarded_new(bytes, false);

        memset(a.data, 0, bytes);
        memset(b.data, 0, bytes);
        fill_floats(c, (enum fill)MIN(f, FILL_N - 1), x.data, K);
        if (f >= FILL_N)
            fill_floats(c, FILL_NORMAL, x.data, K);
        if (f == FILL_N)
            ((float *)x.data)[77] = NAN;
        if (f == FILL_N + 1)
            ((float *)x.data)[78] = INFINITY;
        for (uint32_t i = 0; f == FILL_N + 2 && i < K; i++)
            ((float *)x.data)[i] = (float)(int)(rng_u32(&c->rng) % 255) - 127 + 0.5f;
        matmul_prepare(matmul_ops_get(c->flags), MATMUL_ACT_Q8, x.data, K, K, 0, 1, a.data);
        matmul_prepare(matmul_ops_get(0), MATMUL_ACT_Q8, x.data, K, K, 0, 1, b.data);
        if (memcmp(a.data, b.data, bytes) != 0)
            check_fail(c, "rows %d differ from the reference", f);
        if (!guarded_done(&x) || !guarded_done(&a) || !guarded_done(&b))
            check_fail(c, "rows %d: wrote out of bounds", f);
        c->n_cases++;
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
    const uint32_t steps = DIV_UP(job->N, MATMUL_N_STEP);

    matmul_rows(job->ops, &job->args, steps * i / n * MATMUL_N_STEP,
                MIN(steps * (i + 1) / n * MATMUL_N_STEP, job->N));
}

/* Returns the seconds of one product of M rows with weights of about @bytes. */
static double bench_product(struct check *c, enum inf_dtype dtype, uint32_t M, uint32_t K,
                            uint64_t bytes, uint32_t *ret_N, uint64_t *ret_bytes)
{
    const struct planes_info *info = dtype_info(dtype)->planes;
    struct bench_job job = {.ops = matmul_ops_get(c->flags)};
    struct plane_choice planes;
    struct product p;
    uint64_t row;
    double t;

    dtype_row_bytes(dtype, K, &row);
    job.N = (uint32_t)ALIGN_UP(bytes / row, MATMUL_N_STEP);
    planes.type = info && info->types & 1u << PLANE_BF16   ? PLANE_BF16
                  : info && info->types & 1u << PLANE_E8M0 ? PLANE_E8M0
                                                           : PLANE_E4M3;
    planes.group = info && info->group_most > 0 ? info->group : 64;
    product_init_planes(c, &p, dtype, M, job.N, K, false, &planes);
    weights_fill(c, dtype, dtype > INF_DTYPE_BF16 ? WEIGHT_RANDOM : WEIGHT_ENCODED, p.w.data,
                 (uint64_t)32 * K);
    for (uint32_t n = 32; n < job.N; n += 32)
        memcpy((uint8_t *)p.w.data + n * row, p.w.data, 32 * row);
    fill_floats(c, FILL_NORMAL, p.x.data, (size_t)M * K);
    product_fill_planes(c, &p, WEIGHT_RANDOM);
    product_prepare(&p, job.ops);
    job.args = p.args;
    t = bench_threads(c->n_threads, 0.25, bench_part, &job);
    *ret_N = job.N;
    *ret_bytes = row * job.N + p.scales.size * (dtype_affine(dtype) ? 2 : 1);
    product_done(c, &p);
    return t;
}

void bench_matmul(struct check *c)
{
    static const uint32_t Ms[] = {2, 4, 8, 16, 64, 512};
    const double gbs = bench_read_gbs(c->n_threads, c->flags),
                 tops = bench_int8_tops(c->n_threads, c->flags);
    const uint32_t K = 4096;

    if (matmul_ops_get(c->flags) == matmul_ops_get(0))
        return;
    printf("matmul %s, %u threads, K %u; memory %.1f GB/s, int8 %.2f TOPS\n", c->rung, c->n_threads,
           K, gbs, tops);
    printf("%-6s %8s %6s |", "", "M=1 GB/s", "of mem");
    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++)
        printf(" M=%-3u TOPS", Ms[i]);
    printf("   of int8\n");
    for (int d = 0; d < INF_DTYPE_N; d++) {
        uint32_t N;
        uint64_t bytes;
        double t, rate = 0;

        if (has_own_check((enum inf_dtype)d))
            continue;
        t = bench_product(c, (enum inf_dtype)d, 1, K, 128u << 20, &N, &bytes);
        printf("%-6s %8.1f %5.0f%% |", dtype_info((enum inf_dtype)d)->label,
               (double)bytes / t * 1e-9, (double)bytes / t * 1e-7 / gbs);
        for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
            t = bench_product(c, (enum inf_dtype)d, Ms[i], K, Ms[i] < 64 ? 64u << 20 : 4u << 20, &N,
                              &bytes);
            rate = 2.0 * Ms[i] * N * K / t * 1e-12;
            printf(" %10.3f", rate);
        }
        printf(" %8.0f%%\n", tops > 0 ? 100 * rate / tops : 0);
    }
}

void bench_matmul_invariance(struct check *c)
{
    (void)c;
}

void bench_prepare(struct check *c)
{
    const uint32_t K = 4096, M = 512;
    struct guarded x = guarded_new((size_t)M * K * sizeof(float), true);
    struct guarded a = guarded_new(matmul_act_bytes(MATMUL_ACT_Q8, K) * M, false);
    uint64_t best = UINT64_MAX;

    fill_floats(c, FILL_NORMAL, x.data, (size_t)M * K);
    for (unsigned i = 0; i < 5; i++) {
        const uint64_t start = clock_nsec();

        matmul_prepare(matmul_ops_get(c->flags), MATMUL_ACT_Q8, x.data, K, K, 0, M, a.data);
        best = MIN(best, clock_nsec() - start);
    }
    printf("prepare %s: %.2f ns per 32 elements\n", c->rung, (double)best * 32 / ((double)M * K));
    guarded_done(&x);
    guarded_done(&a);
}
