/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes MXFP4 and the ternary formats into a panel. Include it after matmul-decode.h.
 *
 * The panel holds a weight of MXFP4 as v + 16, where v is an integer of -12 … 12. The kernel of
 * Q5_0 multiplies such panels, because it subtracts 16 from each value. A weight of the ternary
 * formats is q - 1, where q is 0, 1, 2 or, in damaged files, 3. The panel holds it as q + 7. The
 * kernel of Q4_0 multiplies such panels, because it subtracts 8 from each value. v_table16(a,
 * table) replaces each byte b of a, which is 0 … 15, by table[b].
 */

/* v + BLOCK_FP4_ZERO for each code. */
static const uint8_t fp4_codes[16] __attribute__((aligned(16))) = {
    16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4,
};

/* Converts scales of MXFP4 to floats, as block_e8m0_half() does. The result 2^(e - 128) is computed
 * as the product of two powers of two, because it is subnormal for e < 2. */
INLINE v_flt e8m0_half(v_int e)
{
    const v_int low = v_add(v_shr(e, 1), v_set(63)),
                rest = v_add(v_shr(v_add(e, v_set(1)), 1), v_set(63));

    return v_mulf(v_bits(v_shl(low, 23)), v_bits(v_shl(rest, 23)));
}

/* Decodes the scales of blocks of 16 rows into rows of @dst, which are PANEL_N floats apart. */
INLINE void decode_e8m0_fields(const uint8_t *p, size_t stride, uint32_t n_blocks,
                               float (*dst)[PANEL_N])
{
    uint8_t e[PANEL_K / 32][16] __attribute__((aligned(64)));

    for (uint32_t b = 0; b < n_blocks; b++, p += sizeof(struct block_mxfp4))
        for (unsigned i = 0; i < 16; i++)
            e[b][i] = p[i * stride];
    for (uint32_t b = 0; b < n_blocks; b++)
        for (unsigned c = 0; c < 16; c += VEC_N)
            v_storef(&dst[b][c], e8m0_half(v_from_u8(&e[b][c])));
}

static void TILE_NAME(decode_mxfp4)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                    size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_mxfp4), col = 16 * half;

    decode_e8m0_fields(w, row_bytes, kc / 32, (void *)&p->scale[0][col]);
    for (uint32_t b = 0; b < kc / 32; b++, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + 1 + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * size / 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
            UNROLL for (unsigned j = 0; j < 4; j++)
            {
                v_store(p->q[8 * b + j][col + c], v_table16(LOW_NIBBLES(v[j]), fp4_codes));
                v_store(p->q[8 * b + j + 4][col + c], v_table16(HIGH_NIBBLES(v[j]), fp4_codes));
            }
        }
    }
}

/* Each of 16 rows has a super-block with one F16 scale. Writes the scale of each row 8 times
 * for each group of 32 weights. The scale of the first row is at @p, the next is @stride bytes
 * later. */
INLINE void decode_ternary_scales(const uint8_t *p, size_t stride, float (*dst)[PANEL_N])
{
    uint16_t bits[16] __attribute__((aligned(64)));

    gather16(p, stride, 1, 0, &bits);
    for (unsigned c = 0; c < 16; c += VEC_N) {
        const v_flt d = v_from_f16(&bits[c]);

        UNROLL for (unsigned g = 0; g < 8; g++) v_storef(&dst[g][c], d);
    }
}

INLINE v_int ternary_code(v_int q)
{
    return v_add(q, v_set(0x07070707));
}

static void TILE_NAME(decode_tq2_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                    size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_tq2_0), d_at = offsetof(struct block_tq2_0, d);
    const v_int two = v_set(0x03030303);

    for (uint32_t k = 0; k < kc; k += 256, w += size) {
        decode_ternary_scales(w + d_at, row_bytes, (void *)&p->scale[k / 32][16 * half]);
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;

            for (unsigned i = 0; i < 4; i++) {
                const unsigned k4 = k / 4 + i / 2 * 32 + i % 2 * 4;
                v_int v[4];

                load_rows16_ahead(w + 16 * i + c * row_bytes, row_bytes, v, *ahead, 4 * i,
                                  VEC_N * size / 16);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    v_store(p->q[k4 + j][col], ternary_code(v_and(v[j], two)));
                    v_store(p->q[k4 + 8 + j][col], ternary_code(v_and(v_shr(v[j], 2), two)));
                    v_store(p->q[k4 + 16 + j][col], ternary_code(v_and(v_shr(v[j], 4), two)));
                    v_store(p->q[k4 + 24 + j][col], ternary_code(v_and(v_shr(v[j], 6), two)));
                }
            }
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}

/* A byte of TQ1_0 holds five digits to base 3. This structure holds the remainders of 4 bytes after
 * their first digits have been taken: the remainders of bytes 0 and 2 as 16-bit numbers in @even,
 * and those of bytes 1 and 3 in @odd. */
struct ternary_rest {
    v_int even, odd;
};

INLINE struct ternary_rest ternary_begin(v_int v)
{
    return (struct ternary_rest){v_and(v, v_set(0x00ff00ff)),
                                 v_and(v_shr(v, 8), v_set(0x00ff00ff))};
}

/* Returns the next digits of 4 bytes. A remainder times 3 has the digit in its bits 8 and 9, and
 * the next remainder in the bits 0 … 7. */
INLINE v_int ternary_next(struct ternary_rest *rest)
{
    const v_int even = v_add(v_shl(rest->even, 1), rest->even);
    const v_int odd = v_add(v_shl(rest->odd, 1), rest->odd);

    rest->even = v_and(even, v_set(0x00ff00ff));
    rest->odd = v_and(odd, v_set(0x00ff00ff));
    return v_or(v_and(v_shr(even, 8), v_set(0x00030003)), v_and(odd, v_set(0x03000300)));
}

/* Decodes @n_digits digits of 4 bytes of each row, and writes digit n to p->q[to + n * step]. */
INLINE void decode_digits(struct matmul_panel *p, unsigned col, v_int v, unsigned to,
                          const unsigned step, const unsigned n_digits)
{
    struct ternary_rest rest = ternary_begin(v);

    UNROLL for (unsigned n = 0; n < n_digits; n++)
        v_store(p->q[to + n * step][col], ternary_code(ternary_next(&rest)));
}

static void TILE_NAME(decode_tq1_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                    size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_tq1_0), d_at = offsetof(struct block_tq1_0, d);

    for (uint32_t k = 0; k < kc; k += 256, w += size) {
        decode_ternary_scales(w + d_at, row_bytes, (void *)&p->scale[k / 32][16 * half]);
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;
            const uint8_t *rows = w + c * row_bytes;
            uint32_t last[VEC_N] __attribute__((aligned(64)));

            for (unsigned i = 0; i < 3; i++) {
                v_int v[4];

                load_rows16_ahead(rows + 16 * i, row_bytes, v, *ahead, 4 * i, VEC_N * size / 12);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    if (i < 2)
                        decode_digits(p, col, v[j], k / 4 + 4 * i + j, 8, 5);
                    else
                        decode_digits(p, col, v[j], k / 4 + 40 + j, 4, 5);
                }
            }
            for (unsigned i = 0; i < VEC_N; i++)
                memcpy(&last[i], rows + 48 + i * row_bytes, 4);
            decode_digits(p, col, v_load(last), k / 4 + 60, 1, 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}
