/* SPDX-License-Identifier: Apache-2.0 */

/* Measures times on several threads, and finds the limits of the machine with
 * backend/cpu/limits/limits.h. */

#include "harness.h"

double bench_threads(unsigned n_threads, double min_seconds, workers_fn fn, void *arg)
{
    struct workers *w;
    double seconds;

    if (workers_new(n_threads, &w) < 0)
        exit(2);
    seconds = limits_time(w, min_seconds, fn, arg);
    workers_free(w);
    return seconds;
}

static struct limits *limits(unsigned n_threads, unsigned flags)
{
    struct limits *l;

    if (limits_new(n_threads, flags, &l) < 0)
        exit(2);
    return l;
}

double bench_read_gbs(unsigned n_threads, unsigned flags)
{
    _cleanup_(limits_freep) struct limits *l = limits(n_threads, flags);
    double bytes_s;

    return limits_read(l, &bytes_s, NULL) < 0 ? 0 : bytes_s * 1e-9;
}

double bench_int8_tops(unsigned n_threads, unsigned flags)
{
    _cleanup_(limits_freep) struct limits *l = limits(n_threads, flags);

    return limits_dot(l) * 1e-12;
}
