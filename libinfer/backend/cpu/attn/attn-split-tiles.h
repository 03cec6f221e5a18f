/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies split numbers in AMX tiles. Include it after attn-split.h, which describes the
 * arithmetic. */

#define SPLIT_ROWS (2 * TILE_N) /* rows that are multiplied together */

/* Describes a product of at most SPLIT_ROWS rows: c = a × b, or c += a × b if `adds` is set. */
struct split_product {
    float *c;
    size_t ldc;              /* floats */
    const uint16_t *hi, *lo; /* the first factor */
    size_t lda;              /* BF16 numbers */
    struct split_tiles *b;
    uint32_t n_rows;
    uint32_t begin, end; /* steps */
    bool adds;
};

/* Configures the tiles for @n rows, at most 32. With up to 16 rows, tiles 0 … 3 hold sums, tiles 4
 * and 5 hold rows, and tiles 6 and 7 hold columns. With more rows, tiles 0, 1 and 4 belong to the
 * first 16 rows, and tiles 2, 3 and 5 to the others. */
static void rows_configure(uint32_t n)
{
    const uint8_t first = (uint8_t)(n < TILE_N ? n : TILE_N);
    const uint8_t rest = (uint8_t)(n > TILE_N ? n - TILE_N : n);
    const uint8_t rows[8] = {first, first, rest, rest, first, rest, TILE_N, TILE_N};

    tiles_configure_rows(rows);
}

static void split_configure(struct split_tiles *tiles, uint32_t n)
{
    if (tiles->n_rows != n)
        rows_configure(n);
    tiles->n_rows = n;
}

/* Computes 17 … 32 rows × the 32 columns of the tiles @j and @j + 1. */
static void split_32_32(const struct split_product *p, uint32_t j)
{
    const size_t ldc = p->ldc * sizeof(float), lda = p->lda * sizeof(uint16_t);
    float *upper = p->c + j * TILE_N, *lower = upper + TILE_N * p->ldc;

    if (p->adds) {
        _tile_loadd(0, upper, ldc);
        _tile_loadd(1, upper + TILE_N, ldc);
        _tile_loadd(2, lower, ldc);
        _tile_loadd(3, lower + TILE_N, ldc);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (uint32_t k = p->begin; k < p->end; k++) {
        const uint16_t *hi = p->hi + k * TILE_K, *lo = p->lo + k * TILE_K;
        uint32_t(*b)[2][TILE_WORDS] = p->b->words + (size_t)k * p->b->n_cols + j;

        _tile_loadd(4, lo, lda);
        _tile_loadd(5, lo + TILE_N * p->lda, lda);
        _tile_loadd(6, b[0][0], 64);
        _tile_loadd(7, b[1][0], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_loadd(4, hi, lda);
        _tile_loadd(5, hi + TILE_N * p->lda, lda);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_loadd(6, b[0][1], 64);
        _tile_loadd(7, b[1][1], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, upper, ldc);
    _tile_stored(1, upper + TILE_N, ldc);
    _tile_stored(2, lower, ldc);
    _tile_stored(3, lower + TILE_N, ldc);
}

/* Multiplies the rows in tiles 4 (lo) and 5 (hi) by the columns of @b, with sums in tile @sum. */
#define SPLIT_MULTIPLY(sum, b)                                                                     \
    do {                                                                                           \
        _tile_loadd(6, (b)[0], 64);                                                                \
        _tile_loadd(7, (b)[1], 64);                                                                \
        _tile_dpbf16ps(sum, 4, 6);                                                                 \
        _tile_dpbf16ps(sum, 5, 6);                                                                 \
        _tile_dpbf16ps(sum, 5, 7);                                                                 \
    } while (0)

/* Loads the rows of step @k to tiles 4 (lo) and 5 (hi). */
ALWAYS_INLINE void split_few_rows(const struct split_product *p, uint32_t k)
{
    const size_t lda = p->lda * sizeof(uint16_t);

    _tile_loadd(4, p->lo + k * TILE_K, lda);
    _tile_loadd(5, p->hi + k * TILE_K, lda);
}

/* Computes step @k for at most 16 rows and @n tiles of sums. @b has the step's columns. */
ALWAYS_INLINE void split_few_step(const struct split_product *p, uint32_t k,
                                  uint32_t (*b)[2][TILE_WORDS], const uint32_t n)
{
    split_few_rows(p, k);
    SPLIT_MULTIPLY(0, b[0]);
    if (n > 1) {
        SPLIT_MULTIPLY(1, b[1]);
        SPLIT_MULTIPLY(2, b[2]);
        SPLIT_MULTIPLY(3, b[3]);
    }
}

/* Loads @n tiles of sums, one or four. */
ALWAYS_INLINE void split_few_load(const struct split_product *p, const float *c, const uint32_t n)
{
    const size_t ldc = p->ldc * sizeof(float);

    if (!p->adds) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, c, ldc);
    if (n > 1) {
        _tile_loadd(1, c + TILE_N, ldc);
        _tile_loadd(2, c + 2 * TILE_N, ldc);
        _tile_loadd(3, c + 3 * TILE_N, ldc);
    }
}

ALWAYS_INLINE void split_few_store(const struct split_product *p, float *c, const uint32_t n)
{
    const size_t ldc = p->ldc * sizeof(float);

    _tile_stored(0, c, ldc);
    if (n > 1) {
        _tile_stored(1, c + TILE_N, ldc);
        _tile_stored(2, c + 2 * TILE_N, ldc);
        _tile_stored(3, c + 3 * TILE_N, ldc);
    }
}

/* Computes at most 16 rows × @n tiles of columns, one or four, from tile @j on. */
ALWAYS_INLINE void split_few(const struct split_product *p, uint32_t j, const uint32_t n)
{
    float *c = p->c + j * TILE_N;

    split_few_load(p, c, n);
    for (uint32_t k = p->begin; k < p->end; k++)
        split_few_step(p, k, p->b->words + (size_t)k * p->b->n_cols + j, n);
    split_few_store(p, c, n);
}

/* Does the same as split_few() for one tile, but takes the columns from @source, whose step 0
 * begins at row @first. */
ALWAYS_INLINE void split_one_read(const struct split_product *p, const struct split_source *source,
                                  uint32_t first, uint32_t j)
{
    struct split_source part = *source;
    float *c = p->c + j * TILE_N;

    part.from += j * TILE_N;
    part.ahead = NULL;
    split_few_load(p, c, 1);
    for (uint32_t k = p->begin; k < p->end; k++) {
        split_step(p->b, k % 2, &part, first + k * TILE_K, 1);
        split_few_step(p, k, p->b->words + k % 2, 1);
    }
    split_few_store(p, c, 1);
}

/* Does the same as split_one_read() for four tiles. Before each of the four tiles of one step is
 * multiplied, a quarter of the next step is split. So the split numbers stay in the first-level
 * cache, and vector units and tiles work at the same time. */
ALWAYS_INLINE void split_four_read(const struct split_product *p, const struct split_source *source,
                                   uint32_t first, uint32_t j)
{
    struct split_source part = *source;
    float *c = p->c + j * TILE_N;

    part.from += j * TILE_N;
    part.turn = j / 4 * (part.n_rows / 2);
    split_step(p->b, p->begin % 2, &part, first + p->begin * TILE_K, 4);
    split_few_load(p, c, 4);
    for (uint32_t k = p->begin; k + 1 < p->end; k++) {
        uint32_t(*b)[2][TILE_WORDS] = p->b->words + k % 2 * 4;
        uint32_t(*next)[2][TILE_WORDS] = p->b->words + (k + 1) % 2 * 4;
        const uint32_t row = first + (k + 1) * TILE_K;

        split_few_rows(p, k);
        split_some(next, &part, row, 0, 8, 4);
        SPLIT_MULTIPLY(0, b[0]);
        split_some(next, &part, row, 8, 16, 4);
        SPLIT_MULTIPLY(1, b[1]);
        split_some(next, &part, row, 16, 24, 4);
        SPLIT_MULTIPLY(2, b[2]);
        split_some(next, &part, row, 24, 32, 4);
        SPLIT_MULTIPLY(3, b[3]);
    }
    split_few_step(p, p->end - 1, p->b->words + (p->end - 1) % 2 * 4, 4);
    split_few_store(p, c, 4);
}
