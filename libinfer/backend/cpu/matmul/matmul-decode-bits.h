/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes Q1_0 and Q2_0 into a panel. Include it after matmul-decode-affine.h and
 * matmul-decode-small.h.
 *
 * The panel holds a weight as 8 plus the integer for which it stands: -1 or 1, or -1 … 2. The
 * kernel of Q4_0 multiplies such panels, because it subtracts 8 from each value.
 */

/* Decodes the scales of blocks of 16 rows into rows of @dst, each @n times. */
INLINE void decode_f16_repeated(const uint8_t *p, size_t stride, uint32_t n_blocks,
                                uint32_t block_bytes, const unsigned n, float (*dst)[PANEL_N])
{
    uint16_t bits[PANEL_K / 32][16] __attribute__((aligned(64)));

    gather16(p, stride, n_blocks, block_bytes, bits);
    for (uint32_t b = 0; b < n_blocks; b++)
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const v_flt d = v_from_f16(&bits[b][c]);

            UNROLL for (unsigned i = 0; i < n; i++) v_storef(&dst[n * b + i][c], d);
        }
}

static void TILE_NAME(decode_q1_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_q1_0);

    decode_f16_repeated(w, row_bytes, kc / 128, size, 4, (void *)&p->scale[0][16 * half]);
    for (uint32_t k = 0; k < kc; k += 128, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            v_int v[4];

            load_rows16_ahead(w + 2 + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * size / 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
            UNROLL for (unsigned j = 0; j < 4; j++)
            {
                UNROLL for (unsigned i = 0; i < 8; i++)
                {
                    /* The multiplication moves bit n of the four bits to bit 1 of byte n. */
                    const v_int four = v_and(v_shr(v[j], 4 * i), v_set(15));
                    const v_int spread = v_mul(four, v_set(0x00204081 << 1));

                    v_store(p->q[k / 4 + 8 * j + i][col],
                            ternary_code(v_and(spread, v_set(0x02020202))));
                }
            }
        }
    }
}

static void TILE_NAME(decode_q2_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_q2_0);

    decode_f16_repeated(w, row_bytes, kc / 64, size, 2, (void *)&p->scale[0][16 * half]);
    for (uint32_t k = 0; k < kc; k += 64, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + 2 + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * size / 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
            UNROLL for (unsigned i = 0; i < 16; i++) v_store(
                p->q[k / 4 + i][16 * half + c], ternary_code(affine_spread2(v[i / 4], i % 4)));
        }
    }
}
