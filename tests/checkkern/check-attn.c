/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the attention kernels.
 *
 * The check compares the scores and the weighted sums of values of a block with the reference.
 * Their bits must not depend on the other rows of the same call. The check also covers quantising
 * and the steps of the softmax.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/attn/attn.h"
#include "backend/cpu/elem/elem.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "harness.h"
#include "quant/code-rows.h"

/* Struct block_case holds a tile of rows and a block, with their memory. */
struct block_case {
    const struct attn_fns *fns;
    enum codec format;
    uint32_t M, hd, bt;
    struct guarded q, q_ref, k, v, s, o;
    float *x; /* queries, before query() prepares them */
    struct attn_range *range;
};

/* Writes one number to the keys or values of a block, as F32, F16 or BF16. */
static void put(enum codec format, void *to, size_t i, float x)
{
    if (format == CODEC_F32)
        ((float *)to)[i] = x;
    else if (format == CODEC_F16)
        elem_ref.f16_store((uint16_t *)to + i, &x, 1);
    else
        elem_ref.bf16_store((uint16_t *)to + i, &x, 1);
}

/* Fills a block, whose format is of the kind CODEC_ROWS, with encoded heads. */
static void fill_rows(struct check *ck, const struct block_case *c, uint8_t *to)
{
    float x[ATTN_HEAD_MAX];

    for (uint32_t t = 0; t < c->bt; t++, to += codec_code_bytes(c->format, c->hd)) {
        fill_floats(ck, FILL_NORMAL, x, c->hd);
        code_rows_encode(c->format, to, x, c->hd);
    }
}

/* Fills the block of a head with noise. Formats with scales get random bytes, except those of the
 * kind CODEC_ROWS. All bytes are valid in a block except the NaN of FP8, which is never stored.
 * Numbers are at most about 4. */
static void fill_head(struct check *ck, const struct block_case *c, void *head)
{
    const struct codec_info *info = codec_info(c->format);
    const size_t n = (size_t)c->hd * c->bt;
    const size_t n_bytes = (size_t)codec_code_bytes(c->format, c->hd) * c->bt;
    const uint32_t n_scalars = codec_scalars(c->format, c->hd) * c->bt;
    const float most = c->format == CODEC_FP8 ? 448 : info->offset ? 15 : 127;
    uint8_t *bytes = head;

    if (info->kind == CODEC_ROWS) {
        fill_rows(ck, c, head);
        return;
    }
    for (size_t i = 0; n_scalars == 0 && i < n; i++)
        put(c->format, head, i, rng_normal(&ck->rng));
    for (size_t i = 0; n_scalars > 0 && i < n_bytes; i++) {
        bytes[i] = (uint8_t)rng_u32(&ck->rng);
        if (c->format == CODEC_FP8 && (bytes[i] & 0x7f) == 0x7f)
            bytes[i]--;
    }
    for (size_t i = 0; i < n_scalars; i++) {
        const float part = (float)(rng_u32(&ck->rng) % 1000) / 1000;
        const float scalar = i < n_scalars / 2 || !info->offset ? part * 3 / most : part * 2 - 1;

        elem_ref.f16_store((uint16_t *)(bytes + n_bytes) + i, &scalar, 1);
    }
}

static size_t head_size(const struct block_case *c)
{
    return codec_head_bytes(c->format, c->hd) * c->bt;
}

static void block_init(struct check *ck, struct block_case *c)
{
    const size_t q_size = (size_t)c->M * c->hd * sizeof(float);

    c->q = guarded_new(q_size, true);
    c->q_ref = guarded_new(q_size, true);
    c->k = guarded_new(head_size(c), true);
    c->v = guarded_new(head_size(c), true);
    c->s = guarded_new((size_t)c->M * c->bt * sizeof(float), true);
    c->o = guarded_new(q_size, true);
    c->x = NEW(float, (size_t)c->M * c->hd);
    c->range = NEW(struct attn_range, c->M);
    if (!c->x || !c->range)
        exit(2);
    fill_head(ck, c, c->k.data);
    fill_head(ck, c, c->v.data);
    fill_floats(ck, FILL_NORMAL, c->x, (size_t)c->M * c->hd);
    fill_floats(ck, FILL_NORMAL, c->o.data, (size_t)c->M * c->hd);
}

static void block_done(struct check *ck, struct block_case *c)
{
    struct guarded *all[] = {&c->q, &c->q_ref, &c->k, &c->v, &c->s, &c->o};
    bool ok = true;

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        ok &= guarded_done(all[i]);
    if (!ok)
        check_fail(ck, "%s M %u head_dim %u wrote out of bounds", codec_info(c->format)->name, c->M,
                   c->hd);
    free(c->x);
    free(c->range);
    ck->n_cases++;
}

/* Sets the range of tokens that each row attends to: the whole block, all tokens up to the row
 * (causal attention), or a window. */
static void fill_ranges(struct check *ck, struct block_case *c)
{
    const uint32_t group = 1 + rng_u32(&ck->rng) % 3, kind = rng_u32(&ck->rng) % 3;
    const uint32_t first = rng_u32(&ck->rng) % c->bt, window = 1 + rng_u32(&ck->rng) % 40;

    for (uint32_t i = 0; i < c->M; i++) {
        const uint32_t end = first + i / group + 1;

        c->range[i] = (struct attn_range){0, c->bt};
        if (kind > 0)
            c->range[i].hi = MIN(end, c->bt);
        if (kind > 1)
            c->range[i].lo = end > window ? MIN(end - window, c->bt) : 0;
    }
}

static struct attn_args args_of(const struct block_case *c, const void *kv, void *q, float *s,
                                float *o)
{
    return (struct attn_args){c->format, c->M, c->hd, c->bt, c->range, q, kv, NULL, 0, s, o};
}

/* Computes each row of one call alone, with noise in the tokens that the row must not read. */
static void rows_alone(struct check *ck, const struct block_case *c, bool values, const float *s0,
                       float *s, float *o)
{
    for (uint32_t i = 0; i < c->M; i++) {
        struct attn_args args =
            args_of(c, values ? c->v.data : c->k.data, (float *)c->q.data + (size_t)i * c->hd,
                    s + (size_t)i * c->bt, o + (size_t)i * c->hd);

        args.n_rows = 1;
        args.range += i;
        for (uint32_t t = 0; t < c->bt; t++)
            args.s[t] = t >= args.range->lo && t < args.range->hi
                            ? s0[(size_t)i * c->bt + t]
                            : rng_normal(&ck->rng) * (t % 3 == 0 ? NAN : 1);
        (values ? c->fns->values : c->fns->scores)[c->format](&args);
    }
}

static void compare(struct check *ck, const struct block_case *c, const char *what, uint32_t row,
                    uint32_t i, float got, float expected, double tolerance)
{
    if (!(fabs((double)got - (double)expected) <= tolerance))
        check_fail(ck, "%s %s M %u head_dim %u tokens %u: row %u, %u is %.9g, expected %.9g ± %.2g",
                   codec_info(c->format)->name, what, c->M, c->hd, c->bt, row, i, (double)got,
                   (double)expected, tolerance);
}

static void check_scores(struct check *ck, const struct block_case *c)
{
    const size_t n = (size_t)c->M * c->bt;
    _cleanup_free_ float *expected = NEW(float, n), *alone = NEW(float, n);
    const struct attn_args args = args_of(c, c->k.data, c->q.data, c->s.data, c->o.data);
    const struct attn_args ref = args_of(c, c->k.data, c->q_ref.data, expected, c->o.data);

    c->fns->scores[c->format](&args);
    attn_ref.scores[c->format](&ref);
    rows_alone(ck, c, false, expected, alone, c->o.data);
    for (uint32_t i = 0; i < c->M; i++)
        for (uint32_t t = c->range[i].lo; t < c->range[i].hi; t++) {
            const size_t at = (size_t)i * c->bt + t;

            /* Terms are normally distributed, so 6 per term is a generous bound of their
             * magnitudes. */
            compare(ck, c, "score", i, t, args.s[at], expected[at],
                    tolerance_sum(c->hd + 1, 4, 6.0 * (c->hd + 1)));
            if (memcmp(&alone[at], &args.s[at], sizeof(float)) != 0)
                check_fail(ck, "%s M %u head_dim %u: other rows change a score",
                           codec_info(c->format)->name, c->M, c->hd);
        }
}

static void check_values(struct check *ck, const struct block_case *c)
{
    const size_t n = (size_t)c->M * c->hd, n_s = (size_t)c->M * c->bt;
    _cleanup_free_ float *expected = NEW(float, n), *alone = NEW(float, n);
    _cleanup_free_ float *s = NEW(float, n_s), *s_alone = NEW(float, n_s);
    const struct attn_args args = args_of(c, c->v.data, c->q.data, c->s.data, c->o.data);
    const struct attn_args ref = args_of(c, c->v.data, c->q_ref.data, s, expected);

    for (size_t i = 0; i < n_s; i++) {
        const struct attn_range r = c->range[i / c->bt];

        s[i] = i % c->bt < r.lo || i % c->bt >= r.hi ? NAN : (float)rng_double(&ck->rng);
    }
    memcpy(args.s, s, n_s * sizeof(float));
    memcpy(expected, args.o, n * sizeof(float));
    memcpy(alone, args.o, n * sizeof(float));
    c->fns->values[c->format](&args);
    attn_ref.values[c->format](&ref);
    rows_alone(ck, c, true, s, s_alone, alone);
    for (uint32_t i = 0; i < c->M; i++)
        for (uint32_t d = 0; d < c->hd; d++) {
            const size_t at = (size_t)i * c->hd + d;

            compare(ck, c, "value", i, d, args.o[at], expected[at],
                    tolerance_sum(c->bt + 1, 4, 6.0 * (c->bt + 1)));
        }
    if (memcmp(alone, args.o, n * sizeof(float)) != 0)
        check_fail(ck, "%s M %u head_dim %u: other rows change a value",
                   codec_info(c->format)->name, c->M, c->hd);
}

static void one_block(struct check *ck, const struct attn_fns *fns, enum codec format, uint32_t M,
                      uint32_t hd, uint32_t bt)
{
    struct block_case c = {.fns = fns, .format = format, .M = M, .hd = hd, .bt = bt};
    const float scale = 0.3f;

    if (!check_draws(ck))
        return;
    block_init(ck, &c);
    fill_ranges(ck, &c);
    for (uint32_t i = 0; i < M; i++) {
        const size_t at = (size_t)i * hd;

        fns->query[format]((float *)c.q.data + at, c.x + at, scale, hd);
        attn_ref.query[format]((float *)c.q_ref.data + at, c.x + at, scale, hd);
    }
    check_scores(ck, &c);
    if (fns->values[format])
        check_values(ck, &c);
    block_done(ck, &c);
}

/* Finds the tables that this ISA level can use; some tables need an additional CPU flag. */
static size_t tables(const struct check *c, const struct attn_fns *ret[2])
{
    ret[0] = attn_pick(c->flags);
    ret[1] = attn_pick(c->flags & ~(unsigned)CPU_AVX512_BF16);
    return ret[0] == ret[1] ? 1 : 2;
}

void check_attention(struct check *c)
{
    static const uint32_t Ms[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 64};
    static const uint32_t head_dims[] = {2, 8, 20, 32, 48, 64, 96, 128, 192, 256};
    static const uint32_t tokens[] = {16, 48, 64, 256};
    const struct attn_fns *fns[2];
    const size_t n_tables = tables(c, fns);

    for (size_t k = 0; k < n_tables; k++)
        for (int f = 0; f < CODEC_N; f++)
            for (size_t i = 0; i < ARRAY_SIZE(Ms); i++)
                for (size_t j = 0; j < ARRAY_SIZE(head_dims); j++)
                    if (head_dims[j] % codec_info((enum codec)f)->head_unit == 0)
                        one_block(c, fns[k], (enum codec)f, Ms[i], head_dims[j],
                                  tokens[rng_u32(&c->rng) % ARRAY_SIZE(tokens)]);
}

/* Checks that quantized numbers and their scales equal those of the reference, except where a
 * quotient lies half way between two integers and the scale was rounded differently. */
void check_quantise(struct check *c)
{
    enum { N = 96 };
    const struct attn_fns *fns = attn_pick(c->flags);
    float x[N], scales[3], expected_scales[3];
    int8_t q[N], expected[N];

    for (int round = 0; round < 200; round++) {
        const bool half = round % 2 == 0;

        fill_floats(c, (enum fill)(round / 2 % FILL_N), x, N);
        if (round % 13 == 12)
            x[rng_u32(&c->rng) % N] = round % 3 == 0 ? NAN : INFINITY;
        fns->quantise(q, scales, x, half, N);
        attn_ref.quantise(expected, expected_scales, x, half, N);
        for (int i = 0; i < N; i++)
            if (q[i] != expected[i])
                check_fail(c, "quantise round %d: %d is %d, expected %d", round, i, q[i],
                           expected[i]);
        for (int i = 0; i < 3; i++)
            if (!(scales[i] == expected_scales[i]) &&
                !(isnan(scales[i]) && isnan(expected_scales[i])))
                check_fail(c, "quantise round %d: scale %d is %g, expected %g", round, i,
                           (double)scales[i], (double)expected_scales[i]);
        c->n_cases++;
    }
}

/* Returns the error of e = exp(x). x is a difference rounded to float, which changes e by |x|
 * roundings. */
static double exp_tolerance(float e)
{
    const double x = e > 0 ? -log((double)e) : 104;

    return tolerance_sum((uint64_t)fabs(x) + 4, 4, (double)e);
}

static void softmax_case(struct check *c, uint32_t n, enum fill fill, float old_max, float old_sum)
{
    struct guarded s = guarded_new(n * sizeof(float), true);
    _cleanup_free_ float *expected = NEW(float, n);
    float max = old_max, max_ref = old_max, factor, factor_ref;
    float sum[ATTN_LANES], sum_ref[ATTN_LANES];

    fill_floats(c, fill, s.data, n);
    for (uint32_t i = 0; i < ATTN_LANES; i++)
        sum[i] = sum_ref[i] = old_sum;
    memcpy(expected, s.data, n * sizeof(float));
    factor = attn_pick(c->flags)->softmax(s.data, n, &max, sum);
    factor_ref = attn_ref.softmax(expected, n, &max_ref, sum_ref);
    if (max != max_ref)
        check_fail(c, "softmax n %u %s: max %.9g, expected %.9g", n, fill_name(fill), (double)max,
                   (double)max_ref);
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs((double)((float *)s.data)[i] - (double)expected[i]) <=
              exp_tolerance(expected[i])))
            check_fail(c, "softmax n %u %s: s[%u] is %.9g, expected %.9g", n, fill_name(fill), i,
                       (double)((float *)s.data)[i], (double)expected[i]);
    if (!(fabs((double)factor - (double)factor_ref) <= exp_tolerance(factor_ref)))
        check_fail(c, "softmax n %u %s: factor %.9g, expected %.9g", n, fill_name(fill),
                   (double)factor, (double)factor_ref);
    for (uint32_t i = 0; i < ATTN_LANES; i++)
        if (!(fabs((double)sum[i] - (double)sum_ref[i]) <=
              tolerance_sum(n / ATTN_LANES + 4, 4, (double)sum_ref[i]) + exp_tolerance(sum_ref[i])))
            check_fail(c, "softmax n %u %s: sum %u is %.9g, expected %.9g", n, fill_name(fill), i,
                       (double)sum[i], (double)sum_ref[i]);
    if (!guarded_done(&s))
        check_fail(c, "softmax n %u wrote out of bounds", n);
    c->n_cases++;
}

void check_softmax(struct check *c)
{
    for (uint32_t n = 1; n <= 66; n++)
        for (int f = 0; f < FILL_N; f++) {
            if (f == FILL_MAX || f == FILL_ALL_MIN)
                continue; /* the softmax of scores near 3e38 is not compared */
            softmax_case(c, n, (enum fill)f, -INFINITY, 0);
            softmax_case(c, n, (enum fill)f, 0.5f, 3);
            softmax_case(c, n, (enum fill)f, 50, 3);
        }
}

enum { BENCH_M = 66, BENCH_TOKENS = 64, BENCH_HD = 128, BENCH_ROUNDS = 2000 };

void bench_attention(struct check *ck)
{
    static const uint32_t Ms[] = {1, 2, 4, 6, BENCH_M};
    const struct attn_fns *fns[2];
    const size_t n_tables = tables(ck, fns);

    for (size_t i = 0; i < ARRAY_SIZE(Ms) * n_tables * CODEC_N; i++) {
        struct block_case c = {.fns = fns[i / ARRAY_SIZE(Ms) / CODEC_N],
                               .format = (enum codec)(i / ARRAY_SIZE(Ms) % CODEC_N),
                               .M = Ms[i % ARRAY_SIZE(Ms)],
                               .hd = BENCH_HD,
                               .bt = BENCH_TOKENS};
        /* Heads in formats of this kind are decoded in plain C, which is slow. */
        const bool rows = codec_info(c.format)->kind == CODEC_ROWS;
        const int n_rounds = rows ? BENCH_ROUNDS / 100 : BENCH_ROUNDS;
        const double n_ops = 2.0 * c.M * BENCH_HD * BENCH_TOKENS * n_rounds;
        uint64_t nsec[3] = {0};

        block_init(ck, &c);
        for (uint32_t m = 0; m < c.M; m++) {
            c.range[m].hi = BENCH_TOKENS;
            c.fns->query[c.format]((float *)c.q.data + (size_t)m * c.hd, c.x + (size_t)m * c.hd, 1,
                                   c.hd);
        }
        for (int part = 0; part < (c.fns->values[c.format] ? 2 : 1); part++) {
            const struct attn_args args =
                args_of(&c, part == 0 ? c.k.data : c.v.data, c.q.data, c.s.data, c.o.data);
            const uint64_t begin = clock_nsec();

            for (int j = 0; j < n_rounds; j++)
                (part == 0 ? c.fns->scores : c.fns->values)[c.format](&args);
            nsec[part] = clock_nsec() - begin;
            memset(c.s.data, 0, c.s.size);
        }
        printf("%-10s %-10s M %-3u scores %8.1f GFLOP/s, values %8.1f GFLOP/s\n", c.fns->name,
               codec_info(c.format)->name, c.M, n_ops / (double)nsec[0], n_ops / (double)nsec[1]);
        block_done(ck, &c);
    }
}

void bench_quantise(struct check *c)
{
    float x[BENCH_HD], scales[BENCH_HD / ATTN_Q8_BLOCK];
    int8_t q[BENCH_HD];
    uint64_t begin;

    fill_floats(c, FILL_NORMAL, x, BENCH_HD);
    begin = clock_nsec();
    for (int i = 0; i < 100 * BENCH_ROUNDS; i++)
        attn_pick(c->flags)->quantise(q, scales, x, true, BENCH_HD);
    printf("quantise %-8s %7.3f ns per element\n", c->rung,
           (double)(clock_nsec() - begin) / (100.0 * BENCH_HD * BENCH_ROUNDS));
}

void bench_softmax(struct check *c)
{
    float s[64], max = -INFINITY, sum[ATTN_LANES] = {0};
    uint64_t begin;

    fill_floats(c, FILL_NORMAL, s, 64);
    begin = clock_nsec();
    for (int i = 0; i < 100 * BENCH_ROUNDS; i++)
        attn_pick(c->flags)->softmax(s, 64, &max, sum);
    printf("softmax %-8s %7.3f ns per element\n", c->rung,
           (double)(clock_nsec() - begin) / (6400.0 * BENCH_ROUNDS));
}
