/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws series over time as an image in SVG 1.1 (W3C, second edition).
 *
 * An image has panels, one below the other, which share the axis of time. Its colors are in a style
 * sheet, so it is light or dark like the page or the viewer that shows it.
 */

#include "core/str.h"

/* The largest number of series in a panel. Each series has a color of its own. */
#define PLOT_SERIES 7

struct plot_series {
    const char *name;
    const double *values; /* [plot.n]; NAN: there is no value */
};

struct plot_panel {
    const char *title;
    const char *unit; /* such as "ms"; "": values have no unit */
    bool stacked;     /* the series are stacked bars; false: lines */
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
/* Returns the distance between two marks on an axis from 0 to at least @max. The distance is 1, 2
 * or 5 times a power of ten, and the axis has 3 to 8 marks above 0. */
double plot_step(double max);
