/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Multiplies a few columns with a small matrix, for networks of about 10^5 weights.
 *
 * On every instruction set, an output is computed as one sum, in the order of the inputs. So all
 * instruction sets give the same bits.
 */

#include <stdint.h>

enum {
    DENSE_LANES = 16, /* the number of outputs is a multiple of this */
    DENSE_MAX_COLS = 4,
};

struct dense {
    uint32_t n_in, n_out;
    const float *weights; /* [n_in][n_out], aligned to 64 bytes */
    const float *bias;    /* [n_out] */
};

/* Sets @out, [n_cols][n_out], to bias + the sum over i of x[col][i] × weights[i]. @n_cols is 1, 2
 * or 4. */
typedef void (*dense_fn)(const struct dense *d, const float *const *x, uint32_t n_cols, float *out);

/* Returns the fastest product for a CPU with @flags (core/cpu.h). */
dense_fn dense_get(unsigned flags);
