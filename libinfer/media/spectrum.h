/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the power spectrum of windowed frames.
 *
 * A frame is SPECTRUM_N real samples. Its even samples become the real parts and its odd samples
 * the imaginary parts of a complex transform of half the length, in Stockham's order, which needs
 * no permutation. The spectrum is computed from this transform. Several frames are transformed at
 * once, one in each lane of a vector, in double precision, so that a loud sound does not hide a
 * sound that is 80 dB below it.
 */

#include <stdint.h>

enum {
    SPECTRUM_N = 400,
    SPECTRUM_HALF = SPECTRUM_N / 2,
    SPECTRUM_BINS = SPECTRUM_HALF + 1,
    SPECTRUM_STAGES = 4,
    SPECTRUM_MAX_WIDTH = 8,
};

struct spectrum_turn {
    double re, im;
};

/* One pass of the transform: butterflies of @radix over @m × @stride places. */
struct spectrum_stage {
    uint32_t radix, m, stride;
    struct spectrum_turn turns[SPECTRUM_HALF]; /* [m][radix]: e^(-2πi p j / (radix × m)) */
};

struct spectrum_plan {
    struct spectrum_stage stages[SPECTRUM_STAGES];
    struct spectrum_turn turns[SPECTRUM_BINS]; /* e^(-2πi k / SPECTRUM_N) */
};

void spectrum_plan_init(struct spectrum_plan *plan);

struct spectrum_kernel {
    uint32_t width; /* frames at a time */
    /* Computes @power, [SPECTRUM_BINS][width], from @x, [SPECTRUM_N][width]. Both are aligned to 64
     * bytes. */
    void (*powers)(const struct spectrum_plan *plan, const double *x, double *power);
};

/* Returns the fastest kernel for a CPU with @flags (core/cpu.h). All kernels give the same bits. */
const struct spectrum_kernel *spectrum_kernel_get(unsigned flags);
