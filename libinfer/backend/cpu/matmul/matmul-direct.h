/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies 8 rows of W by up to DIRECT_M prepared rows, directly from the stored blocks, for
 * matmul-vec.h.
 *
 * With few prepared rows, decoding into a panel (matmul-kernels.h) costs more time than it saves.
 * Therefore the functions of this file load blocks of several rows as they are stored, unpack them
 * in registers and multiply them. The partial sums of a row are in 4 or 8 lanes. They are added
 * across lanes as integers, so that a vector holds the exact sum of one block of each row. The
 * float arithmetic after that is the same as that of the tiles.
 *
 * The including file defines, besides the operations of matmul-vec.h:
 *   v_rows32(p, stride)  32 bytes of VEC_N / 8 rows that are 4 × stride apart
 *   v_x32(p), v_x16(p)   32 or 16 bytes, repeated
 *   v_pack16(a, b)       lanes of a and b, narrowed to 16 bits, per 16 bytes
 *   v_pair16(a)          sums of pairs of 16-bit lanes
 *   v_even(a, b), v_odd(a, b)   32-bit lanes 0, 2 or 1, 3 of a and b, per 16 bytes
 *   v_firsts(a, b), v_seconds(a, b)   16-byte lanes 0, 2, … or 1, 3, … of a, then of b
 *   v_spread(a, at, half)   in each 16 bytes, bit 4 of byte i is bit i + 16 × half of bytes at …
 *                           at + 3
 *   v_from_f16_two(a, ret)   sets ret[0] to the lower halves of all lanes as floats, and ret[1] to
 *                            the upper halves
 */

#include "backend/cpu/matmul/matmul-direct-rows.h"

#define DIRECT_BLOCKS 16u /* blocks whose scales are converted at once */

/* Two steps add the 32-bit lanes within 16 bytes. The value says in how many of these steps the
 * partial sums fit in 16 bits: in none, in one or in both. */
enum direct_size { DIRECT_WIDE, DIRECT_ONE, DIRECT_BOTH };

/* Returns [a, b, c, d] in each 16 bytes: the sums of the 4 lanes that v[0], v[1], v[2] and v[3]
 * have in these bytes. */
INLINE v_int direct_add4(const v_int v[4], const enum direct_size size)
{
    v_int a, b;

    if (size == DIRECT_WIDE) {
        a = v_add(v_low32(v[0], v[1]), v_high32(v[0], v[1]));
        b = v_add(v_low32(v[2], v[3]), v_high32(v[2], v[3]));
        return v_add(v_low64(a, b), v_high64(a, b));
    }
    a = v_pair16(v_pack16(v[0], v[1]));
    b = v_pair16(v_pack16(v[2], v[3]));
    if (size == DIRECT_BOTH)
        return v_pair16(v_pack16(a, b));
    return v_add(v_even(a, b), v_odd(a, b));
}

/* The number of the first row in vector i of 8. */
#define DIRECT_ROW(i) ((i) % 4 + (i) / 4 * (VEC_N / 2))

INLINE v_int direct_dot(v_int w, v_int x, const bool is_s8)
{
    return is_s8 ? v_dot_s8(v_zero(), w, x) : v_dot(v_zero(), w, x);
}

/* Returns the first 4 bytes of the VEC_N rows of @v. */
INLINE v_int direct_first(const v_int v[4])
{
    return v_low64(v_low32(v[0], v[1]), v_low32(v[2], v[3]));
}

/* Returns for each of VEC_N rows the sum of 32 products. */
INLINE v_int direct_sum32(const v_int w[8], v_int x, const enum direct_size size, const bool is_s8)
{
    v_int v[8], a, b;

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = direct_dot(w[i], x, is_s8);
    a = direct_add4(v, size);
    b = direct_add4(v + 4, size);
    return v_add(v_firsts(a, b), v_seconds(a, b));
}

/* Does the same as direct_sum32(), but with two sums: one of the first 16 products, and one of the
 * other 16. */
INLINE void direct_sum16(const v_int w[8], v_int x, const enum direct_size size, v_int sum[2])
{
    v_int v[8], a, b;

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = direct_dot(w[i], x, false);
    a = direct_add4(v, size);
    b = direct_add4(v + 4, size);
    sum[0] = v_firsts(a, b);
    sum[1] = v_seconds(a, b);
}

/* Adds the sums for one scale to acc. If weights are stored with a constant added to them, @n
 * corrects the sums: it is minus this constant times the sum of x. */
INLINE v_flt direct_add(v_flt acc, v_int sum, int32_t n, v_flt scale, const struct matmul_q8 *x)
{
    const v_flt scaled = v_mulf(v_to_float(v_add(sum, v_set(n))), scale);

    return v_fma(scaled, v_bcastf(&x->d), acc);
}

INLINE const struct matmul_q8 *direct_x(const struct matmul_direct *d, unsigned m, uint32_t block)
{
    return (const struct matmul_q8 *)(d->act + m * d->act_stride) + block;
}

/* Holds the sums of 8 rows, and the sums of offsets in the current chunk of k. */
struct direct_acc {
    v_flt v[DIRECT_M], offset[DIRECT_M];
};

INLINE void direct_begin(const struct matmul_direct *d, const unsigned m_n, struct direct_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc->v[m] = v_loadf(d->init);
        acc->offset[m] = v_setf(0);
    }
}

/* Adds the sums of offsets to the other sums if a chunk or the row ends right before block @b. All
 * blocks before @b must have been added. */
INLINE void direct_chunk(const struct matmul_direct *d, const unsigned m_n, struct direct_acc *acc,
                         uint32_t b)
{
    if (b * 32 % PANEL_K != 0 && b * 32 < d->K)
        return;
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc->v[m] = v_addf(acc->v[m], acc->offset[m]);
        acc->offset[m] = v_setf(0);
    }
}

INLINE void direct_end(const struct matmul_direct *d, const unsigned m_n,
                       const struct direct_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++) v_storef(d->y + m * d->ldy, acc->v[m]);
}

/* Converts the 2-byte fields at @p, of up to DIRECT_BLOCKS blocks of VEC_N rows, to floats. */
INLINE void direct_fields(const uint8_t *p, size_t row_bytes, uint32_t n_blocks,
                          const unsigned block_bytes, float dst[][VEC_N])
{
    uint16_t bits[DIRECT_BLOCKS][VEC_N] __attribute__((aligned(64)));

    n_blocks = MIN(n_blocks, DIRECT_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++, p += block_bytes)
        UNROLL for (unsigned i = 0; i < VEC_N; i++)
        {
            memcpy(&bits[b][i], p + i * row_bytes, 2);
            /* Without this, gcc collects the fields in vectors with shuffles, which takes
             * longer. */
            __asm__("" : "+m"(bits[b][i]));
        }
    for (uint32_t b = 0; b < n_blocks; b++)
        v_storef(dst[b], v_from_f16(bits[b]));
}

INLINE void direct_q8_0(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q8_0);
    const uint8_t *w = d->w;
    float scale[DIRECT_BLOCKS][VEC_N] __attribute__((aligned(64)));
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b++, w += size) {
        v_int v[8];

        if (b % DIRECT_BLOCKS == 0)
            direct_fields(w, d->row_bytes, d->K / 32 - b, size, scale);
        UNROLL for (unsigned i = 0; i < 8; i++)
        {
            prefetch_step(d->ahead.at, i, VEC_N * size / 8);
            v[i] = v_rows32(w + 2 + DIRECT_ROW(i) * d->row_bytes, d->row_bytes);
            if (!VEC_S8)
                v[i] = v_xor(v[i], v_set(0x80808080));
        }
        prefetch_move(&d->ahead, VEC_N * size);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const v_int sum = direct_sum32(v, v_x32(x->q), DIRECT_WIDE, VEC_S8);
            const int32_t n = VEC_S8 ? 0 : (x->nsum[0] + x->nsum[1]) * 128;

            acc.v[m] = direct_add(acc.v[m], sum, n, v_loadf(scale[b % DIRECT_BLOCKS]), x);
        }
    }
    direct_end(d, m_n, &acc);
}

/* Describes a format whose blocks have 16 bytes of nibble pairs, with or without high bits and an
 * offset. The nibbles of IQ4_NL are replaced by values. */
struct direct_32 {
    bool has_offset, has_high, is_iq4;
};

/* Unpacks 16 bytes of nibble pairs of VEC_N / 4 rows. @head has the first bytes of their blocks. */
INLINE void direct_32_unpack(const struct direct_32 f, v_int q, v_int head, v_int v[2])
{
    v[0] = LOW_NIBBLES(q);
    v[1] = HIGH_NIBBLES(q);
    UNROLL for (unsigned half = 0; half < 2; half++)
    {
        if (f.has_high)
            v[half] = v_or(v[half], v_spread(head, 2 + 2 * f.has_offset, half));
        if (f.is_iq4)
            v[half] = v_table16(v[half], iq4_codes);
    }
}

/* Returns in each lane the sum of 4 products of v[0] and 4 of v[1]. If weights are at most 31, the
 * sums of two pairs of products fit in 16 bits: 31 × 127 × 4 is 15748. */
INLINE v_int direct_32_dot(const struct direct_32 f, const v_int v[2], const struct matmul_q8 *x)
{
    const v_int x0 = v_x16(x->q), x1 = v_x16(x->q + 16);

    if (f.is_iq4 && VEC_S8)
        return v_dot_s8(v_dot_s8(v_zero(), v[0], x0), v[1], x1);
    if (VEC_PAIRS && !f.is_iq4)
        return v_widen(v_zero(), v_add16(v_pairs(v[0], x0), v_pairs(v[1], x1)));
    return v_dot(v_dot(v_zero(), v[0], x0), v[1], x1);
}

/* Adds the products of a block to the sums of prepared row @m. @v has the products of VEC_N / 4
 * rows in each vector. */
INLINE void direct_32_add(const struct direct_32 f, const v_int v[4], const v_flt scale[2],
                          const struct matmul_q8 *x, struct direct_acc *acc, const unsigned m)
{
    const enum direct_size sums = f.is_iq4 ? DIRECT_WIDE : f.has_high ? DIRECT_ONE : DIRECT_BOTH;
    const int32_t zero = f.is_iq4 ? VEC_S8 ? 0 : 128 : f.has_offset ? 0 : f.has_high ? 16 : 8;
    const int32_t n = (x->nsum[0] + x->nsum[1]) * zero;

    acc->v[m] = direct_add(acc->v[m], direct_add4(v, sums), n, scale[0], x);
    if (f.has_offset)
        acc->offset[m] = v_fma(scale[1], v_bcastf(&x->s), acc->offset[m]);
}

/* Multiplies Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL. */
INLINE void direct_32(struct matmul_direct *d, const unsigned m_n, const struct direct_32 f)
{
    const unsigned q_at = 2 + 2 * f.has_offset + 4 * f.has_high, size = q_at + 16;
    const uint8_t *w = d->w;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b++, w += size) {
        v_int head[4], u[4][2], v[4];
        v_flt scale[2];

        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            const uint8_t *row = w + i * d->row_bytes;

            head[i] = v_rows16(row, d->row_bytes);
            prefetch_step(d->ahead.at, i, VEC_N * size / 4);
            direct_32_unpack(f, v_rows16(row + q_at, d->row_bytes), head[i], u[i]);
            if (m_n == 1)
                v[i] = direct_32_dot(f, u[i], direct_x(d, 0, b));
        }
        prefetch_move(&d->ahead, VEC_N * size);
        v_from_f16_two(direct_first(head), scale);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            if (m_n > 1)
                UNROLL for (unsigned i = 0; i < 4; i++) v[i] =
                    direct_32_dot(f, u[i], direct_x(d, m, b));
            direct_32_add(f, v, scale, direct_x(d, m, b), &acc, m);
        }
        if (f.has_offset)
            direct_chunk(d, m_n, &acc, b + 1);
    }
    direct_end(d, m_n, &acc);
}

DIRECT(q8_0, direct_q8_0(d, m_n))
DIRECT(q4_0, direct_32(d, m_n, (struct direct_32){false, false, false}))
DIRECT(q4_1, direct_32(d, m_n, (struct direct_32){true, false, false}))
DIRECT(q5_0, direct_32(d, m_n, (struct direct_32){false, true, false}))
DIRECT(q5_1, direct_32(d, m_n, (struct direct_32){true, true, false}))
DIRECT(iq4_nl, direct_32(d, m_n, (struct direct_32){false, false, true}))

#include "backend/cpu/matmul/matmul-direct-k.h"
#include "backend/cpu/matmul/matmul-direct-small.h"
