/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the attention kernels for a CPU, and turns heads before they are stored. */
#include "backend/cpu/attn/attn.h"

#include <string.h>

/* attn_pick() returns the first kernels whose flags the CPU supports. The reference needs no flags,
 * so it comes last. */
static const struct attn_fns *const table[] = {
#if defined(__x86_64__)
    &attn_amx, &attn_avx512bf16, &attn_avx512, &attn_avx2,
#elif defined(__aarch64__)
    &attn_i8mm,
    &attn_dotprod,
    &attn_neon,
#endif
    &attn_ref,
};

const struct attn_fns *attn_pick(unsigned cpu_flags)
{
    size_t i = 0;

    while ((table[i]->cpu_flags & cpu_flags) != table[i]->cpu_flags)
        i++;
    return table[i];
}

void attn_turn(const struct attn_fns *fns, enum codec codec, float *x, uint32_t n)
{
    const enum codec_turn turn = codec_info(codec)->turn;

    if (turn == CODEC_SIGNED)
        code_signs(x, CODE_SEED, n);
    if (turn != CODEC_PLAIN)
        fns->rotate(x, n);
}

void attn_turn_back(const struct attn_fns *fns, enum codec codec, float *x, uint32_t n)
{
    const enum codec_turn turn = codec_info(codec)->turn;

    if (turn != CODEC_PLAIN)
        fns->rotate(x, n);
    if (turn == CODEC_SIGNED)
        code_signs(x, CODE_SEED, n);
}

void attn_encode(const struct attn_fns *fns, enum codec codec, uint8_t *bytes, float *scalars,
                 const float *x, uint32_t n)
{
    float y[ATTN_HEAD_MAX], rest[ATTN_HEAD_MAX];

    memcpy(y, x, n * sizeof(*y));
    attn_turn(fns, codec, y, n);
    code_encode(codec, bytes, scalars, y, n, rest);
    if (!codec_info(codec)->residual)
        return;
    code_signs(rest, CODE_RESIDUAL_SEED, n);
    fns->rotate(rest, n);
    code_residual(codec, bytes, scalars, rest, n);
}
