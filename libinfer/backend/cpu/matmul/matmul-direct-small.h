/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies MXFP4 and TQ2_0, for matmul-direct.h. */

/* Converts the scales of up to DIRECT_BLOCKS blocks of VEC_N rows to floats. */
INLINE void direct_e8m0(const uint8_t *p, size_t row_bytes, uint32_t n_blocks, float dst[][VEC_N])
{
    uint8_t e[DIRECT_BLOCKS][VEC_N] __attribute__((aligned(64)));

    n_blocks = MIN(n_blocks, DIRECT_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++, p += sizeof(struct block_mxfp4))
        UNROLL for (unsigned i = 0; i < VEC_N; i++) memcpy(&e[b][i], p + i * row_bytes, 1);
    for (uint32_t b = 0; b < n_blocks; b++)
        v_storef(dst[b], e8m0_half(v_from_u8(e[b])));
}

INLINE void direct_mxfp4(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_mxfp4);
    const uint8_t *w = d->w;
    float scale[DIRECT_BLOCKS][VEC_N] __attribute__((aligned(64)));
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b++, w += size) {
        v_int low[4], high[4];

        if (b % DIRECT_BLOCKS == 0)
            direct_e8m0(w, d->row_bytes, d->K / 32 - b, scale);
        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            const v_int v = v_rows16(w + 1 + i * d->row_bytes, d->row_bytes);

            prefetch_step(d->ahead.at, i, VEC_N * size / 4);
            low[i] = v_table16(LOW_NIBBLES(v), fp4_codes);
            high[i] = v_table16(HIGH_NIBBLES(v), fp4_codes);
        }
        prefetch_move(&d->ahead, VEC_N * size);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const v_int x0 = v_x16(x->q), x1 = v_x16(x->q + 16);
            const int32_t n = (x->nsum[0] + x->nsum[1]) * BLOCK_FP4_ZERO;
            v_int v[4];

            UNROLL for (unsigned i = 0; i < 4; i++) v[i] =
                v_dot(v_dot(v_zero(), low[i], x0), high[i], x1);
            acc.v[m] = direct_add(acc.v[m], direct_add4(v, DIRECT_ONE), n,
                                  v_loadf(scale[b % DIRECT_BLOCKS]), x);
        }
    }
    direct_end(d, m_n, &acc);
}

/* Loads the scales of the super-blocks at @p of VEC_N rows. */
INLINE v_flt direct_halfs(const uint8_t *p, size_t row_bytes)
{
    uint16_t bits[VEC_N] __attribute__((aligned(64)));

    UNROLL for (unsigned i = 0; i < VEC_N; i++) memcpy(&bits[i], p + i * row_bytes, 2);
    return v_from_f16(bits);
}

INLINE void direct_tq2_0(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_tq2_0);
    const v_int two = v_set(0x03030303);
    const uint8_t *w = d->w;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += size) {
        const v_flt scale = direct_halfs(w + offsetof(struct block_tq2_0, d), d->row_bytes);

        UNROLL for (unsigned g = 0; g < 8; g++)
        {
            v_int v[8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const uint8_t *q = w + g / 4 * 32 + DIRECT_ROW(i) * d->row_bytes;

                if (g % 4 == 0)
                    prefetch_step(d->ahead.at, i, VEC_N * size / 16);
                v[i] = v_and(v_shr(v_rows32(q, d->row_bytes), 2 * (g % 4)), two);
            }
            if (g % 4 == 0)
                prefetch_move(&d->ahead, VEC_N * size / 2);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b + g);
                const v_int sum = direct_sum32(v, v_x32(x->q), DIRECT_BOTH, false);

                acc.v[m] = direct_add(acc.v[m], sum, x->nsum[0] + x->nsum[1], scale, x);
            }
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(mxfp4, direct_mxfp4(d, m_n))
DIRECT(tq2_0, direct_tq2_0(d, m_n))
