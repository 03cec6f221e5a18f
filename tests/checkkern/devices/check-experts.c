/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks experts on whole devices: their selection, products with their matrices, gated units of
 * such products, and the weighted sum of their results.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "quant/coded.h"
#include "quant/dtype.h"

struct experts_case {
    enum inf_dtype dtype;
    uint32_t n_embd, n_ff, n_experts;
    struct route_params route;
    bool selection; /* the selection has a bias */
    bool bias;      /* the products have biases */
    bool apart;     /* the matrices lie apart in memory */
    enum graph_act act;
};

/* Makes the matrices of experts. @pointers: [n_experts], or NULL if they are in one piece. */
static struct weight experts_weight(struct check *c, struct case_memory *m, enum inf_dtype dtype,
                                    uint32_t n, uint32_t rows, uint32_t cols, const void **pointers)
{
    struct weight w = case_weight(c, m, dtype, n * rows, cols, 0);
    uint64_t row_bytes = 0;

    if (!dtype_row_bytes(dtype, cols, &row_bytes))
        exit(2);
    w.rows = rows;
    w.n_experts = n;
    w.expert_bytes = rows * row_bytes;
    if (!pointers)
        return w;
    /* The order in memory is the opposite of the order of the experts. */
    for (uint32_t i = 0; i < n; i++)
        pointers[i] = (const char *)w.data + (n - 1 - i) * w.expert_bytes;
    w.data = pointers[0];
    w.experts = pointers;
    w.expert_bytes = 0;
    return w;
}

/* Makes the matrices of gate and up in the format MXFP4 with planes, whose scales lie apart from
 * the codes. Rows of gate and of up alternate in one matrix. */
static void experts_pair(struct check *c, struct case_memory *m, const struct experts_case *a,
                         struct weight *gate, struct weight *up)
{
    const uint32_t n = a->n_experts;

    *gate = experts_weight(c, m, a->dtype, n, 2 * a->n_ff, a->n_embd, NULL);
    gate->rows = a->n_ff;
    gate->row_step = 2;
    *up = *gate;
    up->data = (const uint8_t *)gate->data + weight_row_bytes(gate);
    up->planes[WEIGHT_SCALES] =
        (const uint8_t *)gate->planes[WEIGHT_SCALES] + weight_plane_bytes(gate, WEIGHT_SCALES);
}

static void experts_case(struct check *c, const struct experts_case *a, enum fill fill)
{
    enum { N = 37, MOST = 64 };
    const uint32_t n = a->n_experts;
    const void *pointers[3][MOST];
    struct case_memory m = {.n = 0};
    struct weight router = case_weight(c, &m, INF_DTYPE_F32, n, a->n_embd, 0);
    const struct weight add = case_weight(c, &m, INF_DTYPE_F32, 1, n, 0);
    const struct weight factors = case_weight(c, &m, INF_DTYPE_F32, 1, n, 0);
    struct weight gate =
        experts_weight(c, &m, a->dtype, n, a->n_ff, a->n_embd, a->apart ? pointers[0] : NULL);
    struct weight up =
        experts_weight(c, &m, a->dtype, n, a->n_ff, a->n_embd, a->apart ? pointers[1] : NULL);
    const struct weight down =
        experts_weight(c, &m, a->dtype, n, a->n_embd, a->n_ff, a->apart ? pointers[2] : NULL);
    const struct weight biases = experts_weight(c, &m, INF_DTYPE_F32, n, 1, a->n_ff, NULL);
    const float *x = case_floats(c, &m, fill, (size_t)N * a->n_embd);
    struct graph *g;
    graph_ref in, route, y;
    char what[128];

    assert(n <= MOST);
    if (dtype_info(a->dtype)->planes && dtype_info(a->dtype)->planes->steps)
        experts_pair(c, &m, a, &gate, &up);
    if (graph_new(&g) < 0)
        exit(2);
    in = graph_input(g, a->n_embd);
    route = graph_route(g, graph_matmul(g, in, &router, NULL), a->selection ? &add : NULL,
                        a->selection ? &factors : NULL, &a->route);
    y = graph_glu(g, graph_matmul_experts(g, in, route, &gate, a->bias ? &biases : NULL),
                  graph_matmul_experts(g, in, route, &up, NULL), a->act);
    y = graph_mix(g, graph_matmul_experts(g, y, route, &down, NULL), route);
    graph_output(g, graph_rows(g, graph_add(g, y, in)));
    snprintf(what, sizeof(what), "%u of %u experts, %s %u × %u, score %d, act %d%s%s%s, %s",
             a->route.n_used, n, dtype_info(a->dtype)->name, a->n_embd, a->n_ff, a->route.score,
             a->act, a->selection ? ", selection" : "", a->bias ? ", bias" : "",
             a->apart ? ", apart" : "", fill_name(fill));
    bed_check(c, g, NULL, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_experts(struct check *c)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t block = dtype_info((enum inf_dtype)d)->block_elems;
            const struct planes_info *planes = dtype_info((enum inf_dtype)d)->planes;

            /* Encoding weights takes a large part of the time, so formats with large blocks have
             * half of the cases. Experts cannot share stored rows. Coded matrices have a check of
             * their own (check-coded.c). */
            if (coded_kind((enum inf_dtype)d).bits > 0 || (block > 32 && i % 2) ||
                (planes && planes->places > 1))
                continue;

            experts_case(
                c,
                &(struct experts_case){.dtype = (enum inf_dtype)d,
                                       .n_embd = block > 1 ? block * (1 + i % 2) : 33 + 31 * i,
                                       .n_ff = block > 1 ? block * (1 + i / 2) : 20 + 7 * i,
                                       .n_experts = i == 0       ? 1
                                                    : block > 32 ? 5
                                                                 : 5 + 6 * i,
                                       .route = {.score = (enum route_score)(((uint32_t)d + i) % 3),
                                                 .n_used = i == 0 ? 1 : 1 + i,
                                                 .normalized = i % 2,
                                                 .scale = i == 3 ? 2.5f : 1},
                                       .selection = i == 2,
                                       .bias = i == 1,
                                       .apart = i > 1 && !planes,
                                       .act = i == 1 ? GRAPH_ACT_SWIGLU_LIMITED : GRAPH_ACT_SILU},
                FILL_NORMAL);
        }
    for (int f = 0; f < FILL_N; f++)
        experts_case(c,
                     &(struct experts_case){.dtype = INF_DTYPE_F32,
                                            .n_embd = 64,
                                            .n_ff = 32,
                                            .n_experts = 9,
                                            .route = {.n_used = 9, .normalized = true, .scale = 1},
                                            .act = GRAPH_ACT_SILU},
                     (enum fill)f);
}

void bench_graph_experts(struct check *c)
{
    (void)c;
}
