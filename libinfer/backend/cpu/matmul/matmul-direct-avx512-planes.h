/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the formats of MLX whose codes have a scale for each group, for
 * matmul-direct-avx512.h: the affine formats with any group and any type of scales, and NVFP4 with
 * planes.
 *
 * A vector has the 64 codes of two blocks of a row, one per byte. The elements of the planes of 8
 * rows and of up to 16 groups are converted together: a cache line or less of each row is loaded,
 * and the numbers of rows 0 … 3 and of rows 4 … 7 are interleaved.
 */

#define DIRECT_GROUPS 16u /* groups whose scales are converted together */

/* Holds the elements of a plane for 8 rows. The elements of group 4i + j are 16-byte lane i of
 * rows[j] for rows 0 … 3, and 16-byte lane i of rows[j + 4] for rows 4 … 7. */
struct direct_plane {
    float rows[8][4][4];
} __attribute__((aligned(64)));

/* Loads @n ≤ 16 elements of a plane as floats. */
INLINE __m512 direct_elements(const uint8_t *p, const enum plane_type type, unsigned n)
{
    const __mmask16 mask = (__mmask16)((1u << n) - 1);
    const __m256i zero = _mm256_setzero_si256();
    __m256i half, magnitude;

    if (type == PLANE_F32)
        return _mm512_maskz_loadu_ps(mask, p);
    if (type == PLANE_E4M3) {
        half = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(mask, p));
        magnitude = _mm256_slli_epi16(_mm256_and_si256(half, _mm256_set1_epi16(0x7f)), 7);
        /* The exponent of NaN becomes that of NaN in F16. */
        magnitude = _mm256_mask_mov_epi16(
            magnitude, _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x3f80)),
            _mm256_set1_epi16(0x7e00));
        half = _mm256_and_si256(_mm256_slli_epi16(half, 8), _mm256_set1_epi16((short)0x8000));
        /* The binary16 number is the element divided by 256, and codes count as twice their values.
         * The factor 128 corrects both. */
        return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(half, magnitude)),
                             _mm512_set1_ps(128));
    }
    half = _mm256_mask_loadu_epi16(zero, mask, p);
    if (type == PLANE_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

INLINE void direct_plane_rows(const uint8_t *p, size_t stride, const enum plane_type type,
                              unsigned n, float (*dst)[4][4])
{
    const __m512i r0 = _mm512_castps_si512(direct_elements(p, type, n));
    const __m512i r1 = _mm512_castps_si512(direct_elements(p + stride, type, n));
    const __m512i r2 = _mm512_castps_si512(direct_elements(p + 2 * stride, type, n));
    const __m512i r3 = _mm512_castps_si512(direct_elements(p + 3 * stride, type, n));
    v_int v[4] = {r0, r1, r2, r3};

    transpose(v);
    UNROLL for (unsigned j = 0; j < 4; j++) _mm512_store_si512(dst[j], v[j]);
}

/* Converts the elements of @n groups from group @at on. */
static __attribute__((noinline)) void TILE_NAME(direct_plane_load)(const uint8_t *plane,
                                                                   const struct matmul_planes *p,
                                                                   uint32_t at, uint32_t n,
                                                                   struct direct_plane *dst)
{
    const size_t stride = p->row_bytes;

    plane += (size_t)at * plane_bytes(p->type);
    for (unsigned i = 0; i < 2; i++, plane += 4 * stride) {
        float(*rows)[4][4] = &dst->rows[4 * i];

        if (p->type == PLANE_F32)
            direct_plane_rows(plane, stride, PLANE_F32, n, rows);
        else if (p->type == PLANE_F16)
            direct_plane_rows(plane, stride, PLANE_F16, n, rows);
        else if (p->type == PLANE_BF16)
            direct_plane_rows(plane, stride, PLANE_BF16, n, rows);
        else
            direct_plane_rows(plane, stride, PLANE_E4M3, n, rows);
    }
}

/* Returns the elements of group @i for the 8 rows. */
INLINE __m256 direct_plane_get(const struct direct_plane *p, uint32_t i)
{
    return _mm256_set_m128(_mm_load_ps(p->rows[i % 4 + 4][i / 4]),
                           _mm_load_ps(p->rows[i % 4][i / 4]));
}

/* Returns the elements of the groups @i and @j, each for the 8 rows. */
INLINE __m512 direct_plane_two(const struct direct_plane *p, uint32_t i, uint32_t j)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(direct_plane_get(p, i)),
                              direct_plane_get(p, j), 1);
}

/* Returns 64 codes of @bits bits, one per byte. For 3, 5 and 6 bits, 8 codes are first moved to
 * each 8 bytes, then 4 codes to each 4 bytes, and so on. */
INLINE __m512i direct_codes(const uint8_t *p, const unsigned bits)
{
    const __m512i mask = _mm512_set1_epi8((char)((1u << bits) - 1));
    __m512i v, index, odd;

    if (bits == 8)
        return _mm512_loadu_si512(p);
    if (bits == 4) {
        v = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)p));
        return _mm512_and_si512(_mm512_or_si512(v, _mm512_slli_epi16(v, 4)), mask);
    }
    if (bits == 2) {
        v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
        v = _mm512_or_si512(v, _mm512_slli_epi32(v, 12));
        return _mm512_and_si512(_mm512_or_si512(v, _mm512_slli_epi32(v, 6)), mask);
    }
    /* Word i of group j of 4 words is word i + j × bits / 2 of the codes. */
    index = _mm512_add_epi16(
        _mm512_set1_epi64(0x0003000200010000),
        _mm512_setr_epi64(0, bits / 2 * 0x0001000100010001, bits * 0x0001000100010001,
                          3 * bits / 2 * 0x0001000100010001, 2 * bits * 0x0001000100010001,
                          5 * bits / 2 * 0x0001000100010001, 3 * bits * 0x0001000100010001,
                          7 * bits / 2 * 0x0001000100010001));
    odd = _mm512_setr_epi64(0, 8, 0, 8, 0, 8, 0, 8);
    v = _mm512_permutexvar_epi16(index,
                                 _mm512_maskz_loadu_epi16((__mmask32)((1ull << 4 * bits) - 1), p));
    if (bits % 2 == 1)
        v = _mm512_srlv_epi64(v, odd);
    v = _mm512_mask_mov_epi32(v, 0xaaaa, _mm512_slli_epi64(v, 32 - 4 * bits));
    v = _mm512_mask_mov_epi16(v, 0xaaaaaaaa, _mm512_slli_epi32(v, 16 - 2 * bits));
    v = _mm512_mask_mov_epi8(v, 0xaaaaaaaaaaaaaaaa, _mm512_slli_epi16(v, 8 - bits));
    return _mm512_and_si512(v, mask);
}

/* Multiplies two blocks of 32 weights of the 8 rows by the blocks @x of a prepared row. */
INLINE void direct_affine_add(const struct matmul_q8 *x, const __m512i w[8], const unsigned bits,
                              __m512 scale, __m512 offset, __m256 *acc, __m256 *sum)
{
    const enum direct_size size = bits == 8 ? DIRECT_WIDE : bits == 6 ? DIRECT_ONE : DIRECT_BOTH;
    const __m512i all = direct_sum32(w, direct_halves(x[0].q, x[1].q), bits == 8 ? 128 : 0, size);

    *acc = direct_add2(*acc, all, scale, &x[0], &x[1]);
    *sum = _mm256_fmadd_ps(_mm512_castps512_ps256(offset), _mm256_set1_ps(x[0].s), *sum);
    *sum = _mm256_fmadd_ps(_mm512_extractf32x8_ps(offset, 1), _mm256_set1_ps(x[1].s), *sum);
}

INLINE void direct_affine(struct matmul_direct *d, const unsigned m_n, const unsigned bits)
{
    const unsigned size = 8 * bits;
    const uint32_t group = d->planes.group, n_groups = d->K / group;
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_plane scales, offsets;
    struct direct_acc acc;
    uint32_t b = 0;

    direct_begin(d, m_n, &acc);
    for (uint32_t g0 = 0; g0 < n_groups; g0 += DIRECT_GROUPS) {
        const uint32_t n = MIN(n_groups - g0, DIRECT_GROUPS), end = (g0 + n) * group / 32;

        TILE_NAME(direct_plane_load)(d->planes.scales, &d->planes, g0, n, &scales);
        TILE_NAME(direct_plane_load)(d->planes.offsets, &d->planes, g0, n, &offsets);
        for (; b < end; b += 2, direct_move(&r, size)) {
            const uint32_t i = b * 32 / group - g0, j = (b + 1) * 32 / group - g0;
            const __m512 scale = direct_plane_two(&scales, i, j);
            __m512 offset = direct_plane_two(&offsets, i, j);
            __m512i w[8];

            if (bits == 8)
                offset = _mm512_fmadd_ps(_mm512_set1_ps(128), scale, offset);
            UNROLL for (unsigned k = 0; k < 8; k++)
            {
                prefetch_turn(&ahead, k, size);
                w[k] = direct_codes(direct_row(&r, k), bits);
            }
            UNROLL for (unsigned m = 0; m < m_n; m++) direct_affine_add(
                direct_x(d, m, b), w, bits, scale, offset, &acc.v[m], &acc.offset[m]);
            direct_chunk(d, m_n, &acc, b + 2);
        }
    }
    direct_end(d, m_n, &acc);
}

/* Multiplies NVFP4, which has 4 groups in two blocks. `scales` holds half of each scale. */
INLINE void direct_nvfp4(struct matmul_direct *d, const unsigned m_n)
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_load_si128((const void *)nvfp4_codes)); /* v + 32 */
    const uint32_t n_groups = d->K / 16;
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_plane scales;
    struct direct_acc acc;
    uint32_t b = 0;

    direct_begin(d, m_n, &acc);
    for (uint32_t g0 = 0; g0 < n_groups; g0 += DIRECT_GROUPS) {
        const uint32_t n = MIN(n_groups - g0, DIRECT_GROUPS), end = (g0 + n) / 2;

        TILE_NAME(direct_plane_load)(d->planes.scales, &d->planes, g0, n, &scales);
        for (; b < end; b += 2, direct_move(&r, 32)) {
            const uint32_t i = 2 * b - g0;
            const __m512 first = direct_plane_two(&scales, i, i + 1);
            const __m512 second = direct_plane_two(&scales, i + 2, i + 3);
            __m512i w[8];

            UNROLL for (unsigned k = 0; k < 8; k++)
            {
                prefetch_turn(&ahead, k, 32);
                w[k] = _mm512_shuffle_epi8(table, direct_codes(direct_row(&r, k), 4));
            }
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b);
                __m512i sum[2];

                direct_sum16(w, direct_halves(x[0].q, x[1].q), sum);
                acc.v[m] = direct_add2(acc.v[m], sum[0], first, &x[0], &x[0]);
                acc.v[m] = direct_add2(acc.v[m], sum[1], second, &x[1], &x[1]);
            }
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(affine2, direct_affine(d, m_n, 2))
DIRECT(mlx3, direct_affine(d, m_n, 3))
DIRECT(mlx4, direct_affine(d, m_n, 4))
DIRECT(mlx5, direct_affine(d, m_n, 5))
DIRECT(mlx6, direct_affine(d, m_n, 6))
DIRECT(mlx8, direct_affine(d, m_n, 8))
DIRECT(nvfp4_planes, direct_nvfp4(d, m_n))

/* Multiplies codes of 2 bits. A faster kernel multiplies whole pairs of groups of 128 elements with
 * scales in F16. */
static void TILE_NAME(direct_planes2)(struct matmul_direct *d)
{
    if (d->planes.group == 128 && d->K % 256 == 0 && d->planes.type == PLANE_F16)
        TILE_NAME(direct_mlx2)(d);
    else
        TILE_NAME(direct_affine2)(d);
}
