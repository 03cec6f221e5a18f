/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks three kinds of operations on whole devices: those on streams (residual streams beside each
 * other, as in Gemma 3n), those that use the statistics of a row, such as its mean, and the
 * preparation of rows for products.
 */

#include <math.h>
#include <stdio.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "checkkern/turns.h"

enum { N = 21 };

static struct graph *new_graph(void)
{
    struct graph *g;

    if (graph_new(&g) < 0)
        exit(2);
    return g;
}

/* Checks sums of streams with factors of the row, fixed factors and both, with and without a base,
 * and factors of columns. The last columns of the input are the factors of the row. */
static void streams_case(struct check *c, uint32_t width, uint32_t n_in, uint32_t n_out,
                         enum fill fill)
{
    const uint32_t n = n_in * n_out, x_width = n_in * width, all = x_width + n;
    const struct blend_params blend = {n_in, n_out}, spread = {1, n_out};
    struct case_memory m = {.n = 0};
    const struct weight fixed = case_weight(c, &m, INF_DTYPE_F32, 1, n, 0);
    const struct weight one = case_weight(c, &m, INF_DTYPE_F16, 1, n_out, 0);
    const struct weight columns = case_weight(c, &m, INF_DTYPE_BF16, 1, n_out * width, 0);
    float *x = case_floats(c, &m, fill, (size_t)N * all);
    struct graph *g = new_graph();
    const graph_ref in = graph_input(g, all), streams = graph_cols(g, in, all, 0, x_width);
    const graph_ref factors = graph_cols(g, in, all, x_width, n);
    graph_ref y;
    char what[96];

    y = graph_blend(g, streams, GRAPH_NONE, GRAPH_NONE, &fixed, &blend);
    y = graph_blend(g, streams, y, factors, NULL, &blend);
    y = graph_blend(g, graph_cols(g, streams, x_width, 0, width), y, GRAPH_NONE, &one, &spread);
    y = graph_scale_columns(g, y, &columns);
    y = graph_rows(g, y);
    graph_output(g,
                 graph_blend(g, graph_rows(g, streams), y, graph_rows(g, factors), &fixed, &blend));
    snprintf(what, sizeof(what), "%u streams of %u to %u, %s", n_in, width, n_out, fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_streams(struct check *c)
{
    static const uint32_t cases[][3] = {{1, 1, 1},   {4, 4, 4},  {15, 4, 4},  {64, 4, 4},
                                        {100, 1, 4}, {33, 3, 2}, {256, 8, 8}, {520, 4, 1}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        streams_case(c, cases[i][0], cases[i][1], cases[i][2], FILL_NORMAL);
    for (int f = FILL_ZERO; f < FILL_N; f++)
        streams_case(c, 32, 4, 4, (enum fill)f);
}

/* Checks graph_peaks() if @peaks is set, else graph_level(). @f and @least are the parameters of
 * these two. */
static void statistics_case(struct check *c, uint32_t width, float least, float f, enum fill fill,
                            bool peaks)
{
    struct case_memory m = {.n = 0};
    float *x = case_floats(c, &m, fill, (size_t)N * 2 * width);
    struct graph *g = new_graph();
    graph_ref in = graph_input(g, 2 * width), a = graph_cols(g, in, 2 * width, 0, width);
    char what[96];

    if (peaks)
        a = graph_rows(g, graph_peaks(g, a, f));
    else
        a = graph_rows(g, graph_level(g, a, graph_cols(g, in, 2 * width, width, width), least));
    graph_output(g, a);
    snprintf(what, sizeof(what), "%s of %u, %g, %s", peaks ? "peaks" : "level", width,
             (double)(peaks ? f : least), fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_statistics(struct check *c)
{
    static const uint32_t widths[] = {1, 3, 4, 20, 64, 100, 257, 1024, 2048, 8192};

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
        for (int peaks = 0; peaks < 2; peaks++) {
            statistics_case(c, widths[i], 1e-5f, 1.6448536f, FILL_NORMAL, peaks);
            statistics_case(c, widths[i], 3, -0.25f, FILL_OUTLIER, peaks);
        }
    for (int f = 0; f < FILL_N; f++)
        for (int peaks = 0; peaks < 2; peaks++)
            statistics_case(c, 512, 1e-5f, 1.6448536f, (enum fill)f, peaks);
}

/* Checks two consecutive preparations: one of all rows, and one of the rows with logits. */
static void turn_case(struct check *c, uint32_t width, uint32_t group, uint32_t n_rounds,
                      unsigned how, enum fill fill)
{
    struct turn_params *p = turns_new(c, width, group, n_rounds, how & 1, how & 2);
    struct case_memory m = {.n = 0};
    float *x = case_floats(c, &m, fill, (size_t)N * width);
    struct graph *g = new_graph();
    graph_ref y = graph_turn(g, graph_input(g, width), p);
    char what[96];

    graph_output(g, graph_turn(g, graph_rows(g, y), p));
    snprintf(what, sizeof(what), "turns of %u in groups of %u, %u rounds, %s", width, group,
             n_rounds, fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
    turns_free(p);
}

void check_graph_turn(struct check *c)
{
    static const uint32_t cases[][3] = {{2, 2, 1},    {12, 4, 3},     {64, 64, 8},
                                        {96, 32, 16}, {384, 128, 8},  {512, 256, 2},
                                        {40, 8, 0},   {4096, 256, 0}, {8192, 128, 8}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (unsigned how = 0; how < 4; how++)
            turn_case(c, cases[i][0], cases[i][1], cases[i][2], how, FILL_NORMAL);
    for (int f = FILL_ZERO; f < FILL_N; f++)
        turn_case(c, 256, 128, 8, 1, (enum fill)f);
}

#define NO_BENCH(name)                                                                             \
    void bench_##name(struct check *c)                                                             \
    {                                                                                              \
        (void)c;                                                                                   \
    }
NO_BENCH(graph_streams)
NO_BENCH(graph_statistics)
NO_BENCH(graph_turn)
