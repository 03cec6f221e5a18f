/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks products on whole devices.
 *
 * The cases have weights of every format at any address, steps of every class of sizes, and the
 * operations that may be computed along with a product (bias, a residual sum, gated units).
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "core/clock.h"
#include "checkkern/devices/device.h"
#include "quant/dtype.h"
#include "checkkern/weights.h"

enum { ROWS_MOST = 70 };

/* Struct product_case holds the computation under test: y = x · wᵀ, and the operations after it. */
struct product_case {
    enum inf_dtype dtype;
    uint32_t N, K;
    size_t offset; /* bytes from an aligned address to the weights */
    enum fill x;
    bool bias, add;
    bool norm; /* a norm before the product; only products read it */
    bool kept; /* whether rows are chosen before the product */
    int act;   /* the activation of a gated unit; -1: none */
};

static graph_ref build(struct check *c, struct case_memory *m, const struct product_case *p,
                       struct graph *g)
{
    const struct weight w = case_weight(c, m, p->dtype, p->N, p->K, p->offset);
    const struct weight bias =
        p->bias ? case_weight(c, m, INF_DTYPE_F32, 1, p->N, 0) : (struct weight){.data = NULL};
    graph_ref x = graph_input(g, p->K), sum = GRAPH_NONE, y;

    if (p->add) {
        const struct weight r = case_weight(c, m, INF_DTYPE_F32, p->N, p->K, 0);

        sum = graph_scale(g, graph_matmul(g, x, &r, NULL), 1.25f);
        x = graph_scale(g, x, 0.75f);
    }
    if (p->kept)
        x = graph_rows(g, x);
    if (p->norm) {
        const struct weight n = case_weight(c, m, INF_DTYPE_F32, 1, p->K, 0);

        x = graph_rms_norm(g, x, &n, 1e-6f, 0);
    }
    y = graph_matmul(g, x, &w, &bias);
    if (p->act >= 0) {
        const struct weight w2 = case_weight(c, m, p->dtype, p->N, p->K, p->offset);

        y = graph_glu(g, y, graph_matmul(g, x, &w2, NULL), (enum graph_act)p->act);
    }
    y = sum >= 0 ? graph_add(g, sum, y) : y;
    return p->kept ? y : graph_rows(g, y);
}

/* Checks that some rows have the same bits alone, in small and larger groups, and among all
 * rows. */
static void check_company(struct bed *bed, const struct bed_seq *all, const char *what)
{
    static const uint32_t Ms[] = {1, 1, 2, 3, 5, 8, 9, 16, 33, 64};

    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
        const uint32_t first = rng_u32(&bed->c->rng) % (ROWS_MOST - Ms[i] + 1);
        struct bed_seq s;
        char how[160];

        bed->n_taken = 0;
        bed_seq_init(bed, &s, NULL, all->input + (size_t)first * bed->input_width, Ms[i]);
        bed_run(bed, &s, Ms[i]);
        snprintf(how, sizeof(how), "%s, rows %u", what, Ms[i]);
        bed_same(bed, s.out, all->out + (size_t)first * bed->width, Ms[i], how);
        bed_seq_done(&s);
    }
}

/* Compares rows in steps of @chunk with the formulas. The bound depends on @chunk. */
static void check_rows(struct bed *bed, struct bed_seq *s, uint32_t chunk, bool random_errors,
                       uint32_t K, const char *what)
{
    const struct bound_rules rules = bed_rules(bed, chunk);
    struct bound bound;
    char how[160];
    double part;

    bound_init(&bound, bed->g, NULL, s->n, s->input, &rules);
    bed_run(bed, s, chunk);
    snprintf(how, sizeof(how), "%s, steps of %u", what, chunk);
    part = bed_compare(bed, s, &bound, how);
    /* If the signs of errors are random, errors grow with the root of the number of terms
     * (tolerance.c). */
    if (random_errors && part > 4 / sqrt(K + 8.0))
        check_fail(bed->c, "%s: errors are %.2g of their bounds, which is not by chance", how,
                   part);
    bound_done(&bound);
}

static void product_case(struct check *c, const struct product_case *given)
{
    struct product_case one = *given;
    const struct product_case *p = &one;
    static const uint32_t chunks[] = {1, 7, ROWS_MOST};
    struct case_memory m = {.n = 0};
    struct graph *g;
    struct bed_seq s;
    struct bed bed;
    char what[128];
    float *x;

    if (dtype_info(p->dtype)->planes)
        one.N = ALIGN_UP(one.N, dtype_info(p->dtype)->planes->places);
    snprintf(what, sizeof(what), "%s N %u K %u +%zu %s%s%s%s act %d", dtype_info(p->dtype)->name,
             p->N, p->K, p->offset, fill_name(p->x), p->bias ? " bias" : "", p->add ? " add" : "",
             p->norm ? " norm" : "", p->act);
    if (graph_new(&g) < 0)
        exit(2);
    graph_output(g, build(c, &m, p, g));
    x = case_floats(c, &m, p->x, (size_t)ROWS_MOST * p->K);
    if (bed_init(&bed, c, g, NULL, ROWS_MOST, ROWS_MOST)) {
        bed_seq_init(&bed, &s, NULL, x, ROWS_MOST);
        for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
            check_rows(&bed, &s, chunks[i],
                       p->x == FILL_NORMAL && p->act < 0 && !p->add && !p->norm, p->K, what);
        check_company(&bed, &s, what);
        bed_seq_done(&s);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

static void check_format(struct check *c, enum inf_dtype dtype)
{
    static const uint32_t float_Ks[] = {4, 36, 100, 256, 1024};
    static const uint32_t Ns[] = {1, 17, 64, 127, 200};
    static const size_t offsets[] = {2, 18, 34, 62};
    const struct dtype_info *info = dtype_info(dtype);
    const uint32_t block = info->block_elems;

    for (size_t i = 0; i < ARRAY_SIZE(Ns); i++) {
        const uint32_t block_Ks[] = {block, 3 * block, 4 * block, 5 * block, 768};

        product_case(c, &(struct product_case){.dtype = dtype,
                                               .N = Ns[i],
                                               .K = block > 1 ? block_Ks[i] : float_Ks[i],
                                               .bias = i % 2 == 1,
                                               .kept = i % 3 == 0,
                                               .act = -1});
    }
    for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
        product_case(c, &(struct product_case){.dtype = dtype,
                                               .N = 33,
                                               .K = 256,
                                               .offset = offsets[i] * (dtype ? 1 : 2),
                                               .add = i % 2 == 0,
                                               .act = i % 2 == 0 ? -1 : GRAPH_ACT_SILU});
    for (int act = GRAPH_ACT_SILU; act <= GRAPH_ACT_RELU2; act++)
        product_case(
            c, &(struct product_case){
                   .dtype = dtype, .N = 70 + (uint32_t)act, .K = 512, .add = act % 2, .act = act});
    for (unsigned i = 0; i < 4; i++)
        product_case(c, &(struct product_case){.dtype = dtype,
                                               .N = 48,
                                               .K = i < 2 ? 768 : 5 * MAX(block, 32u),
                                               .norm = true,
                                               .kept = i % 2 == 1,
                                               .act = i == 2 ? GRAPH_ACT_SILU : -1});
    for (int x = FILL_ZERO; x < FILL_N; x++)
        product_case(c, &(struct product_case){
                            .dtype = dtype, .N = 48, .K = 512, .x = (enum fill)x, .act = -1});
}

void check_graph_product(struct check *c)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (coded_kind((enum inf_dtype)d).bits == 0)
            check_format(c, (enum inf_dtype)d);
}

/* Checks products with random and extreme bytes as weights. */
static void bytes_case(struct check *c, enum inf_dtype dtype, enum weight_fill fill)
{
    const uint32_t N = 40, K = 768;
    struct case_memory m = {.n = 0};
    struct weight w = case_weight(c, &m, dtype, N, K, 0);
    struct graph *g;
    struct bed_seq s;
    struct bed bed;
    char what[64];
    float *x;

    weights_fill(c, dtype, fill, m.blocks[0].data, (uint64_t)N * K);
    if (graph_new(&g) < 0)
        exit(2);
    graph_output(g, graph_rows(g, graph_matmul(g, graph_input(g, K), &w, NULL)));
    x = case_floats(c, &m, FILL_NORMAL, (size_t)ROWS_MOST * K);
    snprintf(what, sizeof(what), "%s weights %d", dtype_info(dtype)->name, fill);
    if (bed_init(&bed, c, g, NULL, ROWS_MOST, ROWS_MOST)) {
        bed_seq_init(&bed, &s, NULL, x, ROWS_MOST);
        check_rows(&bed, &s, 1, true, K, what);
        check_rows(&bed, &s, ROWS_MOST, true, K, what);
        bed_seq_done(&s);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

/* Checks rows whose numbers grow along the row by a factor of 2^24. Some of the numbers are beyond
 * the range of 16-bit floats. */
static void range_case(struct check *c, enum inf_dtype dtype)
{
    static const int scales[] = {0, -60, 40, 14};
    const uint32_t N = 40, K = 768;
    struct case_memory m = {.n = 0};
    const struct weight w = case_weight(c, &m, dtype, N, K, 0);
    struct graph *g;
    struct bed_seq s;
    struct bed bed;
    float *x;

    if (graph_new(&g) < 0)
        exit(2);
    graph_output(g, graph_rows(g, graph_matmul(g, graph_input(g, K), &w, NULL)));
    x = case_floats(c, &m, FILL_NORMAL, (size_t)ROWS_MOST * K);
    for (uint32_t i = 0; i < ROWS_MOST * K; i++)
        x[i] = ldexpf(x[i], scales[i / K % ARRAY_SIZE(scales)] + (int)(i % K / 32));
    if (bed_init(&bed, c, g, NULL, ROWS_MOST, ROWS_MOST)) {
        bed_seq_init(&bed, &s, NULL, x, ROWS_MOST);
        check_rows(&bed, &s, 7, false, K, "growing rows");
        check_rows(&bed, &s, ROWS_MOST, false, K, "growing rows");
        bed_seq_done(&s);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

/* Checks that NaN in x gives NaN in y, in the same row only; other rows must keep their bits. */
static void nan_case(struct check *c, enum inf_dtype dtype, float bad, uint32_t chunk)
{
    const uint32_t N = 40, K = 512, row = 3;
    struct case_memory m = {.n = 0};
    struct weight w = case_weight(c, &m, dtype, N, K, 0);
    struct graph *g;
    struct bed_seq clean, dirty;
    struct bed bed;
    float *x;

    if (graph_new(&g) < 0)
        exit(2);
    graph_output(g, graph_rows(g, graph_matmul(g, graph_input(g, K), &w, NULL)));
    x = case_floats(c, &m, FILL_NORMAL, (size_t)ROWS_MOST * K);
    if (bed_init(&bed, c, g, NULL, ROWS_MOST, ROWS_MOST)) {
        bed_seq_init(&bed, &clean, NULL, x, ROWS_MOST);
        bed_run(&bed, &clean, chunk);
        x[row * K + 300] = bad;
        bed_seq_init(&bed, &dirty, NULL, x, ROWS_MOST);
        bed_run(&bed, &dirty, chunk);
        bed_same(&bed, dirty.out, clean.out, row, "above a row with NaN");
        bed_same(&bed, dirty.out + (row + 1) * N, clean.out + (row + 1) * N, ROWS_MOST - row - 1,
                 "below a row with NaN");
        for (uint32_t n = 0; n < N; n++)
            if (isfinite(dirty.out[row * N + n]))
                check_fail(c, "%s: column %u is %g with %g in its row", dtype_info(dtype)->name, n,
                           (double)dirty.out[row * N + n], (double)bad);
        c->n_cases++;
        bed_seq_done(&clean);
        bed_seq_done(&dirty);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

void check_graph_hostile(struct check *c)
{
    for (int d = 0; d < INF_DTYPE_N; d++) {
        if (coded_kind((enum inf_dtype)d).bits > 0)
            continue;
        for (int w = WEIGHT_RANDOM; w < WEIGHT_FILL_N; w++)
            bytes_case(c, (enum inf_dtype)d, (enum weight_fill)w);
        range_case(c, (enum inf_dtype)d);
        nan_case(c, (enum inf_dtype)d, NAN, 7);
        nan_case(c, (enum inf_dtype)d, NAN, ROWS_MOST);
        nan_case(c, (enum inf_dtype)d, -INFINITY, ROWS_MOST);
    }
}

void bench_graph_hostile(struct check *c)
{
    (void)c;
}

/* Returns the seconds of a step with @M rows through a chain of products; the step fetches one
 * row. */
static double bench_step(struct check *c, const struct graph *g, const float *x, uint32_t M)
{
    const struct kv_layout layout =
        kv_layout_full(1, 1, 32, BED_BLOCK_TOKENS, CODEC_F16, DIV_UP(M, 64u));
    const struct plan_limits limits = {M, 1, 1, M};
    const struct backend_ops *ops = c->backend->ops;
    const uint32_t width = graph_node(g, (graph_ref)graph_n_nodes(g) - 1)->width, row = M - 1;
    _cleanup_free_ uint32_t *blocks = NEW(uint32_t, DIV_UP(M, 64u));
    _cleanup_free_ int32_t *tokens = NEW(int32_t, M);
    _cleanup_free_ float *y = NEW(float, width);
    const struct batch_seq seq = {0, M, 0, DIV_UP(M, 64u), {blocks}};
    const struct batch batch = {M, tokens, 1, &seq, 1, &row, x};
    const uint64_t begin = clock_nsec();
    uint64_t best = UINT64_MAX;
    struct kv_store *store;
    struct plan *plan;
    struct inf_err err = {0};

    if (ops->kv_new(c->backend, &layout, &store) < 0 ||
        ops->compile(c->backend, g, &limits, store, &plan, &err) < 0) {
        fprintf(stderr, "checkkern: %s\n", err.text);
        exit(2);
    }
    for (unsigned i = 0; i < 3 || clock_nsec() - begin < 500000000; i++) {
        const uint64_t start = clock_nsec();

        if (ops->run(c->backend, plan, store, &batch, y, NULL) < 0)
            exit(2);
        best = MIN(best, clock_nsec() - start);
    }
    ops->plan_free(c->backend, plan);
    ops->kv_free(c->backend, store);
    return (double)best * 1e-9;
}

/* Makes a matrix that repeats 8 rows, because encoding takes long. */
static struct weight bench_weight(struct check *c, struct case_memory *m, enum inf_dtype dtype,
                                  uint32_t K)
{
    uint64_t bytes = 0;
    uint8_t *data;

    dtype_row_bytes(dtype, K, &bytes);
    data = case_bytes(m, bytes * K, 0);
    weights_fill(c, dtype, dtype > INF_DTYPE_BF16 ? WEIGHT_RANDOM : WEIGHT_ENCODED, data,
                 8 * (uint64_t)K);
    for (uint32_t n = 8; n < K; n += 8)
        memcpy(data + n * bytes, data, 8 * bytes);
    return (struct weight){.data = data, .dtype = dtype, .rows = K, .cols = K, .name = "w"};
}

static void bench_format(struct check *c, enum inf_dtype dtype, const float *x)
{
    static const uint32_t Ms[] = {1, 8, 64, 512};
    const uint32_t K = device_is_slow(c->backend) ? 2048 : 4096;
    const uint32_t n_layers = device_is_slow(c->backend) ? 2 : 32;
    struct case_memory m = {.n = 0};
    struct weight w[32];
    uint64_t bytes = 0;
    struct graph *g;
    graph_ref y;

    if (graph_new(&g) < 0)
        exit(2);
    dtype_row_bytes(dtype, K, &bytes);
    y = graph_input(g, K);
    for (uint32_t i = 0; i < n_layers; i++) {
        w[i] = dtype_info(dtype)->decode ? bench_weight(c, &m, dtype, K)
                                         : case_weight(c, &m, dtype, K, K, 0);
        y = graph_matmul(g, y, &w[i], NULL);
    }
    graph_output(g, graph_rows(g, y));
    printf("%-14s", dtype_info(dtype)->label);
    for (size_t i = 0; i < ARRAY_SIZE(Ms); i++) {
        const double t = bench_step(c, g, x, Ms[i]);

        if (Ms[i] == 1)
            printf(" %10.1f", (double)(bytes * K * n_layers) / t * 1e-9);
        else
            printf(" %12.1f", (double)Ms[i] * K * K * n_layers / t * 1e-9);
    }
    printf("\n");
    graph_free(g);
    case_done(c, &m);
}

void bench_graph_product(struct check *c)
{
    const size_t n = (size_t)512 * 4096;
    _cleanup_free_ float *x = NEW(float, n);

    if (!x)
        exit(2);
    fill_floats(c, FILL_NORMAL, x, n);
    printf("products, %s\n%-14s %10s %12s %12s %12s\n", c->rung, "", "M=1 GB/s", "M=8 GMAC/s",
           "M=64", "M=512");
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (coded_kind((enum inf_dtype)d).bits == 0)
            bench_format(c, (enum inf_dtype)d, x);
}
