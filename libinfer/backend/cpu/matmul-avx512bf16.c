/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Matrix products of BF16 weights with AVX-512 BF16: pairs of products a lane
 *
 * Rows of x are rounded to bfloat16 too. Each lane adds the product of the odd, then of the even k
 * of a pair to its float sum; numbers below the normal range count as zero (Intel SDM vol. 2C,
 * VDPBF16PS). Everything else is matmul-avx512.c.
 */

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul-kernels.h"
#include "backend/cpu/matmul-prefetch.h"
#include "core/cpu.h"

static void prepare_bf16(const float *x, uint32_t K, uint16_t *dst)
{
    uint32_t k = 0;

    for (; k + 32 <= K; k += 32) {
        const __m512bh v = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + k + 16), _mm512_loadu_ps(x + k));

        memcpy(dst + k, &v, sizeof(v));
    }
    for (; k < K; k += 16) {
        const uint32_t n = MIN(K - k, 16u), n_even = ALIGN_UP(n, 2u);
        const __m512 v = _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x + k);
        const __m256bh h = _mm512_cvtneps_pbh(v);

        memcpy(dst + k, &h, n_even * sizeof(uint16_t));
    }
}

/* 16 rows of 16 pairs: on return lane i of v[j] is pair j of row i. */
INLINE void transpose16(__m512i v[16])
{
    __m512i t[16];

    UNROLL for (unsigned i = 0; i < 16; i += 4)
    {
        const __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        const __m512i b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
        const __m512i d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);

        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    /* t[4 r + c]: of each quarter q, pair 4 q + c of rows 4 r … 4 r + 3. */
    UNROLL for (unsigned c = 0; c < 4; c++)
    {
        const __m512i a = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        const __m512i e = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);

        v[c] = _mm512_shuffle_i32x4(a, b, 0x88);
        v[8 + c] = _mm512_shuffle_i32x4(a, b, 0xdd);
        v[4 + c] = _mm512_shuffle_i32x4(d, e, 0x88);
        v[12 + c] = _mm512_shuffle_i32x4(d, e, 0xdd);
    }
}

static void decode_bf16(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                        uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        __m512i v[16];

        UNROLL for (unsigned i = 0; i < 16; i++)
        {
            prefetch_step(*ahead, i, 64, false);
            v[i] = _mm512_loadu_si512(w + i * row_bytes);
        }
        *ahead += 16 * 64;
        transpose16(v);
        UNROLL for (unsigned i = 0; i < 16; i++)
            _mm512_store_si512(&p->pairs[k / 2 + i][16 * half], v[i]);
    }
}

#define TILE_M 12

INLINE void tile(const struct matmul_tile *t, uint32_t m0, const unsigned m_n)
{
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *init = t->init + m0 * t->init_stride;
    float *y = t->y + m0 * t->ldy;
    __m512 acc[TILE_M][2];

    UNROLL for (unsigned m = 0; m < m_n; m++) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < t->kc; k += 2, act += 4) {
        __m512bh w[2];

        memcpy(w, t->panel->pairs[k / 2], sizeof(w));
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            int32_t pair;
            __m512i all;
            __m512bh x;

            memcpy(&pair, act + m * t->act_stride, sizeof(pair));
            all = _mm512_set1_epi32(pair);
            memcpy(&x, &all, sizeof(x));
            acc[m][0] = _mm512_dpbf16_ps(acc[m][0], w[0], x);
            acc[m][1] = _mm512_dpbf16_ps(acc[m][1], w[1], x);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < 2; v++)
    {
        const __m512 first = _mm512_loadu_ps(init + m * t->init_stride + 16 * v);

        _mm512_storeu_ps(y + m * t->ldy + 16 * v, _mm512_add_ps(first, acc[m][v]));
    }
}

static void multiply_bf16(const struct matmul_tile *t)
{
    uint32_t m = 0;

    for (; m + TILE_M <= t->M; m += TILE_M)
        tile(t, m, TILE_M);
    for (; m + 4 <= t->M; m += 4)
        tile(t, m, 4);
    for (; m < t->M; m++)
        tile(t, m, 1);
}

const struct matmul_ops matmul_avx512bf16 = {
    .name = "avx512bf16",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16,
    .base = &matmul_avx512,
    .prepare_bf16 = prepare_bf16,
    .kernels = {[INF_DTYPE_BF16] = {"matmul_bf16_avx512bf16", decode_bf16, multiply_bf16, NULL}},
};
