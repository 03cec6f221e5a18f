/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies Q4_K, Q5_K and Q6_K, for matmul-direct-avx512.h. */

/*
 * Holds the unpacked headers of a pair of super-blocks. Super-blocks are processed in pairs, so
 * that the headers of both are unpacked together as [8 rows of the first super-block, 8 rows of the
 * second]. If there is no second super-block, the first takes its place. If the sums of two groups
 * share a vector, the unpacked scales of these groups are adjacent, too.
 */
struct direct_pair {
    float scale[2][16][8];
    float offset[2][8][8];
} __attribute__((aligned(64)));

/* Stores @a and @b for two adjacent groups. Each has 8 rows of the first, then 8 rows of the second
 * super-block. */
INLINE void direct_put(float (*first)[8], float (*second)[8], __m512 a, __m512 b)
{
    _mm512_store_ps(*first, _mm512_shuffle_f32x4(a, b, 0x44));
    _mm512_store_ps(*second, _mm512_shuffle_f32x4(a, b, 0xee));
}

/* Loads the 16 bytes at offset @at and at offset @at + @next of 8 rows. Each lane of v[j] has
 * 4-byte unit j of one of these 16 pieces. */
INLINE void direct_heads(const struct direct_rows *r, size_t at, size_t next, __m512i v[4])
{
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const uint8_t *row = direct_row(r, i) + at, *row4 = direct_row(r, i + 4) + at;

        v[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)row));
        v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const void *)row4), 1);
        v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const void *)(row + next)), 2);
        v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const void *)(row4 + next)), 3);
    }
    transpose(v);
}

/* Unpacks the first 16 bytes of Q4_K and Q5_K super-blocks, as decode_k_scales() does. */
INLINE void direct_k_heads(struct direct_pair *p, const struct direct_rows *r, size_t next)
{
    const __m512i six = _mm512_set1_epi32(63), four = _mm512_set1_epi32(15);
    const __m512i two = _mm512_set1_epi32(0x30);
    __m512 d, dmin, scale[8], offset[8];
    __m512i v[4];

    direct_heads(r, 0, next, v);
    d = v_from_f16_low(v[0]);
    dmin = _mm512_mul_ps(v_from_f16_low(v_shr(v[0], 16)), _mm512_set1_ps(-1));
    UNROLL for (unsigned g = 0; g < 8; g++)
    {
        const unsigned shift = 8 * (g % 4);
        __m512i s = v_shr(v[1], shift), m = v_shr(v[2], shift);

        if (g < 4) {
            s = v_and(s, six);
            m = v_and(m, six);
        } else {
            const __m512i both = v_shr(v[3], shift);

            s = v_or(v_and(both, four), v_and(v_shr(s, 2), two));
            m = v_or(v_and(v_shr(both, 4), four), v_and(v_shr(m, 2), two));
        }
        scale[g] = _mm512_mul_ps(d, v_to_float(s));
        offset[g] = _mm512_mul_ps(dmin, v_to_float(m));
    }
    UNROLL for (unsigned g = 0; g < 8; g += 2)
    {
        const unsigned i = g / 4 * 4 + g / 2 % 2; /* groups 0 and 2, 1 and 3, … */

        direct_put(&p->scale[0][g], &p->scale[1][g], scale[i], scale[i + 2]);
        direct_put(&p->offset[0][g], &p->offset[1][g], offset[g], offset[g + 1]);
    }
}

/* Adds the sums of groups @g … @g + 3 of super-block @i of the pair. */
INLINE void direct_k_add(const struct matmul_direct *d, const unsigned m_n, struct direct_acc *acc,
                         const struct direct_pair *pair, unsigned i, const __m512i v[2][8],
                         uint32_t b, const unsigned g)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = direct_x(d, m, b + g);
        __m256 f[4];

        UNROLL for (unsigned j = 0; j < 2; j++)
        {
            const __m512i sum =
                direct_sum32(v[j], direct_halves(x[j].q, x[j + 2].q), 0, DIRECT_BOTH);
            const __m512 scaled =
                _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_load_ps(pair->scale[i][g + 2 * j]));

            f[j] = _mm512_castps512_ps256(scaled);
            f[j + 2] = _mm512_extractf32x8_ps(scaled, 1);
        }
        UNROLL for (unsigned j = 0; j < 4; j++)
        {
            acc->v[m] = direct_fma(f[j], &x[j], acc->v[m]);
            acc->offset[m] = _mm256_fmadd_ps(_mm256_load_ps(pair->offset[i][g + j]),
                                             _mm256_set1_ps(x[j].s), acc->offset[m]);
        }
    }
}

/* Multiplies Q4_K or Q5_K. */
INLINE void direct_k(struct matmul_direct *d, const unsigned m_n, const bool has_high)
{
    const unsigned size = has_high ? sizeof(struct block_q5_k) : sizeof(struct block_q4_k);
    const unsigned q_at = has_high ? 48 : 16;
    const __m512i nibble = _mm512_set1_epi8(15), bit4 = _mm512_set1_epi8(16);
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_pair pair;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, direct_move(&r, size)) {
        if (b % 16 == 0)
            direct_k_heads(&pair, &r, b + 8 < d->K / 32 ? size : 0);
        UNROLL for (unsigned g = 0; g < 8; g += 4)
        {
            /* The rotations @to0 and @to1 bring one high bit of each byte to bit 4 of the byte:
             * @to0 brings bit g (g + 2 in the upper half of the vector), @to1 brings bit g + 1 (g +
             * 3 in the upper half). */
            const __m512i to0 = direct_two((4 - (int32_t)g) & 31, (4 - (int32_t)g - 2) & 31);
            const __m512i to1 = direct_two((3 - (int32_t)g) & 31, (1 - (int32_t)g) & 31);
            __m512i v[2][8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const __m512i q = _mm512_loadu_si512(direct_row(&r, i) + q_at + 16 * g);

                prefetch_turn(&ahead, i, size / 2);
                v[0][i] = _mm512_and_si512(q, nibble);
                v[1][i] = _mm512_and_si512(_mm512_srli_epi16(q, 4), nibble);
                if (has_high) {
                    const __m512i h = _mm512_broadcast_i64x4(
                        _mm256_loadu_si256((const void *)(direct_row(&r, i) + 16)));

                    v[0][i] =
                        _mm512_or_si512(v[0][i], _mm512_and_si512(_mm512_rolv_epi32(h, to0), bit4));
                    v[1][i] =
                        _mm512_or_si512(v[1][i], _mm512_and_si512(_mm512_rolv_epi32(h, to1), bit4));
                }
            }
            direct_k_add(d, m_n, &acc, &pair, b / 8 % 2, v, b, g);
        }
        direct_chunk(d, m_n, &acc, b + 8);
    }
    direct_end(d, m_n, &acc);
}

/* Unpacks the scales of Q6_K. */
INLINE void direct_q6_k_heads(struct direct_pair *pair, const struct direct_rows *r, size_t next)
{
    uint64_t d[4] = {0};
    __m512 f, scale[16];
    __m512i v[4];

    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        uint16_t bits;

        memcpy(&bits, direct_row(r, i % 8) + i / 8 * next + offsetof(struct block_q6_k, d), 2);
        d[i / 4] |= (uint64_t)bits << (i % 4 * 16);
    }
    f = direct_halfs(d);
    direct_heads(r, offsetof(struct block_q6_k, scales), next, v);
    UNROLL for (unsigned g = 0; g < 16; g++) scale[g] =
        _mm512_mul_ps(f, v_to_float(v_sar(v_shl(v[g / 4], 24 - 8 * (g % 4)), 24)));
    UNROLL for (unsigned g = 0; g < 16; g += 2)
        direct_put(&pair->scale[0][g], &pair->scale[1][g], scale[g], scale[g + 1]);
}

INLINE void direct_q6_k(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q6_k);
    const __m512i nibble = _mm512_set1_epi8(15), bits45 = _mm512_set1_epi8(0x30);
    const __m512i to0 = direct_two(4, 2), to1 = direct_two(0, 30);
    struct direct_rows r = direct_rows(d);
    struct matmul_ahead ahead = d->ahead;
    struct direct_pair pair;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, direct_move(&r, size)) {
        const unsigned i_super = b / 8 % 2;

        if (i_super == 0)
            direct_q6_k_heads(&pair, &r, b + 8 < d->K / 32 ? size : 0);
        UNROLL for (unsigned h = 0; h < 2; h++)
        {
            __m512i v[2][8];

            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const __m512i q = _mm512_loadu_si512(direct_row(&r, i) + 64 * h);
                const __m512i t = _mm512_broadcast_i64x4(
                    _mm256_loadu_si256((const void *)(direct_row(&r, i) + 128 + 32 * h)));

                prefetch_turn(&ahead, i, size / 2);
                v[0][i] = _mm512_or_si512(_mm512_and_si512(q, nibble),
                                          _mm512_and_si512(_mm512_rolv_epi32(t, to0), bits45));
                v[1][i] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(q, 4), nibble),
                                          _mm512_and_si512(_mm512_rolv_epi32(t, to1), bits45));
            }
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const struct matmul_q8 *x = direct_x(d, m, b + 4 * h);

                UNROLL for (unsigned j = 0; j < 2; j++)
                {
                    __m512i sum[2];

                    direct_sum16(v[j], direct_halves(x[2 * j].q, x[2 * j + 1].q), sum);
                    UNROLL for (unsigned k = 0; k < 2; k++)
                    {
                        const struct matmul_q8 *block = &x[2 * j + k];
                        const unsigned g = 8 * h + 4 * j + 2 * k;

                        acc.v[m] = direct_add2(
                            acc.v[m], sum[k], _mm512_load_ps(pair.scale[i_super][g]), block, block);
                    }
                }
            }
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(q4_k, direct_k(d, m_n, false))
DIRECT(q5_k, direct_k(d, m_n, true))
DIRECT(q6_k, direct_q6_k(d, m_n))
