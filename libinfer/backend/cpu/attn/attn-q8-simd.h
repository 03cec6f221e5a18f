/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes the scores of attention with keys that are stored as Q8_0 or as codes. Include this file
 * after attn-pack-simd.h.
 *
 * The dot instructions multiply unsigned bytes by signed bytes. For scores the keys are the
 * unsigned factor: 128 is added to each element, and 128 × the sum of the query's elements is
 * subtracted from the product. For results, the weights of attention are the unsigned factor: they
 * are positive numbers of 16 bits, whose high and low bytes are multiplied one after the other.
 * Sums over 32 elements of a key, or over the tokens of a block, are exact. Codes are converted to
 * levels when they are loaded. The offsets of a group are multiplied by the sum of the query's
 * elements, or by the sum of the weights, as floats.
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

static void query_rotated(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    rotate(y, head_dim);
    query_q8(q, y, scale, head_dim);
}

static void query_signed(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    code_signs(y, CODE_SEED, head_dim);
    query_rotated(q, y, scale, head_dim);
}

/* Writes the query for the codes, and then, from @q + head_dim / 2 on, the one for the bits of the
 * residual. */
static void query_residual(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    code_signs(y, CODE_SEED, head_dim);
    rotate(y, head_dim);
    query_q8(q, y, scale, head_dim);
    code_signs(y, CODE_RESIDUAL_SEED, head_dim);
    query_rotated(q + head_dim / 2, y, scale, head_dim);
}

ALWAYS_INLINE vi quad(const void *p)
{
    int32_t x;

    memcpy(&x, p, sizeof(x));
    return vi_set1(x);
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

/* Adds to @dot the products of block @b of nr vectors of keys, from token @n on, and of mr
 * queries. */
ALWAYS_INLINE void q8_score_block(vi dot[8][4], const struct q8_codes *codes,
                                  struct attn_ahead *ahead, const vi table[8], const float *q,
                                  uint32_t hd, uint32_t bt, uint32_t b, uint32_t n,
                                  const uint32_t mr, const uint32_t nr, const uint32_t bits)
{
    const bool pairs = q8_in_runs(bits);

    for (uint32_t i = 0; i < (pairs ? 4u : 8u); i++) {
        const uint32_t k = b * 8 + i, word = pairs ? q8_run(b, bits) / 4 + i : k;
        vi first[4], second[4];

        if (pairs)
            ahead_read(ahead, (size_t)nr * VF_N * 4 * q8_first_uses(b, bits));
        else if (bits == 8 || k % 32 < CODEC_Q3_BYTES / 4)
            ahead_read(ahead, (size_t)nr * VF_N * 4);
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++) {
            const size_t t = n + j * VF_N;

            if (bits == 3)
                first[j] = vi_lookup(
                    table[0], q3_codes(codes->bytes + (size_t)k / 32 * CODEC_Q3_BYTES * bt + t * 4,
                                       bt, k % 32 * 4));
            else if (pairs)
                q8_pair(&first[j], &second[j], codes->bytes + ((size_t)word * bt + t) * 4, bt,
                        table, b, bits);
            else
                first[j] = vi_load(codes->bytes + ((size_t)word * bt + t) * 4);
        }
        q8_step(dot, first, q, hd, k, mr, nr);
        if (pairs)
            q8_step(dot, second, q, hd, k + 4, mr, nr);
    }
}

/* Computes the scores of the rows @m … @m + mr - 1 for nr vectors of tokens, from token @n on. */
ALWAYS_INLINE void q8_score_tile(const struct attn_args *args, const struct q8_codes *codes,
                                 uint32_t m, uint32_t n, const uint32_t mr, const uint32_t nr,
                                 const uint32_t bits, const bool offset)
{
    const uint32_t hd = args->head_dim, bt = args->block_tokens, n_blocks = hd / ATTN_Q8_BLOCK;
    const float *q = args->q + (size_t)m * hd + codes->i_query;
    struct attn_ahead ahead = *codes->ahead;
    size_t at = n; /* of the scales */
    vf sum[8][4];
    vi table[8];

    q8_tables(table, codes->levels, 128, bits);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            sum[i][j] =
                codes->adds ? vf_load(args->s + (size_t)(m + i) * bt + n + j * VF_N) : vf_set1(0);

    for (uint32_t b = 0, left = codes->n_shared; b < n_blocks; b++, left--) {
        vi dot[8][4];

        if (left == 0) {
            left = codes->n_shared;
            at += bt;
        }
        if (left == codes->n_shared)
            ahead_read(&ahead, (size_t)nr * VF_N * (offset ? 4 : 2));
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (uint32_t j = 0; j < nr; j++)
                dot[i][j] = quad(q + i * hd + hd / 4 + n_blocks + b);
        q8_score_block(dot, codes, &ahead, table, q, hd, bt, b, n, mr, nr, bits);
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++) {
            const vf scale = vf_load_f16(codes->scales + at + j * VF_N);
            const vf add = offset ? vf_load_f16(codes->offsets + at + j * VF_N) : scale;

#pragma GCC unroll 8
            for (uint32_t i = 0; i < mr; i++) {
                const float of_query = q[i * hd + hd / 4 + b];
                const vf x = vf_mul(vi_to_float(dot[i][j]), vf_set1(of_query));

                sum[i][j] = vf_fma(x, scale, sum[i][j]);
                if (offset) {
                    int32_t bias;

                    memcpy(&bias, q + i * hd + hd / 4 + n_blocks + b, sizeof(bias));
                    sum[i][j] =
                        vf_fma(vf_set1((float)bias * (-1.0f / 128) * of_query), add, sum[i][j]);
                }
            }
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            vf_store(args->s + (size_t)(m + i) * bt + n + j * VF_N, sum[i][j]);
    *codes->ahead = ahead;
}

ALWAYS_INLINE void q8_score_rows(const struct attn_args *args, const struct q8_codes *codes,
                                 uint32_t m, const uint32_t mr, const uint32_t nr,
                                 const uint32_t bits, const bool offset)
{
    const uint32_t hi = args->range[m + mr - 1].hi;
    uint32_t n = args->range[m].lo & ~15u;

    for (; n + nr * VF_N <= args->block_tokens && n < hi; n += nr * VF_N)
        q8_score_tile(args, codes, m, n, mr, nr, bits, offset);
    for (; n < hi; n += VF_N)
        q8_score_tile(args, codes, m, n, mr, 1, bits, offset);
    codes->ahead->p = NULL; /* other rows read the same keys */
}

ALWAYS_INLINE void q8_scores(const struct attn_args *args, const struct q8_codes *codes,
                             const uint32_t bits, const bool offset)
{
    uint32_t m = 0;

    for (; m + ATTN_Q8_MR <= args->n_rows; m += ATTN_Q8_MR)
        q8_score_rows(args, codes, m, ATTN_Q8_MR, ATTN_Q8_NR, bits, offset);
    if (ATTN_Q8_MR > 4 && m + 4 <= args->n_rows) {
        q8_score_rows(args, codes, m, 4, ATTN_Q8_NR, bits, offset);
        m += 4;
    }
    for (; m + 2 <= args->n_rows; m += 2)
        q8_score_rows(args, codes, m, 2, ATTN_Q8_NR, bits, offset);
    if (m < args->n_rows)
        q8_score_rows(args, codes, m, 1, ATTN_Q8_NR, bits, offset);
}

/* Each function computes scores for one number of bits, so that its loops are compiled for it. */
#define Q8_SCORES(suffix, bits, offset)                                                            \
    static void scores_##suffix(const struct attn_args *args, const struct q8_codes *codes)        \
    {                                                                                              \
        q8_scores(args, codes, bits, offset);                                                      \
    }

Q8_SCORES(8, 8, false)
Q8_SCORES(6, 6, false)
Q8_SCORES(5, 5, false)
Q8_SCORES(4, 4, false)
Q8_SCORES(4_offset, 4, true)
Q8_SCORES(3, 3, false)
Q8_SCORES(3_offset, 3, true)
Q8_SCORES(2, 2, false)
Q8_SCORES(2_offset, 2, true)
Q8_SCORES(1, 1, false)

static void scores_codes(const struct attn_args *args)
{
    static void (*const fns[9][2])(const struct attn_args *args, const struct q8_codes *codes) = {
        [1] = {scores_1, NULL},
        [2] = {scores_2, scores_2_offset},
        [3] = {scores_3, scores_3_offset},
        [4] = {scores_4, scores_4_offset},
        [5] = {scores_5, NULL},
        [6] = {scores_6, NULL},
        [8] = {scores_8, NULL},
    };
    const struct codec_info *info = codec_info(args->codec);
    struct attn_ahead ahead = q8_ahead_of(args);
    const struct q8_codes codes = q8_codes_of(args, &ahead);

    fns[code_bits(args->codec)][info->offset](args, &codes);
    if (info->residual) {
        const struct q8_codes residual = q8_residual_of(args, &codes);

        scores_1(args, &residual);
    }
}
