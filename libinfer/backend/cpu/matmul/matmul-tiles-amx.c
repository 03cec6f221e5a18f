/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies packed weights with AMX: tiles of 16 rows, 32 k at a time.
 *
 * k is an index of the dimension that is summed. 32 rows of x times 32 rows of W are four tiles of
 * sums, which stay in their registers over all of k. For each 32 rows of x, the weights of a piece
 * of columns are read again, from the second-level cache. While the first columns are multiplied,
 * the 32 rows of x enter this cache, too. Tiles of the last rows of x have only as many rows as
 * needed.
 *
 * For each 32 k, a tile adds the products with even k and those with odd k in two chains of 16
 * fused multiply-adds that start at 0, then adds both chains, and adds the result to its sum (Intel
 * SDM vol. 2B, TDPBF16PS; subnormal numbers count as zero). An element does not depend on how many
 * rows and columns are multiplied together.
 *
 * For F32 weights, each float of x and W is split into two bfloat16: hi, and the rounded remainder,
 * lo. A product of x and w then consists of four products of the parts; the kernel leaves out lo ×
 * lo. So the relative error of a product of x and w is at most 3 × 2^-16. With random signs the
 * root mean square of the relative errors is a tenth of this limit, and sums have a normalized mean
 * square error of 2e-11. A product then takes three instructions instead of one, but only a fifth
 * of the time of float arithmetic.
 */

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/tiles.h"

#define LINE    (PANEL_N * 4) /* bytes of a pair of k for all columns of a group */
#define GROUP_K (16 * LINE)   /* bytes of 32 k of one part, hi or lo, for all columns of a group */

/*
 * Configures the eight tiles. With more than 16 rows, tiles 0 and 1 are the sums of the first 16
 * rows, tiles 2 and 3 the sums of the other rows, tiles 4 and 5 the rows of x, and tiles 6 and 7
 * the weights. With at most 16 rows, tiles 0 … 3 are the sums of four times 16 columns, tile 4 the
 * rows of x, and tiles 6 and 7 the weights.
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

/* Multiplies the 17 … 32 rows at @a by the group of columns at @b. */
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

/* Multiplies tile 4 by the columns at @b and, if @n = 2, also by the columns at @c. Adds the
 * products to the sums. */
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

/* Multiplies up to 16 rows by @n = 1 or 2 groups of columns at @b, of @group bytes each. */
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

/* Writes bias + @sums to y, for @n_rows rows and at most 32 columns from @n on. */
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

/* Multiplies @n_rows rows from row @m0 on, 17 to 32, by the columns @n0 … @n1 - 1. */
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

/* Multiplies @n_rows rows from row @m0 on, at most 16, by the columns @n0 … @n1 - 1. */
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
    /* A switch to another thread takes longer while this thread has tiles in use. */
    _tile_release();
}

void matmul_tiles_amx(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    if (args->kind == MATMUL_ACT_TWO)
        all_rows(args, n0, n1, true);
    else
        all_rows(args, n0, n1, false);
}

/* Converts 16 bfloat16 to floats. */
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
