/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares benchmark runs of two versions, models or machines.
 *
 * Runs belong together if they measured the same thing: the same numbers of tokens, streams and
 * threads, and the same model, weights, machine and so on, except for what is compared. A side
 * consists of runs of one version, model or machine in such a group: its newest run, and the runs
 * before it that have the same version of sconce. The side of the newest run is compared with the
 * side that was measured before it, or with a side that the caller names.
 */

#include "cli/metrics/runs.h"

enum compare_by { COMPARE_VERSIONS, COMPARE_MODELS, COMPARE_MACHINES };

/* A speed: the mean of one or more runs, the standard error of the mean, and the number of runs. */
struct compare_speed {
    double mean, error;
    size_t n;
};

/* One line of the comparison: a speed of both sides. */
struct compare_line {
    const struct run *before, *after; /* the newest run of each side */
    bool is_prefill;                  /* the speed of prefill; false: of decoding */
    struct compare_speed old, now;
    double change; /* relative: 0.1 is 10 % faster */
    double noise;  /* changes that are smaller than this may be chance */
};

/* Compares @runs, which are sorted by time. @base is the version, model or machine with which the
 * newest run is compared; NULL: the side that was measured before. The caller frees *ret_lines,
 * which point into @runs. -ENOMEM. */
int compare_runs(const struct run *runs, size_t n, enum compare_by by, const char *base,
                 struct compare_line **ret_lines, size_t *ret_n);
/* Returns -1 if the second side is slower and 1 if it is faster, by more than @threshold (relative)
 * and more than the noise. Otherwise returns 0. */
int compare_verdict(const struct compare_line *line, double threshold);
/* Returns the version, model or machine of a run. */
const char *compare_side(const struct run *run, enum compare_by by);
