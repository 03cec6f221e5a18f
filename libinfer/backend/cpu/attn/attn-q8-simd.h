/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes the scores of attention with keys that are stored as Q8_0, Q4_0 or Q3_0. Include this
 * file after attn-pack-simd.h.
 *
 * The dot instructions multiply unsigned bytes by signed bytes. For scores the keys are the
 * unsigned factor: 128 is added to each element, and 128 × the sum of the query's elements is
 * subtracted from the product. For results, the weights of attention are the unsigned factor: they
 * are positive numbers of 16 bits, whose high and low bytes are multiplied one after the other.
 * Sums over 32 elements of a key, or over the tokens of a block, are exact. Codes of Q4_0 and Q3_0
 * are converted to levels when they are loaded.
 */

/* Writes the query x × scale to @q: first its elements as int8 [head_dim], then a float scale for
 * each block of 32 elements, then for each block the sum of its elements × -128, as int32. */
static void query_q8(float *q, const float *x, float scale, uint32_t head_dim)
{
    const uint32_t n_blocks = head_dim / ATTN_Q8_BLOCK;
    float *scales = q + head_dim / 4;
    int32_t *bias = (int32_t *)(scales + n_blocks);
    float y[ATTN_Q8_BLOCK];

    for (uint32_t b = 0; b < n_blocks; b++) {
        int8_t *to = (int8_t *)q + b * ATTN_Q8_BLOCK;
        int32_t sum = 0;

        query_float(y, x + b * ATTN_Q8_BLOCK, scale, ATTN_Q8_BLOCK);
        quantise(to, &scales[b], y, false, ATTN_Q8_BLOCK);
        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++)
            sum += to[i];
        bias[b] = -128 * sum;
    }
}

static void query_q4(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    rotate(y, head_dim);
    query_q8(q, y, scale, head_dim);
}

/* Returns the 16 levels of Q4_0, each plus @offset. */
ALWAYS_INLINE vi q4_levels(int offset)
{
    static const int8_t levels[16] = CODEC_Q4_LEVELS;
    int8_t sums[16];

    for (int i = 0; i < 16; i++)
        sums[i] = (int8_t)(levels[i] + offset);
    return vi_table(sums);
}

/* Returns the 8 levels of Q3_0, each plus @offset, twice, so that the fourth bit of an index has no
 * effect. */
ALWAYS_INLINE vi q3_levels(int offset)
{
    static const int8_t levels[8] = CODEC_Q3_LEVELS;
    int8_t sums[16];

    for (int i = 0; i < 16; i++)
        sums[i] = (int8_t)(levels[i % 8] + offset);
    return vi_table(sums);
}

/* Returns the table of the levels of a format, each plus @offset. */
ALWAYS_INLINE vi q8_levels(enum codec codec, int offset)
{
    return codec == CODEC_Q3_0 ? q3_levels(offset) : q4_levels(offset);
}

/* Returns the codes of the elements @c … of a run of Q3_0 (quant/codec.h), whose byte i is in the
 * vector at @p + i × @step. The caller must ignore the fourth bit of the codes of elements before
 * 96. */
ALWAYS_INLINE vi q3_codes(const void *p, size_t step, uint32_t c)
{
    static const int8_t bits[3][16] = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4}};
    const uint8_t *from = p;
    vi sum = vi_set1(0);

    if (c < 48)
        return vi_low4(vi_load(from + c * step));
    if (c < 96)
        return vi_high4(vi_load(from + (c - 48) * step));
#pragma GCC unroll 3
    for (uint32_t j = 0; j < 3; j++) {
        const vi x = vi_load(from + (c % 16 + 16 * j) * step);

        sum = vi_add(sum, vi_lookup(vi_table(bits[j]), c < 112 ? vi_low4(x) : vi_high4(x)));
    }
    return sum;
}

/* Returns the number of blocks of 32 elements that share a scale. */
ALWAYS_INLINE uint32_t q8_blocks_of_scale(enum codec codec)
{
    return codec == CODEC_Q3_0 ? CODEC_Q3_RUN / ATTN_Q8_BLOCK : 1;
}

/* Returns the number of bytes in front of the scales. */
ALWAYS_INLINE size_t q8_bytes(const struct attn_args *args, enum codec codec)
{
    const size_t n = (size_t)args->head_dim * args->block_tokens;

    return codec == CODEC_Q3_0 ? n / 8 * 3 : codec == CODEC_Q4_0 ? n / 2 : n;
}

ALWAYS_INLINE vi quad(const void *p)
{
    int32_t x;

    memcpy(&x, p, sizeof(x));
    return vi_set1(x);
}

ALWAYS_INLINE void prefetch_vector(const void *p, size_t at)
{
    __builtin_prefetch((const char *)p + at, 0, 2);
}

/* Adds to @dot the products of the elements 4 @k … 4 @k + 3 of nr vectors of keys and of mr
 * queries. */
ALWAYS_INLINE void q8_step(vi dot[8][4], const vi key[4], const float *q, uint32_t hd, uint32_t k,
                           const uint32_t mr, const uint32_t nr)
{
#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++) {
        const vi x = quad((const int8_t *)(q + i * hd) + k * 4);

#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            dot[i][j] = vi_dot_us(dot[i][j], key[j], x);
    }
}

/* Loads the elements 4 @k … 4 @k + 3 of nr vectors of tokens, from token @n on, as unsigned bytes.
 * Loads the bytes of Q4_0 as they are stored. */
ALWAYS_INLINE void q8_load_keys(vi key[4], const struct attn_args *args, uint32_t k, uint32_t n,
                                const uint32_t nr, vi levels, enum codec codec)
{
    const uint32_t bt = args->block_tokens;
    const size_t run = (size_t)k / 32 * CODEC_Q3_BYTES * bt;
    const uint8_t *keys = args->kv;

#pragma GCC unroll 4
    for (uint32_t j = 0; j < nr; j++) {
        const uint32_t t = n + j * VF_N;

        if (codec == CODEC_Q3_0)
            key[j] = vi_lookup(levels, q3_codes(keys + run + (size_t)t * 4, bt, k % 32 * 4));
        else
            key[j] = vi_load(keys + ((size_t)k * bt + t) * 4);
    }
}

/* Prefetches the bytes from args->ahead on that correspond to those of q8_load_keys(). A byte of
 * Q3_0 that holds several elements is prefetched with the first of them. */
ALWAYS_INLINE void q8_prefetch_keys(const struct attn_args *args, uint32_t k, uint32_t n,
                                    const uint32_t nr, enum codec codec)
{
    if (codec == CODEC_Q3_0 && k % 32 >= CODEC_Q3_BYTES / 4)
        return;
    if (codec == CODEC_Q3_0)
        k = k / 32 * (CODEC_Q3_BYTES / 4) + k % 32;
#pragma GCC unroll 4
    for (uint32_t j = 0; j < nr; j++)
        prefetch_vector(args->ahead, ((size_t)k * args->block_tokens + n + j * VF_N) * 4);
}

/* Computes the scores of the rows @m … @m + mr - 1 for nr vectors of tokens, from token @n on. */
ALWAYS_INLINE void q8_score_tile(const struct attn_args *args, uint32_t m, uint32_t n,
                                 const uint32_t mr, const uint32_t nr, enum codec codec)
{
    const uint32_t hd = args->head_dim, bt = args->block_tokens;
    const bool halves = codec == CODEC_Q4_0;
    const uint32_t n_quads = halves ? 4 : 8; /* groups of four bytes of one token in one block */
    const uint8_t *keys = args->kv;
    const uint32_t n_shared = q8_blocks_of_scale(codec);
    const size_t size = q8_bytes(args, codec);
    const uint16_t *scales = (const uint16_t *)(keys + size);
    const float *q = args->q + (size_t)m * hd;
    const vi levels = q8_levels(codec, 128);
    vf sum[8][4];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            sum[i][j] = vf_set1(0);

    for (uint32_t b = 0; b < hd / ATTN_Q8_BLOCK; b++) {
        vi dot[8][4];

        if (args->ahead) /* the scales of these tokens are within one cache line */
            prefetch_vector(args->ahead, size + ((size_t)(b / n_shared) * bt + n) * 2);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (uint32_t j = 0; j < nr; j++)
                dot[i][j] = quad(q + i * hd + hd / 4 + hd / ATTN_Q8_BLOCK + b);
        for (uint32_t k = b * n_quads; k < (b + 1) * n_quads; k++) {
            vi key[4];

            q8_load_keys(key, args, k, n, nr, levels, codec);
            if (args->ahead)
                q8_prefetch_keys(args, k, n, nr, codec);
            if (halves) {
                const uint32_t k8 = b * 8 + k % 4;
                vi low[4];

#pragma GCC unroll 4
                for (uint32_t j = 0; j < nr; j++)
                    low[j] = vi_lookup(levels, vi_low4(key[j]));
                q8_step(dot, low, q, hd, k8, mr, nr);
#pragma GCC unroll 4
                for (uint32_t j = 0; j < nr; j++)
                    key[j] = vi_lookup(levels, vi_high4(key[j]));
                q8_step(dot, key, q, hd, k8 + 4, mr, nr);
            } else {
                q8_step(dot, key, q, hd, k, mr, nr);
            }
        }
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++) {
            const vf scale = vf_load_f16(scales + (size_t)(b / n_shared) * bt + n + j * VF_N);

#pragma GCC unroll 8
            for (uint32_t i = 0; i < mr; i++) {
                const vf x = vf_mul(vi_to_float(dot[i][j]), vf_set1(q[i * hd + hd / 4 + b]));

                sum[i][j] = vf_fma(x, scale, sum[i][j]);
            }
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            vf_store(args->s + (size_t)(m + i) * bt + n + j * VF_N, sum[i][j]);
}

ALWAYS_INLINE void q8_score_rows(const struct attn_args *args, uint32_t m, const uint32_t mr,
                                 const uint32_t nr, enum codec codec)
{
    const uint32_t hi = args->range[m + mr - 1].hi;
    uint32_t n = args->range[m].lo & ~15u;

    for (; n + nr * VF_N <= args->block_tokens && n < hi; n += nr * VF_N)
        q8_score_tile(args, m, n, mr, nr, codec);
    for (; n < hi; n += VF_N)
        q8_score_tile(args, m, n, mr, 1, codec);
}

ALWAYS_INLINE void q8_scores(const struct attn_args *args, enum codec codec)
{
    uint32_t m = 0;

    for (; m + ATTN_Q8_MR <= args->n_rows; m += ATTN_Q8_MR)
        q8_score_rows(args, m, ATTN_Q8_MR, ATTN_Q8_NR, codec);
    for (; m + 2 <= args->n_rows; m += 2)
        q8_score_rows(args, m, 2, ATTN_Q8_NR, codec);
    if (m < args->n_rows)
        q8_score_rows(args, m, 1, ATTN_Q8_NR, codec);
}

static void scores_q8(const struct attn_args *args)
{
    q8_scores(args, CODEC_Q8_0);
}

static void scores_q4(const struct attn_args *args)
{
    q8_scores(args, CODEC_Q4_0);
}

static void scores_q3(const struct attn_args *args)
{
    q8_scores(args, CODEC_Q3_0);
}
