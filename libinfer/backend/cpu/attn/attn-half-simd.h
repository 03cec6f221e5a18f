/* SPDX-License-Identifier: Apache-2.0 */

/* Computes attention with keys and values in F16. Include it after attn-simd.h. */

/* A block of F16 is usually converted to floats again for each tile of rows. With at least
 * UNPACK_ROWS rows, a block of at most UNPACK_MAX numbers is converted only once. The results have
 * the same bits. */
#define UNPACK_ROWS 24u
#define UNPACK_MAX  8192u

/* Converts the block of @args to floats in @to, and sets *ret_args to arguments that refer to these
 * floats. Returns false if the caller should multiply the block as it is stored. */
static bool half_unpack(const struct attn_args *args, float to[UNPACK_MAX],
                        struct attn_args *ret_args)
{
    const uint32_t n = args->head_dim * args->block_tokens;

    if (args->n_rows < UNPACK_ROWS || n > UNPACK_MAX)
        return false;
    for (uint32_t i = 0; i < n; i += VF_N)
        vf_store(to + i, vf_load_f16((const uint16_t *)args->kv + i));
    *ret_args = *args;
    ret_args->kv = to;
    ret_args->ahead = NULL;
    return true;
}

static void scores_f16(const struct attn_args *args)
{
    float floats[UNPACK_MAX] __attribute__((aligned(64)));
    struct attn_args unpacked;

    if (half_unpack(args, floats, &unpacked))
        scores_f32(&unpacked);
    else
        FOR_ROWS(score_rows, args, CODEC_F16);
}

static void values_f16(const struct attn_args *args)
{
    float floats[UNPACK_MAX] __attribute__((aligned(64)));
    struct attn_args unpacked;

    if (half_unpack(args, floats, &unpacked))
        values_f32(&unpacked);
    else
        FOR_ROWS(value_rows, args, CODEC_F16);
}
