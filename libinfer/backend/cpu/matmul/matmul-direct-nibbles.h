/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of CT4, CTFP4 and NF4 (quant/coded.h), which have 4 bits, by up to DIRECT_M
 * prepared rows without a panel, for matmul-vec.h. Include it after matmul-direct-coded.h and
 * matmul-coded-float.h.
 *
 * 4 × VEC_N bytes of each of VEC_N rows, a *line*, are loaded and transposed, so that each lane
 * belongs to a row of W. A unit is a vector with 4 codes of each row: the even or the odd ones of 8
 * successive codes. x is brought to this order. The float arithmetic is that of the tiles.
 */

#define NIBBLES_BLOCKS (VEC_N / 4) /* blocks of 32 codes in a line */

/* Loads the line at @p, which has 16 × @n_blocks bytes of each row: v[4 b + j] gets bytes 4 j … 4 j
 * + 3 of block b. The last line of a row may have half as many blocks as the others. */
INLINE void nibbles_load(struct matmul_direct *d, const uint8_t *p, uint32_t n_blocks,
                         v_int v[VEC_N])
{
#if VEC_N == 16
    const __mmask16 mask = n_blocks == NIBBLES_BLOCKS ? 0xffff : 0x00ff;

    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        prefetch_turn(&d->ahead, i, 64);
        v[i] = _mm512_maskz_loadu_epi32(mask, p + i * d->row_bytes);
    }
    transpose16(v);
#else
    (void)n_blocks;
    UNROLL for (unsigned i = 0; i < 8; i++) prefetch_turn(&d->ahead, i, 32);
    UNROLL for (unsigned i = 0; i < 8; i += 4) load_rows16(p + 4 * i, d->row_bytes, v + i);
#endif
}

/* Returns unit @i of a block: its even or odd codes. With @high_first, the first code of a byte is
 * in its upper half. */
INLINE v_int nibbles_unit(const v_int *v, const unsigned i, const bool high_first)
{
    return (i % 2 != 0) == high_first ? LOW_NIBBLES(v[i / 2]) : HIGH_NIBBLES(v[i / 2]);
}

/* Writes the numbers of @m_n rows of block @b in the order of units. */
INLINE void nibbles_order(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                          int8_t order[DIRECT_M][32])
{
    UNROLL for (unsigned m = 0; m < m_n; m++) gptq_order(cols_x(d, m, b), 4, order[m]);
}

/* Adds the sum of the products of block @b, or of a part of it, to the sums of row @m. */
INLINE void nibbles_add(const struct matmul_direct *d, const unsigned m, uint32_t b, v_int sum,
                        v_flt scale, struct cols_acc *acc)
{
    acc->v[m] = v_fma(v_mulf(v_to_float(sum), scale), v_bcastf(&cols_x(d, m, b)->d), acc->v[m]);
}

/* Defines the loop over lines and blocks. @block is a statement, which adds the products of block
 * b, whose bytes are in v. */
#define NIBBLES_LOOP(d, block)                                                                     \
    do {                                                                                           \
        const uint32_t n_all = (d)->K / 32;                                                        \
                                                                                                   \
        for (uint32_t b0 = 0; b0 < n_all; b0 += NIBBLES_BLOCKS) {                                  \
            const uint32_t n_blocks = MIN(n_all - b0, NIBBLES_BLOCKS);                             \
            v_int line[VEC_N];                                                                     \
                                                                                                   \
            nibbles_load(d, (d)->w + 16 * (size_t)b0, n_blocks, line);                             \
            UNROLL for (unsigned i = 0; i < NIBBLES_BLOCKS; i++) if (i < n_blocks)                 \
            {                                                                                      \
                const uint32_t b = b0 + i;                                                         \
                const v_int *v = line + 4 * i;                                                     \
                                                                                                   \
                block;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* ---- CT4 ---- */

INLINE void nibbles_add_ct4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int *v, struct coded_rows *rows, struct cols_acc *acc)
{
    const uint32_t g = coded_rows_find(d, b, rows);
    const v_flt scale = coded_rows_scale(d, rows->scale[g]);
    int8_t order[DIRECT_M][32];
    v_int sum[DIRECT_M];

    nibbles_order(d, m_n, b, order);
    UNROLL for (unsigned m = 0; m < m_n; m++) sum[m] = v_zero();
    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        const v_int w = nibbles_unit(v, i, false);

        UNROLL for (unsigned m = 0; m < m_n; m++) sum[m] =
            awq_dot(sum[m], w, cols_bcast(order[m] + 4 * i));
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const int32_t *nsum = cols_x(d, m, b)->nsum;
        const v_int zeros = v_mul(v_load(rows->zero[g]), v_set(nsum[0] + nsum[1]));
        const v_int all = VEC_PAIRS ? v_widen(zeros, sum[m]) : v_add(zeros, sum[m]);

        nibbles_add(d, m, b, all, scale, acc);
    }
}

INLINE void direct_ct4_rows(struct matmul_direct *d, const unsigned m_n)
{
    struct coded_rows rows;
    struct cols_acc acc;

    coded_rows_init(d, &rows);
    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, nibbles_add_ct4(d, m_n, b, v, &rows, &acc));
    cols_end(d, m_n, &acc);
}

/* ---- NF4 ---- */

INLINE void nibbles_add_nf4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int *v, const struct nf4_digits *digits,
                            struct coded_rows *rows, struct cols_acc *acc)
{
    const uint32_t g = coded_rows_find(d, b, rows);
    const v_flt scale = v_mulf(coded_rows_scale(d, rows->scale[g]), v_setf(digits->unit));
    int8_t order[DIRECT_M][32];
    v_int high[DIRECT_M], low[DIRECT_M];

    nibbles_order(d, m_n, b, order);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const int32_t *nsum = cols_x(d, m, b)->nsum;

        high[m] = v_set((nsum[0] + nsum[1]) * NF4_MIDDLE);
        low[m] = v_zero();
    }
    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        const v_int codes = nibbles_unit(v, i, true);
        const v_int top = v_table16(codes, digits->high), rest = v_table16(codes, digits->low);

        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int x = cols_bcast(order[m] + 4 * i);

            high[m] = v_dot(high[m], top, x);
            low[m] = v_dot(low[m], rest, x);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
        nibbles_add(d, m, b, v_add(v_shl(high[m], NF4_LOW_BITS), low[m]), scale, acc);
}

INLINE void direct_nf4_rows(struct matmul_direct *d, const unsigned m_n)
{
    const struct nf4_digits digits = nf4_digits_get(d->coded->table);
    struct coded_rows rows;
    struct cols_acc acc;

    coded_rows_init(d, &rows);
    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, nibbles_add_nf4(d, m_n, b, v, &digits, &rows, &acc));
    cols_end(d, m_n, &acc);
}

/* ---- CTFP4 ---- */

#define FP4_WORDS 16u /* words of 4 scales of a row that are loaded at once */

/* Holds the scales of VEC_N rows in the 4 × FP4_WORDS groups from group 4 × @begin on: @scale[i] is
 * that of a group, halved and divided by the factor of the matrix. */
struct fp4_scales {
    uint32_t words[FP4_WORDS][VEC_N] __attribute__((aligned(64)));
    v_flt factor, scale[4]; /* of the groups of two blocks */
};

static __attribute__((noinline)) void
TILE_NAME(fp4_words_load)(const struct matmul_direct *d, uint32_t begin, struct fp4_scales *s)
{
    const uint32_t n_groups = coded_groups(d->coded), n = MIN(n_groups / 4 - begin, FP4_WORDS);
    const uint8_t *p =
        (const uint8_t *)d->coded->scales + (uint64_t)d->coded_row * n_groups + 4 * begin;

    if (n == FP4_WORDS) {
        for (uint32_t j = 0; j < n; j += 4) {
            v_int v[4];

            load_rows16(p + 4 * j, n_groups, v);
            UNROLL for (unsigned i = 0; i < 4; i++) v_store(s->words[j + i], v[i]);
        }
        return;
    }
    for (unsigned i = 0; i < VEC_N; i++, p += n_groups)
        for (uint32_t j = 0; j < n; j++)
            memcpy(&s->words[j][i], p + 4 * j, 4);
}

INLINE void nibbles_add_fp4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int *v, struct fp4_scales *s, struct cols_acc *acc)
{
    int8_t order[DIRECT_M][32];

    if (b % 2 == 0) {
        if (b / 2 % FP4_WORDS == 0)
            TILE_NAME(fp4_words_load)(d, b / 2, s);
        coded_e4m3(v_load(s->words[b / 2 % FP4_WORDS]), s->scale);
        UNROLL for (unsigned i = 0; i < 4; i++) s->scale[i] = v_mulf(s->scale[i], s->factor);
    }
    nibbles_order(d, m_n, b, order);
    UNROLL for (unsigned part = 0; part < 2; part++)
    {
        v_int sum[DIRECT_M];

        UNROLL for (unsigned m = 0; m < m_n; m++) sum[m] = v_zero();
        UNROLL for (unsigned i = 4 * part; i < 4 * part + 4; i++)
        {
            const v_int w = v_table16(nibbles_unit(v, i, false), fp4_codes);

            /* The sum of the pairs of 16 k is at most 24 × 127 × 8 = 24384. */
            UNROLL for (unsigned m = 0; m < m_n; m++) sum[m] =
                awq_dot(sum[m], w, cols_bcast(order[m] + 4 * i));
        }
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int zeros = v_set(cols_x(d, m, b)->nsum[part] * BLOCK_FP4_ZERO);
            const v_int all = VEC_PAIRS ? v_widen(zeros, sum[m]) : v_add(zeros, sum[m]);

            nibbles_add(d, m, b, all, s->scale[b % 2 * 2 + part], acc);
        }
    }
}

INLINE void direct_ctfp4_rows(struct matmul_direct *d, const unsigned m_n)
{
    struct fp4_scales scales;
    struct cols_acc acc;

    scales.factor = v_setf(coded_fp4_factor(d->coded));
    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, nibbles_add_fp4(d, m_n, b, v, &scales, &acc));
    cols_end(d, m_n, &acc);
}

DIRECT(ct4, direct_ct4_rows(d, m_n))
DIRECT(nf4, direct_nf4_rows(d, m_n))
DIRECT(ctfp4, direct_ctfp4_rows(d, m_n))
