/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the matrix product with the compiler's vector types of DENSE_WIDTH floats. One file per
 * instruction set includes this header and sets the name of the product, DENSE_NAME. Eight sums
 * stay in registers for any number of columns.
 */
#include <string.h>

#include "core/macros.h"
#include "media/dense-isa.h"

typedef float lanes __attribute__((vector_size(4 * DENSE_WIDTH)));

enum { SUMS = 8 };

/* Computes outputs @at … @at + @n_vecs × width - 1. @n_cols and @n_vecs are constants in all
 * calls. */
static inline void tile(const struct dense *d, const float *const *x, uint32_t n_cols,
                        uint32_t n_vecs, uint32_t at, float *out)
{
    lanes sums[SUMS];

    for (uint32_t c = 0; c < n_cols; c++)
        memcpy(&sums[c * n_vecs], d->bias + at, n_vecs * sizeof(lanes));
    for (uint32_t i = 0; i < d->n_in; i++) {
        const float *w = d->weights + (size_t)i * d->n_out + at;

        for (uint32_t v = 0; v < n_vecs; v++) {
            lanes row;

            memcpy(&row, w + v * DENSE_WIDTH, sizeof(row));
            for (uint32_t c = 0; c < n_cols; c++)
                sums[c * n_vecs + v] += row * x[c][i];
        }
    }
    for (uint32_t c = 0; c < n_cols; c++)
        memcpy(out + (size_t)c * d->n_out + at, &sums[c * n_vecs], n_vecs * sizeof(lanes));
}

static inline void tiles(const struct dense *d, const float *const *x, uint32_t n_cols, float *out)
{
    const uint32_t step = SUMS / n_cols * DENSE_WIDTH;
    uint32_t at = 0;

    for (; at + step <= d->n_out; at += step)
        tile(d, x, n_cols, SUMS / n_cols, at, out);
    for (; at < d->n_out; at += DENSE_WIDTH)
        tile(d, x, n_cols, 1, at, out);
}

void DENSE_NAME(const struct dense *d, const float *const *x, uint32_t n_cols, float *out)
{
    if (n_cols == 4)
        tiles(d, x, 4, out);
    else if (n_cols == 2)
        tiles(d, x, 2, out);
    else
        tiles(d, x, 1, out);
}
