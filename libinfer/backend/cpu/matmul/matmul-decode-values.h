/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes IQ4_NL, IQ4_XS and NVFP4, whose codes of 4 bits are indices of a table, into a panel.
 * Include it after matmul-decode-affine.h and matmul-decode-small.h.
 *
 * The panel holds a weight of IQ4_NL or IQ4_XS in the same way as a weight of Q8_0. It holds a
 * weight of NVFP4 as v + 32, where v is an integer of -12 … 12. The kernel of Q6_K multiplies such
 * panels, because it subtracts 32 from each value.
 */

/* The values of IQ4_NL; if VEC_S8 is 0, plus 128. */
#define IQ4_CODE(value) (uint8_t)((value) + (VEC_S8 ? 0 : 128))
static const uint8_t iq4_codes[16] __attribute__((aligned(16))) = BLOCK_IQ4_VALUES(IQ4_CODE);

/* Decodes blocks of 32 weights at @w: 16 nibble pairs of each of VEC_N rows. */
INLINE void decode_iq4_32(uint8_t (*q)[PANEL_N][4], unsigned col, const uint8_t *w,
                          size_t row_bytes, const uint8_t *ahead, const unsigned n_ahead)
{
    v_int v[4];

    load_rows16_ahead(w, row_bytes, v, ahead, 0, n_ahead);
    UNROLL for (unsigned j = 0; j < 4; j++)
    {
        v_store(q[j][col], v_table16(LOW_NIBBLES(v[j]), iq4_codes));
        v_store(q[j + 4][col], v_table16(HIGH_NIBBLES(v[j]), iq4_codes));
    }
}

static void TILE_NAME(decode_iq4_nl)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                     size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_iq4_nl), col = 16 * half;

    decode_f16_fields(w, row_bytes, kc / 32, size, (void *)&p->scale[0][col]);
    for (uint32_t b = 0; b < kc / 32; b++, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            decode_iq4_32(&p->q[8 * b], col + c, w + 2 + c * row_bytes, row_bytes, *ahead,
                          VEC_N * size / 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}

/* Unpacks the scales of IQ4_XS super-blocks. The lanes of @head and @low have bytes 0 … 3 and 4 … 7
 * of their rows. */
INLINE void decode_iq4_xs_scales(float *scale, size_t stride, v_int head, v_int low)
{
    const v_flt d = v_from_f16_low(head);

    UNROLL for (unsigned g = 0; g < 8; g++)
    {
        const v_int top = v_shl(v_and(v_shr(head, 16 + 2 * g), v_set(3)), 4);
        const v_int s = v_add(v_or(v_and(v_shr(low, 4 * g), v_set(15)), top), v_set(-32));

        v_storef(scale + g * stride, v_mulf(d, v_to_float(s)));
    }
}

static void TILE_NAME(decode_iq4_xs)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                     size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_iq4_xs);

    for (uint32_t k = 0; k < kc; k += 256, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;

            decode_iq4_xs_scales(&p->scale[k / 32][col], PANEL_N, affine_load(rows, row_bytes),
                                 affine_load(rows + 4, row_bytes));
            for (unsigned g = 0; g < 8; g++) {
                decode_iq4_32(&p->q[k / 4 + 8 * g], col, rows + 8 + 16 * g, row_bytes, *ahead,
                              VEC_N * size / 32);
                *ahead += PANEL_AHEAD(VEC_N * size / 8);
            }
        }
    }
}

/* Replaces those of the 4 scales of NVFP4 in each lane that are 127 by 0, and clears the highest
 * bit of the others. */
INLINE v_int nvfp4_clean(v_int e)
{
    const v_int low = v_and(e, v_set(0x7f7f7f7f)), top = v_set(0x80808080);
    const v_int is_127 = v_and(v_and(v_add(low, v_set(0x01010101)), v_xor(e, top)), top);

    return v_xor(low, v_mul(v_shr(is_127, 7), v_set(127)));
}

/* Converts scale @g in each lane, as block_nvfp4_half() does. The 7 bits are the first bits of a
 * number in binary16 that is 2^-8 times as large. */
INLINE v_flt nvfp4_half(v_int clean, const unsigned g)
{
    const v_int e = v_and(v_shr(clean, 8 * g), v_set(127));

    return v_mulf(v_from_f16_low(v_shl(e, 7)), v_setf(128));
}

static void TILE_NAME(decode_nvfp4)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                    size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_nvfp4);

    for (uint32_t k = 0; k < kc; k += 64, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;
            const v_int e = nvfp4_clean(affine_load(rows, row_bytes));

            UNROLL for (unsigned g = 0; g < 4; g++)
                v_storef(&p->scale[k / 16 + g][col], nvfp4_half(e, g));
            UNROLL for (unsigned i = 0; i < 2; i++)
            {
                v_int v[4];

                load_rows16_ahead(rows + 4 + 16 * i, row_bytes, v, *ahead, 4 * i, VEC_N * size / 8);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    uint8_t(*q)[PANEL_N][4] = &p->q[k / 4 + 8 * i + j / 2 * 4 + j % 2];

                    v_store(q[0][col], v_table16(LOW_NIBBLES(v[j]), nvfp4_codes));
                    v_store(q[2][col], v_table16(HIGH_NIBBLES(v[j]), nvfp4_codes));
                }
            }
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}
