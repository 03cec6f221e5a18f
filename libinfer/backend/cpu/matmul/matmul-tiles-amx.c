/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of packed weights with AMX: tiles of 16 rows, 32 k at a time
 *
 * 32 rows of x times 32 rows of W are four tiles of sums, which stay in their registers over all of
 * k. The weights of a piece of columns are read from the second-level cache for every 32 rows of x.
 * The first columns bring the lines of x into that cache. Tiles of the last rows are only as high
 * as needed.
 *
 * For each 32 k, a tile sums the even and the odd k in chains of 16 fused multiply-adds from 0,
 * adds both chains, and adds that to its sum (Intel SDM vol. 2B, TDPBF16PS; subnormal numbers count
 * as zero). An element does not depend on how many rows and columns are multiplied together.
 *
 * F32 is split into a bfloat16, hi, and the remainder as another, lo. The kernel leaves
 * out lo × lo of the products of two such sums. So a product of x and w has an error of at most 3 ×
 * 2^-16 of it, and with random signs a tenth of that as root mean square: sums have an NMSE of
 * 2e-11. This takes three instructions instead of one, and a fifth of the time of floats.
 */

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/tiles.h"

#define LINE    (PANEL_N * 4) /* a pair of k of all columns of a group */
#define GROUP_K (16 * LINE)   /* bytes of 32 k of one part of a group */

/*
 * Configures the tiles. 0 … 3 are sums. With more than 16 rows, 0 and 1 are sums of the first 16
 * rows, 2 and 3 of the rest, 4 and 5 the rows of x, 6 and 7 the weights. With fewer rows, 0 … 3 are
 * sums of that many groups of 16 columns, 4 the rows, 6 and 7 weights.
 */
static void configure_tiles(uint32_t n_rows)
{
    struct tile_config c = {.palette = 1};
    const uint8_t first = (uint8_t)MIN(n_rows, TILE_ROWS);
    const uint8_t rest = n_rows > TILE_ROWS ? (uint8_t)(n_rows - TILE_ROWS) : first;
    const uint8_t rows[8] = {first, first, rest, rest, first, rest, TILE_ROWS, TILE_ROWS};

    for (unsigned i = 0; i < 8; i++)
        c.row_bytes[i] = 64;
    memcpy(c.rows, rows, sizeof(rows));
    _tile_loadconfig(&c);
}

INLINE void zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

INLINE void load_rows(const uint8_t *a, size_t stride)
{
    _tile_loadd(4, a, stride);
    _tile_loadd(5, a + TILE_ROWS * stride, stride);
}

INLINE void load_columns(const uint8_t *b)
{
    _tile_loadd(6, b, LINE);
    _tile_loadd(7, b + 64, LINE);
}

INLINE void add_products(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* 17 … 32 rows at @a times one group of columns at @b. */
INLINE void multiply_high(const struct matmul_args *args, const uint8_t *a, const uint8_t *b,
                          const bool two)
{
    const size_t stride = args->act_stride;

    zero_sums();
    for (uint32_t k = 0; k < args->K; k += TILE_K) {
        load_rows(a, stride);
        load_columns(b);
        add_products();
        if (two) {
            load_rows(a + 64, stride);
            add_products();
            load_rows(a, stride);
            load_columns(b + GROUP_K);
            add_products();
        }
        a += two ? 128 : 64;
        b += two ? 2 * GROUP_K : GROUP_K;
    }
}

/* Tile 4 times the columns at @b and, if @n = 2, at @c. */
INLINE void add_low(const uint8_t *b, const uint8_t *c, const unsigned n)
{
    load_columns(b);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (n < 2)
        return;
    load_columns(c);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 7);
}

/* Up to 16 rows times @n = 1 or 2 groups of columns at @b, which are @group bytes each. */
INLINE void multiply_low(const struct matmul_args *args, const uint8_t *a, const uint8_t *b,
                         size_t group, const unsigned n, const bool two)
{
    const size_t stride = args->act_stride;

    zero_sums();
    for (uint32_t k = 0; k < args->K; k += TILE_K) {
        _tile_loadd(4, a, stride);
        add_low(b, b + group, n);
        if (two) {
            _tile_loadd(4, a + 64, stride);
            add_low(b, b + group, n);
            _tile_loadd(4, a, stride);
            add_low(b + GROUP_K, b + group + GROUP_K, n);
        }
        a += two ? 128 : 64;
        b += two ? 2 * GROUP_K : GROUP_K;
    }
}

/* y = bias + sums, for @n_rows rows and up to 32 existing columns from @n on. */
static void put_sums(const struct matmul_args *args, const float sums[][PANEL_N], uint32_t m0,
                     uint32_t n_rows, uint32_t n, uint32_t n_cols)
{
    const __mmask32 some = n_cols < 32 ? (1u << n_cols) - 1 : UINT32_MAX;
    const __mmask16 low = (__mmask16)some, high = (__mmask16)(some >> 16);
    const float *bias = args->bias ? args->bias + n : NULL;
    const __m512 first = bias ? _mm512_maskz_loadu_ps(low, bias) : _mm512_setzero_ps();
    const __m512 second = bias ? _mm512_maskz_loadu_ps(high, bias + 16) : _mm512_setzero_ps();
    float *y = args->y + m0 * args->ldy + n;

    for (uint32_t m = 0; m < n_rows; m++, y += args->ldy) {
        _mm512_mask_storeu_ps(y, low, _mm512_add_ps(first, _mm512_load_ps(sums[m])));
        _mm512_mask_storeu_ps(y + 16, high, _mm512_add_ps(second, _mm512_load_ps(sums[m] + 16)));
    }
}

/* Multiplies 17 to 32 rows from m0 on with all columns. */
INLINE void high_rows(const struct matmul_args *args, uint32_t m0, uint32_t n_rows, uint32_t n0,
                      uint32_t n1, const bool two)
{
    float sums[2 * TILE_ROWS][PANEL_N] __attribute__((aligned(64)));
    const uint8_t *a = (const uint8_t *)args->act + m0 * args->act_stride;

    for (uint32_t n = n0; n < n1; n += PANEL_N) {
        multiply_high(args, a, (const uint8_t *)args->w + n * args->row_bytes, two);
        _tile_stored(0, &sums[0][0], LINE);
        _tile_stored(1, &sums[0][16], LINE);
        _tile_stored(2, &sums[TILE_ROWS][0], LINE);
        _tile_stored(3, &sums[TILE_ROWS][16], LINE);
        put_sums(args, sums, m0, n_rows, n, MIN(n1 - n, PANEL_N));
    }
}

/* Multiplies up to 16 rows from m0 on with all columns. */
INLINE void low_rows(const struct matmul_args *args, uint32_t m0, uint32_t n_rows, uint32_t n0,
                     uint32_t n1, const bool two)
{
    float sums[2][TILE_ROWS][PANEL_N] __attribute__((aligned(64)));
    const uint8_t *a = (const uint8_t *)args->act + m0 * args->act_stride;
    const size_t group = PANEL_N * args->row_bytes;

    for (uint32_t n = n0; n < n1; n += 2 * PANEL_N) {
        const uint8_t *b = (const uint8_t *)args->w + n * args->row_bytes;
        const bool both = n1 - n > PANEL_N;

        if (both)
            multiply_low(args, a, b, group, 2, two);
        else
            multiply_low(args, a, b, group, 1, two);
        _tile_stored(0, &sums[0][0][0], LINE);
        _tile_stored(1, &sums[0][0][16], LINE);
        put_sums(args, sums[0], m0, n_rows, n, MIN(n1 - n, PANEL_N));
        if (!both)
            continue;
        _tile_stored(2, &sums[1][0][0], LINE);
        _tile_stored(3, &sums[1][0][16], LINE);
        put_sums(args, sums[1], m0, n_rows, n + PANEL_N, MIN(n1 - n - PANEL_N, PANEL_N));
    }
}

INLINE void all_rows(const struct matmul_args *args, uint32_t n0, uint32_t n1, const bool two)
{
    uint32_t m = 0, n;

    configure_tiles(2 * TILE_ROWS);
    for (; m + 2 * TILE_ROWS <= args->M; m += 2 * TILE_ROWS)
        high_rows(args, m, 2 * TILE_ROWS, n0, n1, two);
    n = args->M - m;
    if (n > 0)
        configure_tiles(n);
    if (n > TILE_ROWS)
        high_rows(args, m, n, n0, n1, two);
    else if (n > 0)
        low_rows(args, m, n, n0, n1, two);
    /* Tiles in use make thread switches more expensive. */
    _tile_release();
}

void matmul_tiles_amx(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    if (args->kind == MATMUL_ACT_TWO)
        all_rows(args, n0, n1, true);
    else
        all_rows(args, n0, n1, false);
}

/* 16 bfloat16 as floats. */
INLINE __m512 widen(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

void matmul_prepare_two_amx(const float *x, uint32_t K, struct matmul_two *dst)
{
    for (uint32_t k = 0; k < K; k += 32, dst++) {
        const __mmask32 some = K - k < 32 ? (1u << (K - k)) - 1 : UINT32_MAX;
        const __m512 a = _mm512_maskz_loadu_ps((__mmask16)some, x + k);
        const __m512 b = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + k + 16);
        const __m512bh hi = _mm512_cvtne2ps_pbh(b, a);
        __m512bh lo;
        __m512i h;

        memcpy(&h, &hi, sizeof(h));
        lo = _mm512_cvtne2ps_pbh(_mm512_sub_ps(b, widen(_mm512_extracti64x4_epi64(h, 1))),
                                 _mm512_sub_ps(a, widen(_mm512_castsi512_si256(h))));
        memcpy(dst->hi, &hi, sizeof(hi));
        memcpy(dst->lo, &lo, sizeof(lo));
    }
}
