/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the grids of the formats IQ1, IQ2 and IQ3 (quant/block-iq.h).
 *
 * A grid is a list of points with 8 or 4 coordinates. A block stores the index of a point instead
 * of the magnitudes of 8 or 4 weights. Byte i of a point, from the lowest on, is coordinate i.
 */

#include <stdint.h>

extern const uint64_t grid_iq2_xxs[256]; /* 8, 25 or 43 */
extern const uint64_t grid_iq2_xs[512];
extern const uint64_t grid_iq2_s[1024];
extern const uint64_t grid_iq1[2048];    /* 8 v + 10, where v is -1, 0 or 1 */
extern const uint32_t grid_iq3_xxs[256]; /* 4, 12, 20, 28, 36, 44, 52 or 62 */
extern const uint32_t grid_iq3_s[512];   /* odd numbers from 1 to 15 */
