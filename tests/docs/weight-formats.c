/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the number formats of weights as rows of a table in Markdown, those with the most bits
 * first: the name, the weights and the bytes of a block, the bits of a weight, and the error of
 * encoding. The error is the root mean square error of normally distributed weights, in percent of
 * their standard deviation. Formats whose scales are tensors of their own have no encoder, and are
 * left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "quant/dtype.h"

#define N_WEIGHTS (256u * 256u)

/* Returns a normally distributed number (Box and Muller 1958). */
static float normal(struct rng *rng)
{
    const double u = rng_double(rng), angle = 2 * M_PI * rng_double(rng);

    return (float)(sqrt(-2 * log(1 - u)) * cos(angle));
}

static double format_bits(const struct dtype_info *info)
{
    return 8.0 * info->block_bytes / info->block_elems;
}

/* Returns the error in percent. */
static double format_error(const struct dtype_info *info)
{
    float *x = NEW(float, N_WEIGHTS), *y = NEW(float, N_WEIGHTS);
    void *blocks = malloc((size_t)N_WEIGHTS * sizeof(float));
    struct rng rng;
    double sum = 0, squares = 0;

    if (!x || !y || !blocks)
        exit(1);
    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < N_WEIGHTS; i++)
        x[i] = normal(&rng);
    info->encode(x, blocks, N_WEIGHTS);
    info->decode(blocks, y, N_WEIGHTS);
    for (uint32_t i = 0; i < N_WEIGHTS; i++) {
        sum += (double)(y[i] - x[i]) * (double)(y[i] - x[i]);
        squares += (double)x[i] * (double)x[i];
    }
    free(x);
    free(y);
    free(blocks);
    return 100 * sqrt(sum / squares);
}

static int format_compare(const void *a, const void *b)
{
    const struct dtype_info *x = *(const struct dtype_info *const *)a;
    const struct dtype_info *y = *(const struct dtype_info *const *)b;

    if (format_bits(x) != format_bits(y))
        return (format_bits(x) < format_bits(y)) - (format_bits(x) > format_bits(y));
    return strcmp(x->label, y->label);
}

int main(void)
{
    const struct dtype_info *infos[INF_DTYPE_N];
    size_t n = 0;

    for (unsigned d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            infos[n++] = dtype_info((enum inf_dtype)d);
    qsort(infos, n, sizeof(*infos), format_compare);
    for (size_t i = 0; i < n; i++)
        printf("| %s | %u | %u | %.6g | %.2f %% |\n", infos[i]->label, infos[i]->block_elems,
               infos[i]->block_bytes, format_bits(infos[i]), format_error(infos[i]));
    return 0;
}
