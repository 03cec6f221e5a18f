/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies the weights of attention by values that are stored as Q8_0, Q4_0 or Q3_0. Include this
 * file after attn-q8-simd.h, which explains the arithmetic. */

/* Holds the shares of tokens. Each token has one scale for each block of 32 elements of V. The
 * token's share is this scale divided by `unit`. `unit` is so large that weight × share is at most
 * 65535; this product is rounded to a whole number. Rows that see the same range of tokens use the
 * same shares. */
struct q8_shares {
    struct attn_range range;
    float unit;
    float share[ATTN_TOKENS_MAX];
};

static void q8_shares_set(struct q8_shares *x, const struct attn_args *args, uint32_t b,
                          struct attn_range r, enum codec codec)
{
    const uint32_t bt = args->block_tokens;
    const uint16_t *scales = (const uint16_t *)((const uint8_t *)args->kv + q8_bytes(args, codec)) +
                             (size_t)(b / q8_blocks_of_scale(codec)) * bt;
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
        rest = vf_fma(vf_load(x->share + t), vf_set1(0), rest); /* NaN if a scale is not finite */
    }
    x->range = r;
    x->unit = vf_top(top);
    inverse = x->unit > 0 && vf_sum(rest) == 0 ? 65535 / x->unit : 0;
    x->unit = (x->unit + vf_sum(rest)) * (1.0f / 65535);
    for (uint32_t t = begin; t < end; t += VF_N)
        vf_store(x->share + t, vf_mul(vf_load(x->share + t), vf_set1(inverse)));
}

/* Holds the weights of some rows: the high bytes in bytes[row][0], the low bytes in
 * bytes[row][1]. */
struct q8_weights {
    uint8_t bytes[ATTN_Q8_VR][2][ATTN_TOKENS_MAX];
    float unit[ATTN_Q8_VR];
};

/* Stores the weights of row @m as row @i of @w. Tokens in @begin … @end - 1 that the row does not
 * see get the weight 0. */
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

/* Adds weights × V to the results of mr rows, for two vectors of elements and the tokens @begin …
 * @end - 1. The two vectors start at the elements @d and @d + VF_N, but in Q4_0 at @d and @d + 16,
 * because the bytes of column @column hold the levels of both. In Q3_0, @column is the first column
 * of the run to which element @d belongs. */
ALWAYS_INLINE void q8_value_tile(const struct attn_args *args, const struct q8_weights *w,
                                 uint32_t m, uint32_t d, uint32_t column, uint32_t begin,
                                 uint32_t end, const uint32_t mr, enum codec codec)
{
    const bool halves = codec == CODEC_Q4_0;
    const bool threes = codec == CODEC_Q3_0;
    const size_t n_columns = q8_bytes(args, codec) / args->block_tokens;
    const uint32_t in_run = d % CODEC_Q3_RUN;
    const size_t first = (begin * n_columns + column * 4), step = halves ? 16 : VF_N;
    const int8_t *v = (const int8_t *)args->kv + first;
    const char *ahead = args->ahead && (!threes || in_run < CODEC_Q3_BYTES)
                            ? (const char *)args->ahead + first + (threes ? in_run * 4 : 0)
                            : NULL;
    const uint8_t *p = w->bytes[0][0] + begin, *const p_end = w->bytes[0][0] + end;
    const vi levels = q8_levels(codec, 0);
    vi hi[8][2], lo[8][2];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < 2; j++)
            hi[i][j] = lo[i][j] = vi_set1(0);

    for (; p < p_end; p += 4, v += n_columns * 4) {
        vi x[2];

        if (threes) {
            x[0] = vi_lookup(levels, q3_codes(v, 4, in_run));
            x[1] = vi_lookup(levels, q3_codes(v, 4, in_run + VF_N));
        } else {
            x[0] = vi_load(v);
            x[1] = halves ? vi_lookup(levels, vi_high4(x[0])) : vi_load(v + VF_N * 4);
        }
        if (halves)
            x[0] = vi_lookup(levels, vi_low4(x[0]));
        if (ahead) {
            __builtin_prefetch(ahead, 0, 2);
            if (!halves)
                __builtin_prefetch(ahead + VF_N * 4, 0, 2);
            ahead += n_columns * 4;
        }
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const vi a = quad(p + i * sizeof(w->bytes[0]));
            const vi b = quad(p + i * sizeof(w->bytes[0]) + ATTN_TOKENS_MAX);

#pragma GCC unroll 2
            for (uint32_t j = 0; j < 2; j++) {
                hi[i][j] = vi_dot_us(hi[i][j], a, x[j]);
                lo[i][j] = vi_dot_us(lo[i][j], b, x[j]);
            }
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < 2; j++) {
            float *o = args->o + (m + i) * (size_t)args->head_dim + d + j * step;
            const vf sum = vi_to_float(vi_add(vi_shift8(hi[i][j]), lo[i][j]));

            vf_store(o, vf_fma(sum, vf_set1(w->unit[i]), vf_load(o)));
        }
}

ALWAYS_INLINE void q8_value_rows(const struct attn_args *args, struct q8_shares *shares, uint32_t b,
                                 uint32_t m, const uint32_t mr, enum codec codec)
{
    const uint32_t begin = args->range[m].lo & ~3u, end = (args->range[m + mr - 1].hi + 3) & ~3u;
    const uint32_t d = b * ATTN_Q8_BLOCK;
    struct q8_weights w;

    if (begin >= end)
        return;
    for (uint32_t i = 0; i < mr; i++) {
        q8_shares_set(shares, args, b, args->range[m + i], codec);
        q8_weights_set(&w, args, shares, i, m + i, begin, end);
    }
    for (uint32_t i = 0; i < ATTN_Q8_BLOCK / 2; i += VF_N)
        if (codec == CODEC_Q4_0)
            q8_value_tile(args, &w, m, d + i, d / 2 + i, begin, end, mr, codec);
        else if (codec == CODEC_Q3_0)
            q8_value_tile(args, &w, m, d + 2 * i, d / CODEC_Q3_RUN * CODEC_Q3_BYTES, begin, end, mr,
                          codec);
        else
            q8_value_tile(args, &w, m, d + 2 * i, d + 2 * i, begin, end, mr, codec);
}

ALWAYS_INLINE void q8_values(const struct attn_args *args, enum codec codec)
{
    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
        const size_t scales = q8_bytes(args, codec) +
                              (size_t)(b / q8_blocks_of_scale(codec)) * 2 * args->block_tokens;
        struct q8_shares shares;
        uint32_t m = 0;

        shares.range = (struct attn_range){UINT32_MAX, UINT32_MAX}; /* no row has this range */
        for (uint32_t i = 0; args->ahead && i < args->block_tokens * 2; i += 64)
            prefetch_vector(args->ahead, scales + i);

        for (; m + ATTN_Q8_VR <= args->n_rows; m += ATTN_Q8_VR)
            q8_value_rows(args, &shares, b, m, ATTN_Q8_VR, codec);
        for (; m + 2 <= args->n_rows; m += 2)
            q8_value_rows(args, &shares, b, m, 2, codec);
        if (m < args->n_rows)
            q8_value_rows(args, &shares, b, m, 1, codec);
    }
}

static void values_q8(const struct attn_args *args)
{
    q8_values(args, CODEC_Q8_0);
}

static void values_q4(const struct attn_args *args)
{
    q8_values(args, CODEC_Q4_0);
}

static void values_q3(const struct attn_args *args)
{
    q8_values(args, CODEC_Q3_0);
}
