/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies IQ4_XS and NVFP4, for matmul-direct-cols.h. */

/* Loads the 16 bytes at @p of each of VEC_N rows, as load_rows16() does, with 4 prefetch steps. */
INLINE void cols_rows16(const uint8_t *p, size_t row_bytes, struct matmul_ahead *ahead,
                        const unsigned n_bytes, v_int v[4])
{
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        prefetch_turn(ahead, i, n_bytes);
        v[i] = v_rows16(p + i * row_bytes, row_bytes);
    }
    transpose(v);
}

INLINE void cols_iq4_xs(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_iq4_xs);
    const struct cols_kind kind = {
        .steps = 8, .zero = VEC_S8 ? 0 : 128, .is_s8 = VEC_S8, .narrow = 1};
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += size) {
        float scale[8][VEC_N] __attribute__((aligned(64)));

        decode_iq4_xs_scales(scale[0], VEC_N, affine_load(w, d->row_bytes),
                             affine_load(w + 4, d->row_bytes));
        UNROLL for (unsigned g = 0; g < 8; g++)
        {
            v_int v[4], q[8];

            cols_rows16(w + 8 + 16 * g, d->row_bytes, &ahead, VEC_N * size / 32, v);
            UNROLL for (unsigned j = 0; j < 8; j++) q[j] =
                v_table16(j < 4 ? LOW_NIBBLES(v[j % 4]) : HIGH_NIBBLES(v[j % 4]), iq4_codes);
            cols_add_block(d, m_n, &acc, b + g, 0, q, v_loadf(scale[g]), kind);
        }
    }
    cols_end(d, m_n, &acc);
}

INLINE void cols_nvfp4(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_nvfp4);
    const struct cols_kind kind = {.steps = 4, .zero = BLOCK_FP4_ZERO, .narrow = 4};
    struct matmul_ahead ahead = d->ahead;
    const uint8_t *w = d->w;
    struct cols_acc acc;

    cols_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 2, w += size) {
        const v_int e = nvfp4_clean(affine_load(w, d->row_bytes));

        UNROLL for (unsigned h = 0; h < 2; h++)
        {
            v_int v[4];

            cols_rows16(w + 4 + 16 * h, d->row_bytes, &ahead, VEC_N * size / 8, v);
            UNROLL for (unsigned part = 0; part < 2; part++)
            {
                v_int q[4];

                UNROLL for (unsigned j = 0; j < 4; j++) q[j] = v_table16(
                    j < 2 ? LOW_NIBBLES(v[2 * part + j % 2]) : HIGH_NIBBLES(v[2 * part + j % 2]),
                    fp4_codes);
                cols_add_block(d, m_n, &acc, b + h, part, q, nvfp4_half(e, 2 * h + part), kind);
            }
        }
    }
    cols_end(d, m_n, &acc);
}

DIRECT(iq4_xs, cols_iq4_xs(d, m_n))
DIRECT(nvfp4, cols_nvfp4(d, m_n))
