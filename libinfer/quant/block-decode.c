/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes the formats of floats, and Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K. These
 * functions are the reference for kernels.
 *
 * Every product and sum is rounded to float in the order given in block.h. The gguf Python package
 * does the same, so tests compare results bit for bit. Source bytes need no alignment.
 */

#include <string.h>

#include "core/half.h"
#include "quant/block.h"

void decode_f32(const void *src, float *dst, uint64_t n_elems)
{
    memcpy(dst, src, n_elems * sizeof(float));
}

void decode_f16(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;

    for (uint64_t i = 0; i < n_elems; i++) {
        uint16_t h;

        memcpy(&h, p + 2 * i, sizeof(h));
        dst[i] = f16_to_f32(h);
    }
}

void decode_bf16(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;

    for (uint64_t i = 0; i < n_elems; i++) {
        uint16_t h;

        memcpy(&h, p + 2 * i, sizeof(h));
        dst[i] = bf16_to_f32(h);
    }
}

void decode_q8_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q8_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < 32; l++)
            dst[i + l] = d * (float)b.q[l];
    }
}

void decode_q4_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q4_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < 16; l++) {
            dst[i + l] = d * (float)((b.q[l] & 15) - 8);
            dst[i + l + 16] = d * (float)((b.q[l] >> 4) - 8);
        }
    }
}

void decode_q4_1(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q4_1 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);

        for (unsigned l = 0; l < 16; l++) {
            dst[i + l] = d * (float)(b.q[l] & 15) + m;
            dst[i + l + 16] = d * (float)(b.q[l] >> 4) + m;
        }
    }
}

/* Joins the 32 nibbles and high bits of a block to numbers of 5 bits, eight at a time. */
static void join_high(const uint8_t nibbles[16], const uint8_t high[4], uint8_t q[32])
{
    for (unsigned i = 0; i < 4; i++) {
        /* Byte l has only bit l of the high bits, and becomes 16 if this bit is set. */
        const uint64_t bits = high[i] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
        const uint64_t tops =
            ((bits + UINT64_C(0x7f7f7f7f7f7f7f7f)) & UINT64_C(0x8080808080808080)) >> 3;
        uint64_t low;

        memcpy(&low, nibbles + 8 * (i % 2), sizeof(low));
        low = (low >> (i < 2 ? 0 : 4) & UINT64_C(0x0f0f0f0f0f0f0f0f)) | tops;
        memcpy(q + 8 * i, &low, sizeof(low));
    }
}

void decode_q5_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    uint8_t q[BLOCK_ELEMS];
    struct block_q5_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        join_high(b.q, b.high, q);
        for (unsigned l = 0; l < BLOCK_ELEMS; l++)
            dst[i + l] = d * (float)(q[l] - 16);
    }
}

void decode_q5_1(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    uint8_t q[BLOCK_ELEMS];
    struct block_q5_1 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);

        join_high(b.q, b.high, q);
        for (unsigned l = 0; l < BLOCK_ELEMS; l++)
            dst[i + l] = d * (float)q[l] + m;
    }
}

void decode_q4_k(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q4_k b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned g = 0; g < 8; g++) {
            uint8_t sc, mn;

            block_k_scale(b.scales, g, &sc, &mn);
            const float d = f16_to_f32(b.d) * (float)sc, m = f16_to_f32(b.dmin) * (float)mn;

            for (unsigned l = 0; l < 32; l++) {
                const int q = b.q[g / 2 * 32 + l] >> g % 2 * 4 & 15;

                dst[i + g * 32 + l] = d * (float)q - m;
            }
        }
    }
}

void decode_q5_k(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q5_k b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned g = 0; g < 8; g++) {
            uint8_t sc, mn;

            block_k_scale(b.scales, g, &sc, &mn);
            const float d = f16_to_f32(b.d) * (float)sc, m = f16_to_f32(b.dmin) * (float)mn;

            for (unsigned l = 0; l < 32; l++) {
                const int low = b.q[g / 2 * 32 + l] >> g % 2 * 4 & 15;
                const int q = low | (b.high[l] >> g & 1) << 4;

                dst[i + g * 32 + l] = d * (float)q - m;
            }
        }
    }
}

void decode_q6_k(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q6_k b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            const unsigned half = l / 128, quarter = l % 128 / 32, i_byte = l % 32;
            const int low = b.q[64 * half + 32 * (quarter % 2) + i_byte] >> quarter / 2 * 4 & 15;
            const int high = b.high[32 * half + i_byte] >> 2 * quarter & 3;
            const float d = f16_to_f32(b.d) * (float)b.scales[l / 16];

            dst[i + l] = d * (float)((low | high << 4) - 32);
        }
    }
}
