/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes metrics in the text format of Prometheus, version 0.0.4. */

#include "core/str.h"

struct http_server_stats;

#define METRICS_TYPE    "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_BUCKETS 14

/* Struct metrics_histogram counts times in seconds. All histograms have the same bounds, from 1 ms
 * to 10 min. */
struct metrics_histogram {
    uint64_t buckets[METRICS_BUCKETS];
    uint64_t count;
    double sum;
};

void metrics_observe(struct metrics_histogram *histogram, double seconds);

/* metrics_head() writes the lines HELP and TYPE, once per name; metrics_sample() then writes a
 * sample. @labels has the form `a="b"`, or is NULL. */
void metrics_head(struct str *out, const char *name, const char *type, const char *help);
void metrics_sample(struct str *out, const char *name, const char *labels, double value);
/* Call metrics_head() and metrics_sample(). */
void metrics_counter(struct str *out, const char *name, const char *help, const char *labels,
                     double value);
void metrics_gauge(struct str *out, const char *name, const char *help, const char *labels,
                   double value);
void metrics_write_histogram(struct str *out, const char *name, const char *help,
                             const char *labels, const struct metrics_histogram *histogram);
/* Writes the samples of a histogram with its own bounds, after metrics_head(). @buckets[i] counts
 * the values between two bounds. */
void metrics_put_buckets(struct str *out, const char *name, const char *labels, size_t n,
                         const double *bounds, const uint64_t *buckets, uint64_t count, double sum);
/* Opens the files that metrics_process() reads. Must be called before confine_start(). */
void metrics_open(void);
/* Writes the resident memory and the number of open descriptors of this process. The names of the
 * metrics begin with @prefix. */
void metrics_process(struct str *out, const char *prefix);
/* Writes the counters of the HTTP server. */
void metrics_server(struct str *out, const char *prefix, const struct http_server_stats *stats);
