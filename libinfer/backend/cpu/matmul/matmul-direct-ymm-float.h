/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies 8 rows of W in F32, F16 or BF16 by up to DIRECT_M prepared rows of floats, with
 * AVX2.
 *
 * 16 or 32 bytes of each row, a *block*, are loaded and transposed in registers. Then a lane has
 * only numbers of one row, and its sum is the same chain of additions as in the tiles of
 * matmul-tile.h. A *chunk* is a range of PANEL_K_F32 elements of k that is summed separately. Each
 * addition of a chain waits for the addition before it, so several chunks are computed side by
 * side.
 */

#include <immintrin.h>

/* Adds the products of the 8 weights @w with element @k of the prepared rows. */
INLINE void direct_ymm_chain(const struct matmul_direct *d, const unsigned m_n, size_t k, __m256 w,
                             __m256 sum[DIRECT_M])
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const float *x = (const float *)(d->act + m * d->act_stride);

        sum[m] = _mm256_fmadd_ps(w, _mm256_broadcast_ss(x + k), sum[m]);
    }
}

/* Loads 16 bytes of each row, so that lane i of v[j] is 4-byte unit j of row i, and prefetches two
 * lines. */
INLINE void direct_ymm_load(struct matmul_direct *d, size_t at, __m256i v[4])
{
    prefetch_turn(&d->ahead, 0, 64);
    load_rows16(d->w + at, d->row_bytes, v);
    prefetch_turn(&d->ahead, 1, 64);
}

/* The following functions add a block of each of @n chunks to @sum. The block of the first chunk
 * begins at @k. The additions of the chunks alternate, so that they need not wait for each other.
 */

INLINE void direct_ymm_f32(struct matmul_direct *d, const unsigned m_n, const unsigned n, size_t k,
                           __m256 sum[][DIRECT_M])
{
    __m256i v[2][4];

    UNROLL for (unsigned s = 0; s < n; s++) direct_ymm_load(d, (k + s * PANEL_K_F32) * 4, v[s]);
    UNROLL for (unsigned j = 0; j < 4; j++) UNROLL for (unsigned s = 0; s < n; s++)
        direct_ymm_chain(d, m_n, k + s * PANEL_K_F32 + j, _mm256_castsi256_ps(v[s][j]), sum[s]);
}

INLINE void direct_ymm_bf16(struct matmul_direct *d, const unsigned m_n, const unsigned n, size_t k,
                            __m256 sum[][DIRECT_M])
{
    const __m256i high = _mm256_set1_epi32((int32_t)0xffff0000);
    __m256i v[2][4];

    UNROLL for (unsigned s = 0; s < n; s++) direct_ymm_load(d, (k + s * PANEL_K_F32) * 2, v[s]);
    UNROLL for (unsigned i = 0; i < 8; i++) UNROLL for (unsigned s = 0; s < n; s++)
    {
        const __m256i two = v[s][i / 2];
        const __m256i w = i % 2 == 0 ? _mm256_slli_epi32(two, 16) : _mm256_and_si256(two, high);

        direct_ymm_chain(d, m_n, k + s * PANEL_K_F32 + i, _mm256_castsi256_ps(w), sum[s]);
    }
}

/* Loads 32 bytes of each row, and prefetches four lines. 16-byte lane q of v[j] is 2-byte unit 8 q
 * + j of the rows 0 … 7. */
INLINE void direct_ymm_load16(struct matmul_direct *d, size_t at, __m256i v[8])
{
    __m256i a[8], b[8];

    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        prefetch_turn(&d->ahead, i, 32);
        v[i] = _mm256_loadu_si256((const void *)(d->w + at + i * d->row_bytes));
    }
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        a[i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
        a[4 + i] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        b[i + j] = _mm256_unpacklo_epi32(a[i + 2 * j], a[i + 2 * j + 1]);
        b[i + 2 + j] = _mm256_unpackhi_epi32(a[i + 2 * j], a[i + 2 * j + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        v[i + 2 * j] = _mm256_unpacklo_epi64(b[i + 2 * j], b[i + 2 * j + 1]);
        v[i + 2 * j + 1] = _mm256_unpackhi_epi64(b[i + 2 * j], b[i + 2 * j + 1]);
    }
}

/* Loads 32 bytes of each row and transposes them: half[j][q] has element 8 q + j of the rows 0 … 7.
 * The numbers go through memory, because converting them from there needs no shuffle. */
INLINE void direct_ymm_halfs(struct matmul_direct *d, size_t k, __m128i half[8][2])
{
    __m256i v[8];

    direct_ymm_load16(d, k * 2, v);
    UNROLL for (unsigned j = 0; j < 8; j++) _mm256_store_si256((__m256i *)half[j], v[j]);
}

INLINE void direct_ymm_f16(struct matmul_direct *d, const unsigned m_n, const unsigned n, size_t k,
                           __m256 sum[][DIRECT_M])
{
    __m128i half[2][8][2] __attribute__((aligned(32)));

    UNROLL for (unsigned s = 0; s < n; s++) direct_ymm_halfs(d, k + s * PANEL_K_F32, half[s]);
    __asm__("" : "+m"(half));
    UNROLL for (unsigned j = 0; j < 16; j++) UNROLL for (unsigned s = 0; s < n; s++)
        direct_ymm_chain(d, m_n, k + s * PANEL_K_F32 + j, _mm256_cvtph_ps(half[s][j % 8][j / 8]),
                         sum[s]);
}

/* Multiplies the transposed blocks @half of four chunks, which begin at @k. Meanwhile transposes
 * the next blocks of the chunks to @next, unless it is NULL. So a CPU that executes instructions
 * out of order always finds shuffles and multiplications close together. */
INLINE void direct_ymm_f16_four(struct matmul_direct *d, size_t k, __m128i half[4][8][2],
                                __m128i next[4][8][2], __m256 sum[][DIRECT_M])
{
    __asm__("" : "+m"(*(__m128i(*)[4][8][2])half));
    UNROLL for (unsigned j = 0; j < 16; j++)
    {
        if (next && j % 4 == 0)
            direct_ymm_halfs(d, k + j / 4 * PANEL_K_F32 + 16, next[j / 4]);
        UNROLL for (unsigned s = 0; s < 4; s++) direct_ymm_chain(
            d, 1, k + s * PANEL_K_F32 + j, _mm256_cvtph_ps(half[s][j % 8][j / 8]), sum[s]);
    }
}

/* Adds all products of four whole chunks, which begin at @k0, for one prepared row. Returns false
 * if there are more rows or fewer chunks. */
INLINE bool direct_ymm_f16_all(struct matmul_direct *d, const unsigned m_n, size_t k0,
                               __m256 sum[][DIRECT_M])
{
    __m128i half[2][4][8][2] __attribute__((aligned(32)));
    size_t k = k0;

    if (m_n > 1 || d->K - k0 < 4 * PANEL_K_F32)
        return false;
    UNROLL for (unsigned s = 0; s < 4; s++) direct_ymm_halfs(d, k + s * PANEL_K_F32, half[0][s]);
    for (; k < k0 + PANEL_K_F32 - 32; k += 32) {
        direct_ymm_f16_four(d, k, half[0], half[1], sum);
        direct_ymm_f16_four(d, k + 16, half[1], half[0], sum);
    }
    direct_ymm_f16_four(d, k, half[0], half[1], sum);
    direct_ymm_f16_four(d, k + 16, half[1], NULL, sum);
    return true;
}

/* Defines the functions of a format whose blocks have @step elements. @side chunks are computed
 * side by side, in pairs. @all is an expression: if it is true, it has added all products of the
 * @side chunks, and the loop over their blocks is skipped. */
#define DIRECT_YMM_FLOAT(stem, step, side, all)                                                    \
    INLINE void direct_##stem##_m(struct matmul_direct *d, const unsigned m_n)                     \
    {                                                                                              \
        const size_t chunk = PANEL_K_F32, K = d->K;                                                \
        __m256 acc[DIRECT_M], sum[side][DIRECT_M];                                                 \
                                                                                                   \
        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = _mm256_loadu_ps(d->init);               \
        for (size_t k0 = 0; k0 < K; k0 += (side)*chunk) {                                          \
            UNROLL for (unsigned j = 0; j < (side); j++) UNROLL for (unsigned m = 0; m < m_n; m++) \
                sum[j][m] = _mm256_setzero_ps();                                                   \
            const bool is_done = all;                                                              \
            for (size_t k1 = k0; k1 < k0 + chunk && !is_done; k1 += (step))                        \
                UNROLL for (unsigned j = 0; j < (side); j += 2)                                    \
                {                                                                                  \
                    const size_t k = k1 + j * chunk;                                               \
                                                                                                   \
                    if (k + chunk < K)                                                             \
                        direct_ymm_##stem(d, m_n, 2, k, sum + j);                                  \
                    else if (k < K)                                                                \
                        direct_ymm_##stem(d, m_n, 1, k, sum + j);                                  \
                }                                                                                  \
            UNROLL for (unsigned j = 0; j < (side); j++) if (k0 + j * chunk < K)                   \
                UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] =                                 \
                    _mm256_add_ps(acc[m], sum[j][m]);                                              \
        }                                                                                          \
        UNROLL for (unsigned m = 0; m < m_n; m++) _mm256_storeu_ps(d->y + m * d->ldy, acc[m]);     \
    }                                                                                              \
    DIRECT_FLOAT_FNS(TILE_NAME(direct_##stem), direct_##stem)

DIRECT_YMM_FLOAT(f32, 4, 2, false)
DIRECT_YMM_FLOAT(f16, 16, 4, direct_ymm_f16_all(d, m_n, k0, sum))
DIRECT_YMM_FLOAT(bf16, 8, 4, false)
