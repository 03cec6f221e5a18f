/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies 8 rows of W by up to DIRECT_M prepared rows, directly from the stored blocks, with
 * AVX-512.
 *
 * The sums have the same bits as in matmul-direct.h. A vector holds 64 bytes of one row, which are
 * two or four blocks. Each row is a stream of memory, and prefetchers do not follow more than 8
 * streams well. The vectors of the 8 rows are reduced to a vector of exact sums: 8 lanes for one
 * block, then 8 lanes for the next block. The two halves go through the float arithmetic of the
 * tiles one after the other, in 256 bits.
 */

#include "backend/cpu/matmul/matmul-direct-rows.h"

/* Describes a place in 8 rows. The addresses are computed as sums in the instructions that load;
 * the empty assembly prevents the compiler from keeping a pointer per row, for which there are not
 * enough registers. */
struct direct_rows {
    const uint8_t *a, *e; /* rows 0 and 4 */
    size_t stride, stride3;
};

INLINE struct direct_rows direct_rows(const struct matmul_direct *d)
{
    struct direct_rows r = {d->w, d->w + 4 * d->row_bytes, d->row_bytes, 3 * d->row_bytes};

    __asm__("" : "+r"(r.stride), "+r"(r.stride3));
    return r;
}

INLINE void direct_move(struct direct_rows *r, size_t n)
{
    r->a += n;
    r->e += n;
    __asm__("" : "+r"(r->a), "+r"(r->e));
}

INLINE const uint8_t *direct_row(const struct direct_rows *r, const unsigned i)
{
    return (i < 4 ? r->a : r->e) + (i % 4 == 3 ? r->stride3 : i % 4 * r->stride);
}

/* Holds the sums of 8 rows, and the sums of offsets in the current chunk of k. */
struct direct_acc {
    __m256 v[DIRECT_M], offset[DIRECT_M];
};

/* Two steps add the 32-bit lanes within 16 bytes. The value says in how many of these steps the
 * partial sums fit in 16 bits: in none, in one or in both. */
enum direct_size { DIRECT_WIDE, DIRECT_ONE, DIRECT_BOTH };

INLINE __m512i direct_pairs(__m512i a, __m512i b)
{
    return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
}

#define direct_shuffle(a, b, how)                                                                  \
    _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), how))

/* Returns [a, b, c, d] in each 16 bytes: the sums of the 4 lanes that v[0], v[1], v[2] and v[3]
 * have in these bytes. */
INLINE __m512i direct_add4(const __m512i v[4], const enum direct_size size)
{
    __m512i a, b;

    if (size == DIRECT_WIDE) {
        a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
        b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
        return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    a = direct_pairs(v[0], v[1]);
    b = direct_pairs(v[2], v[3]);
    if (size == DIRECT_BOTH)
        return direct_pairs(a, b);
    return _mm512_add_epi32(direct_shuffle(a, b, 0x88), direct_shuffle(a, b, 0xdd));
}

/* Returns the 16-byte lanes @i and @j of @a and @b, in the order a.i b.i a.j b.j. */
INLINE __m512i direct_lanes(__m512i a, __m512i b, const int i, const int j)
{
    return _mm512_permutex2var_epi64(a,
                                     _mm512_setr_epi64(2 * i, 2 * i + 1, 2 * i + 8, 2 * i + 9,
                                                       2 * j, 2 * j + 1, 2 * j + 8, 2 * j + 9),
                                     b);
}

/* Returns the initial value for sums of products of q and x, for weights that are q - @zero: minus
 * @zero times the sum of x. */
INLINE __m512i direct_first(__m512i x, const unsigned zero)
{
    const __m512i none = _mm512_setzero_si512();

    if (zero == 0)
        return none;
    return _mm512_sub_epi32(none, _mm512_dpbusd_epi32(none, _mm512_set1_epi8((char)zero), x));
}

/* Returns sums of 32 products for 8 rows: those of the first half of the vectors, then those of the
 * second half. */
INLINE __m512i direct_sum32(const __m512i w[8], __m512i x, const unsigned zero,
                            const enum direct_size size)
{
    const __m512i first = direct_first(x, zero);
    __m512i v[8], a, b;

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = _mm512_dpbusd_epi32(first, w[i], x);
    a = direct_add4(v, size);
    b = direct_add4(v + 4, size);
    return _mm512_add_epi32(direct_lanes(a, b, 0, 2), direct_lanes(a, b, 1, 3));
}

/* Does the same as direct_sum32(), but with sums of 16 products, for Q6_K and NVFP4, whose weights
 * are q - 32. sum[0] has the sums of the first two quarters of the vectors, and sum[1] the sums of
 * the last two quarters. */
INLINE void direct_sum16(const __m512i w[8], __m512i x, __m512i sum[2])
{
    const __m512i first = direct_first(x, 32);
    __m512i v[8], a, b;

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = _mm512_dpbusd_epi32(first, w[i], x);
    a = direct_add4(v, DIRECT_BOTH);
    b = direct_add4(v + 4, DIRECT_BOTH);
    sum[0] = direct_lanes(a, b, 0, 1);
    sum[1] = direct_lanes(a, b, 2, 3);
}

INLINE __m512i direct_halves(const void *a, const void *b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(a)), _mm256_loadu_si256(b),
                              1);
}

/* Returns a vector with @a in the first 8 lanes and @b in the other 8. */
INLINE __m512i direct_two(int32_t a, int32_t b)
{
    return _mm512_mask_set1_epi32(_mm512_set1_epi32(a), 0xff00, b);
}

INLINE const struct matmul_q8 *direct_x(const struct matmul_direct *d, unsigned m, uint32_t block)
{
    return (const struct matmul_q8 *)(d->act + m * d->act_stride) + block;
}

INLINE __m256 direct_fma(__m256 scaled, const struct matmul_q8 *x, __m256 acc)
{
    return _mm256_fmadd_ps(scaled, _mm256_set1_ps(x->d), acc);
}

/* Adds two vectors of sums to acc: the first 8 lanes of @sum, then the other lanes. @scale has the
 * scales of the weights in the same lanes; @x0 and @x1 have the scales of x. */
INLINE __m256 direct_add2(__m256 acc, __m512i sum, __m512 scale, const struct matmul_q8 *x0,
                          const struct matmul_q8 *x1)
{
    const __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);

    acc = direct_fma(_mm512_castps512_ps256(f), x0, acc);
    return direct_fma(_mm512_extractf32x8_ps(f, 1), x1, acc);
}

INLINE void direct_begin(const struct matmul_direct *d, const unsigned m_n, struct direct_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc->v[m] = _mm256_loadu_ps(d->init);
        acc->offset[m] = _mm256_setzero_ps();
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
        acc->v[m] = _mm256_add_ps(acc->v[m], acc->offset[m]);
        acc->offset[m] = _mm256_setzero_ps();
    }
}

INLINE void direct_end(const struct matmul_direct *d, const unsigned m_n,
                       const struct direct_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++) _mm256_storeu_ps(d->y + m * d->ldy, acc->v[m]);
}

/*
 * Returns 2-byte units of 8 vectors as floats: unit @at of vectors 0 … 7, then unit @at + @step of
 * vectors 0 … 7. The vectors are loaded anyway, so this is faster than loading the units one by
 * one.
 */
INLINE __m512 direct_fields(const __m512i v[8], const unsigned at, const unsigned step)
{
    const __m512i pick = _mm512_castsi128_si512(_mm_setr_epi16(
        (short)at, (short)(at + 32), (short)(at + step), (short)(at + step + 32), 0, 0, 0, 0));
    const __m512i join2 = _mm512_castsi128_si512(_mm_setr_epi32(0, 16, 1, 17));
    const __m512i join4 = _mm512_castsi256_si512(_mm256_setr_epi64x(0, 8, 1, 9));
    __m512i a[4], b[2];

    UNROLL for (unsigned i = 0; i < 4; i++) a[i] =
        _mm512_permutex2var_epi16(v[2 * i], pick, v[2 * i + 1]);
    UNROLL for (unsigned i = 0; i < 2; i++) b[i] =
        _mm512_permutex2var_epi32(a[2 * i], join2, a[2 * i + 1]);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutex2var_epi64(b[0], join4, b[1])));
}

/* Converts 16 numbers of binary16 to floats. */
INLINE __m512 direct_halfs(const uint64_t d[4])
{
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((int64_t)d[0], (int64_t)d[1], (int64_t)d[2], (int64_t)d[3]));
}

#include "backend/cpu/matmul/matmul-direct-avx512-32.h"
#include "backend/cpu/matmul/matmul-direct-avx512-k.h"
#include "backend/cpu/matmul/matmul-direct-avx512-small.h"
#include "backend/cpu/matmul/matmul-direct-avx512-affine.h"
#include "backend/cpu/matmul/matmul-direct-avx512-planes.h"
#include "backend/cpu/matmul/matmul-direct-avx512-fma.h"
