/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies BF16 weights with AVX-512 BF16: pairs of products per lane.
 *
 * Rows of x are rounded to bfloat16, too. Each lane adds the product with the odd k of a pair to
 * its float sum, then the product with the even k; subnormal numbers count as zero (Intel SDM vol.
 * 2C, VDPBF16PS). Other formats use the kernels of matmul-avx512.c.
 */

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-direct-avx512-float.h"
#include "core/cpu.h"

static void prepare_bf16(const float *x, uint32_t K, uint16_t *dst)
{
    for (uint32_t k = 0; k < K; k += 32) {
        const __mmask32 some = K - k < 32 ? (1u << (K - k)) - 1 : UINT32_MAX;
        const __m512 a = _mm512_maskz_loadu_ps((__mmask16)some, x + k);
        const __m512 b = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + k + 16);
        const __m512bh v = _mm512_cvtne2ps_pbh(b, a);

        memcpy(dst + k, &v, sizeof(v));
    }
}

void matmul_decode_bf16_avx512(struct matmul_panel *p, unsigned half, const uint8_t *w,
                               size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 64) {
        __m512i v[16];

        load_lines(w, row_bytes, ahead, 64, v);
        UNROLL for (unsigned i = 0; i < 16; i++)
            _mm512_store_si512(&p->pairs[k / 2 + i][16 * half], v[i]);
    }
}

#define TILE_M 12

INLINE __m512bh pairs(__m512i v)
{
    __m512bh h;

    memcpy(&h, &v, sizeof(h));
    return h;
}

INLINE void tile(const struct matmul_tile *t, uint32_t m0, const unsigned m_n)
{
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *init = t->init + m0 * t->init_stride;
    float *y = t->y + m0 * t->ldy;
    struct tile_ahead ahead = tile_ahead(t, m0, m_n, DIV_UP(t->kc, 2u));
    __m512 acc[TILE_M][2];

    UNROLL for (unsigned m = 0; m < m_n; m++) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < t->kc; k += 2, act += 4) {
        const __m512bh low = pairs(_mm512_load_si512(t->panel->pairs[k / 2]));
        const __m512bh high = pairs(_mm512_load_si512(t->panel->pairs[k / 2] + 16));

        tile_prefetch(&ahead);
        if (k < 2 * m_n)
            tile_prefetch_y(y + k / 2 * t->ldy, PANEL_N);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            int32_t pair;
            __m512bh x;

            memcpy(&pair, act + m * t->act_stride, sizeof(pair));
            x = pairs(_mm512_set1_epi32(pair));
            acc[m][0] = _mm512_dpbf16_ps(acc[m][0], low, x);
            acc[m][1] = _mm512_dpbf16_ps(acc[m][1], high, x);
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

INLINE void direct_block(struct matmul_direct *d, struct direct_lines *lines, const uint8_t *act,
                         const unsigned m_n, __m512 sum[DIRECT_M])
{
    transpose16(lines->v);
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            int32_t pair;

            memcpy(&pair, act + m * d->act_stride + 4 * i, sizeof(pair));
            sum[m] = _mm512_dpbf16_ps(sum[m], pairs(lines->v[i]), pairs(_mm512_set1_epi32(pair)));
        }
        direct_next(d, lines, i);
    }
}

#define AT_BF16(k) ((size_t)(k) * sizeof(uint16_t))

DIRECT_FLOAT(direct_bf16, direct_block, 2, AT_BF16, PANEL_K_PAIRS, 2, 32)

const struct matmul_ops matmul_avx512bf16 = {
    .name = "avx512bf16",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16,
    .base = &matmul_avx512,
    .prepare_bf16 = prepare_bf16,
    .kernels = {[INF_DTYPE_BF16] = {matmul_decode_bf16_avx512, multiply_bf16, direct_bf16, 16,
                                    DIRECT_M}},
};
