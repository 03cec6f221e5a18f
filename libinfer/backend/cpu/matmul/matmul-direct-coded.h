/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of CT8 and INT8 (quant/coded.h) by up to DIRECT_M prepared rows without a
 * panel, for matmul-vec.h. Include it after matmul-direct-cols.h and matmul-coded-gptq.h.
 *
 * Codes are loaded 16 bytes of a row at a time and transposed, so that each lane belongs to a row
 * of W.
 */

/* Holds the scales and zeros of VEC_N rows in some groups. */
struct coded_rows {
    uint32_t end;                       /* the first group that is not here */
    uint32_t scale[COLS_BLOCKS][VEC_N]; /* bits of floats; scales in F16: of halves */
    uint32_t zero[COLS_BLOCKS][VEC_N];
} __attribute__((aligned(64)));

INLINE void coded_rows_init(const struct matmul_direct *d, struct coded_rows *r)
{
    const struct coded_kind kind = coded_kind(d->coded->dtype);

    r->end = 0;
    for (unsigned j = 0; kind.has_zero && !d->coded->zeros && j < COLS_BLOCKS; j++)
        v_store(r->zero[j], v_set(1u << (kind.bits - 1)));
}

/* Loads the scales of @n groups of the row @row from group @g on. */
INLINE void coded_rows_scales(const struct coded *c, uint32_t row, uint32_t g, uint32_t n,
                              unsigned i, struct coded_rows *r)
{
    const uint32_t scales = c->group_rows == 1 ? row : row / c->group_rows;
    const uint64_t at = (uint64_t)scales * coded_groups(c) + g;
    const uint8_t *p = c->scales;

    for (uint32_t j = 0; j < n; j++) {
        uint16_t half;

        if (c->scale_type == INF_DTYPE_F32) {
            memcpy(&r->scale[j][i], p + 4 * (at + j), 4);
        } else {
            memcpy(&half, p + 2 * (at + j), 2);
            r->scale[j][i] = c->scale_type == INF_DTYPE_F16 ? half : (uint32_t)half << 16;
        }
    }
}

/* Loads the scales of COLS_BLOCKS groups, each of which belongs to one row. */
INLINE void coded_rows_all(const struct matmul_direct *d, uint32_t g, struct coded_rows *r)
{
    const struct coded *c = d->coded;
    const unsigned size = c->scale_type == INF_DTYPE_F32 ? 4 : 2;
    const size_t stride = (size_t)coded_groups(c) * size;
    const uint8_t *p = (const uint8_t *)c->scales + d->coded_row * stride + (size_t)g * size;
    const v_int high = v_set(0xffff0000);
    v_int v[COLS_BLOCKS];

    load_rows16(p, stride, v);
    if (size == 4)
        load_rows16(p + 16, stride, v + 4);
    UNROLL for (unsigned j = 0; j < COLS_BLOCKS; j++)
    {
        const v_int two = v[j / 2];
        const v_int half = c->scale_type == INF_DTYPE_F16 ? v_shr(v_shl(two, 16 - j % 2 * 16), 16)
                           : j % 2 == 0                   ? v_shl(two, 16)
                                                          : v_and(two, high);

        v_store(r->scale[j], size == 4 ? v[j] : half);
    }
}

/* Loads up to COLS_BLOCKS groups from @g on. All words are stored before the first is loaded as a
 * part of a vector, because such a load waits for stores to its bytes. */
static __attribute__((noinline)) void TILE_NAME(coded_rows_load)(const struct matmul_direct *d,
                                                                 uint32_t g, struct coded_rows *r)
{
    const struct coded *c = d->coded;
    const uint32_t n = MIN(coded_groups(c) - g, COLS_BLOCKS);

    const bool all = n == COLS_BLOCKS && c->group_rows == 1;

    r->end = g + n;
    if (all)
        coded_rows_all(d, g, r);
    for (unsigned i = 0; i < VEC_N; i++) {
        if (!all)
            coded_rows_scales(c, d->coded_row + i, g, n, i, r);
        for (uint32_t j = 0; c->zeros && j < n; j++)
            r->zero[j][i] = coded_zero(c, d->coded_row + i, g + j);
    }
}

/* Returns the place of the group of block @b in @r, and loads the group if it
 * is not there. */
INLINE uint32_t coded_rows_find(const struct matmul_direct *d, uint32_t b, struct coded_rows *r)
{
    const uint32_t g = 32 * b / d->coded->group;

    if (g == r->end)
        TILE_NAME(coded_rows_load)(d, g, r);
    return g % COLS_BLOCKS;
}

INLINE v_flt coded_rows_scale(const struct matmul_direct *d, const uint32_t bits[VEC_N])
{
    const v_int v = v_load(bits);

    return d->coded->scale_type == INF_DTYPE_F16 ? v_from_f16_low(v) : v_bits(v);
}

/* Multiplies codes of 8 bits: a weight is scale × (code - 128) + scale × (128 -
 * zero). */
INLINE void direct_coded8(struct matmul_direct *d, const unsigned m_n)
{
    const struct cols_kind kind = {
        .steps = 8, .zero = VEC_S8 ? 0 : 128, .is_s8 = VEC_S8, .narrow = 1};
    const uint32_t flip = VEC_S8 ^ (d->coded->dtype == INF_DTYPE_INT8) ? 0x80808080 : 0;
    struct matmul_ahead ahead = d->ahead;
    struct coded_rows rows;
    struct cols_acc acc;

    coded_rows_init(d, &rows);
    cols_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b++) {
        const uint32_t g = coded_rows_find(d, b, &rows);
        const v_flt scale = coded_rows_scale(d, rows.scale[g]);
        const v_int minus = v_xor(v_load(rows.zero[g]), v_set(UINT32_MAX)); /* -1 - zero */
        const v_flt offset = v_mulf(scale, v_to_float(v_add(minus, v_set(129))));
        v_int v[8];

        UNROLL for (unsigned h = 0; h < 2; h++)
            cols_rows16(d->w + 32 * (size_t)b + 16 * h, d->row_bytes, &ahead, VEC_N * 4, v + 4 * h);
        UNROLL for (unsigned i = 0; i < 8; i++) v[i] = v_xor(v[i], v_set(flip));
        cols_add_block(d, m_n, &acc, b, 0, v, scale, kind);
        UNROLL for (unsigned m = 0; m < m_n; m++) acc.offset[m] =
            v_fma(offset, v_bcastf(&cols_x(d, m, b)->s), acc.offset[m]);
        cols_chunk(d, m_n, &acc, b + 1);
    }
    cols_end(d, m_n, &acc);
}

DIRECT(coded8, direct_coded8(d, m_n))
