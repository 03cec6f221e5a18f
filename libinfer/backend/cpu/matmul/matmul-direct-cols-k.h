/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies Q2_K and Q3_K, for matmul-direct-cols.h. */

/* Loads the 32 bytes at @p of each of VEC_N rows: lane i of v[h][j] has 4-byte unit 4h + j of row
 * i. Also does 8 prefetch steps. */
INLINE void cols_rows32(const uint8_t *p, size_t row_bytes, struct matmul_ahead *ahead,
                        const unsigned n_bytes, v_int v[2][4])
{
    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        prefetch_turn(ahead, i, n_bytes);
        v[i / 4][i % 4] = v_rows16(p + 16 * (i / 4) + i % 4 * row_bytes, row_bytes);
    }
    transpose(v[0]);
    transpose(v[1]);
}

/* Returns minus the sum of half @part of a block of x, times the block's scale, as tile_sum() does
 * for offsets of 16 elements. */
INLINE v_flt cols_half_sum(const struct matmul_q8 *x, const unsigned part)
{
    return v_setf((float)x->nsum[part] * x->d);
}

/* Adds the products of 32 weights. The scales of their halves are the numbers of 4 bits sc[0] and
 * sc[1]. The sum of both halves, each times its scale, is an integer, as in the panel. */
INLINE void cols_q2_k_add(const struct matmul_direct *d, const unsigned m_n, struct cols_acc *acc,
                          uint32_t b, const v_int q[8], const v_int sc[2], v_flt scale)
{
    const struct cols_kind kind = {.steps = 4, .zero = 0, .narrow = 4};

    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = cols_x(d, m, b);
        const v_int a = v_mul(cols_sum(q, x->q, 0, kind), sc[0]);
        const v_int c = v_mul(cols_sum(q + 4, x->q + 16, 0, kind), sc[1]);

        acc->v[m] = v_fma(v_mulf(v_to_float(v_add(a, c)), scale), v_bcastf(&x->d), acc->v[m]);
    }
}

INLINE void cols_q2_k(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q2_k);
    const v_int two = v_set(0x03030303), four = v_set(15);
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += size) {
        const v_int head = affine_load(w + offsetof(struct block_q2_k, d), d->row_bytes);
        const v_flt scale = v_from_f16_low(head), dmin = v_from_f16_low(v_shr(head, 16));
        v_int heads[4];

        load_rows16(w, d->row_bytes, heads);
        UNROLL for (unsigned h = 0; h < 2; h++)
        {
            v_int v[2][4];

            cols_rows32(w + 16 + 32 * h, d->row_bytes, &ahead, VEC_N * size / 16, v);
            UNROLL for (unsigned r = 0; r < 4; r++)
            {
                const unsigned g = 8 * h + 2 * r;
                v_int q[8], sc[2];

                UNROLL for (unsigned j = 0; j < 8; j++) q[j] =
                    v_and(v_shr(v[j / 4][j % 4], 2 * r), two);
                UNROLL for (unsigned j = 0; j < 2; j++) sc[j] =
                    v_and(v_shr(heads[g / 4], (g + j) % 4 * 8), four);
                cols_q2_k_add(d, m_n, &acc, b + 4 * h + r, q, sc, scale);
                UNROLL for (unsigned j = 0; j < 2; j++)
                {
                    const v_int mn = v_and(v_shr(heads[g / 4], (g + j) % 4 * 8 + 4), four);
                    const v_flt offset = v_mulf(dmin, v_to_float(mn));

                    UNROLL for (unsigned m = 0; m < m_n; m++) acc.offset[m] =
                        v_fma(offset, cols_half_sum(cols_x(d, m, b + 4 * h + r), j), acc.offset[m]);
                }
            }
        }
        cols_chunk(d, m_n, &acc, b + 8);
    }
    cols_end(d, m_n, &acc);
}

INLINE void cols_q3_k(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q3_k);
    const struct cols_kind kind = {.steps = 4, .zero = 4, .narrow = 4};
    const v_int two = v_set(0x03030303);
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += size) {
        float scale[16][VEC_N] __attribute__((aligned(64)));
        v_int high[2][4];

        decode_q3_k_head(scale[0], VEC_N, w, d->row_bytes);
        load_rows16(w, d->row_bytes, high[0]);
        load_rows16(w + 16, d->row_bytes, high[1]);
        UNROLL for (unsigned h = 0; h < 2; h++)
        {
            v_int v[2][4];

            cols_rows32(w + 32 + 32 * h, d->row_bytes, &ahead, VEC_N * size / 16, v);
            UNROLL for (unsigned g = 0; g < 8; g++)
            {
                const unsigned r = g / 2, part = g % 2;
                v_int q[4];

                UNROLL for (unsigned j = 0; j < 4; j++) q[j] =
                    v_or(v_and(v_shr(v[part][j], 2 * r), two), q3_k_high(high[part][j], 4 * h + r));
                cols_add_block(d, m_n, &acc, b + 4 * h + r, part, q, v_loadf(scale[8 * h + g]),
                               kind);
            }
        }
    }
    cols_end(d, m_n, &acc);
}

DIRECT(q2_k, cols_q2_k(d, m_n))
DIRECT(q3_k, cols_q3_k(d, m_n))
