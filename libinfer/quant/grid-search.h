/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the search for points of grids (quant/grid.h), for the encoders of IQ1, IQ2 and IQ3.
 *
 * The encoders look for the point p of a grid with the least Σ w (x - scale × (p + shift))². A
 * level is a value that a coordinate can have. Each x is rounded to the nearest level. A table has
 * the points that are nearest to each combination of levels, and only these are compared. The table
 * of a grid is computed when it is first needed, in less than a second.
 */

#include <stdbool.h>
#include <stdint.h>

enum search_grid {
    SEARCH_IQ2_XXS,
    SEARCH_IQ2_XS,
    SEARCH_IQ2_S,
    SEARCH_IQ1,
    SEARCH_IQ3_XXS,
    SEARCH_IQ3_S,
    SEARCH_N,
};

struct search;

/* Says how x is compared with points. */
struct search_how {
    const struct search *search;
    bool both; /* IQ1: the shift of each 8 numbers is 1 or -1, whichever is better */
    float shift;
};

/* Describes the best points for 16 or 32 numbers. */
struct search_fit {
    float error;       /* Σ w (x - scale × u)² without the constant Σ w x²; u = p + shift */
    float xu, uu;      /* Σ w x u and Σ w u² */
    uint16_t index[8]; /* of the points */
    uint8_t minus;     /* bit i is set if the shift of point i is -1 */
};

/* Returns the table of a grid. It is static. */
const struct search *search_get(enum search_grid grid);
/* Finds the best points for @n numbers, with a scale above 0. */
void search_points(const struct search_how *how, const float *x, const float *w, unsigned n,
                   float scale, struct search_fit *ret);
/* Finds a scale for which the error of @n numbers is small; 0 if all are 0. */
float search_scale(const struct search_how *how, const float *x, const float *w, unsigned n);
