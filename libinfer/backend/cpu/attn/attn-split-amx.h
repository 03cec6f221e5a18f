/* SPDX-License-Identifier: Apache-2.0 */

/* Computes the scores and values of attention with split F16. Include it after attn-split-tiles.h.
 */

/* Keys that are split together: SPLIT_COLS tiles of tokens × SPLIT_STEPS steps of elements. Values
 * that are split together: SPLIT_STEPS / 2 steps of tokens × 2 SPLIT_COLS tiles of elements. */
#define SPLIT_COLS  4u
#define SPLIT_STEPS (SPLIT_TILES / SPLIT_COLS)

/* Multiplies at most 16 rows by the tiles of columns @begin … @end - 1, which are split already. */
static void split_multiply_few(const struct split_product *p, uint32_t begin, uint32_t end)
{
    uint32_t j = begin;

    split_configure(p->b, p->n_rows);
    for (; j + 4 <= end; j += 4)
        split_few(p, j, 4);
    for (; j < end; j++)
        split_few(p, j, 1);
}

/* Does the same as split_multiply_few(), but splits the columns of @source, whose step 0 begins at
 * row @first. */
static void split_read_few(const struct split_product *p, const struct split_source *source,
                           uint32_t first, uint32_t begin, uint32_t end)
{
    uint32_t j = begin;

    split_configure(p->b, p->n_rows);
    for (; j + 4 <= end; j += 4)
        split_four_read(p, source, first, j);
    for (; j < end; j++)
        split_one_read(p, source, first, j);
}

/* Returns the part of product @p from row @m on, with at most @n rows. */
static struct split_product split_rows(const struct split_product *p, uint32_t m, uint32_t n)
{
    struct split_product part = *p;

    part.c += m * p->ldc;
    part.hi += m * p->lda;
    part.lo += m * p->lda;
    part.n_rows = p->n_rows - m < n ? p->n_rows - m : n;
    return part;
}

/* Multiplies at most SPLIT_ROWS rows by the tiles of columns @begin … @end - 1, which are split
 * already. */
static void split_multiply(const struct split_product *p, uint32_t begin, uint32_t end)
{
    uint32_t j = begin;

    if (p->n_rows > TILE_N) {
        split_configure(p->b, p->n_rows);
        for (; j + 2 <= end; j += 2)
            split_32_32(p, j);
    }
    for (uint32_t m = 0; j < end && m < p->n_rows; m += TILE_N) {
        const struct split_product part = split_rows(p, m, TILE_N);

        split_multiply_few(&part, j, end);
    }
}

/* Splits @n_steps steps of @source from row @first on, for @to->n_cols tiles of columns. */
static void split_panel(struct split_tiles *to, const struct split_source *source, uint32_t first,
                        uint32_t n_steps)
{
    for (uint32_t k = 0; k < n_steps; k++)
        if (to->n_cols == SPLIT_COLS)
            split_step(to, k, source, first + k * TILE_K, SPLIT_COLS);
        else if (to->n_cols == 2 * SPLIT_COLS)
            split_step(to, k, source, first + k * TILE_K, 2 * SPLIT_COLS);
        else
            split_step(to, k, source, first + k * TILE_K, to->n_cols);
}

/* Returns the product of all rows with the keys from token @token on. */
static struct split_product score_product(const struct attn_args *args, struct split_tiles *tiles,
                                          uint32_t token)
{
    return (struct split_product){
        .c = args->s + token,
        .ldc = args->block_tokens,
        .hi = (const uint16_t *)args->q,
        .lo = (const uint16_t *)args->q + args->head_dim,
        .lda = args->head_dim * 2,
        .b = tiles,
        .n_rows = args->n_rows,
        .end = args->head_dim / TILE_K,
    };
}

/* Computes the scores of all rows for at most SPLIT_COLS tiles of tokens from @token on. */
static void score_panel(const struct attn_args *args, const struct split_source *keys,
                        struct split_tiles *tiles, uint32_t token)
{
    struct split_product all = score_product(args, tiles, token);
    struct split_source part = *keys;

    part.from += token;
    for (uint32_t d = 0; d < args->head_dim; d += SPLIT_STEPS * TILE_K) {
        all.end = MIN(args->head_dim - d, SPLIT_STEPS * TILE_K) / TILE_K;
        all.adds = d > 0;
        split_panel(tiles, &part, d, all.end);
        for (uint32_t m = 0; m < args->n_rows; m += SPLIT_ROWS) {
            const struct split_product p = split_rows(&all, m, SPLIT_ROWS);
            const uint32_t lo = args->range[m].lo, hi = args->range[m + p.n_rows - 1].hi;
            const uint32_t begin = lo > token ? (lo - token) / TILE_N & ~1u : 0;
            const uint32_t end = hi > token ? DIV_UP(hi - token, TILE_N) : 0;

            split_multiply(&p, begin, MIN(ALIGN_UP(end, 2u), tiles->n_cols));
        }
        all.hi += SPLIT_STEPS * TILE_K;
        all.lo += SPLIT_STEPS * TILE_K;
    }
}

static void scores_split(const struct attn_args *args)
{
    const uint32_t bt = args->block_tokens, first = args->range[0].lo & ~(TILE_K - 1);
    const uint32_t end = MIN(ALIGN_UP(args->range[args->n_rows - 1].hi, TILE_K), bt);
    const struct split_source keys = {
        .from = args->kv,
        .ahead = args->ahead,
        .ld = bt,
        .n_rows = args->head_dim,
        .n_cols = bt,
        .seen = {0, args->head_dim},
    };
    struct split_tiles tiles;

    if (!split_fits(args->head_dim)) {
        scores_f16(args);
        return;
    }
    tiles.n_rows = 0;
    if (args->n_rows <= TILE_N && first < end) {
        const struct split_product p = score_product(args, &tiles, 0);

        split_read_few(&p, &keys, 0, first / TILE_N, end / TILE_N);
    } else {
        for (uint32_t t = first; t < end; t += SPLIT_COLS * TILE_N) {
            tiles.n_cols = MIN(end - t, SPLIT_COLS * TILE_N) / TILE_N;
            score_panel(args, &keys, &tiles, t);
        }
    }
    _tile_release();
}

/* Holds the weights of some rows for some tokens: hi, then lo. */
struct split_weights {
    uint16_t rows[SPLIT_ROWS][2][SPLIT_STEPS / 2 * TILE_K];
} __attribute__((aligned(64)));

/* Splits the weights of @n rows from row @m on for @n_tokens tokens from @token on. Tokens that a
 * row does not see get the weight 0. */
static void weights_split(struct split_weights *to, const struct attn_args *args, uint32_t m,
                          uint32_t n, uint32_t token, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct attn_range r = args->range[m + i];
        const float *s = args->s + (size_t)(m + i) * args->block_tokens;

        for (uint32_t t = token; t < token + n_tokens; t += VF_N) {
            const __mmask16 under = vf_mask(r.hi > t ? r.hi - t : 0);
            const __mmask16 from = (__mmask16)~vf_mask(r.lo > t ? r.lo - t : 0);
            const vf w = _mm512_maskz_loadu_ps(under & from, s + t);

            split_floats(to->rows[i][0] + (t - token), to->rows[i][1] + (t - token),
                         split_flush(w));
        }
    }
}

/* Adds weights × values for three ranges: the rows @m … @m + n - 1, which are at most SPLIT_ROWS;
 * the @n_tokens tokens from @token on; and the columns of the elements from @d on. If @source is
 * not NULL, also splits the values. */
static void value_product(const struct attn_args *args, const struct split_source *source,
                          struct split_tiles *tiles, uint32_t m, uint32_t n, uint32_t token,
                          uint32_t n_tokens, uint32_t d)
{
    const uint32_t lo = args->range[m].lo, hi = args->range[m + n - 1].hi;
    struct split_weights w;
    const struct split_product p = {
        .c = args->o + (size_t)m * args->head_dim + d,
        .ldc = args->head_dim,
        .hi = w.rows[0][0],
        .lo = w.rows[0][1],
        .lda = sizeof(w.rows[0]) / sizeof(uint16_t),
        .b = tiles,
        .n_rows = n,
        .begin = lo > token ? (lo - token) / TILE_K : 0,
        .end = hi > token ? MIN(DIV_UP(hi - token, TILE_K), n_tokens / TILE_K) : 0,
        .adds = true,
    };

    if (p.begin >= p.end)
        return;
    weights_split(&w, args, m, n, token, n_tokens);
    if (source)
        split_read_few(&p, source, token, 0, args->head_dim / TILE_N);
    else
        split_multiply(&p, 0, tiles->n_cols);
}

/* Adds weights × values for @n rows from row @m on. */
static void value_rows_split(const struct attn_args *args, struct split_tiles *tiles, uint32_t m,
                             uint32_t n)
{
    const struct split_source values = {
        .from = args->kv,
        .ahead = args->ahead,
        .ld = args->head_dim,
        .n_rows = args->block_tokens,
        .n_cols = args->head_dim,
        .seen = {args->range[m].lo, args->range[m + n - 1].hi},
    };
    const uint32_t width = 2 * SPLIT_COLS * TILE_N, length = SPLIT_STEPS / 2 * TILE_K;

    for (uint32_t t = values.seen.lo & ~(TILE_K - 1); t < values.seen.hi; t += length) {
        const uint32_t n_tokens = MIN(ALIGN_UP(values.seen.hi - t, TILE_K), length);

        if (n <= TILE_N) {
            value_product(args, &values, tiles, m, n, t, n_tokens, 0);
            continue;
        }
        for (uint32_t d = 0; d < args->head_dim; d += width) {
            struct split_source part = values;

            part.from += d;
            tiles->n_cols = MIN(args->head_dim - d, width) / TILE_N;
            split_panel(tiles, &part, t, n_tokens / TILE_K);
            for (uint32_t i = 0; i < n; i += SPLIT_ROWS)
                value_product(args, NULL, tiles, m + i, MIN(n - i, SPLIT_ROWS), t, n_tokens, d);
        }
    }
}

/* Returns whether the values of the tokens @r are finite. */
static bool values_finite(const struct attn_args *args, struct attn_range r)
{
    const uint16_t *v = (const uint16_t *)args->kv + (size_t)r.lo * args->head_dim;
    const vi infinity = _mm512_set1_epi16(0x7c00);
    __mmask32 bad = 0;

    for (size_t i = 0; i < (size_t)(r.hi - r.lo) * args->head_dim; i += 32)
        bad |= _mm512_cmpeq_epi16_mask(vi_and(vi_load(v + i), infinity), infinity);
    return bad == 0;
}

static void values_split(const struct attn_args *args)
{
    const struct attn_range all = {args->range[0].lo, args->range[args->n_rows - 1].hi};
    const bool same = args->range[0].hi == all.hi && args->range[args->n_rows - 1].lo == all.lo;
    struct split_tiles tiles;
    uint32_t n;

    if (!split_fits(args->head_dim)) {
        values_f16(args);
        return;
    }
    tiles.n_rows = 0;
    /* A value that is not finite makes sums NaN even if its weight is 0. So rows that see different
     * tokens are multiplied together only if all values are finite. */
    const bool together = same || all.lo >= all.hi || values_finite(args, all);

    for (uint32_t m = 0; m < args->n_rows; m += n) {
        const struct attn_range *r = &args->range[m];

        for (n = 1; m + n < args->n_rows && (together || (r[n].lo == r->lo && r[n].hi == r->hi));)
            n++;
        value_rows_split(args, &tiles, m, n);
    }
    _tile_release();
}
