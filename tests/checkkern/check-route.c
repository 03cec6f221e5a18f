/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the routing of rows to experts, and products with the matrices of experts, in small plans
 * of the CPU backend: equal scores, experts without rows, an expert that all rows use, and scores
 * that are NaN.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec/device.h"
#include "core/clock.h"
#include "harness.h"
#include "quant/dtype.h"

enum scores {
    SCORES_NORMAL,
    SCORES_TIES,  /* 0 or 1 */
    SCORES_EQUAL, /* all scores of a row are equal */
    SCORES_ONE,   /* one expert has the best score in every row */
    SCORES_FAR,   /* very different scores */
    SCORES_NAN,   /* one score of each third row is NaN */
    SCORES_N,
};

enum { N_EXPERTS = 11, N_COLS = 24, N_OUT = 40, MAX_ROWS = 40, N_INPUT = N_EXPERTS + N_COLS };

/* Holds a plan that routes rows and adds up the products with their experts. The first N_EXPERTS
 * columns of its input are scores. */
struct routed {
    struct backend *backend;
    struct kv_store *store;
    struct graph *graph;
    struct plan *plan;
    struct route_params route;
    float *weights, *bias; /* [N_EXPERTS, N_OUT, N_COLS]; [N_EXPERTS] */
};

static void must(int r)
{
    if (r < 0)
        exit(2);
}

static void routed_init(struct check *c, struct routed *r, const struct route_params *route,
                        bool bias, uint32_t n_threads)
{
    const struct backend_params params = {.device = "cpu", .isa = c->rung, .n_threads = n_threads};
    const struct plan_limits limits = {MAX_ROWS, MAX_ROWS, 1, MAX_ROWS};
    const struct kv_layout layout = kv_layout_full(1, 1, 32, 64, CODEC_F32, 1);
    const size_t n = (size_t)N_EXPERTS * N_OUT * N_COLS;
    struct inf_err err;
    graph_ref in, to, y;

    *r = (struct routed){.route = *route, .weights = NEW(float, n), .bias = NEW(float, N_EXPERTS)};
    if (!r->weights || !r->bias)
        exit(2);
    fill_floats(c, FILL_NORMAL, r->weights, n);
    for (uint32_t i = 0; bias && i < N_EXPERTS; i++)
        r->bias[i] = 0.1f * rng_normal(&c->rng);
    {
        const struct weight w = {.data = r->weights,
                                 .dtype = INF_DTYPE_F32,
                                 .rows = N_OUT,
                                 .cols = N_COLS,
                                 .n_experts = N_EXPERTS,
                                 .expert_bytes = (uint64_t)N_OUT * N_COLS * sizeof(float)};
        const struct weight b = {
            .data = r->bias, .dtype = INF_DTYPE_F32, .rows = 1, .cols = N_EXPERTS};

        must(graph_new(&r->graph));
        in = graph_input(r->graph, N_INPUT);
        to = graph_route(r->graph, graph_cols(r->graph, in, N_INPUT, 0, N_EXPERTS),
                         bias ? &b : NULL, NULL, route);
        y = graph_cols(r->graph, in, N_INPUT, N_EXPERTS, N_COLS);
        y = graph_mix(r->graph, graph_matmul_experts(r->graph, y, to, &w, NULL), to);
        graph_output(r->graph, graph_rows(r->graph, y));
    }
    must(cpu_backend_new(&params, &r->backend, &err));
    must(r->backend->ops->kv_new(r->backend, &layout, &r->store));
    must(r->backend->ops->compile(r->backend, r->graph, &limits, r->store, &r->plan, &err));
}

static void routed_done(struct routed *r)
{
    r->backend->ops->plan_free(r->backend, r->plan);
    r->backend->ops->kv_free(r->backend, r->store);
    r->backend->ops->free(r->backend);
    graph_free(r->graph);
    free(r->weights);
    free(r->bias);
}

/* Computes @n_rows rows of @in into @y, [n_rows, N_OUT]. */
static void routed_run(const struct routed *r, const float *in, uint32_t n_rows, float *y)
{
    static const uint32_t block;
    uint32_t rows[MAX_ROWS];
    const struct batch_seq seq = {.n_rows = n_rows, .n_blocks = 1, .blocks = {&block}};
    const struct batch batch = {.n_rows = n_rows,
                                .n_seqs = 1,
                                .seqs = &seq,
                                .n_logits = n_rows,
                                .logit_rows = rows,
                                .input = in};

    for (uint32_t i = 0; i < n_rows; i++)
        rows[i] = i;
    must(r->backend->ops->run(r->backend, r->plan, r->store, &batch, y, NULL));
}

static double score_weight(const struct route_params *p, const float *scores, const bool *counted,
                           uint32_t i)
{
    double sum = 0;

    if (p->score == ROUTE_SIGMOID)
        return 1 / (1 + exp(-(double)scores[i]));
    for (uint32_t j = 0; j < N_EXPERTS; j++)
        if (counted[j])
            sum += exp((double)scores[j] - (double)scores[i]);
    return 1 / sum;
}

/* Finds the experts of a row as route_params describes it. */
static void select_experts(const struct routed *r, const float *scores, bool *chosen)
{
    static const bool all[N_EXPERTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const bool bias = r->bias[0] != 0;
    double keys[N_EXPERTS];

    for (uint32_t i = 0; i < N_EXPERTS; i++)
        keys[i] =
            bias ? score_weight(&r->route, scores, all, i) + (double)r->bias[i] : (double)scores[i];
    for (uint32_t i = 0; i < N_EXPERTS; i++) {
        uint32_t n_before = 0;

        for (uint32_t j = 0; j < N_EXPERTS; j++)
            n_before += keys[j] > keys[i] || (keys[j] == keys[i] && j < i);
        chosen[i] = n_before < r->route.n_used;
    }
}

static void compare_row(struct check *c, const struct routed *r, const float *in, const float *y)
{
    static const bool all[N_EXPERTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    double weights[N_EXPERTS] = {0}, total = 0;
    bool chosen[N_EXPERTS];

    select_experts(r, in, chosen);
    for (uint32_t e = 0; e < N_EXPERTS; e++)
        if (chosen[e]) {
            weights[e] = score_weight(&r->route, in,
                                      r->route.score == ROUTE_SOFTMAX_SELECTED ? chosen : all, e);
            total += weights[e];
        }
    for (uint32_t i = 0; i < N_OUT; i++) {
        double sum = 0, size = 0;

        for (uint32_t e = 0; e < N_EXPERTS; e++)
            for (uint32_t j = 0; chosen[e] && j < N_COLS; j++) {
                const double factor = weights[e] / (r->route.normalized ? total : 1);
                const double w = (double)r->weights[((size_t)e * N_OUT + i) * N_COLS + j];
                const double term = (double)r->route.scale * factor * w * (double)in[N_EXPERTS + j];

                sum += term;
                size += fabs(term);
            }
        /* The rounding of scores before exp() is a relative error of the weights. */
        if (!(fabs((double)y[i] - sum) <= tolerance_sum(N_COLS + N_EXPERTS + 64, 8, size)))
            check_fail(c, "route: column %u is %.9g, expected %.9g", i, (double)y[i], sum);
    }
}

static void fill_scores(struct check *c, enum scores kind, float *in, uint32_t row)
{
    for (uint32_t i = 0; i < N_EXPERTS; i++) {
        const float x = rng_normal(&c->rng);

        in[i] = kind == SCORES_TIES    ? (float)(rng_u32(&c->rng) % 2)
                : kind == SCORES_EQUAL ? (float)row
                : kind == SCORES_ONE   ? (i == 7 ? 9 : x)
                : kind == SCORES_FAR   ? 20 * x
                                       : x;
    }
    if (kind == SCORES_NAN && row % 3 == 0)
        in[row % N_EXPERTS] = NAN;
}

static void route_case(struct check *c, const struct routed *r, enum scores kind, uint32_t n_rows)
{
    static float in[MAX_ROWS * N_INPUT], y[MAX_ROWS * N_OUT], one[N_OUT];

    fill_floats(c, FILL_NORMAL, in, (size_t)n_rows * N_INPUT);
    for (uint32_t i = 0; i < n_rows; i++)
        fill_scores(c, kind, in + (size_t)i * N_INPUT, i);
    routed_run(r, in, n_rows, y);
    for (uint32_t i = 0; i < n_rows; i++) {
        const float *row = in + (size_t)i * N_INPUT, *got = y + (size_t)i * N_OUT;

        if (kind != SCORES_NAN || i % 3 != 0)
            compare_row(c, r, row, got);
        /* The row must have the same bits if it is computed alone. */
        routed_run(r, row, 1, one);
        c->n_same++;
        if (memcmp(one, got, sizeof(one)) != 0 && !isnan(got[0])) {
            c->n_other++;
            check_fail(c, "route: row %u of %u depends on other rows", i, n_rows);
        }
    }
    c->n_cases++;
}

void check_route(struct check *c)
{
    static const struct route_params routes[] = {
        {ROUTE_SOFTMAX, 3, true, 1},
        {ROUTE_SOFTMAX, 1, false, 1},
        {ROUTE_SOFTMAX_SELECTED, 4, false, 1.5f},
        {ROUTE_SIGMOID, N_EXPERTS, true, 2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
        for (int bias = 0; bias < 2; bias++) {
            struct routed r;

            routed_init(c, &r, &routes[i], bias, 1 + (uint32_t)i % 3);
            for (int kind = 0; kind < SCORES_N; kind++)
                /* With a bias, rounding decides between scores that are almost equal. */
                if (!bias || kind == SCORES_NORMAL || kind == SCORES_ONE) {
                    route_case(c, &r, (enum scores)kind, MAX_ROWS);
                    route_case(c, &r, (enum scores)kind, 3);
                }
            routed_done(&r);
        }
}

enum { BENCH_EXPERTS = 64, BENCH_USED = 8, BENCH_K = 2048, BENCH_N = 768, BENCH_ROWS = 512 };

/* Makes the graph of one layer of experts. @data: the weights of all matrices. */
static struct graph *bench_graph(const void *data, enum inf_dtype dtype)
{
    const struct route_params route = {ROUTE_SOFTMAX, BENCH_USED, true, 1};
    struct weight up = {
        .data = data, .dtype = dtype, .rows = BENCH_N, .cols = BENCH_K, .n_experts = BENCH_EXPERTS};
    struct weight gate, down = up;
    struct graph *g;
    graph_ref in, to, x;

    dtype_row_bytes(dtype, BENCH_K, &up.expert_bytes);
    up.expert_bytes *= BENCH_N;
    gate = up;
    gate.data = (const char *)data + up.expert_bytes * BENCH_EXPERTS;
    down.data = (const char *)gate.data + up.expert_bytes * BENCH_EXPERTS;
    down.rows = BENCH_K;
    down.cols = BENCH_N;
    down.expert_bytes = up.expert_bytes;
    must(graph_new(&g));
    in = graph_input(g, BENCH_EXPERTS + BENCH_K);
    to = graph_route(g, graph_cols(g, in, BENCH_EXPERTS + BENCH_K, 0, BENCH_EXPERTS), NULL, NULL,
                     &route);
    x = graph_cols(g, in, BENCH_EXPERTS + BENCH_K, BENCH_EXPERTS, BENCH_K);
    x = graph_glu(g, graph_matmul_experts(g, x, to, &gate, NULL),
                  graph_matmul_experts(g, x, to, &up, NULL), GRAPH_ACT_SILU);
    x = graph_mix(g, graph_matmul_experts(g, x, to, &down, NULL), to);
    graph_output(g, graph_rows(g, x));
    return g;
}

/* Times one layer of 64 experts, of which each row uses 8, with the weights in memory. */
void bench_route(struct check *c)
{
    static const uint32_t block, n_rows[] = {1, 16, BENCH_ROWS};
    const struct backend_params params = {
        .device = "cpu", .isa = c->rung, .n_threads = c->n_threads};
    const struct plan_limits limits = {BENCH_ROWS, BENCH_ROWS, 1, BENCH_ROWS};
    const struct kv_layout layout = kv_layout_full(1, 1, 32, 64, CODEC_F32, 1);
    const size_t n_weights = (size_t)3 * BENCH_EXPERTS * BENCH_N * BENCH_K;
    const uint64_t n_bytes = n_weights / 32 * 34;
    float *in = NEW(float, (size_t)BENCH_ROWS *(BENCH_EXPERTS + BENCH_K));
    float *y = NEW(float, (size_t)BENCH_ROWS *BENCH_K), *row = NEW(float, BENCH_K);
    unsigned char *data = NEW(unsigned char, n_bytes);
    uint32_t rows[BENCH_ROWS];
    struct backend *b;
    struct kv_store *store;
    struct graph *g;
    struct plan *plan;
    struct inf_err err;

    if (!in || !y || !row || !data)
        exit(2);
    fill_floats(c, FILL_NORMAL, in, (size_t)BENCH_ROWS * (BENCH_EXPERTS + BENCH_K));
    fill_floats(c, FILL_NORMAL, row, BENCH_K);
    for (uint64_t at = 0; at < n_bytes; at += BENCH_K / 32 * 34)
        dtype_info(INF_DTYPE_Q8_0)->encode(row, data + at, BENCH_K);
    for (uint32_t i = 0; i < BENCH_ROWS; i++)
        rows[i] = i;
    g = bench_graph(data, INF_DTYPE_Q8_0);
    must(cpu_backend_new(&params, &b, &err));
    must(b->ops->kv_new(b, &layout, &store));
    must(b->ops->compile(b, g, &limits, store, &plan, &err));
    for (size_t i = 0; i < ARRAY_SIZE(n_rows); i++) {
        const struct batch_seq seq = {
            .n_rows = n_rows[i], .n_blocks = BENCH_ROWS, .blocks = {&block}};
        struct batch batch = {.n_rows = n_rows[i],
                              .n_seqs = 1,
                              .seqs = &seq,
                              .n_logits = n_rows[i],
                              .logit_rows = rows,
                              .input = in};
        const double per_row = 3.0 * BENCH_USED * BENCH_N * BENCH_K;
        uint64_t best = UINT64_MAX;

        for (uint32_t j = 0; j < 24; j++) {
            const uint64_t begin = clock_nsec();

            /* Each step uses other rows, and so other experts. */
            batch.input =
                in + (size_t)(j % (BENCH_ROWS - n_rows[i] + 1)) * (BENCH_EXPERTS + BENCH_K);
            must(b->ops->run(b, plan, store, &batch, y, NULL));
            best = MIN(best, clock_nsec() - begin);
        }
        printf("experts %s: %u rows, %.3f ms, %.2f TOPS%s", c->rung, n_rows[i], (double)best * 1e-6,
               2e-3 * per_row * n_rows[i] / (double)best, n_rows[i] > 1 ? "\n" : ", ");
        if (n_rows[i] == 1)
            printf("%.1f GB/s of weights\n", per_row * 34 / 32 / (double)best);
    }
    b->ops->plan_free(b, plan);
    b->ops->kv_free(b, store);
    b->ops->free(b);
    graph_free(g);
    free(in);
    free(y);
    free(row);
    free(data);
}
