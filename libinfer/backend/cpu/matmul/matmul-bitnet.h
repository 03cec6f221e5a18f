/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies packed ternary weights (quant/bitnet.h) by prepared rows, for matmul-vec.h.
 *
 * A row of x has one scale, so integer sums run over all of k, and no panel is needed. Four rows of
 * W share each byte. A vector of bytes gives four vectors of codes, one for each of these rows, and
 * each vector of codes is multiplied by the same vector of x. The sums are exact, so an element
 * does not depend on how many rows are multiplied together.
 */

#include "quant/bitnet.h"

#if VEC_N == 16
#define BITNET_M 6u /* prepared rows that are multiplied at once */
#elif VEC_N == 8
#define BITNET_M 2u
#else
#define BITNET_M 4u
#endif
#define BITNET_K (4u * VEC_N) /* bytes of a vector */
#define BITNET_R 16u          /* stored rows that stay in cache while they are multiplied */

static void TILE_NAME(prepare_row8)(const float *x, uint32_t K, int8_t *q, struct matmul_row8 *end)
{
    uint32_t amax = 0;
    int32_t sum = 0;

    for (uint32_t k = 0; k < K; k++)
        amax = MAX(amax, half_bits_f32(x[k]) & 0x7fffffff);
    memset(q, 0, matmul_row8_bytes(K));
    *end = (struct matmul_row8){.d = NAN};
    if (amax >= 0x7f800000)
        return;
    const float most = MAX(half_from_bits_f32(amax), MATMUL_ROW8_MIN), inverse = 127 / most;

    /* Adding 1.5 × 2^23 rounds to the nearest integer, as in prepare_q8. */
    for (uint32_t k = 0; k < K; k++) {
        const int32_t n = (int32_t)half_bits_f32(x[k] * inverse + 0x1.8p23f) - 0x4b400000;

        q[k] = (int8_t)n;
        sum -= n;
    }
    end->d = most / 127;
    end->nsum = sum;
}

/* Adds the products of one vector of bytes. */
INLINE void bitnet_add(v_int v, const uint8_t *x, size_t stride, const unsigned m_n,
                       v_int sum[BITNET_M][4])
{
    const v_int two = v_set(0x03030303);
    v_int q[4];

    UNROLL for (unsigned t = 0; t < 4; t++) q[t] = v_and(t > 0 ? v_shr(v, 2 * t) : v, two);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const v_int a = v_load(x + m * stride);

        UNROLL for (unsigned t = 0; t < 4; t++) sum[m][t] = v_dot(sum[m][t], q[t], a);
    }
}

/* Adds the lanes of each of four vectors. */
INLINE void bitnet_lanes(v_int v[4], int32_t ret[4])
{
    int32_t lanes[VEC_N] __attribute__((aligned(64)));

    transpose(v);
    v_store((void *)lanes, v_add(v_add(v[0], v[1]), v_add(v[2], v[3])));
    memcpy(ret, lanes, 4 * sizeof(int32_t));
    for (unsigned i = 4; i < VEC_N; i++)
        ret[i % 4] += lanes[i];
}

/* Multiplies the rows @m0 … @m0 + @m_n - 1 of x by stored row @r. */
INLINE void bitnet_tile(const struct matmul_args *a, uint32_t r, uint32_t m0, const unsigned m_n)
{
    const uint8_t *w = (const uint8_t *)a->w + (size_t)r * a->K;
    const uint8_t *x = (const uint8_t *)a->act + m0 * a->act_stride;
    const float factor = *(const float *)a->planes[WEIGHT_SCALES];
    v_int sum[BITNET_M][4];
    uint32_t k = 0;

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned t = 0; t < 4; t++) sum[m][t] =
        v_zero();
    for (; k + BITNET_K <= a->K; k += BITNET_K)
        bitnet_add(v_load(w + k), x + k, a->act_stride, m_n, sum);
    if (k < a->K) {
        uint8_t rest[BITNET_K] __attribute__((aligned(64))) = {0};

        memcpy(rest, w + k, a->K - k);
        bitnet_add(v_load(rest), x + k, a->act_stride, m_n, sum);
    }
    for (unsigned m = 0; m < m_n; m++) {
        const struct matmul_row8 *end =
            (const void *)(x + m * a->act_stride + matmul_row8_bytes(a->K));
        float *y = a->y + (m0 + m) * a->ldy;
        int32_t all[4];

        bitnet_lanes(sum[m], all);
        for (unsigned t = 0; t < 4; t++) {
            const size_t n = r + (size_t)t * a->quarter;

            y[n] = fmaf((float)(all[t] + end->nsum) * factor, end->d, a->bias ? a->bias[n] : 0);
        }
    }
}

static void TILE_NAME(bitnet)(const struct matmul_args *a, uint32_t n0, uint32_t n1)
{
    for (uint32_t r0 = n0 / 4; r0 < n1 / 4; r0 += BITNET_R) {
        const uint32_t r1 = MIN(r0 + BITNET_R, n1 / 4);
        uint32_t m = 0;

        for (; m + BITNET_M <= a->M; m += BITNET_M)
            for (uint32_t r = r0; r < r1; r++)
                bitnet_tile(a, r, m, BITNET_M);
        for (; m + 2 <= a->M; m += 2)
            for (uint32_t r = r0; r < r1; r++)
                bitnet_tile(a, r, m, 2);
        for (; m < a->M; m++)
            for (uint32_t r = r0; r < r1; r++)
                bitnet_tile(a, r, m, 1);
    }
}
