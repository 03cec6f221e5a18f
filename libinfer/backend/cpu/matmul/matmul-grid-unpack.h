/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Unpacks blocks of the formats with grids (quant/block-iq.h), for matmul-grid.h.
 *
 * A block is unpacked with the vector types of the compiler, of at most 32 bytes, which exist on
 * all CPUs.
 */

#include "quant/block-iq.h"
#include "quant/grid.h"

/* Holds one block of a row. A lot is 8 successive weights. */
struct grid_row {
    uint16_t index[64]; /* of the points, one or two for each lot */
    uint8_t signs[32];  /* of each lot: bit i is set if weight i is negative; IQ1: 0xff if 1/8 is
                           subtracted, else 0 */
    float scale[16];    /* of each 32 or 16 weights */
} __attribute__((aligned(64)));

typedef uint8_t grid_u8x8 __attribute__((vector_size(8)));
typedef uint8_t grid_u8x16 __attribute__((vector_size(16)));
typedef uint16_t grid_u16x8 __attribute__((vector_size(16)));
typedef uint16_t grid_u16x16 __attribute__((vector_size(32)));
typedef uint32_t grid_u32x8 __attribute__((vector_size(32)));
typedef int32_t grid_i32x8 __attribute__((vector_size(32)));
typedef float grid_f32x8 __attribute__((vector_size(32)));
typedef uint32_t grid_u32x4 __attribute__((vector_size(16)));
typedef uint64_t grid_u64x4 __attribute__((vector_size(32)));

#define GRID_TO(type, v) __builtin_convertvector(v, type)
/* Reads a vector or a number at @p, which need not be aligned. */
#define GRID_READ(var, p)  memcpy(&(var), p, sizeof(var))
#define GRID_WRITE(p, var) memcpy(p, &(var), sizeof(var))
#define GRID_TWICE(...)    __VA_ARGS__, __VA_ARGS__

INLINE float grid_d(const uint8_t *p)
{
    uint16_t bits;

    GRID_READ(bits, p);
    return f16_to_f32(bits);
}

/* Spreads the 4 × 7 signs in the low 28 bits of each word to bytes, and adds the eighth signs. Sets
 * scale g to d × (s + 1/2) × factor, where s is the number in the upper 4 bits of word g. */
INLINE void grid_words28(grid_u32x8 w, float d, float factor, struct grid_row *row)
{
    const grid_u32x8 s =
        (w & 0x7f) | (w << 1 & 0x7f00) | (w << 2 & 0x7f0000) | (w << 3 & 0x7f000000);
    const grid_u32x8 four = s ^ s >> 4, two = four ^ four >> 2, one = two ^ two >> 1;
    const grid_u32x8 signs = s | (one & 0x01010101) << 7;
    const grid_f32x8 scale = (GRID_TO(grid_f32x8, (grid_i32x8)(w >> 28)) + 0.5f) * (d * factor);

    GRID_WRITE(row->signs, signs);
    GRID_WRITE(row->scale, scale);
}

/* Spreads 8 numbers of 4 bits to floats. */
INLINE grid_f32x8 grid_nibbles(const uint8_t *p)
{
    const grid_u32x8 shift = {0, 4, 8, 12, 16, 20, 24, 28};
    uint32_t bits;

    GRID_READ(bits, p);
    return GRID_TO(grid_f32x8, (grid_i32x8)((shift * 0 + bits) >> shift & 15));
}

/* Sets the 16 scales of IQ2_XS and IQ2_S. */
INLINE void grid_scales16(const uint8_t *p, float d, struct grid_row *row)
{
    const grid_f32x8 a = (grid_nibbles(p) + 0.5f) * (d * 0.25f);
    const grid_f32x8 b = (grid_nibbles(p + 4) + 0.5f) * (d * 0.25f);

    GRID_WRITE(row->scale, a);
    GRID_WRITE(row->scale + 8, b);
}

/* Writes 16 indices: the low 8 bits are at @q, and @high has the others in their places. */
INLINE void grid_indices(const uint8_t *q, grid_u16x16 high, uint16_t *index)
{
    grid_u8x16 low;

    GRID_READ(low, q);
    high |= GRID_TO(grid_u16x16, low);
    GRID_WRITE(index, high);
}

/* Repeats each of the bytes 4 @i … 4 @i + 3 at @p 4 times, and widens the bytes to 16-bit words. */
INLINE grid_u16x16 grid_four(const uint8_t *p, const unsigned i)
{
    grid_u8x16 v = {0};

    memcpy(&v, p + 4 * i, 4);
    v = __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return GRID_TO(grid_u16x16, v);
}

INLINE void unpack_iq2_xxs(const uint8_t *p, struct grid_row *row)
{
    grid_u32x4 words[2];
    grid_u32x8 all;

    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        grid_u64x4 v, wide;

        GRID_READ(v, p + offsetof(struct block_iq2_xxs, groups) + 32 * i);
        wide = (v & 0xffff) | (v & 0xffff0000) << 16;
        wide = (wide & 0x000000ff000000ff) | (wide & 0x0000ff000000ff00) << 8;
        GRID_WRITE(row->index + 16 * i, wide);
        words[i] = GRID_TO(grid_u32x4, v >> 32);
    }
    all = __builtin_shufflevector(words[0], words[1], 0, 1, 2, 3, 4, 5, 6, 7);
    grid_words28(all, grid_d(p), 0.25f, row);
}

INLINE void unpack_iq2_xs(const uint8_t *p, struct grid_row *row)
{
    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        grid_u16x16 q, index, s;
        grid_u8x16 signs;

        GRID_READ(q, p + offsetof(struct block_iq2_xs, q) + 32 * i);
        index = q & 511;
        s = q >> 9;
        s ^= s >> 4;
        s ^= s >> 2;
        s ^= s >> 1;
        signs = GRID_TO(grid_u8x16, q >> 9 | (s & 1) << 7);
        GRID_WRITE(row->index + 16 * i, index);
        GRID_WRITE(row->signs + 16 * i, signs);
    }
    grid_scales16(p + offsetof(struct block_iq2_xs, scales), grid_d(p), row);
}

INLINE void unpack_iq2_s(const uint8_t *p, struct grid_row *row)
{
    const grid_u16x16 factor = {GRID_TWICE(GRID_TWICE(256, 64, 16, 4))};
    const uint8_t *q = p + offsetof(struct block_iq2_s, q);

    UNROLL for (unsigned i = 0; i < 2; i++) grid_indices(
        q + 16 * i, grid_four(p + offsetof(struct block_iq2_s, high), i) * factor & 0x300,
        row->index + 16 * i);
    memcpy(row->signs, p + offsetof(struct block_iq2_s, signs), sizeof(row->signs));
    grid_scales16(p + offsetof(struct block_iq2_s, scales), grid_d(p), row);
}

INLINE void unpack_iq3_xxs(const uint8_t *p, struct grid_row *row)
{
    const uint8_t *q = p + offsetof(struct block_iq3_xxs, q);
    grid_u32x8 words;

    GRID_READ(words, p + offsetof(struct block_iq3_xxs, signs));
    UNROLL for (unsigned i = 0; i < 4; i++)
        grid_indices(q + 16 * i, (grid_u16x16){0}, row->index + 16 * i);
    grid_words28(words, grid_d(p), 0.5f, row);
}

/* Repeats each of the two bytes at @p 8 times. */
INLINE grid_u8x16 grid_eight(const uint8_t *p)
{
    grid_u8x16 v = {0};

    memcpy(&v, p, 2);
    return __builtin_shufflevector(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
}

INLINE void unpack_iq3_s(const uint8_t *p, struct grid_row *row)
{
    const grid_u8x16 bit = {GRID_TWICE(1, 2, 4, 8, 16, 32, 64, 128)};
    const uint8_t *q = p + offsetof(struct block_iq3_s, q);
    const grid_f32x8 s = grid_nibbles(p + offsetof(struct block_iq3_s, scales));
    const grid_f32x8 scale = (s + s + 1) * grid_d(p);

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const grid_u8x16 high = grid_eight(p + offsetof(struct block_iq3_s, high) + 2 * i);
        const grid_u8x16 ones = (grid_u8x16)((high & bit) == bit) & 1;

        grid_indices(q + 16 * i, GRID_TO(grid_u16x16, ones) << 8, row->index + 16 * i);
    }
    memcpy(row->signs, p + offsetof(struct block_iq3_s, signs), sizeof(row->signs));
    GRID_WRITE(row->scale, scale);
}

/* Repeats each of the 4 words at @p 4 times, and moves bits 3i … 3i + 2 of copy i to its bits 9 …
 * 11. */
INLINE grid_u16x16 grid_threes(const uint8_t *p)
{
    const grid_u16x16 factor = {GRID_TWICE(GRID_TWICE(512, 64, 8, 1))};
    uint64_t words;
    grid_u16x16 v;

    GRID_READ(words, p);
    v = (grid_u16x16)(grid_u64x4){words, words, words, words};
    return __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 10, 10, 10, 10, 11, 11, 11, 11) *
           factor;
}

INLINE void unpack_iq1_s(const uint8_t *p, struct grid_row *row)
{
    const uint8_t *high = p + offsetof(struct block_iq1_s, high);
    grid_u16x8 words;
    grid_u32x8 wide, signs;
    grid_f32x8 scale;

    UNROLL for (unsigned i = 0; i < 2; i++)
        grid_indices(p + offsetof(struct block_iq1_s, q) + 16 * i,
                     grid_threes(high + 8 * i) >> 1 & 0x700, row->index + 16 * i);
    GRID_READ(words, high);
    wide = GRID_TO(grid_u32x8, words);
    signs = -(wide >> 15);
    scale = GRID_TO(grid_f32x8, (grid_i32x8)((wide >> 11 & 14) + 1)) * (grid_d(p) * 0.125f);
    GRID_WRITE(row->signs, signs);
    GRID_WRITE(row->scale, scale);
}

/* Spreads the low and high 4 bits of the 8 bytes at @p to 16 bytes. */
INLINE grid_u8x16 grid_halves(const uint8_t *p)
{
    grid_u8x8 v;
    grid_u16x8 wide;

    GRID_READ(v, p);
    wide = GRID_TO(grid_u16x8, v);
    return (grid_u8x16)((wide & 15) | (wide & 0xf0) << 4);
}

INLINE void unpack_iq1_m(const uint8_t *p, struct grid_row *row)
{
    const grid_u32x8 shift = {0, 3, 6, 9, 16, 19, 22, 25};
    uint16_t words[4];

    GRID_READ(words, p + offsetof(struct block_iq1_m, scales));
    const float eighth = f16_to_f32(block_iq1_m_d(words)) * 0.125f;

    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        const uint32_t bits = words[2 * i] | (uint32_t)words[2 * i + 1] << 16;
        const grid_u32x8 odd = ((shift * 0 + bits) >> shift & 7) * 2 + 1;
        const grid_f32x8 scale = GRID_TO(grid_f32x8, (grid_i32x8)odd) * eighth;

        GRID_WRITE(row->scale + 8 * i, scale);
    }
    UNROLL for (unsigned i = 0; i < 2; i++)
    {
        const grid_u8x16 four = grid_halves(p + offsetof(struct block_iq1_m, high) + 8 * i);
        const grid_u8x16 signs = (grid_u8x16)((four & 8) == 8);

        grid_indices(p + 16 * i, GRID_TO(grid_u16x16, four & 7) << 8, row->index + 16 * i);
        GRID_WRITE(row->signs + 16 * i, signs);
    }
}
