/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the kernels, and searches rows of logits
 *
 * A row has about 10^5 logits, one for each entry of the vocabulary. It is divided into runs of 128
 * logits; the peak of a run is its largest logit. Almost every run can be skipped after one
 * comparison with its peak.
 */
#include "sample/row.h"

#include <math.h>
#include <stddef.h>

#include "core/cpu.h"
#include "core/macros.h"
#include "sample/row-isa.h"
#include "sample/select.h"

/* row_kernels_get() returns the first kernels whose flags the CPU supports. */
static const struct {
    const struct row_kernels *kernels;
    unsigned flags;
} table[] = {
#if defined(__x86_64__)
    {&row_kernels_avx512, CPU_AVX512},
    {&row_kernels_avx2, CPU_AVX2},
#endif
    {&row_kernels_base, 0},
};

const struct row_kernels *row_kernels_get(unsigned flags)
{
    size_t i = 0;

    while ((flags & table[i].flags) != table[i].flags)
        i++;
    return table[i].kernels;
}

double row_total(const float *sums, uint32_t n_runs)
{
    double total = 0;

    for (uint32_t i = 0; i < n_runs; i++)
        total += (double)sums[i];
    return total;
}

int32_t row_argmax(const float *x, uint32_t n, const float *peaks)
{
    const uint32_t n_runs = row_n_runs(n);
    uint32_t best = 0;

    for (uint32_t i = 1; i < n_runs; i++)
        if (peaks[i] > peaks[best])
            best = i;
    if (isinf(peaks[best]))
        return -1;
    for (uint32_t i = best * ROW_RUN;; i++)
        if (x[i] == peaks[best])
            return (int32_t)i;
}

/* Returns the k-th largest peak. At least @k values of the row are that large, because each peak is
 * a value of the row. */
static float least_of_top(const float *peaks, uint32_t n_runs, uint32_t k, struct cand *scratch)
{
    float least = INFINITY;

    if (k > n_runs)
        return -INFINITY;
    for (uint32_t i = 0; i < n_runs; i++)
        scratch[i] = (struct cand){peaks[i], 0, (int32_t)i};
    cand_select(scratch, n_runs, k);
    for (uint32_t i = 0; i < k; i++)
        least = MIN(least, scratch[i].key);
    return least;
}

uint32_t row_top(const float *x, uint32_t n, const float *peaks, uint32_t k, struct cand *out)
{
    const uint32_t n_runs = row_n_runs(n);
    const float least = k > 0 ? least_of_top(peaks, n_runs, k, out) : INFINITY;
    uint32_t n_out = 0;

    for (uint32_t i = 0; i < n_runs; i++) {
        if (LIKELY(peaks[i] < least))
            continue;
        for (uint32_t j = i * ROW_RUN; j < MIN((i + 1) * ROW_RUN, n); j++)
            if (x[j] >= least && x[j] > -INFINITY)
                out[n_out++] = (struct cand){x[j], 0, (int32_t)j};
    }
    if (n_out <= k)
        return n_out;
    cand_select(out, n_out, k);
    return k;
}
