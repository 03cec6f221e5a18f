/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels of attention over Q8_0, after attn-simd.h in the same file
 *
 * Both products multiply unsigned by signed bytes, as the dot instructions do: keys are stored
 * with 128 added, which the sum of the query takes out again; weights are positive, 16 bits of
 * them in two passes. The sums of 32 elements of a key, or of the tokens of a block, are exact.
 */

/* q: int8 [head_dim], then float scales and int32 sums × -128, [head_dim / 32] each. */
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

ALWAYS_INLINE vi quad(const void *p)
{
    int32_t x;

    memcpy(&x, p, sizeof(x));
    return vi_set1(x);
}

ALWAYS_INLINE void prefetch_vector(const void *p, size_t at)
{
    __builtin_prefetch((const char *)p + at, 0, 3);
}

/* Scores of mr rows, nr vectors of tokens from @n on. */
ALWAYS_INLINE void q8_score_tile(const struct attn_args *args, uint32_t m, uint32_t n,
                                 const uint32_t mr, const uint32_t nr)
{
    const uint32_t hd = args->head_dim, bt = args->block_tokens;
    const uint8_t *keys = args->kv;
    const uint16_t *scales = (const uint16_t *)(keys + (size_t)hd * bt);
    const float *q = args->q + (size_t)m * hd;
    vf sum[8][4];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++)
            sum[i][j] = vf_set1(0);

    for (uint32_t b = 0; b < hd / ATTN_Q8_BLOCK; b++) {
        vi dot[8][4];

        if (args->ahead) /* the scales of as many tokens fill a line */
            prefetch_vector(args->ahead, (size_t)hd * bt + ((size_t)b * bt + n) * 2);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (uint32_t j = 0; j < nr; j++)
                dot[i][j] = quad(q + i * hd + hd / 4 + hd / ATTN_Q8_BLOCK + b);
        for (uint32_t k = b * 8; k < b * 8 + 8; k++) {
            vi key[4];

#pragma GCC unroll 4
            for (uint32_t j = 0; j < nr; j++)
                key[j] = vi_load(keys + ((size_t)k * bt + n + j * VF_N) * 4);
            if (args->ahead)
#pragma GCC unroll 4
                for (uint32_t j = 0; j < nr; j++)
                    prefetch_vector(args->ahead, ((size_t)k * bt + n + j * VF_N) * 4);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < mr; i++) {
                const vi x = quad((const int8_t *)(q + i * hd) + k * 4);

#pragma GCC unroll 4
                for (uint32_t j = 0; j < nr; j++)
                    dot[i][j] = vi_dot_us(dot[i][j], key[j], x);
            }
        }
#pragma GCC unroll 4
        for (uint32_t j = 0; j < nr; j++) {
            const vf scale = vf_load_f16(scales + (size_t)b * bt + n + j * VF_N);

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
                                 const uint32_t nr)
{
    const uint32_t hi = args->range[m + mr - 1].hi;
    uint32_t n = args->range[m].lo & ~15u;

    for (; n + nr * VF_N <= args->block_tokens && n < hi; n += nr * VF_N)
        q8_score_tile(args, m, n, mr, nr);
    for (; n < hi; n += VF_N)
        q8_score_tile(args, m, n, mr, 1);
}

static void scores_q8(const struct attn_args *args)
{
    uint32_t m = 0;

    for (; m + ATTN_Q8_MR <= args->n_rows; m += ATTN_Q8_MR)
        q8_score_rows(args, m, ATTN_Q8_MR, ATTN_Q8_NR);
    for (; m + 2 <= args->n_rows; m += 2)
        q8_score_rows(args, m, 2, ATTN_Q8_NR);
    if (m < args->n_rows)
        q8_score_rows(args, m, 1, ATTN_Q8_NR);
}

/* What one block of 32 elements of V makes of weights: weight × share is a whole number up to
 * 65535 of units. Kept while rows see the same range. */
struct q8_shares {
    struct attn_range range;
    float unit;
    float share[ATTN_TOKENS_MAX];
};

static void q8_shares_set(struct q8_shares *x, const struct attn_args *args, uint32_t b,
                          struct attn_range r)
{
    const uint32_t bt = args->block_tokens;
    const uint16_t *scales =
        (const uint16_t *)((const uint8_t *)args->kv + (size_t)args->head_dim * bt) +
        (size_t)b * bt;
    const uint32_t begin = r.lo & ~15u, end = (r.hi + 15) & ~15u;
    vf top = vf_set1(0), rest = vf_set1(0);
    float inverse;

    if (x->range.lo == r.lo && x->range.hi == r.hi)
        return;
    for (uint32_t t = begin; t < end; t += VF_N)
        vf_store(x->share + t, vf_load_f16(scales + t));
    for (uint32_t t = begin; t < r.lo; t++)
        x->share[t] = 0;
    for (uint32_t t = r.hi; t < end; t++)
        x->share[t] = 0;
    for (uint32_t t = begin; t < end; t += VF_N) {
        top = vf_max(vf_load(x->share + t), top);
        rest = vf_fma(vf_load(x->share + t), vf_set1(0), rest); /* NaN when one is */
    }
    x->range = r;
    x->unit = vf_top(top);
    inverse = x->unit > 0 && vf_sum(rest) == 0 ? 65535 / x->unit : 0;
    x->unit = (x->unit + vf_sum(rest)) * (1.0f / 65535);
    for (uint32_t t = begin; t < end; t += VF_N)
        vf_store(x->share + t, vf_mul(vf_load(x->share + t), vf_set1(inverse)));
}

/* High and low bytes of the weights of some rows. */
struct q8_weights {
    uint8_t bytes[ATTN_Q8_VR][2][ATTN_TOKENS_MAX];
    float unit[ATTN_Q8_VR];
};

/* Weights of row @m as row @i; the tokens @begin … @end - 1 that it does not see become 0. */
ALWAYS_INLINE void q8_weights_set(struct q8_weights *w, const struct attn_args *args,
                                  const struct q8_shares *x, uint32_t i, uint32_t m, uint32_t begin,
                                  uint32_t end)
{
    const struct attn_range r = args->range[m];
    const float *s = args->s + (size_t)m * args->block_tokens;
    uint8_t *hi = w->bytes[i][0], *lo = w->bytes[i][1];

    w->unit[i] = x->unit;
    for (uint32_t t = r.lo & ~15u; t < r.hi; t += VF_N)
        vf_to_bytes(hi + t, lo + t, vf_mul(vf_load(s + t), vf_load(x->share + t)));
    for (uint32_t t = begin; t < r.lo; t++)
        hi[t] = lo[t] = 0;
    for (uint32_t t = r.hi; t < end; t++)
        hi[t] = lo[t] = 0;
}

/* o += weights × V for mr rows and nr vectors of elements from @d on, tokens @begin … @end - 1. */
ALWAYS_INLINE void q8_value_tile(const struct attn_args *args, const struct q8_weights *w,
                                 uint32_t m, uint32_t d, uint32_t begin, uint32_t end,
                                 const uint32_t mr, const uint32_t nr)
{
    const size_t hd = args->head_dim, first = ((size_t)begin * hd + d * 4);
    const int8_t *v = (const int8_t *)args->kv + first;
    const char *ahead = args->ahead ? (const char *)args->ahead + first : NULL;
    const uint8_t *p = w->bytes[0][0] + begin, *const p_end = w->bytes[0][0] + end;
    vi hi[8][2], lo[8][2];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < nr; j++)
            hi[i][j] = lo[i][j] = vi_set1(0);

    for (; p < p_end; p += 4, v += hd * 4) {
        vi x[2];

#pragma GCC unroll 2
        for (uint32_t j = 0; j < nr; j++)
            x[j] = vi_load(v + j * VF_N * 4);
        if (ahead) {
#pragma GCC unroll 2
            for (uint32_t j = 0; j < nr; j++)
                __builtin_prefetch(ahead + j * VF_N * 4, 0, 3);
            ahead += hd * 4;
        }
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const vi a = quad(p + i * sizeof(w->bytes[0]));
            const vi b = quad(p + i * sizeof(w->bytes[0]) + ATTN_TOKENS_MAX);

#pragma GCC unroll 2
            for (uint32_t j = 0; j < nr; j++) {
                hi[i][j] = vi_dot_us(hi[i][j], a, x[j]);
                lo[i][j] = vi_dot_us(lo[i][j], b, x[j]);
            }
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < nr; j++) {
            float *o = args->o + (m + i) * hd + d + j * VF_N;
            const vf sum = vi_to_float(vi_add(vi_shift8(hi[i][j]), lo[i][j]));

            vf_store(o, vf_fma(sum, vf_set1(w->unit[i]), vf_load(o)));
        }
}

ALWAYS_INLINE void q8_value_rows(const struct attn_args *args, struct q8_shares *shares, uint32_t b,
                                 uint32_t m, const uint32_t mr)
{
    const uint32_t begin = args->range[m].lo & ~3u, end = (args->range[m + mr - 1].hi + 3) & ~3u;
    struct q8_weights w;

    if (begin >= end)
        return;
    for (uint32_t i = 0; i < mr; i++) {
        q8_shares_set(shares, args, b, args->range[m + i]);
        q8_weights_set(&w, args, shares, i, m + i, begin, end);
    }
    for (uint32_t d = b * ATTN_Q8_BLOCK; d < (b + 1) * ATTN_Q8_BLOCK; d += 2 * VF_N)
        q8_value_tile(args, &w, m, d, begin, end, mr, 2);
}

static void values_q8(const struct attn_args *args)
{
    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
        struct q8_shares shares;
        uint32_t m = 0;

        shares.range = (struct attn_range){UINT32_MAX, UINT32_MAX}; /* of no row */
        for (uint32_t i = 0; args->ahead && i < args->block_tokens * 2; i += 64)
            prefetch_vector(args->ahead, ((size_t)args->head_dim + b * 2) * args->block_tokens + i);

        for (; m + ATTN_Q8_VR <= args->n_rows; m += ATTN_Q8_VR)
            q8_value_rows(args, &shares, b, m, ATTN_Q8_VR);
        for (; m + 2 <= args->n_rows; m += 2)
            q8_value_rows(args, &shares, b, m, 2);
        if (m < args->n_rows)
            q8_value_rows(args, &shares, b, m, 1);
    }
}

#define ATTN_FNS(rung, flags)                                                                      \
    {                                                                                              \
        .name = rung, .cpu_flags = flags,                                                          \
        .query = {query_float, query_float, query_bf16, query_q8},                                 \
        .scores = {scores_f32, scores_f16, scores_bf16, scores_q8},                                \
        .values = {values_f32, values_f16, values_bf16, values_q8}, .softmax = softmax,            \
        .merge = merge, .quantise = quantise,                                                      \
    }
