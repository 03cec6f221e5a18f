/* SPDX-License-Identifier: Apache-2.0 */

/*
 * 8 rows of W times one or two prepared rows, straight from the stored blocks, with AVX-512
 *
 * The same sums as matmul-direct.h. A vector holds 64 bytes of one row, two blocks or four, so
 * that 8 rows are as many streams as caches follow well. Vectors of the 8 rows end in a vector of
 * exact sums: 8 lanes of one block, then 8 lanes of the next; these go through the float
 * arithmetic of the tiles one after the other, in 256 bits.
 */

#define DIRECT_M 2

/* A place in 8 rows. Addresses are sums that an instruction makes by itself; the empty assembly
 * keeps the compiler from turning each row into a pointer, which are too many for registers. */
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

/* Sums of 8 rows, and those of offsets in the present chunk of k. */
struct direct_acc {
    __m256 v[DIRECT_M], offset[DIRECT_M];
};

/* Partial sums: how many of the two steps that add lanes of 16 bytes fit in 16 bits. */
enum direct_size { DIRECT_WIDE, DIRECT_ONE, DIRECT_BOTH };

INLINE __m512i direct_pairs(__m512i a, __m512i b)
{
    return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
}

#define direct_shuffle(a, b, how)                                                                  \
    _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), how))

/* [a, b, c, d] of each 16 bytes: the sums of the 4 lanes there of v[0], v[1], v[2], v[3]. */
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

/* 16-byte lanes i, j of @a and the same of @b, as a.i b.i a.j b.j. */
INLINE __m512i direct_lanes(__m512i a, __m512i b, const int i, const int j)
{
    return _mm512_permutex2var_epi64(a,
                                     _mm512_setr_epi64(2 * i, 2 * i + 1, 2 * i + 8, 2 * i + 9,
                                                       2 * j, 2 * j + 1, 2 * j + 8, 2 * j + 9),
                                     b);
}

/* What sums of products with q start from, for weights that are q - @zero. */
INLINE __m512i direct_first(__m512i x, const unsigned zero)
{
    const __m512i none = _mm512_setzero_si512();

    if (zero == 0)
        return none;
    return _mm512_sub_epi32(none, _mm512_dpbusd_epi32(none, _mm512_set1_epi8((char)zero), x));
}

/* Sums of 32 products: of the first half of the vectors of 8 rows, then of the second half. */
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

/* Of Q6_K, sums of 16 products, of the four quarters: sum[0] has the first two. */
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

/* @a in the first 8 lanes, @b in the others. */
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

/* acc with the sums of two blocks of x added, whose scales are in the lanes of @scale. */
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

/* Blocks up to @b were added: at the end of a chunk their offsets are, too. */
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
 * 2-byte units @at and @at + @step of 8 vectors, as floats: unit @at of vectors 0 … 7, then the
 * others. Taken from vectors that are needed anyway, rather than one by one from memory.
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

/* 16 floats of binary16. */
INLINE __m512 direct_halfs(const uint64_t d[4])
{
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((int64_t)d[0], (int64_t)d[1], (int64_t)d[2], (int64_t)d[3]));
}

#define DIRECT_BLOCKS 16u /* of Q8_0, whose scales are converted at once */

/* The scales of up to DIRECT_BLOCKS blocks of 8 rows. Vectors are stored as they are loaded later,
 * for only then do loads get them from stores that are still under way. */
INLINE void direct_q8_0_scales(struct direct_rows r, uint32_t n_blocks, float (*scale)[8])
{
    for (uint32_t b = 0; b < MIN(n_blocks, DIRECT_BLOCKS); b += 2) {
        uint64_t d[4] = {0};

        UNROLL for (unsigned i = 0; i < 16; i++)
        {
            uint16_t bits;

            memcpy(&bits, direct_row(&r, i % 8) + i / 8 * sizeof(struct block_q8_0), 2);
            d[i / 4] |= (uint64_t)bits << (i % 4 * 16);
        }
        _mm512_store_ps(scale[b], direct_halfs(d));
        direct_move(&r, 2 * sizeof(struct block_q8_0));
    }
}

INLINE void direct_q8_0(struct matmul_direct *d, const unsigned m_n)
{
    const unsigned size = sizeof(struct block_q8_0);
    struct direct_rows r = direct_rows(d);
    const uint8_t *ahead = d->ahead;
    float scale[DIRECT_BLOCKS][8] __attribute__((aligned(64)));
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 2, direct_move(&r, 2 * size)) {
        __m512i v[8];

        if (b % DIRECT_BLOCKS == 0)
            direct_q8_0_scales(r, d->K / 32 - b, scale);
        prefetch(&ahead, 8 * 2 * size);
        UNROLL for (unsigned i = 0; i < 8; i++) v[i] =
            _mm512_xor_si512(direct_halves(direct_row(&r, i) + 2, direct_row(&r, i) + 2 + size),
                             _mm512_set1_epi8(-128));
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const __m512i sum = direct_sum32(v, direct_halves(x[0].q, x[1].q), 128, DIRECT_WIDE);

            acc.v[m] =
                direct_add2(acc.v[m], sum, _mm512_load_ps(scale[b % DIRECT_BLOCKS]), &x[0], &x[1]);
        }
    }
    d->ahead = ahead;
    direct_end(d, m_n, &acc);
}

/* The 16 bytes of nibble pairs, or the 4 of high bits, of two blocks of two rows. */
INLINE __m512i direct_pick(__m512i a, __m512i b, const unsigned at, const unsigned step,
                           const unsigned n)
{
    const int64_t all = 0x0001000100010001, u0 = n == 8 ? 0x0003000200010000 : 0x0001000000010000;
    const int64_t u1 = n == 8 ? 0x0007000600050004 : u0, t = at * all, s = (at + step) * all;
    const __m512i index =
        _mm512_setr_epi64(t + u0, t + u1, s + u0, s + u1, t + 32 * all + u0, t + 32 * all + u1,
                          s + 32 * all + u0, s + 32 * all + u1);

    return _mm512_permutex2var_epi16(a, index, b);
}

/* Bit 4 of byte i of each 16 is bit i + 16 × @half of the first 4 bytes. */
INLINE __m512i direct_spread(__m512i bits, const unsigned half)
{
    const __m512i bytes = _mm512_add_epi8(_mm512_set4_epi32(0x01010101, 0x01010101, 0, 0),
                                          _mm512_set1_epi8((char)(2 * half)));
    const __m512i bit = _mm512_set1_epi64((int64_t)0x8040201008040201);

    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, bytes), bit),
                                  0x10);
}

/* Q4_0, Q4_1, Q5_0, Q5_1: 16 bytes of nibble pairs, high bits and an offset are there or not. */
INLINE void direct_32(struct matmul_direct *d, const unsigned m_n, const bool has_offset,
                      const bool has_high)
{
    const unsigned high_at = 2 + 2 * has_offset, q_at = high_at + 4 * has_high, size = q_at + 16;
    const enum direct_size sums = has_high && has_offset ? DIRECT_ONE : DIRECT_BOTH;
    const unsigned zero = has_offset ? 0 : has_high ? 16 : 8;
    const __mmask32 two_blocks = (uint32_t)((1ull << size) - 1); /* 2-byte units */
    const __m512i nibble = _mm512_set1_epi8(15);
    struct direct_rows r = direct_rows(d);
    const uint8_t *ahead = d->ahead;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 2, direct_move(&r, 2 * size)) {
        __m512i v[8], low[4], high[4];
        __m512 scale, offset = _mm512_setzero_ps();

        prefetch(&ahead, 8 * 2 * size);
        UNROLL for (unsigned i = 0; i < 8; i++) v[i] =
            _mm512_maskz_loadu_epi16(two_blocks, direct_row(&r, i));
        scale = direct_fields(v, 0, size / 2);
        if (has_offset)
            offset = direct_fields(v, 1, size / 2);
        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            const __m512i q = direct_pick(v[i], v[i + 4], q_at / 2, size / 2, 8);

            low[i] = _mm512_and_si512(q, nibble);
            high[i] = _mm512_and_si512(_mm512_srli_epi16(q, 4), nibble);
            if (has_high) {
                const __m512i bits = direct_pick(v[i], v[i + 4], high_at / 2, size / 2, 2);

                low[i] = _mm512_or_si512(low[i], direct_spread(bits, 0));
                high[i] = _mm512_or_si512(high[i], direct_spread(bits, 1));
            }
        }
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const struct matmul_q8 *x = direct_x(d, m, b);
            const __m512i both = direct_halves(x[0].q, x[1].q);
            const __m512i x0 = _mm512_shuffle_i64x2(both, both, 0x88);
            const __m512i x1 = _mm512_shuffle_i64x2(both, both, 0xdd);
            const __m512i first = _mm512_add_epi32(direct_first(x0, zero), direct_first(x1, zero));
            __m512i t[4], sum;
            __m512 f;

            UNROLL for (unsigned i = 0; i < 4; i++)
            {
                t[i] = _mm512_dpbusd_epi32(first, low[i], x0);
                t[i] = _mm512_dpbusd_epi32(t[i], high[i], x1);
            }
            sum = direct_add4(t, sums);
            sum = _mm512_shuffle_i64x2(sum, sum, 0xd8);
            f = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
            acc.v[m] = direct_fma(_mm512_castps512_ps256(f), &x[0], acc.v[m]);
            if (has_offset)
                acc.offset[m] = _mm256_fmadd_ps(_mm512_castps512_ps256(offset),
                                                _mm256_set1_ps(x[0].s), acc.offset[m]);
            acc.v[m] = direct_fma(_mm512_extractf32x8_ps(f, 1), &x[1], acc.v[m]);
            if (has_offset)
                acc.offset[m] = _mm256_fmadd_ps(_mm512_extractf32x8_ps(offset, 1),
                                                _mm256_set1_ps(x[1].s), acc.offset[m]);
        }
        if (has_offset)
            direct_chunk(d, m_n, &acc, b + 2);
    }
    d->ahead = ahead;
    direct_end(d, m_n, &acc);
}

/*
 * Super-blocks go by pairs, so that the heads of both are unpacked together, [8 rows of the first,
 * 8 of the second]; without a second one, the first stands in for it. Unpacked, the numbers of a
 * group lie beside those of the group whose sums share a vector with its sums.
 */
struct direct_pair {
    float scale[2][16][8];
    float offset[2][8][8];
} __attribute__((aligned(64)));

/* [8 of the first, 8 of the second] of two groups that lie side by side. */
INLINE void direct_put(float (*first)[8], float (*second)[8], __m512 a, __m512 b)
{
    _mm512_store_ps(*first, _mm512_shuffle_f32x4(a, b, 0x44));
    _mm512_store_ps(*second, _mm512_shuffle_f32x4(a, b, 0xee));
}

/* 16 bytes at @at of 8 rows, and at @at + @next: unit j of the lane's row in v[j]. */
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

/* The 16 bytes that Q4_K and Q5_K begin with, as decode_k_head(). */
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

/* Q4_K and Q5_K. */
INLINE void direct_k(struct matmul_direct *d, const unsigned m_n, const bool has_high)
{
    const unsigned size = has_high ? sizeof(struct block_q5_k) : sizeof(struct block_q4_k);
    const unsigned q_at = has_high ? 48 : 16;
    const __m512i nibble = _mm512_set1_epi8(15), bit4 = _mm512_set1_epi8(16);
    struct direct_rows r = direct_rows(d);
    const uint8_t *ahead = d->ahead;
    struct direct_pair pair;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, direct_move(&r, size)) {
        if (b % 16 == 0)
            direct_k_heads(&pair, &r, b + 8 < d->K / 32 ? size : 0);
        UNROLL for (unsigned g = 0; g < 8; g += 4)
        {
            /* Of half the groups: rotations that bring bit g of each byte to its bit 4. */
            const __m512i to0 = direct_two((4 - (int32_t)g) & 31, (4 - (int32_t)g - 2) & 31);
            const __m512i to1 = direct_two((3 - (int32_t)g) & 31, (1 - (int32_t)g) & 31);
            __m512i v[2][8];

            prefetch(&ahead, 8 * size / 2);
            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const __m512i q = _mm512_loadu_si512(direct_row(&r, i) + q_at + 16 * g);

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
    d->ahead = ahead;
    direct_end(d, m_n, &acc);
}

/* The scales of Q6_K. */
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
    const uint8_t *ahead = d->ahead;
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

            prefetch(&ahead, 8 * size / 2);
            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const __m512i q = _mm512_loadu_si512(direct_row(&r, i) + 64 * h);
                const __m512i t = _mm512_broadcast_i64x4(
                    _mm256_loadu_si256((const void *)(direct_row(&r, i) + 128 + 32 * h)));

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
    d->ahead = ahead;
    direct_end(d, m_n, &acc);
}

/* One function for each number of prepared rows. */
#define DIRECT_FN(stem, m_n, call)                                                                 \
    static __attribute__((noinline)) void stem##_##m_n(struct matmul_direct *d)                    \
    {                                                                                              \
        call;                                                                                      \
    }
#define DIRECT(stem, call1, call2)                                                                 \
    DIRECT_FN(direct_##stem, 1, call1)                                                             \
    DIRECT_FN(direct_##stem, 2, call2)                                                             \
    static void direct_##stem##_avx512(struct matmul_direct *d)                                    \
    {                                                                                              \
        d->M == 1 ? direct_##stem##_1(d) : direct_##stem##_2(d);                                   \
    }

DIRECT(q8_0, direct_q8_0(d, 1), direct_q8_0(d, 2))
DIRECT(q4_0, direct_32(d, 1, false, false), direct_32(d, 2, false, false))
DIRECT(q4_1, direct_32(d, 1, true, false), direct_32(d, 2, true, false))
DIRECT(q5_0, direct_32(d, 1, false, true), direct_32(d, 2, false, true))
DIRECT(q5_1, direct_32(d, 1, true, true), direct_32(d, 2, true, true))
DIRECT(q4_k, direct_k(d, 1, false), direct_k(d, 2, false))
DIRECT(q5_k, direct_k(d, 1, true), direct_k(d, 2, true))
DIRECT(q6_k, direct_q6_k(d, 1), direct_q6_k(d, 2))
