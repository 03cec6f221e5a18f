/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures products of a single row with weights that lie in the second-level cache: bytes of
 * weights per cycle and core, for every format and rung (instruction set level).
 *
 * The figure says how fast the kernel of a format is when memory does not limit it, so it does not
 * depend on the memory of the machine. A cycle is the time of a dependent addition of integers,
 * which every CPU of the last decades does in one cycle. The additions are timed next to each run,
 * because CPUs change their clock.
 *
 * A trace lists the instructions of the same product with fewer weights, from which
 * tests/bench/mca.py predicts this figure for other CPUs.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coding.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "quant/dtype.h"
#include "weights.h"

#define CACHE_K            2048u
#define CACHE_GROUP        128u         /* columns that share a scale in affine formats */
#define CACHE_RUNS         400u         /* the result is that of the fastest run */
#define CACHE_TRACED       32u          /* rows of W in a trace */
#define CACHE_TRACED_CODED 512u         /* the same for coded matrices: those of the largest task */
#define CACHE_CHAIN        4096u        /* dependent additions that measure the clock */
#define CACHE_UNKNOWN      (512u << 10) /* bytes of a cache whose size is not known */

/* The size of the second-level cache; 0 or negative: the C library does not know it. */
#if defined(_SC_LEVEL2_CACHE_SIZE)
#define CACHE_BYTES sysconf(_SC_LEVEL2_CACHE_SIZE)
#else
#define CACHE_BYTES (-1)
#endif

/* Returns the nanoseconds of CACHE_CHAIN dependent additions. */
static double cache_chain_nsec(void)
{
    const uint64_t start = clock_nsec();
    uint64_t sum = start;

    for (unsigned i = 0; i < CACHE_CHAIN / 16; i++)
        /* Assembly keeps the compiler from computing the sum in advance. */
        for (unsigned j = 0; j < 16; j++) {
            sum += i;
            __asm__ volatile("" : "+r"(sum));
        }
    return (double)(clock_nsec() - start);
}

/* Returns half of the second-level cache of a core, in bytes. The other half is for x and y. */
static uint64_t cache_half(void)
{
    const long bytes = CACHE_BYTES;

    return (bytes > 0 ? (uint64_t)bytes : CACHE_UNKNOWN) / 2;
}

/* Returns the rows of W that fit in half of the second-level cache. */
static uint32_t cache_rows(enum inf_dtype dtype)
{
    uint64_t row;

    dtype_row_bytes(dtype, CACHE_K, &row);
    return (uint32_t)(cache_half() / row / MATMUL_N_STEP * MATMUL_N_STEP);
}

/* A product of one row of x, and its buffers. */
struct cache_bed {
    const struct matmul_ops *ops;
    struct matmul_args args;
    struct guarded w, x, act, y, scales, offsets;
    uint32_t N;
    uint64_t bytes; /* of weights and planes */
};

static struct plane_choice cache_planes(enum inf_dtype dtype)
{
    const struct planes_info *info = dtype_info(dtype)->planes;
    struct plane_choice planes = {PLANE_F16, CACHE_GROUP};

    if (info && info->group_most > 0)
        planes.group = info->group;
    while (info && !(info->types & 1u << planes.type))
        planes.type++;
    return planes;
}

static struct matmul_args cache_args(const struct cache_bed *bed, enum inf_dtype dtype,
                                     enum matmul_act kind)
{
    return (struct matmul_args){
        .dtype = dtype,
        .w = bed->w.data,
        .row_bytes = bed->w.size / bed->N,
        .kind = kind,
        .act = bed->act.data,
        .act_stride = matmul_act_bytes(kind, CACHE_K),
        .M = 1,
        .K = CACHE_K,
        .y = bed->y.data,
        .ldy = bed->N,
        .planes[WEIGHT_SCALES] = bed->scales.data,
        .planes[WEIGHT_ZEROS] = bed->offsets.data,
        .plane_type = cache_planes(dtype).type,
        .group = cache_planes(dtype).group,
        .next = bed->w.data, /* so that prefetches stay in the cache as well */
    };
}

/* Makes a product with @N rows of W. The weights are not filled. */
static void cache_bed_new(struct check *c, struct cache_bed *bed, enum inf_dtype dtype, uint32_t N)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const enum matmul_act kind = matmul_act_kind(ops, dtype);
    const struct planes_info *info = dtype_info(dtype)->planes;
    const struct plane_choice planes = cache_planes(dtype);
    const uint64_t n_plane = CACHE_K / planes.group * plane_bytes(planes.type);
    uint64_t row;

    dtype_row_bytes(dtype, CACHE_K, &row);
    bed->ops = ops;
    bed->N = N;
    bed->bytes = bed->N * (row + (info ? n_plane * (info->affine ? 2 : 1) : 0));
    bed->w = guarded_new(row * bed->N, true);
    bed->x = guarded_new(CACHE_K * sizeof(float), true);
    bed->act = guarded_new(matmul_act_bytes(kind, CACHE_K), false);
    bed->y = guarded_new(bed->N * sizeof(float), true);
    bed->scales = guarded_new(bed->N * n_plane, true);
    bed->offsets = guarded_new(bed->N * n_plane, true);
    bed->args = cache_args(bed, dtype, kind);
    fill_floats(c, FILL_NORMAL, bed->x.data, CACHE_K);
    matmul_prepare(ops, kind, bed->x.data, CACHE_K, CACHE_K, 0, 1, bed->act.data);
}

static void cache_bed_fill(struct check *c, struct cache_bed *bed)
{
    const enum inf_dtype dtype = bed->args.dtype;
    const struct plane_choice planes = cache_planes(dtype);
    const uint64_t n_plane = CACHE_K / planes.group;

    weights_fill(c, dtype, dtype > INF_DTYPE_BF16 ? WEIGHT_RANDOM : WEIGHT_ENCODED, bed->w.data,
                 (uint64_t)bed->N * CACHE_K);
    weights_fill_plane(c, WEIGHT_RANDOM, planes.type, bed->scales.data, bed->N * n_plane);
    weights_fill_plane(c, WEIGHT_RANDOM, planes.type, bed->offsets.data, bed->N * n_plane);
}

static void cache_bed_done(struct cache_bed *bed)
{
    guarded_done(&bed->w);
    guarded_done(&bed->x);
    guarded_done(&bed->act);
    guarded_done(&bed->y);
    guarded_done(&bed->scales);
    guarded_done(&bed->offsets);
}

static void cache_product(void *arg)
{
    const struct cache_bed *bed = arg;

    matmul_rows(bed->ops, &bed->args, 0, bed->N);
}

/* Returns the cycles of the fastest of several runs of product(arg). */
static double cache_cycles(void (*product)(void *arg), void *arg)
{
    double run = INFINITY, chain = INFINITY;

    for (unsigned i = 0; i < CACHE_RUNS; i++) {
        const uint64_t start = clock_nsec();

        product(arg);
        run = fmin(run, (double)(clock_nsec() - start));
        chain = fmin(chain, cache_chain_nsec());
    }
    return run / chain * CACHE_CHAIN;
}

/* Returns the bytes of weights per cycle. */
static double cache_rate(struct check *c, enum inf_dtype dtype)
{
    struct cache_bed bed;
    double rate;

    cache_bed_new(c, &bed, dtype, cache_rows(dtype));
    cache_bed_fill(c, &bed);
    rate = (double)bed.bytes / cache_cycles(cache_product, &bed);
    cache_bed_done(&bed);
    return rate;
}

/* Packed ternary rows have kernels of their own, and so have coded matrices, which are in the list
 * below. MXFP4 whose scales lie apart from the codes is multiplied as MXFP4. */
static bool cache_measures(enum inf_dtype dtype)
{
    return dtype != INF_DTYPE_BITNET && dtype != INF_DTYPE_FP4_PLANES &&
           coded_kind(dtype).bits == 0;
}

/* ---- coded matrices ---- */

/* The coded matrices that are measured. The scales of FP8 belong to a row or, in checkpoints of
 * DeepSeek's kind, to 128 × 128 weights. */
static const struct cache_coded {
    const char *label;
    enum inf_dtype dtype, scale_type;
    uint32_t group, group_rows;
    bool ordered;
} cache_codeds[] = {
    {"GPTQ2", INF_DTYPE_GPTQ2, INF_DTYPE_F16, 128, 1, false},
    {"GPTQ3", INF_DTYPE_GPTQ3, INF_DTYPE_F16, 128, 1, false},
    {"GPTQ4", INF_DTYPE_GPTQ4, INF_DTYPE_F16, 128, 1, false},
    {"GPTQ8", INF_DTYPE_GPTQ8, INF_DTYPE_F16, 128, 1, false},
    {"GPTQ2_ORDER", INF_DTYPE_GPTQ2, INF_DTYPE_F16, 128, 1, true},
    {"GPTQ3_ORDER", INF_DTYPE_GPTQ3, INF_DTYPE_F16, 128, 1, true},
    {"GPTQ4_ORDER", INF_DTYPE_GPTQ4, INF_DTYPE_F16, 128, 1, true},
    {"GPTQ8_ORDER", INF_DTYPE_GPTQ8, INF_DTYPE_F16, 128, 1, true},
    {"AWQ4", INF_DTYPE_AWQ4, INF_DTYPE_F16, 128, 1, false},
    {"CT4", INF_DTYPE_CT4, INF_DTYPE_BF16, 128, 1, false},
    {"CT8", INF_DTYPE_CT8, INF_DTYPE_BF16, 128, 1, false},
    {"INT8", INF_DTYPE_INT8, INF_DTYPE_BF16, CACHE_K, 1, false},
    {"FP8", INF_DTYPE_FP8, INF_DTYPE_BF16, CACHE_K, 1, false},
    {"FP8_128", INF_DTYPE_FP8, INF_DTYPE_F32, 128, 128, false},
    {"NF4", INF_DTYPE_NF4, INF_DTYPE_F32, 64, 1, false},
    {"CTFP4", INF_DTYPE_CTFP4, INF_DTYPE_F32, 16, 1, false},
};

struct cache_coded_bed {
    struct check *c;
    struct coding t;
};

static void cache_coded_product(void *arg)
{
    struct cache_coded_bed *bed = arg;

    coding_run(bed->c, &bed->t);
}

/* Makes a product with @N rows of W. */
static void cache_coded_new(struct check *c, struct cache_coded_bed *bed,
                            const struct cache_coded *m, uint32_t N)
{
    const struct coding_shape s = {.M = 1,
                                   .N = N,
                                   .K = CACHE_K,
                                   .group = m->group,
                                   .dtype = m->dtype,
                                   .scale_type = m->scale_type,
                                   .zeros = coded_kind(m->dtype).by_place,
                                   .ordered = m->ordered,
                                   .group_rows = m->group_rows};

    bed->c = c;
    coding_init(c, &bed->t, &s);
}

static uint64_t cache_coded_bytes(const struct cache_coded_bed *bed)
{
    return bed->t.codes.size + coded_plane_bytes(&bed->t.coded);
}

/* Returns the bytes of weights per cycle. */
static double cache_coded_rate(struct check *c, const struct cache_coded *m)
{
    const uint64_t row = CACHE_K * coded_kind(m->dtype).bits / 8;
    struct cache_coded_bed bed;
    double rate;

    cache_coded_new(c, &bed, m, (uint32_t)(cache_half() / row / 128 * 128));
    rate = (double)cache_coded_bytes(&bed) / cache_cycles(cache_coded_product, &bed);
    coding_done(c, &bed.t);
    return rate;
}

/* ---- the traces and the table ---- */

static void cache_trace_coded(struct check *c, const struct cache_coded *m)
{
    struct cache_coded_bed bed;

    cache_coded_new(c, &bed, m, CACHE_TRACED_CODED);
    printf("bytes %llu\n", (unsigned long long)cache_coded_bytes(&bed));
    trace_run(cache_coded_product, &bed);
    coding_done(c, &bed.t);
}

int bench_trace(struct check *c, const struct selection *sel)
{
    struct cache_bed bed;

    if (cpu_rung_flags(sel->rung, &c->flags) < 0)
        return -EOPNOTSUPP;
    for (int d = 0; d < INF_DTYPE_N; d++) {
        if (!cache_measures((enum inf_dtype)d) ||
            strcmp(dtype_info((enum inf_dtype)d)->label, sel->trace) != 0)
            continue;
        cache_bed_new(c, &bed, (enum inf_dtype)d, CACHE_TRACED);
        printf("bytes %llu\n", (unsigned long long)bed.bytes);
        trace_run(cache_product, &bed);
        cache_bed_done(&bed);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(cache_codeds); i++)
        if (strcmp(cache_codeds[i].label, sel->trace) == 0) {
            cache_trace_coded(c, &cache_codeds[i]);
            return 0;
        }
    return -EINVAL;
}

/* Prints the row of a format, or of the coded matrix @coded. */
static void cache_print(struct check *c, const struct selection *sel, const char *label,
                        enum inf_dtype dtype, const struct cache_coded *coded)
{
    if (sel->format && !strstr(label, sel->format))
        return;
    printf("%-12s", label);
    for (size_t r = 0; cpu_rung_at(r); r++) {
        const char *rung = cpu_rung_at(r);

        if ((sel->rung && strcmp(sel->rung, rung) != 0) || cpu_rung_flags(rung, &c->flags) < 0 ||
            matmul_ops_get(c->flags) == matmul_ops_get(0))
            printf(" %11s", "-");
        else
            printf(" %11.2f", coded ? cache_coded_rate(c, coded) : cache_rate(c, dtype));
        fflush(stdout);
    }
    printf("\n");
}

void bench_in_cache(struct check *c, const struct selection *sel)
{
    printf(
        "one row of x, weights of %.0f KiB in the second-level cache: bytes per cycle and core\n",
        (double)cache_half() / 1024);
    printf("%-12s", "");
    for (size_t r = 0; cpu_rung_at(r); r++)
        printf(" %11s", cpu_rung_at(r));
    printf("\n");
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (cache_measures((enum inf_dtype)d))
            cache_print(c, sel, dtype_info((enum inf_dtype)d)->label, (enum inf_dtype)d, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cache_codeds); i++)
        cache_print(c, sel, cache_codeds[i].label, cache_codeds[i].dtype, &cache_codeds[i]);
}
