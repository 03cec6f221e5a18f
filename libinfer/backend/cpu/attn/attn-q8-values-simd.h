/* SPDX-License-Identifier: Apache-2.0 */

/* Multiplies the weights of attention by values that are stored as Q8_0 or as codes. Include this
 * file after attn-q8-simd.h, which explains the arithmetic. */

/* Holds the shares of tokens. Each token has one scale for each group of elements of V. The token's
 * share is this scale divided by `unit`. `unit` is so large that weight × share is at most 65535;
 * this product is rounded to a whole number. Rows that see the same range of tokens use the same
 * shares. Tokens that they do not see have the offset 0. */
struct q8_shares {
    struct attn_range range;
    float unit;
    float share[ATTN_TOKENS_MAX], offset[ATTN_TOKENS_MAX];
};

/* Reads the @n_tokens F16 numbers at @from that belong to the tokens of @r. Other numbers up to
 * whole 16 become 0. */
ALWAYS_INLINE void q8_visible(float *to, const uint16_t *from, struct attn_range r)
{
    const uint32_t begin = r.lo & ~15u, end = (r.hi + 15) & ~15u;

    for (uint32_t t = begin; t < end; t += VF_N)
        vf_store(to + t, vf_load_f16(from + t));
    for (uint32_t t = begin; t < r.lo; t++)
        to[t] = 0;
    for (uint32_t t = r.hi; t < end; t++)
        to[t] = 0;
}

/* Sets the shares of the group whose scales are @at elements after the first scale. */
static void q8_shares_set(struct q8_shares *x, const struct q8_codes *codes, size_t at,
                          struct attn_range r, const bool offset)
{
    const uint32_t begin = r.lo & ~15u, end = (r.hi + 15) & ~15u;
    vf top = vf_set1(0), rest = vf_set1(0);
    float inverse;

    if (x->range.lo == r.lo && x->range.hi == r.hi)
        return;
    q8_visible(x->share, codes->scales + at, r);
    if (offset)
        q8_visible(x->offset, codes->offsets + at, r);
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
 * bytes[row][1]. `add` is the sum of weights × offsets of a row. */
struct q8_weights {
    uint8_t bytes[ATTN_Q8_VR][2][ATTN_TOKENS_MAX];
    float unit[ATTN_Q8_VR], add[ATTN_Q8_VR];
};

/* Stores the weights of row @m as row @i of @w. Tokens in @begin … @end - 1 that the row does not
 * see get the weight 0. */
ALWAYS_INLINE void q8_weights_set(struct q8_weights *w, const struct attn_args *args,
                                  const struct q8_shares *x, uint32_t i, uint32_t m, uint32_t begin,
                                  uint32_t end, const bool offset)
{
    const struct attn_range r = args->range[m];
    const float *s = args->s + (size_t)m * args->block_tokens;
    uint8_t *hi = w->bytes[i][0], *lo = w->bytes[i][1];
    vf add = vf_set1(0);

    w->unit[i] = x->unit;
    for (uint32_t t = r.lo & ~15u; t < r.hi; t += VF_N) {
        const vf weight = vf_load(s + t);

        vf_to_bytes(hi + t, lo + t, vf_mul(weight, vf_load(x->share + t)));
        if (offset)
            add = vf_fma(weight, vf_load(x->offset + t), add);
    }
    for (uint32_t t = begin; t < r.lo; t++)
        hi[t] = lo[t] = 0;
    for (uint32_t t = r.hi; t < end; t++)
        hi[t] = lo[t] = 0;
    w->add[i] = offset ? vf_sum(add) : 0;
}

/* Adds weights × V to the results of mr rows, for two vectors of elements of block @b and the
 * tokens @begin … @end - 1. @i: the place of the first element in the block. If bytes hold several
 * codes, the second vector starts 16 elements after the first, otherwise VF_N elements. */
ALWAYS_INLINE void q8_value_tile(const struct attn_args *args, const struct q8_codes *codes,
                                 const struct q8_weights *w, uint32_t m, uint32_t b, uint32_t i0,
                                 uint32_t begin, uint32_t end, const vi table[8], const uint32_t mr,
                                 const uint32_t bits, const bool offset)
{
    const bool pairs = q8_in_runs(bits);
    const size_t n_columns = (size_t)args->head_dim * bits / 8;
    const uint32_t d = b * ATTN_Q8_BLOCK + i0, in_run = d % CODEC_Q3_RUN;
    const uint32_t column = pairs       ? q8_run(b, bits) + i0
                            : bits == 3 ? d / CODEC_Q3_RUN * CODEC_Q3_BYTES
                                        : d;
    const size_t first = (begin * n_columns + column * 4), step = pairs ? 16 : VF_N;
    const uint32_t first_uses = pairs       ? q8_first_uses(b, bits)
                                : bits == 3 ? (in_run < CODEC_Q3_BYTES) * 2
                                            : 2;
    const uint8_t *v = codes->bytes + first;
    struct attn_ahead ahead = *codes->ahead;
    const uint8_t *p = w->bytes[0][0] + begin, *const p_end = w->bytes[0][0] + end;
    vi hi[8][2], lo[8][2];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < 2; j++)
            hi[i][j] = lo[i][j] = vi_set1(0);

    for (; p < p_end; p += 4, v += n_columns * 4) {
        vi x[2];

        if (bits == 3) {
            x[0] = vi_lookup(table[0], q3_codes(v, 4, in_run));
            x[1] = vi_lookup(table[0], q3_codes(v, 4, in_run + VF_N));
        } else if (pairs) {
            q8_pair(&x[0], &x[1], v, 4, table, b, bits);
        } else {
            x[0] = vi_load(v);
            x[1] = vi_load(v + VF_N * 4);
        }
        ahead_read(&ahead, (size_t)VF_N * 4 * first_uses);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const vi high = quad(p + i * sizeof(w->bytes[0]));
            const vi low = quad(p + i * sizeof(w->bytes[0]) + ATTN_TOKENS_MAX);

#pragma GCC unroll 2
            for (uint32_t j = 0; j < 2; j++) {
                hi[i][j] = vi_dot_us(hi[i][j], high, x[j]);
                lo[i][j] = vi_dot_us(lo[i][j], low, x[j]);
            }
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < 2; j++) {
            float *o = args->o + (m + i) * (size_t)args->head_dim + d + j * step;
            const vf sum = vi_to_float(vi_add(vi_shift8(hi[i][j]), lo[i][j]));
            const vf old = offset ? vf_add(vf_load(o), vf_set1(w->add[i])) : vf_load(o);

            vf_store(o, vf_fma(sum, vf_set1(w->unit[i]), old));
        }
    *codes->ahead = ahead;
}

/* Adds weights × V to the results of mr rows from row @m on, for the blocks from @b on that share
 * scales. */
ALWAYS_INLINE void q8_value_rows(const struct attn_args *args, const struct q8_codes *codes,
                                 struct q8_shares *shares, uint32_t b, uint32_t m,
                                 const vi table[8], const uint32_t mr, const uint32_t bits,
                                 const bool offset)
{
    const uint32_t begin = args->range[m].lo & ~3u, end = (args->range[m + mr - 1].hi + 3) & ~3u;
    const uint32_t step = q8_in_runs(bits) ? VF_N : 2 * VF_N;
    const uint32_t n = q8_in_runs(bits) ? ATTN_Q8_BLOCK / 2 : ATTN_Q8_BLOCK;
    struct q8_weights w;

    if (begin >= end)
        return;
    for (uint32_t i = 0; i < mr; i++) {
        q8_shares_set(shares, codes, (size_t)b / codes->n_shared * args->block_tokens,
                      args->range[m + i], offset);
        q8_weights_set(&w, args, shares, i, m + i, begin, end, offset);
    }
    for (uint32_t j = b; j < b + codes->n_shared; j++)
        for (uint32_t i = 0; i < n; i += step)
            q8_value_tile(args, codes, &w, m, j, i, begin, end, table, mr, bits, offset);
    codes->ahead->p = NULL; /* other rows read the same values */
}

/* Sets the weights to 0 of tokens that a row does not see, up to whole 16. */
static void q8_hide(const struct attn_args *args)
{
    for (uint32_t m = 0; m < args->n_rows; m++) {
        const struct attn_range r = args->range[m];
        float *s = args->s + (size_t)m * args->block_tokens;

        for (uint32_t t = r.lo & ~15u; t < r.lo; t++)
            s[t] = 0;
        for (uint32_t t = r.hi; t < ((r.hi + 15) & ~15u); t++)
            s[t] = 0;
    }
}

ALWAYS_INLINE void q8_values(const struct attn_args *args, const struct q8_codes *codes,
                             const uint32_t bits, const bool offset)
{
    vi table[8];

    q8_tables(table, codes->levels, 0, bits);
    if (offset)
        q8_hide(args);
    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b += codes->n_shared) {
        const char *const ahead = codes->ahead->p;
        struct q8_shares shares;
        uint32_t m = 0;

        shares.range = (struct attn_range){UINT32_MAX, UINT32_MAX}; /* no row has this range */
        for (uint32_t i = 0; i < args->block_tokens * (offset ? 4 : 2); i += 64)
            ahead_read(codes->ahead, 64);

        for (; m + ATTN_Q8_VR <= args->n_rows; m += ATTN_Q8_VR)
            q8_value_rows(args, codes, &shares, b, m, table, ATTN_Q8_VR, bits, offset);
        for (; m + 2 <= args->n_rows; m += 2)
            q8_value_rows(args, codes, &shares, b, m, table, 2, bits, offset);
        if (m < args->n_rows)
            q8_value_rows(args, codes, &shares, b, m, table, 1, bits, offset);
        codes->ahead->p = ahead;
    }
}

/* Each function is compiled for one number of bits. */
#define Q8_VALUES(suffix, bits, offset)                                                            \
    static void values_##suffix(const struct attn_args *args, const struct q8_codes *codes)        \
    {                                                                                              \
        q8_values(args, codes, bits, offset);                                                      \
    }

Q8_VALUES(8, 8, false)
Q8_VALUES(6, 6, false)
Q8_VALUES(5, 5, false)
Q8_VALUES(4, 4, false)
Q8_VALUES(4_offset, 4, true)
Q8_VALUES(3, 3, false)
Q8_VALUES(3_offset, 3, true)
Q8_VALUES(2, 2, false)
Q8_VALUES(2_offset, 2, true)

/* Formats with a residual are for keys only. */
static void values_codes(const struct attn_args *args)
{
    static void (*const fns[9][2])(const struct attn_args *args, const struct q8_codes *codes) = {
        [2] = {values_2, values_2_offset},
        [3] = {values_3, values_3_offset},
        [4] = {values_4, values_4_offset},
        [5] = {values_5, NULL},
        [6] = {values_6, NULL},
        [8] = {values_8, NULL},
    };
    struct attn_ahead ahead = q8_ahead_of(args);
    const struct q8_codes codes = q8_codes_of(args, &ahead);

    fns[code_bits(args->codec)][codec_info(args->codec)->offset](args, &codes);
}
