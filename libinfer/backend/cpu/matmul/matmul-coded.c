/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loops over groups of columns and chunks of k for coded matrices (quant/coded.h).
 *
 * Panels and the order of sums are those of matmul-kernels.h. Kernels always fill all columns of a
 * panel. If fewer than PANEL_N columns of y are left, only these columns of the panel are used. A
 * panel that would reach beyond the last row of the coded matrix begins at an earlier row. A cache
 * line of the words of GPTQ or AWQ belongs to many columns of y. Therefore the outer loop is over
 * chunks of k for these formats, so that a line is still in a cache when its other columns are
 * computed.
 */
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "quant/coded.h"

#define COPY_M 16u /* rows of x that are multiplied at once if columns are copied */

/* The position in the loops. */
struct place {
    const struct matmul_args *args;
    void (*multiply)(const struct matmul_tile *tile);
    uint32_t n, n_cols, shift; /* column @shift of the panel is column @n of y */
    uint32_t k, kc;
    size_t act; /* bytes of a prepared row before @k */
};

static void init_row(const struct place *p, uint32_t m, float *dst)
{
    const struct matmul_args *a = p->args;

    if (p->k > 0)
        memcpy(dst, a->y + m * a->ldy + p->n, p->n_cols * sizeof(float));
    else if (a->bias)
        memcpy(dst, a->bias + p->n, p->n_cols * sizeof(float));
}

/* Multiplies a panel of which only some columns are used. */
static void multiply_some(const struct place *p, struct matmul_tile *tile)
{
    const struct matmul_args *a = p->args;
    float copy[COPY_M][PANEL_N];

    tile->init = tile->y = copy[0];
    tile->init_stride = tile->ldy = PANEL_N;
    for (uint32_t m0 = 0; m0 < a->M; m0 += COPY_M) {
        tile->M = MIN(a->M - m0, COPY_M);
        memset(copy, 0, sizeof(copy));
        for (uint32_t m = 0; m < tile->M; m++)
            init_row(p, m0 + m, &copy[m][p->shift]);
        p->multiply(tile);
        for (uint32_t m = 0; m < tile->M; m++)
            memcpy(a->y + (m0 + m) * a->ldy + p->n, &copy[m][p->shift], p->n_cols * sizeof(float));
        tile->act += COPY_M * tile->act_stride;
    }
}

static void multiply_panel(const struct place *p, const struct matmul_panel *panel)
{
    const struct matmul_args *a = p->args;
    float *y = a->y + p->n, bias[PANEL_N] = {0};
    struct matmul_tile tile = {
        .panel = panel,
        .kc = p->kc,
        .act = (const uint8_t *)a->act + p->act,
        .act_stride = a->act_stride,
        .M = a->M,
        .init = p->k == 0 ? bias : y,
        .init_stride = p->k == 0 ? 0 : a->ldy,
        .y = y,
        .ldy = a->ldy,
    };

    if (p->n_cols < PANEL_N) {
        multiply_some(p, &tile);
        return;
    }
    if (a->bias)
        memcpy(bias, a->bias + p->n, sizeof(bias));
    p->multiply(&tile);
}

/* Fills the panel of the columns from @n on, and multiplies it. */
static void compute_panel(const struct matmul_kernel *kernel, struct place *p, uint32_t n1,
                          struct matmul_panel *panel)
{
    const struct coded *c = p->args->coded;
    const uint32_t row = p->args->coded_first + p->n, first = MIN(row, c->rows - PANEL_N);

    p->n_cols = MIN(n1 - p->n, PANEL_N);
    p->shift = row - first;
    kernel->fill(panel, c, first, p->k, p->kc);
    multiply_panel(p, panel);
}

/* The lines of matmul-coded-ordered.h have at most 64 columns. Codes of 3 bits may need a line
 * after the last one. */
size_t matmul_work_bytes(const struct coded *c)
{
    if (!c || !c->order || !coded_kind(c->dtype).by_place)
        return 0;
    const uint64_t bytes = ((uint64_t)c->cols * coded_kind(c->dtype).bits / 8 + 1) * 64;

    return bytes <= MATMUL_WORK_MAX ? (size_t)bytes : 0;
}

/* Computes columns without a panel, and returns the first column that is left. */
static uint32_t compute_few(const struct matmul_kernel *kernel, const struct matmul_args *args,
                            uint32_t n0, uint32_t n1)
{
    const struct coded *c = args->coded;
    struct matmul_args a = *args;

    if (kernel->few && args->M <= kernel->few_m)
        return kernel->few(args, n0, n1);
    if (!kernel->direct || args->M > kernel->direct_m || args->K % 64 != 0 || c->order ||
        !coded_has_groups(c, kernel->group))
        return n0;
    a.row_bytes = (size_t)c->cols * coded_kind(c->dtype).bits / 8;
    a.w = (const uint8_t *)c->codes + args->coded_first * a.row_bytes;
    a.next = NULL;
    return matmul_direct(kernel, &a, n0, n1);
}

void matmul_coded(const struct matmul_kernel *kernel, const struct matmul_args *args, uint32_t n0,
                  uint32_t n1)
{
    const bool is_float = args->kind == MATMUL_ACT_F32;
    const uint32_t step = is_float                              ? PANEL_K_F32
                          : args->coded->dtype == INF_DTYPE_NF4 ? PANEL_K_TWO
                                                                : PANEL_K;
    const size_t elem = sizeof(float), block = sizeof(struct matmul_q8);
    const struct coded *c = args->coded;
    const bool by_place = coded_kind(c->dtype).by_place;
    struct place p = {.args = args, .multiply = kernel->multiply};
    struct matmul_panel panel;

    if (c->rows < PANEL_N) {
        matmul_rows_ref(args, n0, n1);
        return;
    }
    if (!coded_has_groups(c, kernel->group) && kernel->multiply_16)
        p.multiply = kernel->multiply_16;
    n0 = compute_few(kernel, args, n0, n1);
    const uint32_t width = by_place ? n1 - n0 : PANEL_N;

    for (uint32_t begin = n0; begin < n1; begin += width)
        for (p.k = 0; p.k < args->K; p.k += step) {
            p.kc = MIN(args->K - p.k, step);
            p.act = is_float ? p.k * elem : p.k / 32 * block;
            for (p.n = begin; p.n < MIN(begin + width, n1); p.n += PANEL_N)
                compute_panel(kernel, &p, n1, &panel);
        }
}
