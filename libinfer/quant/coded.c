/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes coded matrices (coded.h). */
#include "quant/coded.h"

#include <assert.h>
#include <string.h>

#include "core/half.h"

struct coded_kind coded_kind(enum inf_dtype dtype)
{
    switch (dtype) {
    case INF_DTYPE_GPTQ2:
        return (struct coded_kind){2, true, true};
    case INF_DTYPE_GPTQ3:
        return (struct coded_kind){3, true, true};
    case INF_DTYPE_GPTQ4:
    case INF_DTYPE_AWQ4:
        return (struct coded_kind){4, true, true};
    case INF_DTYPE_GPTQ8:
        return (struct coded_kind){8, true, true};
    case INF_DTYPE_CT4:
        return (struct coded_kind){4, false, true};
    case INF_DTYPE_CT8:
    case INF_DTYPE_INT8:
        return (struct coded_kind){8, false, true};
    case INF_DTYPE_FP8:
        return (struct coded_kind){8, false, false};
    case INF_DTYPE_NF4:
    case INF_DTYPE_CTFP4:
        return (struct coded_kind){4, false, false};
    default:
        return (struct coded_kind){0, false, false};
    }
}

static uint32_t coded_word(const void *words, uint64_t i)
{
    uint32_t word;

    memcpy(&word, (const uint8_t *)words + 4 * i, sizeof(word));
    return word;
}

/* Returns @bits bits of a stream, beginning with bit @bit. The stream begins with word @first, and
 * its words are @step words apart. */
static unsigned coded_field(const void *words, uint64_t first, uint64_t step, uint64_t bit,
                            unsigned bits)
{
    const unsigned at = bit % 32;
    const uint64_t i = first + bit / 32 * step;
    uint64_t x = coded_word(words, i);

    if (at + bits > 32)
        x |= (uint64_t)coded_word(words, i + step) << 32;
    return (unsigned)(x >> at) & ((1u << bits) - 1);
}

/* Returns the first bit of row @i in a word of AWQ, which holds 8 rows. */
static unsigned awq_shift(uint32_t i)
{
    return 4 * (i % 2 * 4 + i % 8 / 2);
}

unsigned coded_code(const struct coded *c, uint32_t n, uint32_t k)
{
    const unsigned bits = coded_kind(c->dtype).bits;
    const uint8_t *bytes = c->codes;
    const uint64_t at = (uint64_t)n * c->cols + k;

    switch (c->dtype) {
    case INF_DTYPE_GPTQ2:
    case INF_DTYPE_GPTQ3:
    case INF_DTYPE_GPTQ4:
    case INF_DTYPE_GPTQ8:
        return coded_field(c->codes, n, c->rows, (uint64_t)k * bits, bits);
    case INF_DTYPE_AWQ4:
        return coded_word(c->codes, ((uint64_t)k * c->rows + n) / 8) >> awq_shift(n) & 15;
    case INF_DTYPE_INT8:
        return bytes[at] ^ 0x80;
    case INF_DTYPE_CT8:
    case INF_DTYPE_FP8:
        return bytes[at];
    case INF_DTYPE_NF4:
        return bytes[at / 2] >> (at % 2 ? 0 : 4) & 15;
    default:
        return bytes[at / 2] >> (at % 2 ? 4 : 0) & 15;
    }
}

unsigned coded_zero(const struct coded *c, uint32_t n, uint32_t g)
{
    const unsigned bits = coded_kind(c->dtype).bits;
    const uint64_t n_groups = coded_groups(c);

    if (!c->zeros)
        return 1u << (bits - 1);
    switch (c->dtype) {
    case INF_DTYPE_AWQ4:
        return coded_word(c->zeros, ((uint64_t)g * c->rows + n) / 8) >> awq_shift(n) & 15;
    case INF_DTYPE_CT4:
    case INF_DTYPE_CT8:
        return coded_field(c->zeros, g, n_groups, (uint64_t)n * bits, bits);
    case INF_DTYPE_INT8:
        return ((const uint8_t *)c->zeros)[n * n_groups + g] ^ 0x80;
    default:
        return (coded_field(c->zeros, g * ((uint64_t)c->rows * bits / 32), 1, (uint64_t)n * bits,
                            bits) +
                c->zero_add) &
               ((1u << bits) - 1);
    }
}

float coded_scale(const struct coded *c, uint32_t n, uint32_t g)
{
    const uint64_t at = coded_kind(c->dtype).by_place
                            ? (uint64_t)g * c->rows + n
                            : (uint64_t)(n / c->group_rows) * coded_groups(c) + g;
    uint16_t half;
    float f;

    if (c->dtype == INF_DTYPE_CTFP4)
        return e4m3_to_f32(((const uint8_t *)c->scales)[at]) / c->factor;
    if (c->scale_type == INF_DTYPE_F32) {
        memcpy(&f, (const uint8_t *)c->scales + 4 * at, sizeof(f));
        return f;
    }
    memcpy(&half, (const uint8_t *)c->scales + 2 * at, sizeof(half));
    return c->scale_type == INF_DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

bool coded_has_zeros(const struct coded *c, unsigned zero)
{
    for (uint32_t g = 0; c->zeros && g < coded_groups(c); g++)
        for (uint32_t n = 0; n < c->rows; n++)
            if (coded_zero(c, n, g) != zero)
                return false;
    return c->zeros || zero == 1u << (coded_kind(c->dtype).bits - 1);
}

bool coded_scales_are_f16(const struct coded *c)
{
    if (c->scale_type == INF_DTYPE_F16)
        return true;
    for (uint32_t g = 0; g < coded_groups(c); g++)
        for (uint32_t n = 0; n < c->rows; n += c->group_rows) {
            const float f = coded_scale(c, n, g);

            if (f16_to_f32(f16_from_f32(f)) != f)
                return false;
        }
    return true;
}

/* Returns the value of a code whose format has no zeros. */
static float coded_value(const struct coded *c, unsigned code)
{
    static const float fp4[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

    if (c->dtype == INF_DTYPE_FP8)
        return e4m3_to_f32((uint8_t)code);
    if (c->dtype == INF_DTYPE_NF4)
        return c->table[code];
    return code & 8 ? -fp4[code & 7] : fp4[code & 7];
}

void coded_decode(const struct coded *c, uint32_t n, uint32_t j, uint32_t n_places, float *dst)
{
    const bool has_zero = coded_kind(c->dtype).has_zero;

    assert(n < c->rows && j + n_places <= c->cols);
    for (uint32_t i = 0; i < n_places;) {
        const uint32_t g = (j + i) / c->group;
        const uint32_t end = MIN((g + 1) * c->group - j, n_places);
        const float scale = coded_scale(c, n, g);
        const int zero = has_zero ? (int)coded_zero(c, n, g) : 0;

        for (; i < end; i++) {
            const unsigned code = coded_code(c, n, c->order ? c->order[j + i] : j + i);

            dst[i] = (has_zero ? (float)((int)code - zero) : coded_value(c, code)) * scale;
        }
    }
}

void coded_decode_row(const struct coded *c, uint32_t n, float *dst)
{
    float some[32];

    if (!c->order) {
        coded_decode(c, n, 0, c->cols, dst);
        return;
    }
    for (uint32_t j = 0; j < c->cols; j += 32) {
        const uint32_t n_places = MIN(c->cols - j, 32u);

        coded_decode(c, n, j, n_places, some);
        for (uint32_t i = 0; i < n_places; i++)
            dst[c->order[j + i]] = some[i];
    }
}

uint64_t coded_plane_bytes(const struct coded *c)
{
    const uint64_t n = (uint64_t)DIV_UP(c->rows, c->group_rows) * coded_groups(c);
    const unsigned scale = c->dtype == INF_DTYPE_CTFP4 ? 1 : c->scale_type == INF_DTYPE_F32 ? 4 : 2;

    return n * scale + (c->zeros ? n * coded_kind(c->dtype).bits / 8 : 0);
}
