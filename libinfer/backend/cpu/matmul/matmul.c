/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Selects the kernels of matrix products, and loops over groups of columns and chunks of k
 * (matmul-kernels.h).
 *
 * The loop is the same for every instruction set. matmul-kernels.h describes what is decoded and in
 * which order floats are added. Kernels always process whole groups of columns and multiples of 32
 * elements. For a last group with fewer columns, and for rows of W whose length is not a multiple
 * of 32, this file passes padded copies of at most 16 rows of a chunk to the kernels.
 */

#include "backend/cpu/matmul/matmul.h"

#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul-prefetch.h"
#include "core/cpu.h"
#include "quant/block.h"
#include "quant/dtype.h"
#include "quant/fp4-planes.h"

/* The kernels of each instruction set. matmul_ops_get() returns the first kernels whose flags the
 * CPU supports. The reference needs no flags, so it comes last. */
static const struct matmul_ops *const rungs[] = {
#if defined(__x86_64__)
    &matmul_amx,        &matmul_amxint8,     &matmul_avx512fp16, &matmul_avx512int16bf16,
    &matmul_avx512bf16, &matmul_avx512int16, &matmul_avx512,     &matmul_avxvnni,
    &matmul_avx2,
#elif defined(__aarch64__)
    &matmul_i8mm,
    &matmul_dotprod,
    &matmul_neon,
#endif
    &matmul_ref,
};

const struct matmul_ops *matmul_ops_get(unsigned flags)
{
    size_t i = 0;

    while ((rungs[i]->flags & flags) != rungs[i]->flags ||
           (rungs[i]->prepare_apart && flags & MATMUL_FLOATS))
        i++;
    return rungs[i];
}

const char *matmul_ops_name(const struct matmul_ops *ops)
{
    return ops->name;
}

static const struct matmul_kernel *kernel_get(const struct matmul_ops *ops, enum inf_dtype dtype)
{
    while (!ops->kernels[dtype].decode && !ops->kernels[dtype].fill && ops->base)
        ops = ops->base;
    return &ops->kernels[dtype];
}

uint32_t matmul_most_columns(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_FP4_PLANES ? MATMUL_PLANES_K : UINT32_MAX;
}

/* Returns the number of elements in a chunk of k. */
static uint32_t chunk_elems(enum matmul_act kind)
{
    if (kind == MATMUL_ACT_BF16 || kind == MATMUL_ACT_F16 || kind == MATMUL_ACT_APART)
        return PANEL_K_PAIRS;
    return kind == MATMUL_ACT_F32 ? PANEL_K_F32 : PANEL_K;
}

/* ---- the loop ---- */

/* Holds a group of columns, and the position in the loop over k. */
struct group {
    const struct matmul_args *args;
    const struct matmul_kernel *kernel;
    multiply_many_fn *many; /* or NULL */
    uint32_t n, n_cols;     /* n_cols ≤ PANEL_N */
    uint32_t k, kc;
    const uint8_t *ahead; /* memory to prefetch next */
    float bias[PANEL_N];
};

/* With a panel, the kernels prefetch memory that is one group of rows plus this many bytes ahead,
 * so that the last rows of a group have arrived when its computation begins. With at most HALF_ROWS
 * prepared rows, the functions that decode panels prefetch half of this memory, and the functions
 * that multiply panels prefetch the other half. With up to TILE_ROWS rows, the latter prefetch all
 * of it, because decoding takes little of the time, and prefetches would delay its loads.
 * With more rows, each chunk is prefetched as a whole (panels_by_chunk()). */
#define AHEAD     (4u << 10)
#define HALF_ROWS 8u
#define TILE_ROWS 16u
/* With at least this many rows, matmul_ops.multiply_many is faster than the kernels of a format. */
#define MANY_ROWS 32u
/* Without a panel, the groups of rows of a product are divided into windows of equally many groups.
 * While the kernels multiply one window, they prefetch a later one, in several parts
 * (prefetch_begin()). That window is at least AHEAD_MIN bytes ahead, because memory delivers so
 * many bytes between a request and its response. Windows of WINDOW_BYTES can be divided into long
 * parts, and two such windows fit in every second-level cache. */
#define AHEAD_MIN    (12u << 10)
#define WINDOW_BYTES (64u << 10)
/* Maximum number of bytes of a chunk of one row: 2 × 210 (Q6_K), 16 × 34 (Q8_0) or 128 × 4 (F32),
 * rounded up. */
#define COPY_BYTES 640u

/* Decodes fewer than 16 rows, or rows whose last 32 elements are not complete, from a padded
 * copy. */
static void decode_copy(const struct group *g, struct matmul_panel *panel, unsigned half,
                        const uint8_t *w, uint32_t n_rows, size_t n_bytes)
{
    uint8_t copy[16][COPY_BYTES] __attribute__((aligned(64)));

    assert(n_bytes <= COPY_BYTES);
    for (uint32_t i = 0; i < 16; i++) {
        const size_t n = i < n_rows ? n_bytes : 0;

        memcpy(copy[i], w + (i < n_rows ? i : 0) * g->args->row_bytes, n);
        memset(copy[i] + n, 0, COPY_BYTES - n);
    }
    const uint8_t *none = copy[0];
    g->kernel->decode(panel, half, copy[0], COPY_BYTES, ALIGN_UP(g->kc, 32), &none);
}

/* Returns the offset in a row of W of the block with element @k. */
static size_t block_offset(const struct group *g, uint32_t k)
{
    const struct dtype_info *info = dtype_info(g->args->dtype);

    return (size_t)(k / info->block_elems) * info->block_bytes;
}

/* Returns the bytes of a chunk of one row of W. */
static size_t chunk_bytes(const struct group *g)
{
    const struct dtype_info *info = dtype_info(g->args->dtype);

    return (size_t)(g->kc / info->block_elems) * info->block_bytes;
}

/* Describes the planes of @n_rows rows from row @n on. */
static struct matmul_planes planes_get(const struct matmul_args *a, uint32_t n, uint32_t n_rows)
{
    const size_t row_bytes = (size_t)(a->K / a->group) * plane_bytes(a->plane_type);
    const uint8_t *scales = a->planes[WEIGHT_SCALES], *offsets = a->planes[WEIGHT_ZEROS];

    return (struct matmul_planes){.scales = scales + n * row_bytes,
                                  .offsets = offsets ? offsets + n * row_bytes : NULL,
                                  .row_bytes = row_bytes,
                                  .type = a->plane_type,
                                  .group = a->group,
                                  .n_rows = n_rows};
}

static void decode_planes(const struct group *g, struct matmul_panel *panel, unsigned half,
                          uint32_t n_rows)
{
    const struct matmul_planes p = planes_get(g->args, g->n + 16 * half, n_rows);

    g->kernel->planes(panel, half, &p, g->k, g->kc);
}

/* Returns the address of the chunk of the first row of the group. */
static const uint8_t *stored_chunk(const struct group *g)
{
    return (const uint8_t *)g->args->w + (size_t)g->n * g->args->row_bytes + block_offset(g, g->k);
}

static void decode_chunk(struct group *g, struct matmul_panel *panel)
{
    const struct matmul_args *a = g->args;
    const uint8_t *w = stored_chunk(g);
    const size_t n_bytes = chunk_bytes(g);

    for (unsigned half = 0; half < 2 && g->n_cols > 16 * half; half++) {
        const uint32_t n_rows = MIN(g->n_cols - 16 * half, 16u);

        if (n_rows == 16 && g->kc % 32 == 0)
            g->kernel->decode(panel, half, w, a->row_bytes, g->kc, &g->ahead);
        else
            decode_copy(g, panel, half, w, n_rows, n_bytes);
        if (g->kernel->planes)
            decode_planes(g, panel, half, n_rows);
        w += 16 * a->row_bytes;
    }
}

/* Computes fewer than PANEL_N columns of y: computes PANEL_N columns in a buffer, and copies the
 * columns that exist to @y. */
static void multiply_copy(const struct group *g, struct matmul_tile *tile, float *y)
{
    float copy[16][PANEL_N];
    const uint32_t M = tile->M;

    for (uint32_t m0 = 0; m0 < M; m0 += 16) {
        const uint32_t rows = MIN(M - m0, 16u);

        tile->M = rows;
        tile->y = copy[0];
        tile->ldy = PANEL_N;
        if (g->k > 0) {
            memset(copy, 0, sizeof(copy));
            for (uint32_t m = 0; m < rows; m++)
                memcpy(copy[m], y + (m0 + m) * g->args->ldy, g->n_cols * sizeof(float));
            tile->init = copy[0];
            tile->init_stride = PANEL_N;
        }
        g->kernel->multiply(tile);
        for (uint32_t m = 0; m < rows; m++)
            memcpy(y + (m0 + m) * g->args->ldy, copy[m], g->n_cols * sizeof(float));
        tile->act += 16 * tile->act_stride;
        tile->ahead_lines = 0; /* the tile of the first 16 rows has prefetched this memory */
    }
}

/* Returns the first matmul_ops.multiply_many of @ops, its base, the base of its base and so on, if
 * it should multiply @M rows by panels of @kernel, or NULL. */
static multiply_many_fn *find_many(const struct matmul_ops *ops, const struct matmul_kernel *kernel,
                                   uint32_t M)
{
    const struct tile_kind *kind = kernel->kind;

    if (M < MANY_ROWS || !kind || kind->steps == 0 ||
        (kind->offset > 0 && kind->offset < kind->steps))
        return NULL;
    while (ops && !ops->multiply_many)
        ops = ops->base;
    return ops ? ops->multiply_many : NULL;
}

/* Computes PANEL_N columns of y. */
static void multiply_whole(const struct group *g, struct matmul_panel *panel,
                           const struct matmul_tile *tile)
{
    const uint32_t n = g->many ? tile->M / 16 * 16 : 0;
    struct matmul_tile part = *tile;

    part.M -= n;
    part.act += n * part.act_stride;
    part.init += n * part.init_stride;
    part.y += n * part.ldy;
    if (part.M > 0)
        g->kernel->multiply(&part);
    part = *tile;
    part.M = n;
    if (n > 0)
        g->many(&part, panel, g->kernel->kind);
}

static void multiply_chunk(struct group *g, struct matmul_panel *panel)
{
    const struct matmul_args *a = g->args;
    const size_t n_bytes = g->n_cols * chunk_bytes(g);
    const size_t n_rest = n_bytes - (a->M <= HALF_ROWS ? PANEL_AHEAD(n_bytes) : 0);
    float *y = a->y + g->n;
    struct matmul_tile tile = {
        .panel = panel,
        .kc = g->kc,
        .act = (const uint8_t *)a->act + matmul_act_offset(a->kind, g->k),
        .act_stride = a->act_stride,
        .M = a->M,
        .init = g->k == 0 ? g->bias : y,
        .init_stride = g->k == 0 ? 0 : a->ldy,
        .y = y,
        .ldy = a->ldy,
        .ahead = g->ahead,
        .ahead_lines = a->M <= TILE_ROWS ? (uint32_t)(n_rest / 64) : 0,
    };

    g->ahead += n_rest;
    if (g->n_cols == PANEL_N)
        multiply_whole(g, panel, &tile);
    else
        multiply_copy(g, &tile, y);
}

/* Returns how many bytes ahead a window of @n_bytes bytes is prefetched. The distance is a whole
 * number of windows. */
static size_t direct_lead(size_t n_bytes)
{
    return (1 + AHEAD_MIN / n_bytes) * n_bytes;
}

/* Returns the number of groups in a window, if a product has @n_groups groups of @n_bytes bytes. */
static uint32_t direct_window(uint32_t n_groups, size_t n_bytes)
{
    uint32_t n = 1;

    while (n * n_bytes < WINDOW_BYTES && n_groups % (2 * n) == 0)
        n *= 2;
    return n;
}

uint32_t matmul_direct(const struct matmul_kernel *kernel, const struct matmul_args *a, uint32_t n0,
                       uint32_t n1)
{
    static const float zero[16];
    const uint32_t n_rows = kernel->direct_n, n_groups = (n1 - n0) / n_rows;
    const size_t n_bytes = n_rows * a->row_bytes;
    const uint32_t window = direct_window(n_groups, n_bytes);
    const size_t lead = direct_lead(window * n_bytes);
    const uint8_t *begin = (const uint8_t *)a->w + n0 * a->row_bytes;
    const uint8_t *end = begin + n_groups * n_bytes;
    struct matmul_direct d = {
        .row_bytes = a->row_bytes,
        .K = a->K,
        .act = a->act,
        .act_stride = a->act_stride,
        .M = a->M,
        .init = zero,
        .ldy = a->ldy,
        .coded = a->coded,
    };

    for (uint32_t i = 0; i < n_groups; i++, n0 += n_rows) {
        const uint8_t *ahead = begin + (i - i % window) * n_bytes + lead;

        if (a->next && ahead >= end)
            ahead = (const uint8_t *)a->next + (ahead - end);
        d.w = begin + i * n_bytes;
        d.ahead = prefetch_begin(ahead, n_bytes, window, i % window);
        d.y = a->y + n0;
        if (a->bias)
            d.init = a->bias + n0;
        if (kernel->planes)
            d.planes = planes_get(a, n0, n_rows);
        d.coded_row = a->coded_first + n0;
        kernel->direct(&d);
    }
    return n0;
}

/* Returns whether the product is computed without panels. The kernels multiply two blocks of 32
 * weights at a time, so K must be a multiple of 64. */
static bool is_direct(const struct matmul_args *a, const struct matmul_kernel *kernel)
{
    return kernel->direct && a->M <= kernel->direct_m && a->K % 64 == 0;
}

/* Bytes of the buffer in which rows_with_planes() joins rows. It holds 8 of the longest rows. */
#define JOIN_BYTES (MATMUL_PLANES_K / 32 * sizeof(struct block_mxfp4) * 8)

/* Joins codes and scales of row @n of W at @dst, and prefetches row @n + @n_ahead. */
static void join_row(const struct matmul_args *a, uint32_t n, uint32_t n_ahead, uint8_t *dst)
{
    const uint8_t *codes = (const uint8_t *)a->w + n * a->row_bytes;
    const uint8_t *scales = (const uint8_t *)a->planes[WEIGHT_SCALES] + n * (a->row_bytes / 16);

    for (uint32_t i = 0; i < a->K / 32; i += 4, dst += 4 * sizeof(struct block_mxfp4)) {
        __builtin_prefetch(codes + 16 * (size_t)i + n_ahead * a->row_bytes, 0, 2);
        fp4_planes_join(codes + 16 * (size_t)i, scales + i, MIN(a->K / 32 - i, 4u), dst);
    }
}

/* Multiplies MXFP4 whose scales are stored separately from its codes: joins codes and scales of
 * some rows of W in a buffer, and multiplies the buffer with the kernels for MXFP4. */
static void rows_with_planes(const struct matmul_ops *ops, const struct matmul_args *args,
                             uint32_t n0, uint32_t n1)
{
    uint8_t joined[JOIN_BYTES] __attribute__((aligned(64)));
    struct matmul_args a = *args;
    /* Few rows of x are multiplied as fast as W arrives from memory. So if there are few rows of x,
     * the next rows of W are prefetched while the current rows are multiplied. */
    const bool few = args->M <= kernel_get(ops, INF_DTYPE_MXFP4)->direct_m;
    uint32_t n_rows = few ? PANEL_N / 2 : PANEL_N;

    a.dtype = INF_DTYPE_MXFP4;
    a.w = joined;
    a.row_bytes = args->K / 32 * sizeof(struct block_mxfp4);
    a.next = NULL;
    assert(args->K <= MATMUL_PLANES_K);
    while (n_rows * a.row_bytes > JOIN_BYTES)
        n_rows /= 2;
    for (uint32_t n = n0; n < n1; n += n_rows) {
        const uint32_t end = MIN(n1 - n, n_rows);

        for (uint32_t i = 0; i < end; i++)
            join_row(args, n + i, few ? n_rows : 2, joined + i * a.row_bytes);
        a.y = args->y + n;
        a.bias = args->bias ? args->bias + n : NULL;
        matmul_rows(ops, &a, 0, end);
    }
}

/* Begins the group of columns from @n on. */
static void group_begin(struct group *g, struct matmul_panel *panel, uint32_t n, uint32_t n1)
{
    g->n = n;
    g->n_cols = MIN(n1 - n, PANEL_N);
    memset(g->bias, 0, sizeof(g->bias));
    if (g->args->bias)
        memcpy(g->bias, g->args->bias + n, g->n_cols * sizeof(float));
    if (g->n_cols <= 16)
        memset(panel, 0, sizeof(*panel));
}

/* Computes the columns @n0 … @n1 - 1 group by group, in the order in which the weights are stored,
 * so that few prepared rows are multiplied as fast as memory delivers weights. */
static void panels_by_group(struct group *g, uint32_t n0, uint32_t n1, uint32_t step)
{
    struct matmul_panel panel;

    for (uint32_t n = n0; n < n1; n += PANEL_N) {
        group_begin(g, &panel, n, n1);
        for (g->k = 0; g->k < g->args->K; g->k += step) {
            const uint8_t *ahead = g->ahead;

            g->kc = MIN(g->args->K - g->k, step);
            if (g->args->M > HALF_ROWS)
                g->ahead = stored_chunk(g); /* is in the cache already */
            decode_chunk(g, &panel);
            if (g->args->M > HALF_ROWS)
                g->ahead = ahead;
            multiply_chunk(g, &panel);
        }
    }
}

/* Prefetches one chunk, from element @k on, of the group of columns from @n on. */
static void chunk_prefetch(const struct group *g, uint32_t k, uint32_t n, uint32_t n1)
{
    const uint8_t *w = (const uint8_t *)g->args->w + n * g->args->row_bytes + block_offset(g, k);
    const size_t n_bytes = chunk_bytes(g);

    for (uint32_t i = n; i < MIN(n + PANEL_N, n1); i++, w += g->args->row_bytes)
        for (size_t at = 0; at < n_bytes; at += 64)
            __builtin_prefetch(w + at, 0, 2);
}

/* Computes the columns @n0 … @n1 - 1 chunk by chunk of k. All groups read one chunk of the prepared
 * rows before they read the next chunk, so that the chunk stays in the second-level cache, where
 * whole rows would not fit. The order of the float sums of an element is the same. */
static void panels_by_chunk(struct group *g, uint32_t n0, uint32_t n1, uint32_t step)
{
    struct matmul_panel panel;

    for (g->k = 0; g->k < g->args->K; g->k += step) {
        g->kc = MIN(g->args->K - g->k, step);
        for (uint32_t n = n0; n < n1; n += PANEL_N) {
            group_begin(g, &panel, n, n1);
            g->ahead = stored_chunk(g);
            decode_chunk(g, &panel);
            if (n + PANEL_N < n1)
                chunk_prefetch(g, g->k, n + PANEL_N, n1);
            else if (g->k + step < g->args->K)
                chunk_prefetch(g, g->k + step, n0, n1);
            multiply_chunk(g, &panel);
        }
    }
}

void matmul_rows(const struct matmul_ops *ops, const struct matmul_args *args, uint32_t n0,
                 uint32_t n1)
{
    const uint32_t step = chunk_elems(args->kind);
    struct group g = {.args = args, .kernel = kernel_get(ops, args->dtype)};

    if (args->dtype == INF_DTYPE_BITNET) {
        matmul_find_preparer(ops, MATMUL_ACT_ROW8)->bitnet(args, n0, n1);
        return;
    }
    if (args->dtype == INF_DTYPE_FP4_PLANES) {
        rows_with_planes(ops, args, n0, n1);
        return;
    }
    if (args->packed && args->dtype == INF_DTYPE_F16) {
        matmul_packer(ops, args->dtype)->blocks(args, n0, n1);
        return;
    }
    if (args->packed) {
        matmul_packer(ops, args->dtype)->tiles(args, n0, n1);
        return;
    }
    if (args->coded && g.kernel->fill) {
        matmul_coded(g.kernel, args, n0, n1);
        return;
    }
    if (!g.kernel->decode) {
        matmul_rows_ref(args, n0, n1);
        return;
    }
    g.many = find_many(ops, g.kernel, args->M);
    g.ahead = (const uint8_t *)args->w + n0 * args->row_bytes + PANEL_N * args->row_bytes + AHEAD;
    if (is_direct(args, g.kernel))
        n0 = matmul_direct(g.kernel, args, n0, n1);
    if (args->M > TILE_ROWS)
        panels_by_chunk(&g, n0, n1, step);
    else
        panels_by_group(&g, n0, n1, step);
}
