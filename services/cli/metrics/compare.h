/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares benchmark runs: those of two versions, models or machines.
 *
 * Runs belong together if they measured the same thing: the same numbers of tokens, streams and
 * threads, and the same model, weights, machine and so on, except for what is compared. For each
 * such group the newest value is compared with the one before it, or with the one that is named.
 */

#include "cli/metrics/runs.h"

enum compare_by { COMPARE_VERSIONS, COMPARE_MODELS, COMPARE_MACHINES };

/* A speed: the mean of several runs, its standard error, and their number. */
struct compare_speed {
    double mean, error;
    size_t n;
};

/* One line: a speed of two sides. */
struct compare_line {
    const struct run *before, *after; /* the newest run of each side */
    bool is_prefill;                  /* else decoding */
    struct compare_speed old, now;
    double change; /* relative: 0.1 is 10 % faster */
    double noise;  /* changes that are smaller than this may be chance */
};

/* Compares @runs, which are sorted by time. @base names the version, model or machine to compare
 * with; NULL: the one that was measured before the newest. The caller frees *ret_lines, which point
 * into @runs. -ENOMEM. */
int compare_runs(const struct run *runs, size_t n, enum compare_by by, const char *base,
                 struct compare_line **ret_lines, size_t *ret_n);
/* Returns -1 if the second side is slower by more than @threshold (relative) and more than the
 * noise, 1 if it is faster by more than that, else 0. */
int compare_verdict(const struct compare_line *line, double threshold);
/* Returns the version, model or machine of a run. */
const char *compare_side(const struct run *run, enum compare_by by);
