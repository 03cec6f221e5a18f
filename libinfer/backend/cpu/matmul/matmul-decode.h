/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes 16 rows of W into a panel, for matmul-vec.h. matmul-kernels.h describes the panel.
 *
 * Rows are loaded 16 bytes at a time and transposed before they are decoded. So the columns of the
 * panel are side by side, and every further step works on one column per lane.
 */

/* Transposes VEC_N rows of 16 bytes. Before, each vector has VEC_N / 4 rows; afterwards each lane
 * of v[j] has 4-byte unit j of its row. */
INLINE void transpose(v_int v[4])
{
    const v_int a = v_low32(v[0], v[1]), b = v_high32(v[0], v[1]);
    const v_int c = v_low32(v[2], v[3]), d = v_high32(v[2], v[3]);

    v[0] = v_low64(a, c);
    v[1] = v_high64(a, c);
    v[2] = v_low64(b, d);
    v[3] = v_high64(b, d);
}

INLINE void load_rows16(const uint8_t *p, size_t stride, v_int v[4])
{
    UNROLL for (unsigned i = 0; i < 4; i++) v[i] = v_rows16(p + i * stride, stride);
    transpose(v);
}

/* Does what load_rows16() does, and does the prefetch steps @i to @i + 3. */
INLINE void load_rows16_ahead(const uint8_t *p, size_t stride, v_int v[4], const uint8_t *ahead,
                              const unsigned i, const unsigned n_bytes)
{
    UNROLL for (unsigned j = 0; j < 4; j++)
    {
        prefetch_step(ahead, i + j, PANEL_AHEAD(n_bytes));
        v[j] = v_rows16(p + j * stride, stride);
    }
    transpose(v);
}

/* Gathers the 2-byte field at @p from each block of 16 rows: for block b, @dst[b] gets the fields
 * of all rows. */
INLINE void gather16(const uint8_t *p, size_t stride, uint32_t n_blocks, uint32_t block_bytes,
                     uint16_t (*dst)[16])
{
    for (uint32_t b = 0; b < n_blocks; b++, p += block_bytes)
        for (unsigned i = 0; i < 16; i++)
            memcpy(&dst[b][i], p + i * stride, 2);
}

INLINE void gather32(const uint8_t *p, size_t stride, uint32_t n_blocks, uint32_t block_bytes,
                     uint32_t (*dst)[16])
{
    for (uint32_t b = 0; b < n_blocks; b++, p += block_bytes)
        for (unsigned i = 0; i < 16; i++)
            memcpy(&dst[b][i], p + i * stride, 4);
}

/* Decodes the 2-byte fields at @p into rows of @dst, which are PANEL_N floats apart. */
INLINE void decode_f16_fields(const uint8_t *p, size_t stride, uint32_t n_blocks,
                              uint32_t block_bytes, float (*dst)[PANEL_N])
{
    uint16_t bits[PANEL_K / 32][16] __attribute__((aligned(64)));

    gather16(p, stride, n_blocks, block_bytes, bits);
    for (uint32_t b = 0; b < n_blocks; b++)
        for (unsigned c = 0; c < 16; c += VEC_N)
            v_storef(&dst[b][c], v_from_f16(&bits[b][c]));
}

#define LOW_NIBBLES(v)  v_and(v, v_set(0x0f0f0f0f))
#define HIGH_NIBBLES(v) v_and(v_shr(v, 4), v_set(0x0f0f0f0f))

static void TILE_NAME(decode_q8_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const unsigned size = sizeof(struct block_q8_0), col = 16 * half;

    decode_f16_fields(w, row_bytes, kc / 32, size, (void *)&p->scale[0][col]);
    for (uint32_t b = 0; b < kc / 32; b++, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            UNROLL for (unsigned h = 0; h < 2; h++)
            {
                v_int v[4];

                load_rows16_ahead(w + 2 + 16 * h + c * row_bytes, row_bytes, v, *ahead, 4 * h,
                                  VEC_N * size / 8);
                UNROLL for (unsigned j = 0; j < 4; j++)
                {
                    if (!VEC_S8)
                        v[j] = v_xor(v[j], v_set(0x80808080));
                    v_store(p->q[8 * b + 4 * h + j][col + c], v[j]);
                }
            }
            *ahead += PANEL_AHEAD(VEC_N * size);
        }
    }
}

/* Decodes Q4_0, Q4_1, Q5_0 or Q5_1. These formats have blocks of 32 weights, with or without high
 * bits and offsets. */
INLINE void decode_32(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                      uint32_t kc, const uint8_t **ahead, bool has_offset, bool has_high)
{
    const unsigned q_at = 2 + 2 * has_offset + 4 * has_high, size = q_at + 16, col = 16 * half;
    uint32_t high[PANEL_K / 32][16] __attribute__((aligned(64)));

    decode_f16_fields(w, row_bytes, kc / 32, size, (void *)&p->scale[0][col]);
    if (has_offset)
        decode_f16_fields(w + 2, row_bytes, kc / 32, size, (void *)&p->offset[0][col]);
    if (has_high)
        gather32(w + q_at - 4, row_bytes, kc / 32, size, high);
    for (uint32_t b = 0; b < kc / 32; b++, w += size) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4], bits = v_zero();

            load_rows16_ahead(w + q_at + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * size / 4);
            *ahead += PANEL_AHEAD(VEC_N * size);
            if (has_high)
                bits = v_load(&high[b][c]);
            UNROLL for (unsigned j = 0; j < 8; j++)
            {
                v_int q = j < 4 ? LOW_NIBBLES(v[j % 4]) : HIGH_NIBBLES(v[j % 4]);

                /* The multiplication moves bit i of the four bits to bit 4 of byte i. */
                if (has_high) {
                    const v_int four = v_and(v_shr(bits, 4 * j), v_set(15));
                    const v_int spread = v_mul(four, v_set(0x00204081 << 4));

                    q = v_or(q, v_and(spread, v_set(0x10101010)));
                }
                v_store(p->q[8 * b + j][col + c], q);
            }
        }
    }
}

static void TILE_NAME(decode_q4_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    decode_32(p, half, w, row_bytes, kc, ahead, false, false);
}

static void TILE_NAME(decode_q4_1)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    decode_32(p, half, w, row_bytes, kc, ahead, true, false);
}

static void TILE_NAME(decode_q5_0)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    decode_32(p, half, w, row_bytes, kc, ahead, false, true);
}

static void TILE_NAME(decode_q5_1)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    decode_32(p, half, w, row_bytes, kc, ahead, true, true);
}

/*
 * Loads 64 bytes of each of VEC_N rows; v[q][j] has 4-byte unit 4q + j of each row. Distances
 * between rows of floats are often powers of two, so the lines of the rows compete for the same few
 * places in the cache. Therefore each line is read completely before another line replaces it.
 */
INLINE void load_rows64(const uint8_t *p, size_t row_bytes, const uint8_t **ahead, v_int v[4][4])
{
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        prefetch_step(*ahead, i, PANEL_AHEAD(VEC_N * 4));
        v[i % 4][i / 4] = v_rows16(p + 16 * (i % 4) + i / 4 * row_bytes, row_bytes);
    }
    *ahead += PANEL_AHEAD(VEC_N * 64);
    UNROLL for (unsigned q = 0; q < 4; q++) transpose(v[q]);
}

static void TILE_NAME(decode_f32)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                  size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 16, w += 64) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4][4];

            load_rows64(w + c * row_bytes, row_bytes, ahead, v);
            UNROLL for (unsigned i = 0; i < 16; i++)
                v_store(&p->f[k + i][16 * half + c], v[i / 4][i % 4]);
        }
    }
}

static void TILE_NAME(decode_f16)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                  size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            float(*f)[PANEL_N] = (void *)&p->f[k][16 * half + c];
            v_int v[4][4];

            load_rows64(w + c * row_bytes, row_bytes, ahead, v);
            UNROLL for (unsigned i = 0; i < 16; i++)
            {
                v_storef(f[2 * i], v_from_f16_low(v[i / 4][i % 4]));
                v_storef(f[2 * i + 1], v_from_f16_low(v_shr(v[i / 4][i % 4], 16)));
            }
        }
    }
}

static void TILE_NAME(decode_bf16)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            float(*f)[PANEL_N] = (void *)&p->f[k][16 * half + c];
            v_int v[4][4];

            load_rows64(w + c * row_bytes, row_bytes, ahead, v);
            UNROLL for (unsigned i = 0; i < 16; i++)
            {
                v_store(f[2 * i], v_shl(v[i / 4][i % 4], 16));
                v_store(f[2 * i + 1], v_and(v[i / 4][i % 4], v_set(0xffff0000)));
            }
        }
    }
}
