/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes attention with BF16 keys and values in AMX tiles.
 *
 * The K or V of a head in a block is stored in the order in which a tile of the second factor is
 * loaded: pairs of elements (keys) or of tokens (values), 16 columns side by side. matmul-amx.c
 * describes the order of a tile's sums. Tiles are configured for the number of rows that they hold,
 * so the bits of a row do not depend on the number of rows. Rows of weights are multiplied by the
 * values together only if they all see the same range of tokens. If the range does not begin or end
 * at the edge of a tile, the tile's tokens outside the range count as zeros, and so do their
 * weights. Head sizes that are not whole tiles, and all other formats, use vector kernels.
 */
#include "backend/cpu/simd/simd-avx512.h"

#include "backend/cpu/simd/simd-bf16-avx512.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "backend/cpu/matmul/tiles.h"
#include "core/cpu.h"

#include "backend/cpu/attn/attn-split.h"

#include "backend/cpu/attn/attn-split-tiles.h"

#include "backend/cpu/attn/attn-split-amx.h"

#define TILE_PAIRS 16u /* pairs in a row of a tile: 32 numbers, 64 bytes */

static bool whole_tiles(const struct attn_args *args)
{
    return args->head_dim % TILE_K == 0 && args->block_tokens % TILE_K == 0;
}

/* Describes a product c = a × b, or c += a × b if `adds` is set. Strides are in bytes. */
struct step {
    float *c;
    size_t ldc;
    const uint32_t *a;
    size_t lda;
    const uint32_t *b;
    size_t ldb;
    uint32_t n_pairs; /* a multiple of TILE_PAIRS */
    bool adds;
    const void *ahead;  /* as in struct attn_args */
    size_t size;        /* bytes at `ahead` */
    uint32_t i_pair;    /* b begins with this pair of the block */
    uint32_t all_pairs; /* pairs of the block */
};

ALWAYS_INLINE void *line_at(const void *p, size_t ld, uint32_t n)
{
    return (char *)p + n * ld;
}

/* Returns the part of the product @all that begins at row @m and column @j. */
ALWAYS_INLINE struct step part_of(const struct step *all, uint32_t m, uint32_t j)
{
    struct step s = *all;

    s.a = line_at(all->a, all->lda, m);
    s.b = all->b + j;
    s.c = (float *)line_at(all->c, all->ldc, m) + j;
    return s;
}

/* Computes 32 rows × 32 columns, with sums in tiles 0 … 3. */
ALWAYS_INLINE void step_32_32(const struct step *s)
{
    float *lower = line_at(s->c, s->ldc, TILE_N);

    if (s->adds) {
        _tile_loadd(0, s->c, s->ldc);
        _tile_loadd(1, s->c + TILE_N, s->ldc);
        _tile_loadd(2, lower, s->ldc);
        _tile_loadd(3, lower + TILE_N, s->ldc);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (uint32_t k = 0; k < s->n_pairs; k += TILE_PAIRS) {
        const uint32_t *b = line_at(s->b, s->ldb, k);

        _tile_loadd(4, s->a + k, s->lda);
        _tile_loadd(5, line_at(s->a + k, s->lda, TILE_N), s->lda);
        _tile_loadd(6, b, s->ldb);
        _tile_loadd(7, b + TILE_N, s->ldb);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, s->c, s->ldc);
    _tile_stored(1, s->c + TILE_N, s->ldc);
    _tile_stored(2, lower, s->ldc);
    _tile_stored(3, lower + TILE_N, s->ldc);
}

/* Computes 16 rows × 16 columns, with sums in tile 0. */
ALWAYS_INLINE void step_16_16(const struct step *s)
{
    if (s->adds)
        _tile_loadd(0, s->c, s->ldc);
    else
        _tile_zero(0);
    for (uint32_t k = 0; k < s->n_pairs; k += TILE_PAIRS) {
        _tile_loadd(4, s->a + k, s->lda);
        _tile_loadd(6, line_at(s->b, s->ldb, k), s->ldb);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, s->c, s->ldc);
}

/* Prefetches quarter @part (0 … 3) of the lines that belong to step @k for the four tiles of
 * columns from column @j on. */
ALWAYS_INLINE void few_prefetch(const struct step *s, uint32_t k, uint32_t j, uint32_t part)
{
    const size_t turn = (size_t)j / 64 * s->all_pairs + s->i_pair + k + part * 4;

    for (uint32_t i = 0; s->ahead && i < 4; i++)
        turn_prefetch(s->ahead, s->size, turn + i, 256);
}

/* Computes at most 16 rows × 64 columns from column @j on. The tiles are configured for these
 * rows. */
static void few_rows_64(const struct step *all, uint32_t j)
{
    const struct step part = part_of(all, 0, j), *s = &part;

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (s->adds) {
        _tile_loadd(0, s->c, s->ldc);
        _tile_loadd(1, s->c + TILE_N, s->ldc);
        _tile_loadd(2, s->c + 2 * TILE_N, s->ldc);
        _tile_loadd(3, s->c + 3 * TILE_N, s->ldc);
    }
    for (uint32_t k = 0; k < s->n_pairs; k += TILE_PAIRS) {
        const uint32_t *b = line_at(s->b, s->ldb, k);

        _tile_loadd(4, s->a + k, s->lda);
        _tile_loadd(6, b, s->ldb);
        _tile_dpbf16ps(0, 4, 6);
        few_prefetch(s, k, j, 0);
        _tile_loadd(7, b + TILE_N, s->ldb);
        _tile_dpbf16ps(1, 4, 7);
        few_prefetch(s, k, j, 1);
        _tile_loadd(6, b + 2 * TILE_N, s->ldb);
        _tile_dpbf16ps(2, 4, 6);
        few_prefetch(s, k, j, 2);
        _tile_loadd(7, b + 3 * TILE_N, s->ldb);
        _tile_dpbf16ps(3, 4, 7);
        few_prefetch(s, k, j, 3);
    }
    _tile_stored(0, s->c, s->ldc);
    _tile_stored(1, s->c + TILE_N, s->ldc);
    _tile_stored(2, s->c + 2 * TILE_N, s->ldc);
    _tile_stored(3, s->c + 3 * TILE_N, s->ldc);
}

/* Computes at most 16 rows × @n columns. The tiles are configured for these rows. */
static void few_rows(const struct step *all, uint32_t n)
{
    uint32_t j = 0;

    for (; j + 4 * TILE_N <= n; j += 4 * TILE_N)
        few_rows_64(all, j);
    for (; j < n; j += TILE_N) {
        const struct step s = part_of(all, 0, j);

        step_16_16(&s);
    }
}

/* Computes @n_rows rows × @n columns; @n is a multiple of 16. */
static void multiply_steps(const struct step *all, uint32_t n_rows, uint32_t n)
{
    uint32_t m = 0;

    rows_configure(MIN(n_rows, 2 * TILE_N));
    for (; m + 2 * TILE_N <= n_rows; m += 2 * TILE_N) {
        for (uint32_t j = 0; j + 2 * TILE_N <= n; j += 2 * TILE_N) {
            const struct step s = part_of(all, m, j);

            step_32_32(&s);
        }
        if (n % (2 * TILE_N) != 0) {
            const struct step upper = part_of(all, m, n - TILE_N);
            const struct step lower = part_of(all, m + TILE_N, n - TILE_N);

            step_16_16(&upper);
            step_16_16(&lower);
        }
    }
    for (; m < n_rows; m += TILE_N) {
        const struct step s = part_of(all, m, 0);

        rows_configure(MIN(n_rows - m, TILE_N));
        few_rows(&s, n);
    }
}

static void scores_tiles(const struct attn_args *args)
{
    const uint32_t last = args->n_rows - 1;
    const uint32_t lo = args->range[0].lo & ~(TILE_N - 1);
    const uint32_t hi = ALIGN_UP(args->range[last].hi, TILE_N);
    const struct step s = {
        .c = args->s + lo,
        .ldc = args->block_tokens * sizeof(float),
        .a = (const uint32_t *)args->q,
        .lda = args->head_dim * sizeof(float),
        .b = (const uint32_t *)args->kv + lo,
        .ldb = args->block_tokens * sizeof(uint32_t),
        .n_pairs = args->head_dim / 2,
        .ahead = args->ahead,
        .size = (size_t)args->head_dim * args->block_tokens * 2,
        .all_pairs = args->head_dim / 2,
    };

    if (!whole_tiles(args)) {
        scores_bf16(args);
        return;
    }
    if (hi <= lo)
        return;
    multiply_steps(&s, args->n_rows, hi - lo);
    /* A switch to another thread takes longer while this thread has tiles in use. */
    _tile_release();
}

/* Multiplies weights by the values of the tokens @t … @t + 31. Tokens outside @range may hold
 * anything and count as zeros. */
static void multiply_edge(const struct attn_args *args, struct step s, uint32_t n_rows,
                          const struct attn_range *range, uint32_t t)
{
    uint32_t part[TILE_PAIRS][TILE_N] __attribute__((aligned(64)));
    const uint32_t *v = (const uint32_t *)args->kv + (size_t)t / 2 * args->head_dim;

    s.n_pairs = TILE_PAIRS;
    s.ahead = NULL;
    s.b = part[0];
    s.ldb = sizeof(part[0]);
    for (uint32_t j = 0; j < args->head_dim; j += TILE_N, s.c += TILE_N) {
        for (uint32_t k = 0; k < TILE_PAIRS; k++) {
            const vi mask = vi_set1((int32_t)unit_mask(range, t / 2 + k, CODEC_BF16));

            _mm512_store_si512(part[k], vi_and(vi_load(v + k * (size_t)args->head_dim + j), mask));
        }
        multiply_steps(&s, n_rows, TILE_N);
    }
}

#define ROWS 32u /* rows whose weights are converted to BF16 together */

/* Adds weights × values for at most ROWS rows from @m on, which all see the same tokens. */
static void value_tiles(const struct attn_args *args, uint32_t m, uint32_t n_rows)
{
    uint32_t pairs[ROWS][ATTN_TOKENS_MAX / 2] __attribute__((aligned(64)));
    const struct attn_range r = args->range[m];
    const uint32_t begin = r.lo & ~(TILE_K - 1u), first = ALIGN_UP(r.lo, TILE_K);
    const uint32_t last = r.hi & ~(TILE_K - 1), end = ALIGN_UP(r.hi, TILE_K);
    struct step s = {
        .c = args->o + (size_t)m * args->head_dim,
        .ldc = args->head_dim * sizeof(float),
        .lda = sizeof(pairs[0]),
        .ldb = args->head_dim * sizeof(uint32_t),
        .adds = true,
        .ahead = args->ahead,
        .size = (size_t)args->head_dim * args->block_tokens * 2,
        .all_pairs = args->block_tokens / 2,
    };

    for (uint32_t i = 0; i < n_rows; i++) {
        uint16_t *to = (uint16_t *)pairs[i];

        memset(to + begin, 0, (first - begin) * sizeof(*to));
        memset(to + last, 0, (end - last) * sizeof(*to));
        vf_to_bf16(to + r.lo, args->s + (size_t)(m + i) * args->block_tokens + r.lo, r.hi - r.lo);
    }
    s.a = pairs[0] + begin / 2;
    if (begin < first)
        multiply_edge(args, s, n_rows, &r, begin);
    s.a = pairs[0] + first / 2;
    if (first < last) {
        s.b = (const uint32_t *)args->kv + (size_t)first / 2 * args->head_dim;
        s.n_pairs = (last - first) / 2;
        s.i_pair = first / 2;
        multiply_steps(&s, n_rows, args->head_dim);
    }
    s.a = pairs[0] + last / 2;
    if (first <= last && last < end)
        multiply_edge(args, s, n_rows, &r, last);
}

static void values_tiles(const struct attn_args *args)
{
    uint32_t n;

    if (!whole_tiles(args)) {
        values_bf16(args);
        return;
    }
    for (uint32_t m = 0; m < args->n_rows; m += n) {
        const struct attn_range *r = &args->range[m];

        n = 1;
        while (m + n < args->n_rows && n < ROWS && r[n].lo == r->lo && r[n].hi == r->hi)
            n++;
        if (r->lo < r->hi)
            value_tiles(args, m, n);
    }
    _tile_release();
}

const struct attn_fns attn_amx =
    ATTN_FNS_WITH("amx", CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AMX_BF16, 256,
                  query_split, scores_split, values_split, scores_tiles, values_tiles);
