/* SPDX-License-Identifier: Apache-2.0 */
/* Works on lists of candidates. */
#include "sample/cands.h"

#include <math.h>

#include "core/macros.h"

void cands_weigh(const struct row_kernels *kernels, struct cand *c, uint32_t n, float max,
                 float scale)
{
    for (uint32_t at = 0; at < n; at += ROW_RUN) {
        const uint32_t n_run = MIN(n - at, ROW_RUN);
        float mass[ROW_RUN], sum;

        for (uint32_t i = 0; i < n_run; i++)
            mass[i] = c[at + i].key;
        kernels->masses(mass, n_run, max, scale, mass, &sum);
        for (uint32_t i = 0; i < n_run; i++)
            c[at + i].mass = mass[i];
    }
}

double cands_total(const struct cand *c, uint32_t n)
{
    double total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += (double)c[i].mass;
    return total;
}

/* With z = (logit - max) × scale, whose exponential is the mass, the surprise is log(total) - z.
 * The entropy is the mean of the surprise. */
uint32_t cands_cut_typical(struct cand *c, uint32_t n, float max, float scale, float typical_p,
                           uint32_t least)
{
    const double total = cands_total(c, n);
    uint32_t n_kept;
    double mean = 0;

    for (uint32_t i = 0; i < n; i++)
        if (c[i].mass > 0)
            mean += (double)c[i].mass * (double)((c[i].key - max) * scale);
    mean /= total;
    for (uint32_t i = 0; i < n; i++)
        c[i].key = c[i].mass > 0 ? -fabsf((c[i].key - max) * scale - (float)mean) : -INFINITY;
    n_kept = cand_prefix(c, n, (double)typical_p * total);
    if (n_kept < least) {
        n_kept = MIN(least, n);
        cand_select(c, n, n_kept);
    }
    for (uint32_t i = 0; i < n; i++)
        c[i].key = c[i].mass;
    return n_kept;
}

uint32_t cands_cut_min_p(struct cand *c, uint32_t n, float min_p)
{
    float max = 0;
    uint32_t n_kept = 0;

    for (uint32_t i = 0; i < n; i++)
        max = MAX(max, c[i].mass);
    for (uint32_t i = 0; i < n; i++)
        if (c[i].mass >= min_p * max)
            c[n_kept++] = c[i];
    return n_kept;
}

uint32_t cands_draw(const struct cand *c, uint32_t n, struct rng *rng)
{
    double point = rng_double(rng) * cands_total(c, n);
    uint32_t last = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (point < (double)c[i].mass)
            return i;
        point -= (double)c[i].mass;
        if (c[i].mass > 0)
            last = i;
    }
    /* Only rounding errors lead here, and they must not select a forbidden token. */
    return last;
}
