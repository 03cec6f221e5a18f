/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes the ternary formats TQ2_0 and TQ1_0, whose weights are -d, 0 or d.
 *
 * The results have the same bits as those of the gguf Python package.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block.h"

void decode_tq2_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_tq2_0 b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            const int q = b.q[l / 128 * 32 + l % 32] >> l % 128 / 32 * 2 & 3;

            dst[i + l] = d * (float)(q - 1);
        }
    }
}

/* Returns digit @n (0 is the highest) of a byte of TQ1_0. */
static int ternary_digit(uint8_t byte, unsigned n)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};

    return (uint8_t)(byte * powers[n]) * 3 >> 8;
}

void decode_tq1_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_tq1_0 b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            unsigned n;
            const unsigned at = block_tq1_0_place(l, &n);

            dst[i + l] = d * (float)(ternary_digit(b.q[at], n) - 1);
        }
    }
}

/* Rounds 256 numbers to -1, 0 or 1 times the largest magnitude, and writes 0, 1 or 2 for them to
 * @ret_q. Returns the largest magnitude as binary16. Numbers that are not finite count as zero. */
static uint16_t ternary_round(const float *src, uint8_t ret_q[SUPER_ELEMS])
{
    float amax = 0, inverse;

    for (unsigned l = 0; l < SUPER_ELEMS; l++)
        if (isfinite(src[l]))
            amax = MAX(amax, fabsf(src[l]));
    inverse = amax > 0 && isfinite(1 / amax) ? 1 / amax : 0;
    for (unsigned l = 0; l < SUPER_ELEMS; l++)
        ret_q[l] = (uint8_t)(isfinite(src[l]) ? lroundf(src[l] * inverse) + 1 : 1);
    return f16_from_f32(amax);
}

void encode_tq2_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[SUPER_ELEMS];
    struct block_tq2_0 b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        b.d = ternary_round(src + i, q);
        memset(b.q, 0, sizeof(b.q));
        for (unsigned l = 0; l < SUPER_ELEMS; l++)
            b.q[l / 128 * 32 + l % 32] |= (uint8_t)(q[l] << l % 128 / 32 * 2);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_tq1_0(const float *src, void *dst, uint64_t n_elems)
{
    static const uint8_t values[] = {81, 27, 9, 3, 1};
    uint8_t *p = dst, q[SUPER_ELEMS];
    struct block_tq1_0 b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        unsigned sums[sizeof(b.q)] = {0};

        b.d = ternary_round(src + i, q);
        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            unsigned n;
            const unsigned at = block_tq1_0_place(l, &n);

            sums[at] += (unsigned)q[l] * values[n];
        }
        /* The quotient is rounded up, because ternary_digit() then finds the exact digits. */
        for (unsigned j = 0; j < sizeof(b.q); j++)
            b.q[j] = (uint8_t)((sums[j] * 256 + 242) / 243);
        memcpy(p, &b, sizeof(b));
    }
}
