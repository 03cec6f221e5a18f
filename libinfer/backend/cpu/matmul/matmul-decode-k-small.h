/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes Q2_K and Q3_K into a panel. Include it after matmul-decode-affine.h.
 *
 * Both formats have a scale for each 16 weights. The panel holds a weight of Q2_K as sc × q, which
 * is at most 45, so its scale in the panel is d. The panel also has an offset for each 16 weights.
 * It holds a weight of Q3_K as q + 28, which stands for q - 4. The kernel of Q6_K multiplies panels
 * of Q3_K, because it subtracts 32 from each value.
 */

/* Unpacks the scales of Q2_K super-blocks: each lane of v[j] has bytes 4j … 4j + 3 of its row, and
 * @d has d and dmin. @scale gets d for each 32 weights, and @offset gets dmin × mn. */
INLINE void decode_q2_k_scales(float *scale, float *offset, size_t stride, const v_int v[4],
                               v_int d)
{
    const v_flt d_scale = v_from_f16_low(d), d_min = v_from_f16_low(v_shr(d, 16));

    UNROLL for (unsigned g = 0; g < 16; g++)
    {
        const v_int mn = v_and(v_shr(v[g / 4], g % 4 * 8 + 4), v_set(15));

        if (g < 8)
            v_storef(scale + g * stride, d_scale);
        v_storef(offset + g * stride, v_mulf(d_min, v_to_float(mn)));
    }
}

/* Writes 16 weights of each row: their 2 bits at place @r in the bytes of @v, times the scale of 4
 * bits in each lane of @sc. The products of a lane's bytes do not carry into each other. */
INLINE void decode_q2_k_16(uint8_t (*q)[PANEL_N][4], unsigned col, const v_int v[4],
                           const unsigned r, v_int sc)
{
    UNROLL for (unsigned j = 0; j < 4; j++)
        v_store(q[j][col], v_mul(v_and(v_shr(v[j], 2 * r), v_set(0x03030303)), sc));
}

static void TILE_NAME(decode_q2_k)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_q2_k);

    for (uint32_t k = 0; k < kc; k += 256, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;
            v_int head[4];

            load_rows16(rows, row_bytes, head);
            decode_q2_k_scales(&p->scale[k / 32][col], &p->offset[k / 16][col], PANEL_N, head,
                               affine_load(rows + offsetof(struct block_q2_k, d), row_bytes));
            UNROLL for (unsigned i = 0; i < 4; i++)
            {
                v_int v[4];

                load_rows16_ahead(rows + 16 + 16 * i, row_bytes, v, *ahead, 4 * i,
                                  VEC_N * size / 16);
                UNROLL for (unsigned r = 0; r < 4; r++)
                {
                    const unsigned g = i / 2 * 8 + 2 * r + i % 2;
                    const v_int sc = v_and(v_shr(head[g / 4], g % 4 * 8), v_set(15));

                    decode_q2_k_16(&p->q[k / 4 + 4 * g], col, v, r, sc);
                }
            }
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}

/* Unpacks the scales of Q3_K super-blocks. The lanes of @low0, @low1 and @high have bytes 0 … 3, 4
 * … 7 and 8 … 11 of the scales. */
INLINE void decode_q3_k_scales(float *scale, size_t stride, v_flt d, v_int low0, v_int low1,
                               v_int high)
{
    UNROLL for (unsigned g = 0; g < 16; g++)
    {
        const v_int low = v_shr(g / 4 % 2 ? low1 : low0, g % 4 * 8 + g / 8 * 4);
        const v_int top = v_shl(v_and(v_shr(high, g % 4 * 8 + g / 4 * 2), v_set(3)), 4);
        const v_int s = v_add(v_or(v_and(low, v_set(15)), top), v_set(-32));

        v_storef(scale + g * stride, v_mulf(d, v_to_float(s)));
    }
}

INLINE void decode_q3_k_head(float *scale, size_t stride, const uint8_t *w, size_t row_bytes)
{
    uint16_t bits[VEC_N] __attribute__((aligned(64)));
    const uint8_t *s = w + offsetof(struct block_q3_k, scales);

    UNROLL for (unsigned i = 0; i < VEC_N; i++)
        memcpy(&bits[i], w + i * row_bytes + offsetof(struct block_q3_k, d), 2);
    decode_q3_k_scales(scale, stride, v_from_f16(bits), affine_load(s, row_bytes),
                       affine_load(s + 4, row_bytes), affine_load(s + 8, row_bytes));
}

/* Returns bit @bit of each byte of @v as bit 2. */
INLINE v_int q3_k_high(v_int v, const unsigned bit)
{
    return v_and(bit < 2 ? v_shl(v, bit < 2 ? 2 - bit : 0) : v_shr(v, bit < 2 ? 0 : bit - 2),
                 v_set(0x04040404));
}

static void TILE_NAME(decode_q3_k)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_q3_k);
    const v_int two = v_set(0x03030303), more = v_set(0x1c1c1c1c);

    for (uint32_t k = 0; k < kc; k += 256, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;

            decode_q3_k_head(&p->scale[k / 16][col], PANEL_N, rows, row_bytes);
            for (unsigned i = 0; i < 2; i++) {
                v_int high[4];

                load_rows16(rows + 16 * i, row_bytes, high);
                UNROLL for (unsigned h = 0; h < 2; h++)
                {
                    v_int v[4];

                    load_rows16_ahead(rows + 32 + 32 * h + 16 * i, row_bytes, v, *ahead, 4 * h,
                                      VEC_N * size / 16);
                    UNROLL for (unsigned j = 0; j < 4; j++)
                    {
                        UNROLL for (unsigned r = 0; r < 4; r++)
                        {
                            const v_int q =
                                v_or(v_and(v_shr(v[j], 2 * r), two), q3_k_high(high[j], 4 * h + r));

                            v_store(p->q[k / 4 + 32 * h + 8 * r + 4 * i + j][col], v_add(q, more));
                        }
                    }
                }
                *ahead += PANEL_AHEAD(VEC_N * size / 2);
            }
        }
    }
}
