/* SPDX-License-Identifier: Apache-2.0 */
/* Finds scales and offsets in plain C. */
#include <math.h>
#include <stdint.h>

#include "core/macros.h"

#define LANES 8u

typedef struct lanes {
    float f[LANES];
} lanes;

#define LANES_EACH(expr)                                                                           \
    lanes r;                                                                                       \
                                                                                                   \
    for (unsigned l = 0; l < LANES; l++)                                                           \
        r.f[l] = (expr);                                                                           \
    return r

static inline lanes lanes_set(float x)
{
    LANES_EACH(x);
}

static inline lanes lanes_load(const float *x)
{
    LANES_EACH(x[l]);
}

static inline void lanes_store(float *to, lanes x)
{
    for (unsigned l = 0; l < LANES; l++)
        to[l] = x.f[l];
}

/* Stores whole numbers from 0 to 255. */
static inline void lanes_store_bytes(uint8_t *to, lanes x)
{
    for (unsigned l = 0; l < LANES; l++)
        to[l] = (uint8_t)(int)x.f[l];
}

static inline lanes lanes_add(lanes a, lanes b)
{
    LANES_EACH(a.f[l] + b.f[l]);
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    LANES_EACH(a.f[l] - b.f[l]);
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    LANES_EACH(a.f[l] * b.f[l]);
}

static inline lanes lanes_div(lanes a, lanes b)
{
    LANES_EACH(a.f[l] / b.f[l]);
}

static inline lanes lanes_sqrt(lanes a)
{
    LANES_EACH(sqrtf(a.f[l]));
}

/* Returns the smaller number of each lane. If one of the two is NaN, the result is the number of
 * @b. */
static inline lanes lanes_min(lanes a, lanes b)
{
    LANES_EACH(a.f[l] < b.f[l] ? a.f[l] : b.f[l]);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    LANES_EACH(a.f[l] > b.f[l] ? a.f[l] : b.f[l]);
}

/* Gives x where a < b, and y elsewhere. */
static inline lanes lanes_less(lanes a, lanes b, lanes x, lanes y)
{
    LANES_EACH(a.f[l] < b.f[l] ? x.f[l] : y.f[l]);
}

#define lanes_nearest lanes_nearest_by_steps

#include "quant/fit-search.h"

const struct fit_ops fit_ref = {.name = "ref", FIT_OPS};
