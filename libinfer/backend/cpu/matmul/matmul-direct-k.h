/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies Q4_K, Q5_K and Q6_K, for matmul-direct.h. */

/* Moves bit g of each byte to bit 4. */
INLINE v_int direct_bit4(v_int v, const unsigned g)
{
    return v_and(g < 4 ? v_shl(v, g < 4 ? 4 - g : 0) : v_shr(v, g < 4 ? 0 : g - 4),
                 v_set(0x10101010));
}

/* Multiplies Q4_K or Q5_K. */
INLINE void direct_k(struct matmul_direct *d, const unsigned m_n, const bool has_high)
{
    const unsigned size = has_high ? sizeof(struct block_q5_k) : sizeof(struct block_q4_k);
    const unsigned q_at = has_high ? 48 : 16;
    const enum direct_size sums = has_high ? DIRECT_ONE : DIRECT_BOTH;
    const uint8_t *w = d->w;
    float scale[8][VEC_N] __attribute__((aligned(64)));
    float offset[8][VEC_N] __attribute__((aligned(64)));
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += size) {
        decode_k_head(scale[0], offset[0], VEC_N, w, d->row_bytes);
        UNROLL for (unsigned g = 0; g < 8; g++)
        {
            v_int v[8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const uint8_t *row = w + DIRECT_ROW(i) * d->row_bytes;

                if (g % 2 == 0)
                    prefetch_step(d->ahead.at, i, VEC_N * size / 32);
                v[i] = v_rows32(row + q_at + g / 2 * 32, d->row_bytes);
                v[i] = g % 2 ? HIGH_NIBBLES(v[i]) : LOW_NIBBLES(v[i]);
                if (has_high)
                    v[i] = v_or(v[i], direct_bit4(v_rows32(row + 16, d->row_bytes), g));
            }
            if (g % 2 == 0)
                prefetch_move(&d->ahead, VEC_N * size / 4);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b + g);

                acc.v[m] = direct_add(acc.v[m], direct_sum32(v, v_x32(x->q), sums, false), 0,
                                      v_loadf(scale[g]), x);
                acc.offset[m] = v_fma(v_loadf(offset[g]), v_bcastf(&x->s), acc.offset[m]);
            }
        }
        direct_chunk(d, m_n, &acc, b + 8);
    }
    direct_end(d, m_n, &acc);
}

INLINE void direct_q6_k(struct matmul_direct *d, const unsigned m_n)
{
    const v_int high = v_set(0x30303030);
    const uint8_t *w = d->w;
    float scale[16][VEC_N] __attribute__((aligned(64)));
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += sizeof(struct block_q6_k)) {
        decode_q6_k_head(scale[0], VEC_N, w, d->row_bytes);
        UNROLL for (unsigned g = 0; g < 8; g++)
        {
            const uint8_t *q = w + g / 4 * 64 + g % 2 * 32, *t = w + 128 + g / 4 * 32;
            v_int v[8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const v_int four = v_rows32(q + DIRECT_ROW(i) * d->row_bytes, d->row_bytes);
                const v_int two = v_rows32(t + DIRECT_ROW(i) * d->row_bytes, d->row_bytes);

                if (g % 2 == 0)
                    prefetch_step(d->ahead.at, i, VEC_N * sizeof(struct block_q6_k) / 32);
                v[i] = g % 4 < 2 ? LOW_NIBBLES(four) : HIGH_NIBBLES(four);
                v[i] = v_or(v[i], v_and(g % 4 < 2 ? v_shl(two, g % 4 < 2 ? 4 - 2 * (g % 4) : 0)
                                                  : v_shr(two, g % 4 < 2 ? 0 : 2 * (g % 4) - 4),
                                        high));
            }
            if (g % 2 == 0)
                prefetch_move(&d->ahead, VEC_N * sizeof(struct block_q6_k) / 4);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b + g);
                v_int sum[2];

                direct_sum16(v, v_x32(x->q), DIRECT_ONE, sum);
                UNROLL for (unsigned j = 0; j < 2; j++) acc.v[m] =
                    direct_add(acc.v[m], sum[j], x->nsum[j] * 32, v_loadf(scale[2 * g + j]), x);
            }
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(q4_k, direct_k(d, m_n, false))
DIRECT(q5_k, direct_k(d, m_n, true))
DIRECT(q6_k, direct_q6_k(d, m_n))
