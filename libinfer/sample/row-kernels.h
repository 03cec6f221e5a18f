/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the passes over a row with the compiler's vector types of ROW_WIDTH floats. One file per
 * instruction set includes this header. Sums use sixteen lanes at any width, so that all widths
 * round alike.
 *
 * exp(z) = 2^k × exp(r), |r| ≤ ln 2 / 2, with the polynomial of Cephes' expf (Moshier).
 */
#include <math.h>
#include <string.h>

#include "core/macros.h"
#include "sample/row.h"

enum {
    GROUP = 16,
    PARTS = GROUP / ROW_WIDTH,
};

typedef float lanes __attribute__((vector_size(4 * ROW_WIDTH)));
typedef int32_t lanes_int __attribute__((vector_size(4 * ROW_WIDTH)));

static inline float sum_group(const lanes *part)
{
    float v[GROUP];

    memcpy(v, part, sizeof(v));
    for (unsigned n = GROUP / 2; n > 0; n /= 2)
        for (unsigned l = 0; l < n; l++)
            v[l] += v[l + n];
    return v[0];
}

static inline float peak_group(const lanes *part)
{
    float v[GROUP];

    memcpy(v, part, sizeof(v));
    for (unsigned n = GROUP / 2; n > 0; n /= 2)
        for (unsigned l = 0; l < n; l++)
            v[l] = v[l] > v[l + n] ? v[l] : v[l + n];
    return v[0];
}

/* Copies the @n values of an incomplete run, and fills the run up with @fill. */
static inline void fill_run(float *run, const float *x, uint32_t n, float fill)
{
    memcpy(run, x, n * sizeof(*x));
    for (uint32_t i = n; i < ROW_RUN; i++)
        run[i] = fill;
}

static inline float run_peak(const float *x, lanes_int *nan)
{
    lanes max[PARTS];

    memcpy(max, x, sizeof(max));
    for (unsigned k = 0; k < PARTS; k++)
        nan[k] |= max[k] != max[k];
    for (unsigned i = GROUP; i < ROW_RUN; i += GROUP)
        for (unsigned k = 0; k < PARTS; k++) {
            lanes v;
            lanes_int more;

            memcpy(&v, x + i + k * ROW_WIDTH, sizeof(v));
            nan[k] |= v != v;
            more = v > max[k];
            max[k] = (lanes)((more & (lanes_int)v) | (~more & (lanes_int)max[k]));
        }
    return peak_group(max);
}

static bool row_peaks(const float *x, uint32_t n, float *peaks)
{
    const uint32_t n_whole = n / ROW_RUN;
    lanes_int nan[PARTS] = {0};
    int32_t bad[GROUP], any = 0;
    float rest[ROW_RUN];

    for (uint32_t i = 0; i < n_whole; i++)
        peaks[i] = run_peak(x + (size_t)i * ROW_RUN, nan);
    if (n % ROW_RUN > 0) {
        fill_run(rest, x + (size_t)n_whole * ROW_RUN, n % ROW_RUN, -INFINITY);
        peaks[n_whole] = run_peak(rest, nan);
    }
    memcpy(bad, nan, sizeof(bad));
    for (unsigned l = 0; l < GROUP; l++)
        any |= bad[l];
    return any == 0;
}

/* Replaces a vector of values by their exponentials. */
static inline void exp_lanes(lanes *x, float max, float scale)
{
    const float round = 12582912.0f; /* 1.5 × 2^23: adding this number removes the fraction */
    lanes z = (*x - max) * scale, k, r, p;
    const lanes_int keep = z > -86.0f;
    lanes_int power;

    z = (lanes)(keep & (lanes_int)z);
    k = (z * 1.44269504f + round) - round;
    r = (z - k * 0.693359375f) - k * -2.12194440e-4f;
    p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    power = (__builtin_convertvector(k, lanes_int) + 127) << 23;
    *x = (lanes)(keep & (lanes_int)(p * (lanes)power));
}

/* Computes the masses of one run, and returns their sum. @mass may be NULL. */
static inline float run_masses(const float *x, float max, float scale, float *mass)
{
    lanes sum[PARTS] = {0};

    for (unsigned i = 0; i < ROW_RUN; i += GROUP)
        for (unsigned k = 0; k < PARTS; k++) {
            lanes v;

            memcpy(&v, x + i + k * ROW_WIDTH, sizeof(v));
            exp_lanes(&v, max, scale);
            sum[k] += v;
            if (mass)
                memcpy(mass + i + k * ROW_WIDTH, &v, sizeof(v));
        }
    return sum_group(sum);
}

static void row_masses(const float *x, uint32_t n, float max, float scale, float *mass, float *sums)
{
    const uint32_t n_whole = n / ROW_RUN;
    float rest[ROW_RUN];

    for (uint32_t i = 0; i < n_whole; i++)
        sums[i] = run_masses(x + (size_t)i * ROW_RUN, max, scale,
                             mass ? mass + (size_t)i * ROW_RUN : NULL);
    if (n % ROW_RUN > 0) {
        fill_run(rest, x + (size_t)n_whole * ROW_RUN, n % ROW_RUN, -INFINITY);
        sums[n_whole] =
            run_masses(rest, max, scale, mass ? mass + (size_t)n_whole * ROW_RUN : NULL);
    }
}

/* Copies each of 32 values whose bit in @bits is set; the other values become -infinity. */
static inline void mask_word(const float *x, uint32_t bits, float *out)
{
    static const int32_t bit_of[] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                     1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                     1 << 12, 1 << 13, 1 << 14, 1 << 15};

    for (unsigned i = 0; i < 32; i += ROW_WIDTH) {
        const lanes_int own = (lanes_int){0} + (int32_t)(bits >> i & 0xffff);
        const lanes none = (lanes){0} - INFINITY;
        lanes_int keep;
        lanes v;

        memcpy(&keep, bit_of, sizeof(keep));
        memcpy(&v, x + i, sizeof(v));
        keep = (own & keep) != 0;
        v = (lanes)((keep & (lanes_int)v) | (~keep & (lanes_int)none));
        memcpy(out + i, &v, sizeof(v));
    }
}

static void row_mask(const float *x, uint32_t n, const uint32_t *mask, float *out)
{
    uint32_t at = 0;

    for (; at + 32 <= n; at += 32)
        mask_word(x + at, mask[at / 32], out + at);
    for (; at < n; at++)
        out[at] = mask[at / 32] >> at % 32 & 1 ? x[at] : -INFINITY;
}

/* Sums the masses above @key, and with @with_key also those equal to it. */
static inline float sum_from(const float *mass, float key, bool with_key)
{
    lanes sum[PARTS] = {0};

    for (unsigned i = 0; i < ROW_RUN; i += GROUP)
        for (unsigned k = 0; k < PARTS; k++) {
            lanes v;

            memcpy(&v, mass + i + k * ROW_WIDTH, sizeof(v));
            sum[k] += (lanes)((with_key ? v >= key : v > key) & (lanes_int)v);
        }
    return sum_group(sum);
}

static void row_before(const float *x, uint32_t n, float max, float scale, float key, uint32_t id,
                       const float *all, float *sums)
{
    const uint32_t n_runs = row_n_runs(n), own = id / ROW_RUN;

    for (uint32_t i = 0; i < n_runs; i++) {
        const uint32_t at = i * ROW_RUN;
        float mass[ROW_RUN], sum;

        /* If the sum is below the key, each mass is below the key as well. */
        if (all[i] < key) {
            sums[i] = 0;
            continue;
        }
        row_masses(x + at, MIN(n - at, ROW_RUN), max, scale, mass, &sum);
        sums[i] = i < own ? sum_from(mass, key, true) : sum_from(mass, key, false);
        for (uint32_t k = 0; i == own && k < id % ROW_RUN; k++)
            sums[i] += mass[k] == key ? key : 0;
    }
}
