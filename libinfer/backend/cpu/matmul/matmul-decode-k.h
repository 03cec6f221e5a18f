/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes Q4_K, Q5_K and Q6_K, whose super-blocks have 256 weights, into a panel. Include it after
 * matmul-decode.h.
 *
 * quant/block.h shows the layouts. The headers of blocks are transposed as the weights are, so that
 * the scales of all columns are unpacked together.
 */

/* Unpacks the scales and offsets of 8 groups of weights from the first 16 bytes of Q4_K or Q5_K
 * super-blocks. Each lane of v[j] has 4-byte unit j of its row. */
INLINE void decode_k_scales(float *scale, float *offset, size_t stride, const v_int v[4])
{
    const v_int six = v_set(63), four = v_set(15), two = v_set(0x30);
    const v_flt d = v_from_f16_low(v[0]);
    const v_flt dmin = v_mulf(v_from_f16_low(v_shr(v[0], 16)), v_setf(-1));

    UNROLL for (unsigned g = 0; g < 4; g++)
    {
        const v_int s = v_shr(v[1], 8 * g), m = v_shr(v[2], 8 * g), both = v_shr(v[3], 8 * g);
        const v_int s4 = v_or(v_and(both, four), v_and(v_shr(s, 2), two));
        const v_int m4 = v_or(v_and(v_shr(both, 4), four), v_and(v_shr(m, 2), two));

        v_storef(scale + g * stride, v_mulf(d, v_to_float(v_and(s, six))));
        v_storef(scale + (g + 4) * stride, v_mulf(d, v_to_float(s4)));
        v_storef(offset + g * stride, v_mulf(dmin, v_to_float(v_and(m, six))));
        v_storef(offset + (g + 4) * stride, v_mulf(dmin, v_to_float(m4)));
    }
}

INLINE void decode_k_head(float *scale, float *offset, size_t stride, const uint8_t *w,
                          size_t row_bytes)
{
    v_int v[4];

    load_rows16(w, row_bytes, v);
    decode_k_scales(scale, offset, stride, v);
}

static void TILE_NAME(decode_q4_k)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 256, w += sizeof(struct block_q4_k)) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;

            decode_k_head(&p->scale[k / 32][col], &p->offset[k / 32][col], PANEL_N, rows,
                          row_bytes);
            for (unsigned i = 0; i < 8; i++) {
                const unsigned k4 = k / 4 + i / 2 * 16 + i % 2 * 4;
                v_int v[4];

                load_rows16_ahead(rows + 16 + 16 * i, row_bytes, v, *ahead, 0,
                                  VEC_N * sizeof(struct block_q4_k) / 32);
                *ahead += PANEL_AHEAD(VEC_N * sizeof(struct block_q4_k) / 8);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    v_store(p->q[k4 + j][col], LOW_NIBBLES(v[j]));
                    v_store(p->q[k4 + 8 + j][col], HIGH_NIBBLES(v[j]));
                }
            }
        }
    }
}

static void TILE_NAME(decode_q5_k)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const v_int bit4 = v_set(0x10101010);

    for (uint32_t k = 0; k < kc; k += 256, w += sizeof(struct block_q5_k)) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;

            decode_k_head(&p->scale[k / 32][col], &p->offset[k / 32][col], PANEL_N, rows,
                          row_bytes);
            for (unsigned h = 0; h < 2; h++) {
                v_int high[4];

                load_rows16(rows + 16 + 16 * h, row_bytes, high);
                UNROLL for (unsigned i = 0; i < 4; i++)
                {
                    const unsigned k4 = k / 4 + i * 16 + h * 4;
                    v_int v[4];

                    load_rows16_ahead(rows + 48 + 32 * i + 16 * h, row_bytes, v, *ahead, 4 * i,
                                      VEC_N * sizeof(struct block_q5_k) / 32);
                    UNROLL for (unsigned j = 0; j < 4; j++)
                    {
                        /* Bit 2i of each byte goes to bit 4 of h0, and bit 2i + 1 to bit 4 of
                         * h1. */
                        const v_int h0 = i < 2 ? v_shl(high[j], i < 2 ? 4 - 2 * i : 0)
                                               : v_shr(high[j], i < 2 ? 0 : 2 * i - 4);
                        const v_int h1 = i < 2 ? v_shl(high[j], i < 2 ? 3 - 2 * i : 0)
                                               : v_shr(high[j], i < 2 ? 0 : 2 * i - 3);

                        v_store(p->q[k4 + j][col], v_or(LOW_NIBBLES(v[j]), v_and(h0, bit4)));
                        v_store(p->q[k4 + 8 + j][col], v_or(HIGH_NIBBLES(v[j]), v_and(h1, bit4)));
                    }
                }
                *ahead += PANEL_AHEAD(VEC_N * sizeof(struct block_q5_k) / 2);
            }
        }
    }
}

/* Multiplies the 16 scales of a super-block by @d. Each lane of v[j] has 4 scales of its row. */
INLINE void decode_q6_k_scales(float *scale, size_t stride, v_flt d, const v_int v[4])
{
    UNROLL for (unsigned j = 0; j < 4; j++)
    {
        UNROLL for (unsigned g = 0; g < 4; g++)
        {
            const v_int s = v_sar(v_shl(v[j], 24 - 8 * g), 24);

            v_storef(scale + (4 * j + g) * stride, v_mulf(d, v_to_float(s)));
        }
    }
}

INLINE void decode_q6_k_head(float *scale, size_t stride, const uint8_t *w, size_t row_bytes)
{
    uint16_t bits[VEC_N];
    v_int v[4];

    for (unsigned i = 0; i < VEC_N; i++)
        memcpy(&bits[i], w + i * row_bytes + offsetof(struct block_q6_k, d), 2);
    load_rows16(w + offsetof(struct block_q6_k, scales), row_bytes, v);
    decode_q6_k_scales(scale, stride, v_from_f16(bits), v);
}

static void TILE_NAME(decode_q6_k)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const v_int high = v_set(0x30303030);
    const unsigned part = VEC_N * sizeof(struct block_q6_k) / 4;

    for (uint32_t k = 0; k < kc; k += 256, w += sizeof(struct block_q6_k)) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;

            decode_q6_k_head(&p->scale[k / 16][col], PANEL_N, rows, row_bytes);
            for (unsigned i = 0; i < 4; i++) {
                const unsigned at = i / 2, h = i % 2, k4 = k / 4 + at * 32 + h * 4;
                v_int a[4], b[4], t[4];

                load_rows16_ahead(rows + 64 * at + 16 * h, row_bytes, a, *ahead, 0, part / 12);
                load_rows16_ahead(rows + 64 * at + 32 + 16 * h, row_bytes, b, *ahead, 4, part / 12);
                load_rows16_ahead(rows + 128 + 32 * at + 16 * h, row_bytes, t, *ahead, 8,
                                  part / 12);
                *ahead += PANEL_AHEAD(part);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    const v_int t0 = v_and(v_shl(t[j], 4), high), t1 = v_and(v_shl(t[j], 2), high);
                    const v_int t2 = v_and(t[j], high), t3 = v_and(v_shr(t[j], 2), high);

                    v_store(p->q[k4 + j][col], v_or(LOW_NIBBLES(a[j]), t0));
                    v_store(p->q[k4 + 8 + j][col], v_or(LOW_NIBBLES(b[j]), t1));
                    v_store(p->q[k4 + 16 + j][col], v_or(HIGH_NIBBLES(a[j]), t2));
                    v_store(p->q[k4 + 24 + j][col], v_or(HIGH_NIBBLES(b[j]), t3));
                }
            }
        }
    }
}
