/* SPDX-License-Identifier: Apache-2.0 */
/* Works on lists of candidates. */
#include "sample/cands.h"

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
                           uint32_t least, float *ret_mean)
{
    const double total = cands_total(c, n);
    uint32_t n_kept;
    double mean = 0;

    for (uint32_t i = 0; i < n; i++)
        if (c[i].mass > 0)
            mean += (double)c[i].mass * (double)((c[i].key - max) * scale);
    mean /= total;
    for (uint32_t i = 0; i < n; i++)
        c[i].key = c[i].mass > 0 ? cands_key_typical(c[i].key, max, scale, (float)mean) : -INFINITY;
    *ret_mean = (float)mean;
    n_kept = cand_prefix(c, n, (double)typical_p * total);
    if (n_kept < least) {
        n_kept = MIN(least, n);
        cand_select(c, n, n_kept);
    }
    return n_kept;
}

uint32_t cands_find(const struct cand *c, uint32_t n, double point)
{
    double sum = 0;
    uint32_t last = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (double)c[i].mass;
        if (c[i].mass > 0)
            last = i;
        if (c[i].mass > 0 && sum >= point)
            return i;
    }
    /* The sum stays below @point only because of rounding errors, which must not select a forbidden
     * token (mass 0). */
    return last;
}
