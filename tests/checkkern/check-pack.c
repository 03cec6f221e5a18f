/* SPDX-License-Identifier: Apache-2.0 */

/* Checks keys and values in Q4_0, Q3_0 and FP8: rotation, levels and scales, bit for bit. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/attn/attn.h"
#include "core/clock.h"
#include "core/half.h"
#include "harness.h"

/* Checks that rotation keeps the length of heads and can be undone, and matches the reference bit
 * for bit. */
static void check_rotate(struct check *c, const struct attn_fns *fns, const float *x, uint32_t n)
{
    float y[ATTN_HEAD_MAX], expected[ATTN_HEAD_MAX];
    double before = 0, after = 0;

    memcpy(y, x, n * sizeof(float));
    memcpy(expected, x, n * sizeof(float));
    fns->rotate(y, n);
    attn_ref.rotate(expected, n);
    if (memcmp(y, expected, n * sizeof(float)) != 0)
        check_fail(c, "a rotated head of %u is not the reference's", n);
    for (uint32_t i = 0; i < n; i++) {
        before += (double)x[i] * (double)x[i];
        after += (double)y[i] * (double)y[i];
    }
    fns->rotate(y, n);
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs((double)y[i] - (double)x[i]) <= tolerance_sum(2 * 12 + 4, 4, 2 * sqrt(before))))
            check_fail(c, "a head of %u: %u is %g when rotated twice, not %g", n, i, (double)y[i],
                       (double)x[i]);
    if (!(fabs(after - before) <= 1e-5 * before))
        check_fail(c, "a rotated head of %u: its squares add up to %g, not to %g", n, after,
                   before);
}

/* Compares stored values with the original ones. Wrong levels, or a scale that is not the best,
 * would give larger errors. */
static void check_errors(struct check *c, const struct attn_fns *fns)
{
    enum { N = 128, ROUNDS = 400 };
    static const int8_t levels[16] = CODEC_Q4_LEVELS;
    double sum = 0, q4 = 0, fp8 = 0;

    for (int round = 0; round < ROUNDS; round++) {
        float x[N], y[N], scales[N / 32], scale;
        uint8_t q[N];

        fill_floats(c, FILL_NORMAL, x, N);
        fns->quantise_fp8(q, &scale, x, N);
        for (int i = 0; i < N; i++) {
            const double e = (double)e4m3_to_f32(q[i]) * (double)scale - (double)x[i];

            sum += (double)x[i] * (double)x[i];
            fp8 += e * e;
        }
        fns->quantise_q4(q, scales, x, N);
        for (int i = 0; i < N; i++) {
            const uint8_t byte = q[i / 32 * 16 + i % 16];

            y[i] = scales[i / 32] * (float)levels[i % 32 < 16 ? byte & 15 : byte >> 4];
        }
        fns->rotate(y, N);
        for (int i = 0; i < N; i++)
            q4 += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    }
    if (!(q4 / sum <= 0.0069) || !(fp8 / sum <= 0.00070))
        check_fail(c, "q4_0 loses %.2g of normally distributed numbers, and fp8 %.2g", q4 / sum,
                   fp8 / sum);
    c->n_cases++;
}

/* Returns the level of element @i of a run of Q3_0 (quant/codec.h). */
static int q3_level(const uint8_t *q, uint32_t i)
{
    static const int8_t levels[8] = CODEC_Q3_LEVELS;
    const uint32_t shift = i < 112 ? 3 : 7;

    if (i < 96)
        return levels[q[i % 48] >> (i < 48 ? 0 : 4) & 7];
    return levels[(q[i % 16] >> shift & 1) | (q[16 + i % 16] >> shift & 1) << 1 |
                  (q[32 + i % 16] >> shift & 1) << 2];
}

/* Compares heads in Q3_0 with those of the reference bit for bit, and with the original numbers. */
static void check_q3(struct check *c, const struct attn_fns *fns)
{
    enum { N = 2 * CODEC_Q3_RUN, N_BYTES = 2 * CODEC_Q3_BYTES, ROUNDS = 1600 };
    double sum = 0, error = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const enum fill fill = round % 2 == 0 ? FILL_NORMAL : (enum fill)(round / 2 % FILL_N);
        float x[N], y[N], scales[2], expected_scales[2];
        uint8_t q[N_BYTES], expected[N_BYTES];

        fill_floats(c, fill, x, N);
        if (round % 26 == 11)
            x[rng_u32(&c->rng) % N] = round % 3 == 0 ? NAN : INFINITY;
        fns->quantise_q3(q, scales, x, N);
        attn_ref.quantise_q3(expected, expected_scales, x, N);
        for (int i = 0; i < 2; i++)
            if (!(scales[i] == expected_scales[i]) &&
                !(isnan(scales[i]) && isnan(expected_scales[i])))
                check_fail(c, "q3_0: scale %d is %g, expected %g", i, (double)scales[i],
                           (double)expected_scales[i]);
        for (int i = 0; i < N_BYTES; i++)
            if (q[i] != expected[i] && !isnan(scales[i / (int)CODEC_Q3_BYTES]))
                check_fail(c, "q3_0: byte %d is %02x, expected %02x", i, q[i], expected[i]);
        for (uint32_t i = 0; i < N; i++)
            y[i] = scales[i / CODEC_Q3_RUN] *
                   (float)q3_level(q + i / CODEC_Q3_RUN * CODEC_Q3_BYTES, i % CODEC_Q3_RUN);
        fns->rotate(y, N);
        for (int i = 0; i < N && round % 2 == 0; i++) {
            sum += (double)x[i] * (double)x[i];
            error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        }
        c->n_cases++;
    }
    /* Over 250 seeds the quotient was 0.03325 on average, with a standard deviation of 0.00017. */
    if (!(error / sum <= 0.0342))
        check_fail(c, "q3_0 loses %.2g of normally distributed numbers", error / sum);
}

void check_pack(struct check *c)
{
    static const uint32_t sizes[] = {32, 64, 96, 128, 160, 256, 512, 4096};
    const struct attn_fns *fns = attn_pick(c->flags);
    float x[ATTN_HEAD_MAX], scales[ATTN_HEAD_MAX / 32], expected_scales[ATTN_HEAD_MAX / 32];
    uint8_t q[ATTN_HEAD_MAX], expected[ATTN_HEAD_MAX];

    for (int round = 0; round < 20 * FILL_N; round++) {
        const enum fill fill = (enum fill)(round % FILL_N);
        const uint32_t n = sizes[rng_u32(&c->rng) % ARRAY_SIZE(sizes)];
        const uint32_t odd = 1 + rng_u32(&c->rng) % n;
        float scale = 0, expected_scale = 0;

        fill_floats(c, fill, x, n);
        if (fill == FILL_NORMAL)
            check_rotate(c, fns, x, n);
        if (round % 13 == 12)
            x[rng_u32(&c->rng) % n] = round % 3 == 0 ? NAN : INFINITY;
        fns->quantise_q4(q, scales, x, n);
        attn_ref.quantise_q4(expected, expected_scales, x, n);
        for (uint32_t i = 0; i < n / 32; i++)
            if (!(scales[i] == expected_scales[i]) &&
                !(isnan(scales[i]) && isnan(expected_scales[i])))
                check_fail(c, "q4_0 of %u: scale %u is %g, expected %g", n, i, (double)scales[i],
                           (double)expected_scales[i]);
        for (uint32_t i = 0; i < n / 2; i++)
            if (q[i] != expected[i] && !isnan(scales[i / 16]))
                check_fail(c, "q4_0 of %u: byte %u is %02x, expected %02x", n, i, q[i],
                           expected[i]);

        fns->quantise_fp8(q, &scale, x, odd);
        attn_ref.quantise_fp8(expected, &expected_scale, x, odd);
        if (!(scale == expected_scale) && !(isnan(scale) && isnan(expected_scale)))
            check_fail(c, "fp8 of %u: the scale is %g, expected %g", odd, (double)scale,
                       (double)expected_scale);
        for (uint32_t i = 0; i < odd; i++)
            if (q[i] != expected[i] && !isnan(scale))
                check_fail(c, "fp8 of %u: %u is %02x, expected %02x", odd, i, q[i], expected[i]);
        c->n_cases++;
    }
    check_errors(c, fns);
    check_q3(c, fns);
}

/* Prints the nanoseconds that a head of 128 numbers takes. */
void bench_pack(struct check *c)
{
    enum { N = 128, ROUNDS = 100000 };
    const struct attn_fns *fns = attn_pick(c->flags);
    float x[N], y[N], scales[N / 32];
    uint64_t nsec[5];
    uint8_t q[N];

    fill_floats(c, FILL_NORMAL, x, N);
    memcpy(y, x, sizeof(y));
    nsec[0] = clock_nsec();
    for (int i = 0; i < ROUNDS; i++)
        fns->quantise((int8_t *)q, scales, x, true, N);
    nsec[1] = clock_nsec();
    for (int i = 0; i < ROUNDS; i++)
        fns->quantise_q4(q, scales, x, N);
    nsec[2] = clock_nsec();
    for (int i = 0; i < ROUNDS; i++)
        fns->quantise_fp8(q, scales, x, N);
    nsec[3] = clock_nsec();
    for (int i = 0; i < ROUNDS; i++)
        fns->rotate(y, N);
    nsec[4] = clock_nsec();
    printf("%-10s q8_0 %.1f ns, q4_0 %.1f ns, fp8 %.1f ns, rotated %.1f ns\n", fns->name,
           (double)(nsec[1] - nsec[0]) / ROUNDS, (double)(nsec[2] - nsec[1]) / ROUNDS,
           (double)(nsec[3] - nsec[2]) / ROUNDS, (double)(nsec[4] - nsec[3]) / ROUNDS);
}
