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

/* Splits block @b of a line into units. */
INLINE void nibbles_units(const v_int *v, const bool high_first, v_int unit[8])
{
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        unit[2 * i + high_first] = LOW_NIBBLES(v[i]);
        unit[2 * i + !high_first] = HIGH_NIBBLES(v[i]);
    }
}

/* Defines the loop over lines and blocks. @block is a statement, which adds the products of block
 * b, whose units are in unit. */
#define NIBBLES_LOOP(d, high_first, block)                                                         \
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
                v_int unit[8];                                                                     \
                                                                                                   \
                nibbles_units(line + 4 * i, high_first, unit);                                     \
                block;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* ---- CT4 ---- */

INLINE void nibbles_add_ct4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int unit[8], struct coded_rows *rows, struct cols_acc *acc)
{
    const struct cols_kind kind = {.steps = 8, .narrow = 8};
    const uint32_t g = coded_rows_find(d, b, rows);
    const v_flt scale = coded_rows_scale(d, rows->scale[g]);

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = cols_x(d, m, b);
        int8_t order[32];

        gptq_order(x, 4, order);
        const v_int zeros = v_mul(v_load(rows->zero[g]), v_set(x->nsum[0] + x->nsum[1]));
        const v_int sum = v_add(cols_sum(unit, order, 0, kind), zeros);

        acc->v[m] = v_fma(v_mulf(v_to_float(sum), scale), v_bcastf(&x->d), acc->v[m]);
    }
}

INLINE void direct_ct4_rows(struct matmul_direct *d, const unsigned m_n)
{
    struct coded_rows rows;
    struct cols_acc acc;

    coded_rows_init(d, &rows);
    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, false, nibbles_add_ct4(d, m_n, b, unit, &rows, &acc));
    cols_end(d, m_n, &acc);
}

/* ---- NF4 ---- */

INLINE void nibbles_add_nf4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int unit[8], const struct nf4_digits *digits,
                            struct coded_rows *rows, struct cols_acc *acc)
{
    const struct cols_kind kind = {.steps = 8, .narrow = 1};
    const uint32_t g = coded_rows_find(d, b, rows);
    const v_flt scale = v_mulf(coded_rows_scale(d, rows->scale[g]), v_setf(digits->unit));
    int8_t order[DIRECT_M][32];
    v_int high[DIRECT_M], w[8];

    UNROLL for (unsigned i = 0; i < 8; i++) w[i] = v_table16(unit[i], digits->high);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = cols_x(d, m, b);

        gptq_order(x, 4, order[m]);
        high[m] = cols_sum(w, order[m], (x->nsum[0] + x->nsum[1]) * NF4_MIDDLE, kind);
    }
    UNROLL for (unsigned i = 0; i < 8; i++) w[i] = v_table16(unit[i], digits->low);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = cols_x(d, m, b);
        const v_int sum = v_add(cols_sum(w, order[m], 0, kind), v_shl(high[m], NF4_LOW_BITS));

        acc->v[m] = v_fma(v_mulf(v_to_float(sum), scale), v_bcastf(&x->d), acc->v[m]);
    }
}

INLINE void direct_nf4_rows(struct matmul_direct *d, const unsigned m_n)
{
    const struct nf4_digits digits = nf4_digits_get(d->coded->table);
    struct coded_rows rows;
    struct cols_acc acc;

    coded_rows_init(d, &rows);
    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, true, nibbles_add_nf4(d, m_n, b, unit, &digits, &rows, &acc));
    cols_end(d, m_n, &acc);
}

/* ---- CTFP4 ---- */

#define FP4_WORDS 16u /* words of 4 scales of a row that are loaded at once */

/* Holds the scales of VEC_N rows in the 4 × FP4_WORDS groups from group 4 × @begin on: @scale[i] is
 * that of a group, halved and divided by the factor of the matrix. */
struct fp4_scales {
    uint32_t begin;
    uint32_t words[FP4_WORDS][VEC_N] __attribute__((aligned(64)));
    v_flt scale[4]; /* of the groups of two blocks */
};

static __attribute__((noinline)) void
TILE_NAME(fp4_words_load)(const struct matmul_direct *d, uint32_t begin, struct fp4_scales *s)
{
    const uint32_t n_groups = coded_groups(d->coded), n = MIN(n_groups / 4 - begin, FP4_WORDS);
    const uint8_t *p =
        (const uint8_t *)d->coded->scales + (uint64_t)d->coded_row * n_groups + 4 * begin;

    s->begin = begin;
    for (unsigned i = 0; i < VEC_N; i++, p += n_groups)
        for (uint32_t j = 0; j < n; j++)
            memcpy(&s->words[j][i], p + 4 * j, 4);
}

INLINE void nibbles_add_fp4(const struct matmul_direct *d, const unsigned m_n, uint32_t b,
                            const v_int unit[8], struct fp4_scales *s, struct cols_acc *acc)
{
    const struct cols_kind kind = {.steps = 4, .zero = CODED_FP4_ZERO, .narrow = 4};
    v_int w[8];

    if (b % 2 == 0) {
        if (b / 2 % FP4_WORDS == 0)
            TILE_NAME(fp4_words_load)(d, b / 2, s);
        coded_e4m3(v_load(s->words[b / 2 % FP4_WORDS]), s->scale);
        UNROLL for (unsigned i = 0; i < 4; i++) s->scale[i] =
            v_mulf(s->scale[i], v_setf(coded_fp4_factor(d->coded)));
    }
    UNROLL for (unsigned i = 0; i < 8; i++) w[i] = v_table16(unit[i], TILE_NAME(coded_fp4_values));
    int8_t order[DIRECT_M][32];
    const int8_t *x[DIRECT_M];

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        gptq_order(cols_x(d, m, b), 4, order[m]);
        x[m] = order[m];
    }
    UNROLL for (unsigned part = 0; part < 2; part++)
        cols_add(d, m_n, acc, b, part, x, w + 4 * part, s->scale[b % 2 * 2 + part], kind);
}

INLINE void direct_ctfp4_rows(struct matmul_direct *d, const unsigned m_n)
{
    struct fp4_scales scales;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    NIBBLES_LOOP(d, false, nibbles_add_fp4(d, m_n, b, unit, &scales, &acc));
    cols_end(d, m_n, &acc);
}

DIRECT(ct4, direct_ct4_rows(d, m_n))
DIRECT(nf4, direct_nf4_rows(d, m_n))
DIRECT(ctfp4, direct_ctfp4_rows(d, m_n))
