/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp(z) = 2^k × exp(r), |r| ≤ ln 2 / 2, with the polynomial of Cephes' expf (Moshier); four
 * lanes in the compiler's vector type, which is plain arithmetic on CPUs without such registers.
 */
#include "sample/softmax.h"

#include <math.h>
#include <string.h>

#define LANES 4
#define RUN   512 /* values whose sum is taken in float */

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_int __attribute__((vector_size(4 * LANES)));

/* Exponentials of @LANES values, stored; returns their sum by lanes. */
static inline lanes exp_lanes(float *x, float max, float scale)
{
    const float round = 12582912.0f; /* 1.5 × 2^23: adding it leaves no fraction */
    lanes z, k, r, p;
    lanes_int keep, power;

    memcpy(&z, x, sizeof(z));
    z = (z - max) / scale;
    keep = z > -86.0f;
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
    p = (lanes)(keep & (lanes_int)(p * (lanes)power));
    memcpy(x, &p, sizeof(p));
    return p;
}

static double sum_lanes(const lanes *v)
{
    double sum = 0;

    for (unsigned l = 0; l < LANES; l++)
        sum += (double)(*v)[l];
    return sum;
}

double softmax_masses(float *x, uint32_t n, float max, float temperature)
{
    double sum = 0;
    uint32_t i = 0;

    while (i + LANES <= n) {
        const uint32_t end = n - i < RUN ? n - (n - i) % LANES : i + RUN;
        lanes part = {0};

        for (; i < end; i += LANES)
            part += exp_lanes(x + i, max, temperature);
        sum += sum_lanes(&part);
    }
    if (i < n) {
        float tail[LANES];

        for (uint32_t l = 0; l < LANES; l++)
            tail[l] = i + l < n ? x[i + l] : -INFINITY;
        exp_lanes(tail, max, temperature);
        for (uint32_t l = 0; i + l < n; l++) {
            x[i + l] = tail[l];
            sum += (double)tail[l];
        }
    }
    return sum;
}
