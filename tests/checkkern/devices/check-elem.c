/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the operations of whole devices except products and attention: lookups of rows in tables,
 * norms, rotations, sums, gated units, and the choice of rows.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "quant/dtype.h"

static struct graph *new_graph(void)
{
    struct graph *g;

    if (graph_new(&g) < 0)
        exit(2);
    return g;
}

static void embed_case(struct check *c, enum inf_dtype dtype, uint32_t rows, uint32_t cols,
                       size_t offset)
{
    enum { N = 40 };
    struct case_memory m = {.n = 0};
    const struct weight w = case_weight(c, &m, dtype, rows, cols, offset);
    struct graph *g = new_graph();
    int32_t tokens[N] = {0, (int32_t)rows - 1, (int32_t)rows};
    char what[64];

    for (uint32_t i = 3; i < N; i++)
        tokens[i] = (int32_t)(rng_u32(&c->rng) % rows);
    graph_output(g, graph_rows(g, graph_embed(g, &w, offset > 0 ? 1 : 3.5f)));
    snprintf(what, sizeof(what), "%s %u × %u +%zu", dtype_info(dtype)->name, rows, cols, offset);
    bed_check(c, g, NULL, tokens, NULL, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_embed(struct check *c)
{
    for (int d = 0; d < INF_DTYPE_N; d++) {
        const struct dtype_info *info = dtype_info((enum inf_dtype)d);
        const uint32_t block = info->block_elems;

        /* Only products have one scale for a matrix; check-coded.c checks coded matrices. */
        if ((info->planes && info->planes->group == 0) || coded_kind((enum inf_dtype)d).bits > 0)
            continue;

        embed_case(c, (enum inf_dtype)d, 1, block > 1 ? block : 20, 0);
        embed_case(c, (enum inf_dtype)d, 301, block > 1 ? 3 * block : 100, 0);
        embed_case(c, (enum inf_dtype)d, 77, 1024, d == INF_DTYPE_F32 ? 4 : 2);
        if (block == 1)
            embed_case(c, (enum inf_dtype)d, 50, 33, 0);
    }
}

static void norm_case(struct check *c, enum inf_dtype dtype, uint32_t width, uint32_t group,
                      enum fill fill, bool rows, bool has_w)
{
    enum { N = 23 };
    struct case_memory m = {.n = 0};
    struct weight w = case_weight(c, &m, dtype, 1, group > 0 ? group : width, 0);
    const float *x = case_floats(c, &m, fill, (size_t)N * width);
    struct graph *g = new_graph();
    graph_ref y = graph_input(g, width);
    char what[80];

    if (!has_w)
        w.data = NULL;
    if (rows)
        y = graph_rows(g, y);
    y = graph_rms_norm(g, y, &w, 1e-6f, group);
    graph_output(g, rows ? y : graph_rows(g, y));
    snprintf(what, sizeof(what), "norm of %u by %u, %s%s", width, group, fill_name(fill),
             rows ? ", rows" : "");
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_norm(struct check *c)
{
    static const uint32_t widths[] = {1, 3, 4, 20, 64, 100, 257, 1024, 2560, 5120};
    static const uint32_t groups[] = {20, 32, 64, 96, 128, 256};

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
        norm_case(c, INF_DTYPE_F32, widths[i], 0, FILL_NORMAL, false, true);
        norm_case(c, i % 2 ? INF_DTYPE_F16 : INF_DTYPE_BF16, widths[i], 0, FILL_OUTLIER, true,
                  true);
    }
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        norm_case(c, INF_DTYPE_F32, 7 * groups[i], groups[i], FILL_NORMAL, i % 2, i % 3);
    for (int f = 0; f < FILL_N; f++)
        norm_case(c, INF_DTYPE_F32, 512, 512, (enum fill)f, f % 2, f % 3);
}

static void rope_case(struct check *c, enum rope_style style, uint32_t head_dim, uint32_t n_dims,
                      uint32_t n, float mscale)
{
    struct case_memory m = {.n = 0};
    const uint32_t width = 3 * head_dim;
    const float *x = case_floats(c, &m, FILL_NORMAL, (size_t)n * width);
    float *freq = case_bytes(&m, n_dims / 2 * sizeof(*freq), 0);
    const struct rope_params rope = {style, n_dims, freq, mscale};
    struct graph *g = new_graph();
    char what[80];

    for (uint32_t i = 0; i < n_dims / 2; i++)
        freq[i] = powf(1e6f, -2.0f * (float)i / (float)n_dims);
    graph_output(g, graph_rows(g, graph_rope(g, graph_input(g, width), head_dim, &rope)));
    snprintf(what, sizeof(what), "rope %d, %u of %u", style, n_dims, head_dim);
    bed_check(c, g, NULL, NULL, x, n, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_rope(struct check *c)
{
    static const uint32_t dims[][2] = {{32, 32},   {64, 64},   {64, 48},  {80, 32},
                                       {96, 96},   {128, 128}, {128, 64}, {128, 6},
                                       {256, 256}, {20, 20},   {20, 10}};

    for (size_t i = 0; i < ARRAY_SIZE(dims); i++) {
        rope_case(c, ROPE_HALF, dims[i][0], dims[i][1], 70, 1);
        rope_case(c, ROPE_PAIRS, dims[i][0], dims[i][1], 70, 1.25f);
    }
    rope_case(c, ROPE_HALF, 32, 32, 2000, 1);
}

static void act_case(struct check *c, uint32_t width, enum graph_act act, enum fill fill)
{
    enum { N = 21 };
    struct case_memory m = {.n = 0};
    float *x = case_floats(c, &m, fill, (size_t)N * width);
    struct graph *g = new_graph();
    graph_ref gate = graph_input(g, width), up = graph_scale(g, gate, -0.5f);
    char what[64];

    for (size_t i = 0; fill == FILL_NORMAL && i < (size_t)N * width; i++)
        x[i] *= 5;
    graph_output(g, graph_rows(g, graph_add(g, graph_glu(g, gate, up, act), gate)));
    snprintf(what, sizeof(what), "act %d of %u, %s", act, width, fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

/* Checks a gate of one column, a limit, and columns. */
static void cols_case(struct check *c, uint32_t stride, uint32_t first, uint32_t n, enum fill fill)
{
    enum { N = 21, RUNS = 3 };
    struct case_memory m = {.n = 0};
    float *x = case_floats(c, &m, fill, (size_t)N * RUNS * stride);
    struct graph *g = new_graph();
    const struct cols_params two = {
        .stride = stride, .n_parts = 2, .parts = {{stride - 1, 1}, {first, n}}};
    graph_ref in = graph_input(g, RUNS * stride), y = graph_cols(g, in, stride, first, n), parts;
    char what[96];

    for (size_t i = 0; fill == FILL_NORMAL && i < (size_t)N * RUNS * stride; i++)
        x[i] *= 5;
    y = graph_glu(g, graph_cols(g, in, RUNS * stride, stride - 1, 1), y, GRAPH_ACT_SIGMOID);
    parts = graph_cols_of(g, in, &two);
    y = graph_add(g, y, graph_cols(g, parts, RUNS * (n + 1), RUNS, RUNS * n));
    graph_output(g, graph_rows(g, graph_add(g, graph_cap(g, y, 3), y)));
    snprintf(what, sizeof(what), "columns %u + %u of %u, %s", first, n, stride, fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_cols(struct check *c)
{
    static const uint32_t cases[][3] = {{1, 0, 1},     {2, 1, 1},     {128, 0, 64}, {128, 64, 64},
                                        {256, 36, 20}, {100, 37, 63}, {7, 3, 4},    {512, 0, 512}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cols_case(c, cases[i][0], cases[i][1], cases[i][2], FILL_NORMAL);
    for (int f = FILL_ZERO; f < FILL_N; f++)
        cols_case(c, 64, 16, 32, (enum fill)f);
}

void check_graph_act(struct check *c)
{
    static const uint32_t widths[] = {1, 6, 64, 255, 1024, 3072};

    for (int act = GRAPH_ACT_SILU; act <= GRAPH_ACT_SWIGLU_LIMITED; act++) {
        for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
            act_case(c, widths[i], (enum graph_act)act, FILL_NORMAL);
        for (int f = FILL_ZERO; f < FILL_N; f++)
            act_case(c, 64, (enum graph_act)act, (enum fill)f);
    }
}

static graph_ref rows_graph(struct graph *g, const struct weight *w, bool norm)
{
    const graph_ref y = graph_rows(g, graph_input(g, w->cols));

    return graph_scale(g, norm ? graph_rms_norm(g, y, w, 1e-6f, 0) : y, 2);
}

/* Checks that the rows with logits are the requested rows. A step may have no such rows. */
static void rows_case(struct check *c, uint32_t width, bool norm)
{
    enum { N = 33 };
    static const uint32_t wanted[] = {0, 1, 5, 17, 32};
    struct case_memory m = {.n = 0};
    const struct weight w = case_weight(c, &m, INF_DTYPE_F32, 1, width, 0);
    float *x = case_floats(c, &m, FILL_NORMAL, (size_t)N * width);
    struct graph *g = new_graph();
    const int32_t tokens[N] = {0};
    struct bed_seq s;
    struct bed bed;

    graph_output(g, rows_graph(g, &w, norm));
    if (bed_init(&bed, c, g, NULL, N, N)) {
        _cleanup_free_ float *y = NEW(float, ARRAY_SIZE(wanted) * width);

        bed_seq_init(&bed, &s, NULL, x, N);
        bed_run(&bed, &s, N);
        for (uint32_t n = 0; n <= ARRAY_SIZE(wanted); n++) {
            const struct batch_seq seq = {0, N, 0, 1, {s.blocks}};
            const struct batch batch = {N, tokens, 1, &seq, n, wanted, x};

            if (bed.backend->ops->run(bed.backend, bed.plan, bed.store, &batch, y, NULL) < 0)
                check_fail(c, "a step with %u rows of logits fails", n);
            for (uint32_t i = 0; i < n; i++)
                if (memcmp(y + (size_t)i * width, s.out + (size_t)wanted[i] * width,
                           width * sizeof(float)) != 0)
                    check_fail(c, "width %u: row %u of %u is not row %u", width, i, n, wanted[i]);
            c->n_cases++;
        }
        bed_seq_done(&s);
        bed_done(&bed);
    }
    graph_free(g);
    case_done(c, &m);
}

void check_graph_rows(struct check *c)
{
    static const uint32_t widths[] = {3, 64, 1000};

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
        rows_case(c, widths[i], false);
        rows_case(c, widths[i], true);
    }
}

#define NO_BENCH(name)                                                                             \
    void bench_##name(struct check *c)                                                             \
    {                                                                                              \
        (void)c;                                                                                   \
    }
NO_BENCH(graph_embed)
NO_BENCH(graph_norm)
NO_BENCH(graph_rope)
NO_BENCH(graph_act)
NO_BENCH(graph_cols)
NO_BENCH(graph_rows)
