/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies unpacked BF16 weights with AMX: tiles of 16 rows, 32 k at a time.
 *
 * k is an index of the dimension that is summed. The panel (matmul-kernels.h) already has the
 * layout of a tile of weights: pairs of k, 16 columns side by side. For each 32 k, a tile adds the
 * products with even k and those with odd k in two chains of 16 fused multiply-adds that start at
 * 0, then adds both chains, and adds the result to its sum (Intel SDM vol. 2B, TDPBF16PS; subnormal
 * numbers count as zero). Missing rows and k are filled with zeros, which change no bit, so an
 * element does not depend on how many rows are multiplied together.
 *
 * Tiles are fast only with many rows: loading a tile takes as long for one row as for 16. Single
 * rows are multiplied in tiles, too, so that a row has the same bits as among many rows. Models
 * that mostly compute single rows, such as those that generate text, use another instruction set by
 * default.
 */

#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul-prefetch.h"
#include "backend/cpu/matmul/tiles.h"
#include "core/cpu.h"

/* Bytes of a line of the panel: a pair of k for all columns. The columns are two tiles side by
 * side. */
#define PANEL_LINE (PANEL_N * 4)

/* Multiplies 32 rows by 32 columns, with sums in tiles 0 … 3. The rows at @a are @a_stride bytes
 * apart. */
INLINE void multiply_32(const struct matmul_panel *p, uint32_t kc, const uint8_t *a,
                        size_t a_stride, struct tile_ahead ahead)
{
    const uint8_t *b = (const uint8_t *)p->pairs;

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t k = 0; k < kc; k += TILE_K, a += 64, b += 16 * PANEL_LINE) {
        tile_prefetch(&ahead);
        _tile_loadd(4, a, a_stride);
        _tile_loadd(5, a + TILE_ROWS * a_stride, a_stride);
        _tile_loadd(6, b, PANEL_LINE);
        _tile_loadd(7, b + 64, PANEL_LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* Multiplies 16 rows by 32 columns, with sums in tiles 0 and 1. */
INLINE void multiply_16(const struct matmul_panel *p, uint32_t kc, const uint8_t *a,
                        size_t a_stride, struct tile_ahead ahead)
{
    const uint8_t *b = (const uint8_t *)p->pairs;

    _tile_zero(0);
    _tile_zero(1);
    for (uint32_t k = 0; k < kc; k += TILE_K, a += 64, b += 16 * PANEL_LINE) {
        tile_prefetch(&ahead);
        _tile_loadd(4, a, a_stride);
        _tile_loadd(6, b, PANEL_LINE);
        _tile_loadd(7, b + 64, PANEL_LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
}

/* Writes the initial values + @sums to @n rows of y from row @m0 on. */
static void put_rows(const struct matmul_tile *t, uint32_t m0, uint32_t n,
                     const float sums[][PANEL_N])
{
    const float *init = t->init + m0 * t->init_stride;
    float *y = t->y + m0 * t->ldy;

    for (uint32_t m = 0; m < n; m++, init += t->init_stride, y += t->ldy)
        for (unsigned v = 0; v < PANEL_N; v += 16)
            _mm512_storeu_ps(y + v,
                             _mm512_add_ps(_mm512_loadu_ps(init + v), _mm512_load_ps(&sums[m][v])));
}

static void whole_rows(const struct matmul_tile *t, uint32_t m0, uint32_t n)
{
    float sums[2 * TILE_ROWS][PANEL_N] __attribute__((aligned(64)));
    const uint8_t *a = t->act + m0 * t->act_stride;
    const struct tile_ahead ahead = tile_ahead(t, m0, n, t->kc / TILE_K);

    if (n > TILE_ROWS)
        multiply_32(t->panel, t->kc, a, t->act_stride, ahead);
    else
        multiply_16(t->panel, t->kc, a, t->act_stride, ahead);
    _tile_stored(0, &sums[0][0], sizeof(sums[0]));
    _tile_stored(1, &sums[0][16], sizeof(sums[0]));
    if (n > TILE_ROWS) {
        _tile_stored(2, &sums[TILE_ROWS][0], sizeof(sums[0]));
        _tile_stored(3, &sums[TILE_ROWS][16], sizeof(sums[0]));
    }
    put_rows(t, m0, n, sums);
}

/* Multiplies a copy of rows that is padded with zeros. It is needed for fewer than 16 rows, and for
 * a kc that is not a multiple of 32. */
static void part_rows(const struct matmul_tile *t, uint32_t m0, uint32_t n)
{
    uint16_t copy[TILE_ROWS][PANEL_K_PAIRS] __attribute__((aligned(64)));
    float sums[TILE_ROWS][PANEL_N] __attribute__((aligned(64)));
    const uint32_t kc = ALIGN_UP(t->kc, TILE_K);
    const size_t bytes = ALIGN_UP(t->kc, 2u) * sizeof(uint16_t);

    for (uint32_t m = 0; m < TILE_ROWS; m++) {
        const size_t some = m < n ? bytes : 0;

        memcpy(copy[m], t->act + (m < n ? m0 + m : m0) * t->act_stride, some);
        memset((uint8_t *)copy[m] + some, 0, kc * sizeof(uint16_t) - some);
    }
    multiply_16(t->panel, kc, (const uint8_t *)copy, sizeof(copy[0]),
                tile_ahead(t, m0, n, kc / TILE_K));
    _tile_stored(0, &sums[0][0], sizeof(sums[0]));
    _tile_stored(1, &sums[0][16], sizeof(sums[0]));
    put_rows(t, m0, n, sums);
}

static void multiply_amx(const struct matmul_tile *t)
{
    const uint32_t step = t->kc % TILE_K == 0 ? 2 * TILE_ROWS : 0;
    uint32_t m = 0;

    tiles_configure();
    for (; step > 0 && m + step <= t->M; m += step)
        whole_rows(t, m, step);
    for (; step > 0 && m + TILE_ROWS <= t->M; m += TILE_ROWS)
        whole_rows(t, m, TILE_ROWS);
    for (; m < t->M; m += TILE_ROWS)
        part_rows(t, m, MIN(t->M - m, TILE_ROWS));
    /* A switch to another thread takes longer while this thread has tiles in use. */
    _tile_release();
}

const struct matmul_ops matmul_amx = {
    .name = "amx",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AVX512_FP16 | CPU_AMX_BF16 |
             CPU_AMX_INT8,
    .base = &matmul_amxint8,
    .tiles = matmul_tiles_amx,
    .prepare_two = matmul_prepare_two_amx,
    .kernels = {[INF_DTYPE_BF16] = {matmul_decode_bf16_avx512, multiply_amx, NULL, 0, 0}},
};
