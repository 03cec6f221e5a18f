/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws series over time as an image in SVG 1.1 (W3C, second edition).
 *
 * An image has panels, one below the other, which share the axis of time. Its colors are in a style
 * sheet, so it is light or dark like the page or the viewer that shows it.
 */

#include "core/str.h"

/* The most series of a panel; each has a color of its own. */
#define PLOT_SERIES 7

struct plot_series {
    const char *name;
    const double *values; /* [n of the plot]; NAN: there is no value */
};

struct plot_panel {
    const char *title;
    const char *unit; /* such as "ms"; "": a number */
    bool stacked;     /* bars that stand on each other; else lines */
    const struct plot_series *series;
    size_t n_series; /* at most PLOT_SERIES */
};

struct plot {
    const char *title;
    const char *const *labels; /* [n] texts below the axis of time */
    size_t n;                  /* periods, at least 1 */
    const struct plot_panel *panels;
    size_t n_panels;
};

/* Appends the image to @out. Names may be any UTF-8. -ENOMEM. */
int plot_write(struct str *out, const struct plot *plot);
/* Returns the distance of marks on an axis from 0 to at least @max: 1, 2 or 5 times a power of ten,
 * so that there are 3 to 6 marks. */
double plot_step(double max);
