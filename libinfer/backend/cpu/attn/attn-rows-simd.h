/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes attention with keys and values whose heads are rows of bytes (quant/code-rows.h).
 * Include this file after attn-simd.h.
 *
 * The tokens of a block are decoded ROWS_TOKENS at a time to floats, which are multiplied as F32.
 */

#include "quant/code-rows.h"

#define ROWS_TOKENS 16u /* tokens that are decoded together */
#define ROWS_MAX    8u  /* rows that are multiplied together */

/* Holds decoded keys or values, and the arguments of a product with them. */
struct rows_piece {
    float kv[ROWS_TOKENS * ATTN_HEAD_MAX], s[ROWS_MAX * ROWS_TOKENS];
    struct attn_range range[ROWS_MAX];
    uint32_t first; /* token */
    struct attn_args args;
};

/* Decodes the tokens from @first on, if one of the rows sees them. Keys are written as
 * [head_dim][ROWS_TOKENS], and values as [ROWS_TOKENS][head_dim]. */
static bool rows_decode(struct rows_piece *p, const struct attn_args *args, uint32_t first,
                        bool keys)
{
    const uint32_t hd = args->head_dim, lo = args->range[0].lo;
    const uint32_t hi = args->range[args->n_rows - 1].hi;
    const size_t n_bytes = codec_code_bytes(args->codec, hd);

    p->first = first;
    if (lo >= first + ROWS_TOKENS || hi <= first)
        return false;
    for (uint32_t t = 0; t < ROWS_TOKENS; t++) {
        const uint32_t token = first + t;
        float head[ATTN_HEAD_MAX], *y = keys ? head : p->kv + (size_t)t * hd;

        if (token < lo || token >= hi)
            memset(y, 0, hd * sizeof(*y));
        else
            code_rows_decode(args->codec, y, (const uint8_t *)args->kv + token * n_bytes, hd);
        for (uint32_t d = 0; keys && d < hd; d++)
            p->kv[(size_t)d * ROWS_TOKENS + t] = y[d];
    }
    return true;
}

/* Sets the arguments of the rows @m … @m + n - 1 for the decoded tokens. */
static void rows_part(struct rows_piece *p, const struct attn_args *args, uint32_t m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct attn_range r = args->range[m + i];
        const uint32_t end = p->first + ROWS_TOKENS;

        p->range[i].lo = MIN(MAX(r.lo, p->first), end) - p->first;
        p->range[i].hi = MIN(MAX(r.hi, p->first), end) - p->first;
    }
    p->args = *args;
    p->args.n_rows = n;
    p->args.block_tokens = ROWS_TOKENS;
    p->args.range = p->range;
    p->args.kv = p->kv;
    p->args.ahead = NULL;
    p->args.q = args->q + (size_t)m * args->head_dim;
    p->args.s = p->s;
    p->args.o = args->o + (size_t)m * args->head_dim;
}

static void scores_rows(const struct attn_args *args)
{
    const uint32_t bt = args->block_tokens;
    struct rows_piece p;

    for (uint32_t first = 0; first < bt; first += ROWS_TOKENS)
        for (uint32_t m = 0; (m > 0 || rows_decode(&p, args, first, true)) && m < args->n_rows;
             m += ROWS_MAX) {
            const uint32_t n = MIN(ROWS_MAX, args->n_rows - m);

            rows_part(&p, args, m, n);
            scores_f32(&p.args);
            for (uint32_t i = 0; i < n; i++)
                memcpy(args->s + (size_t)(m + i) * bt + first, p.s + i * ROWS_TOKENS,
                       ROWS_TOKENS * sizeof(float));
        }
}

static void values_rows(const struct attn_args *args)
{
    const uint32_t bt = args->block_tokens;
    struct rows_piece p;

    for (uint32_t first = 0; first < bt; first += ROWS_TOKENS)
        for (uint32_t m = 0; (m > 0 || rows_decode(&p, args, first, false)) && m < args->n_rows;
             m += ROWS_MAX) {
            const uint32_t n = MIN(ROWS_MAX, args->n_rows - m);

            rows_part(&p, args, m, n);
            for (uint32_t i = 0; i < n; i++)
                memcpy(p.s + i * ROWS_TOKENS, args->s + (size_t)(m + i) * bt + first,
                       ROWS_TOKENS * sizeof(float));
            values_f32(&p.args);
        }
}
