/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies F16 weights as blocks of int16, with AVX-512 VNNI: one instruction computes 32
 * products, twice as many as with floats.
 *
 * The 128 weights of a block are multiplied by the power of two that brings the largest magnitude
 * to 2048 … 4094 (the largest subnormal weights: to 2046 at most), and are rounded to integers. F16
 * has 11 significant bits, so only weights below a half of the power of two of the largest weight
 * are rounded, by at most 2^-12 of this power. Prepared rows have blocks of integers up to 4095
 * with a float scale (MATMUL_ACT_APART). The sum of the products of a block is an integer of 31
 * bits, which is exact in any order. An element of y is computed as follows. acc = bias; then, for
 * each block in the order of k:
 *     acc = fma(float(isum), w.d × x.d, acc),
 * where w.d is a power of two. If a block of W has NaN or infinity, w.d is NaN.
 *
 * A pair of int16, which share a lane, are elements i and 16 + i of 32 elements, because vectors of
 * 16 weights are converted to floats and rounded. Adding 1.5 × 2^23 to a float rounds it to the
 * nearest integer, ties to even. The integer is then in the low half of the float's bits.
 */

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-direct-rows.h"
#include "backend/cpu/matmul/matmul-lines-avx512.h"
#include "core/cpu.h"

#define INT16_M     12 /* rows of a tile */
#define INT16_LINES 4  /* cache lines of a block in a row of W */
#define ROUND_SHIFT 0x1.8p23f

/* Adds the products of pairs of int16 to @sum. Uses assembly because gcc 12 copies sums back and
 * forth with the intrinsic. */
INLINE __m512i int16_dot(__m512i sum, __m512i w, __m512i x)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(w), "vm"(x));
    return sum;
}

/* Returns the smallest complement of the magnitudes in the first @n_lines cache lines, at least
 * one, of a block of a row of W, in lanes of 16 bits. The largest number has the smallest
 * complement. */
INLINE __m512i int16_least(const uint8_t *w, unsigned n_lines)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i least = _mm512_andnot_si512(_mm512_loadu_si512(w), magnitude);

    UNROLL for (unsigned i = 1; i < INT16_LINES; i++) if (i < n_lines) least = _mm512_min_epu16(
        least, _mm512_andnot_si512(_mm512_loadu_si512(w + 64 * (size_t)i), magnitude));
    return least;
}

/* Reduces vectors of four rows to a vector whose quarters have a lane for each row. */
#define INT16_FOUR(op, v)                                                                          \
    op(_mm512_unpacklo_epi64(                                                                      \
           op(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])),               \
           op(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]))),              \
       _mm512_unpackhi_epi64(                                                                      \
           op(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])),               \
           op(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]))))

/* Computes the scales of a block of each of four rows from int16_least() of these rows: the powers
 * of two @up by which weights are multiplied, and w.d, their inverses. */
INLINE void int16_scales(const __m512i least[4], float *up, float *d)
{
    const __m512i four = INT16_FOUR(_mm512_min_epu16, least);
    const __m256i two =
        _mm256_min_epu16(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64(four, 1));
    __m128i v = _mm_min_epu16(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
    __m128i exp, inverse;

    v = _mm_min_epu16(v, _mm_rol_epi32(v, 16));
    v = _mm_min_epu16(v, _mm_set1_epi16(0x7bff)); /* the exponent of subnormals counts as 1 */
    exp = _mm_srli_epi32(v, 26);                  /* 31 minus the largest exponent */
    inverse = _mm_slli_epi32(_mm_sub_epi32(_mm_set1_epi32(127 - 26 + 31), exp), 23);
    inverse = _mm_mask_mov_epi32(inverse, _mm_testn_epi32_mask(exp, exp),
                                 _mm_castps_si128(_mm_set1_ps(NAN)));
    exp = _mm_slli_epi32(_mm_add_epi32(exp, _mm_set1_epi32(127 + 26 - 31)), 23);
    _mm_store_si128((__m128i *)(void *)up, exp);
    _mm_store_si128((__m128i *)(void *)d, inverse);
}

/* Computes the scales of four rows, whose blocks begin at @w. */
INLINE void int16_measure(const uint8_t *w, size_t row_bytes, unsigned n_lines, float *up, float *d)
{
    __m512i least[4];

    UNROLL for (unsigned i = 0; i < 4; i++) least[i] = int16_least(w + i * row_bytes, n_lines);
    int16_scales(least, up, d);
}

/* Returns 16 weights × @up, rounded to integers in the low halves of lanes. The high halves have
 * other bits. */
INLINE __m512i int16_round(const uint8_t *w, __m512 up)
{
    const __m512 v = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)w));

    return _mm512_castps_si512(_mm512_fmadd_ps(v, up, _mm512_set1_ps(ROUND_SHIFT)));
}

/* Returns 32 weights as pairs: the low halves of the lanes of @a and @b. */
INLINE __m512i int16_pairs(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}

static void prepare_apart(const float *x, uint32_t K, struct matmul_i16 *dst)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);

    for (uint32_t k = 0; k < K; k += MATMUL_BLOCK, dst++) {
        __m512i most = _mm512_setzero_si512();
        __m512 v[8], inverse;
        float f;

        UNROLL for (unsigned i = 0; i < 8; i++)
        {
            const uint32_t n = K - k > 16 * i ? MIN(K - k - 16 * i, 16u) : 0;

            v[i] = _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x + k + 16 * (size_t)i);
            most = _mm512_max_epi32(most, _mm512_and_si512(magnitude, _mm512_castps_si512(v[i])));
        }
        memset(dst, 0, sizeof(*dst));
        dst->d = matmul_block_scale((uint32_t)_mm512_reduce_max_epi32(most), &f);
        if (f == 0)
            continue;
        inverse = _mm512_set1_ps(f);
        UNROLL for (unsigned i = 0; i < 8; i++) v[i] = _mm512_mul_ps(v[i], inverse);
        UNROLL for (unsigned i = 0; i < 8; i += 2) _mm512_storeu_si512(
            dst->q + 16 * i, int16_pairs(_mm512_cvtps_epi32(v[i]), _mm512_cvtps_epi32(v[i + 1])));
    }
}

static void decode_int16(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                         uint32_t kc, const uint8_t **ahead)
{
    float up[16] __attribute__((aligned(64)));

    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        __m512i v[16];

        if (k % MATMUL_BLOCK == 0)
            for (unsigned i = 0; i < 16; i += 4)
                int16_measure(w + i * row_bytes, row_bytes, MIN(kc - k, MATMUL_BLOCK) / 32, up + i,
                              p->scale[k / MATMUL_BLOCK] + 16 * half + i);
        UNROLL for (unsigned i = 0; i < 16; i++)
        {
            const uint8_t *at = w + i * row_bytes;
            const __m512 f = _mm512_set1_ps(up[i]);

            prefetch_step(*ahead, i, PANEL_AHEAD(64));
            v[i] = int16_pairs(int16_round(at, f), int16_round(at + 32, f));
        }
        *ahead += PANEL_AHEAD(16 * 64);
        transpose16(v);
        UNROLL for (unsigned i = 0; i < 16; i++)
            _mm512_store_si512(&p->pairs[k / 2 + i][16 * half], v[i]);
    }
}

/* Returns a vector whose lanes are the pair at @p. */
INLINE __m512i int16_pair(const void *p)
{
    int32_t pair;

    memcpy(&pair, p, sizeof(pair));
    return _mm512_set1_epi32(pair);
}

INLINE void tile_int16(const struct matmul_tile *t, uint32_t m0, const unsigned m_n)
{
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *from = t->init + m0 * t->init_stride;
    size_t from_stride = t->init_stride;
    float *y = t->y + m0 * t->ldy;
    struct tile_ahead ahead = tile_ahead(t, m0, m_n, DIV_UP(t->kc, 2u));

    for (uint32_t k = 0; k < t->kc; k += MATMUL_BLOCK, act += sizeof(struct matmul_i16)) {
        const float *d = t->panel->scale[k / MATMUL_BLOCK];
        const uint32_t n_pairs = ALIGN_UP(MIN(t->kc - k, MATMUL_BLOCK), 32u) / 2;
        __m512i acc[INT16_M][2];

        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m][0] = acc[m][1] = _mm512_setzero_si512();
        for (uint32_t i = 0; i < n_pairs; i++) {
            const uint32_t *pairs = t->panel->pairs[k / 2 + i];
            const __m512i low = _mm512_load_si512(pairs), high = _mm512_load_si512(pairs + 16);

            tile_prefetch(&ahead);
            if (k == 0 && i < m_n)
                tile_prefetch_y(y + i * t->ldy, PANEL_N);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const __m512i x = int16_pair(act + m * t->act_stride + 4 * (size_t)i);

                acc[m][0] = int16_dot(acc[m][0], low, x);
                acc[m][1] = int16_dot(acc[m][1], high, x);
            }
        }
        UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < 2; v++)
        {
            const struct matmul_i16 *x = (const void *)(act + m * t->act_stride);
            const __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(d + 16 * v), _mm512_set1_ps(x->d));
            const __m512 sum = _mm512_loadu_ps(from + m * from_stride + 16 * v);

            _mm512_storeu_ps(y + m * t->ldy + 16 * v,
                             _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[m][v]), scale, sum));
        }
        from = y;
        from_stride = t->ldy;
    }
}

static void multiply_int16(const struct matmul_tile *t)
{
    uint32_t m = 0;

    while (m < t->M) {
        /* Tiles of similar heights, as in multiply_q8() */
        const uint32_t n_left = t->M - m, m_n = DIV_UP(n_left, DIV_UP(n_left, INT16_M));

        UNROLL for (unsigned n = 1; n <= INT16_M; n++) if (n == m_n) tile_int16(t, m, n);
        m += m_n;
    }
}

/*
 * The functions below multiply 16 rows of W by up to DIRECT_M prepared rows without a panel.
 *
 * Sums of integers are exact in any order, so rows of W are multiplied as they are stored, and the
 * lanes of each sum are added up at the end of a block. While the kernel multiplies a block, it
 * finds the scales of the next block.
 */

/* Adds up the quarters of four vectors of INT16_FOUR(): the result has a lane for each of 16 rows.
 */
INLINE __m512i int16_sum16(const __m512i v[4])
{
    const __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x88),
                                       _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
    const __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2], v[3], 0x88),
                                       _mm512_shuffle_i32x4(v[2], v[3], 0xdd));

    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Holds the scales of blocks of 16 rows of W. */
struct int16_scale {
    float up[16], d[16];
} __attribute__((aligned(64)));

/* Describes a block of 16 rows of W, which starts at @w, and the next block, whose scales are
 * computed meanwhile. If there is no next block, @next is the same block. */
struct int16_block {
    const uint8_t *w, *next;
    unsigned n_next; /* cache lines of a row of the next block */
    const struct int16_scale *scale;
    struct int16_scale *next_scale;
};

/* Adds the products of a block with @n_lines cache lines of each row to @acc. For one prepared row,
 * it takes less time to multiply each weight as a pair with zero than to make pairs of weights. */
INLINE void direct_int16_block(struct matmul_direct *d, const struct int16_block *b,
                               const struct matmul_i16 *const x[DIRECT_M], const unsigned m_n,
                               const unsigned n_lines, __m512 acc[DIRECT_M])
{
    __m512i sums[DIRECT_M][4], single[2 * INT16_LINES];

    if (m_n == 1)
        UNROLL for (unsigned i = 0; i < n_lines; i++)
        {
            const __m512i pairs = _mm512_loadu_si512(x[0]->q + 32 * i);

            single[2 * i] = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff));
            single[2 * i + 1] = _mm512_srli_epi32(pairs, 16);
        }
    for (unsigned i = 0; i < 4; i++) {
        __m512i sum[DIRECT_M][4], least[4];

        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            const uint8_t *w = b->w + (4 * i + j) * d->row_bytes;
            const __m512 up = _mm512_set1_ps(b->scale->up[4 * i + j]);

            UNROLL for (unsigned m = 0; m < m_n; m++) sum[m][j] = _mm512_setzero_si512();
            UNROLL for (unsigned line = 0; line < n_lines; line++)
            {
                const __m512i low = int16_round(w + 64 * line, up);
                const __m512i high = int16_round(w + 64 * line + 32, up);

                prefetch_line(d->ahead.at + 64 * (size_t)(j * n_lines + line));
                if (m_n == 1) {
                    sum[0][j] = int16_dot(sum[0][j], low, single[2 * line]);
                    sum[0][j] = int16_dot(sum[0][j], high, single[2 * line + 1]);
                    continue;
                }
                UNROLL for (unsigned m = 0; m < m_n; m++) sum[m][j] = int16_dot(
                    sum[m][j], int16_pairs(low, high), _mm512_loadu_si512(x[m]->q + 32 * line));
            }
            least[j] = int16_least(b->next + (4 * i + j) * d->row_bytes, b->n_next);
        }
        prefetch_move(&d->ahead, 4 * 64 * n_lines);
        int16_scales(least, b->next_scale->up + 4 * i, b->next_scale->d + 4 * i);
        UNROLL for (unsigned m = 0; m < m_n; m++) sums[m][i] = INT16_FOUR(_mm512_add_epi32, sum[m]);
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const __m512 scale = _mm512_mul_ps(_mm512_load_ps(b->scale->d), _mm512_set1_ps(x[m]->d));

        acc[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(int16_sum16(sums[m])), scale, acc[m]);
    }
}

INLINE void direct_m(struct matmul_direct *d, const unsigned m_n)
{
    const struct matmul_i16 *x[DIRECT_M];
    struct int16_scale scales[2];
    __m512 acc[DIRECT_M];

    for (unsigned i = 0; i < 16; i += 4)
        int16_measure(d->w + i * d->row_bytes, d->row_bytes, MIN(d->K, MATMUL_BLOCK) / 32,
                      scales[0].up + i, scales[0].d + i);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc[m] = _mm512_loadu_ps(d->init);
        x[m] = (const void *)(d->act + m * d->act_stride);
    }
    for (uint32_t k = 0; k < d->K; k += MATMUL_BLOCK) {
        const uint32_t left = d->K - k, next = left > MATMUL_BLOCK ? k + MATMUL_BLOCK : k;
        const struct int16_block b = {
            .w = d->w + (size_t)k * 2,
            .next = d->w + (size_t)next * 2,
            .n_next = MIN(d->K - next, MATMUL_BLOCK) / 32,
            .scale = &scales[k / MATMUL_BLOCK % 2],
            .next_scale = &scales[(k / MATMUL_BLOCK + 1) % 2],
        };

        if (left >= MATMUL_BLOCK)
            direct_int16_block(d, &b, x, m_n, INT16_LINES, acc);
        else
            direct_int16_block(d, &b, x, m_n, INT16_LINES / 2, acc);
        UNROLL for (unsigned m = 0; m < m_n; m++) x[m]++;
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) _mm512_storeu_ps(d->y + m * d->ldy, acc[m]);
}

DIRECT_FLOAT_FNS(direct_int16, direct)

#define INT16_KERNELS                                                                              \
    {                                                                                              \
        [INF_DTYPE_F16] = {decode_int16, multiply_int16, direct_int16, 16, DIRECT_M},              \
    }

const struct matmul_ops matmul_avx512int16 = {
    .name = "avx512",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI,
    .base = &matmul_avx512,
    .prepare_apart = prepare_apart,
    .kernels = INT16_KERNELS,
};

const struct matmul_ops matmul_avx512int16bf16 = {
    .name = "avx512bf16",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16,
    .base = &matmul_avx512bf16,
    .prepare_apart = prepare_apart,
    .kernels = INT16_KERNELS,
};
