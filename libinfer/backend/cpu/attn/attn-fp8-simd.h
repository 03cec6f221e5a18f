/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes attention with keys and values that are stored as FP8. Include it after attn-simd.h.
 *
 * Products are computed as for F16. The bits of an E4M3 number are moved to the places that they
 * have in an F16 number, so the number becomes 256 times too small. Therefore scores and weights
 * are multiplied by 256 times the scales of the tokens.
 */

/* Multiplies the scores or weights of each row by 256 times the scales of the tokens that the row
 * sees. */
static void fp8_scale(const struct attn_args *args)
{
    const uint16_t *scales =
        (const uint16_t *)((const uint8_t *)args->kv + (size_t)args->head_dim * args->block_tokens);

    for (uint32_t m = 0; m < args->n_rows; m++) {
        float *s = args->s + (size_t)m * args->block_tokens;

        for (uint32_t t = args->range[m].lo & ~15u; t < args->range[m].hi; t += VF_N) {
            const vf scale = vf_mul(vf_load_f16(scales + t), vf_set1(256));

            vf_store(s + t, vf_mul(vf_load(s + t), scale));
        }
    }
}

static void scores_fp8(const struct attn_args *args)
{
    FOR_ROWS(score_rows, args, CODEC_FP8);
    fp8_scale(args);
}

static void values_fp8(const struct attn_args *args)
{
    fp8_scale(args);
    FOR_ROWS(value_rows, args, CODEC_FP8);
}
