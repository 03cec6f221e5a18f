/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes metrics: counters, gauges and histograms.
 *
 * If memory is short, the answer lacks some metrics; no error is reported.
 */
#include "common/service/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "common/http/http.h"
#include "core/pages.h"

static const double metrics_bounds[METRICS_BUCKETS] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                       0.5,   1,     2.5,  5,     10,   60,  600};

void metrics_observe(struct metrics_histogram *histogram, double seconds)
{
    histogram->count++;
    histogram->sum += seconds;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        if (seconds <= metrics_bounds[i])
            histogram->buckets[i]++;
}

void metrics_head(struct str *out, const char *name, const char *type, const char *help)
{
    str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_sample(struct str *out, const char *name, const char *labels, double value)
{
    if (labels && *labels)
        str_printf(out, "%s{%s} %.17g\n", name, labels, value);
    else
        str_printf(out, "%s %.17g\n", name, value);
}

void metrics_counter(struct str *out, const char *name, const char *help, const char *labels,
                     double value)
{
    metrics_head(out, name, "counter", help);
    metrics_sample(out, name, labels, value);
}

void metrics_gauge(struct str *out, const char *name, const char *help, const char *labels,
                   double value)
{
    metrics_head(out, name, "gauge", help);
    metrics_sample(out, name, labels, value);
}

void metrics_write_histogram(struct str *out, const char *name, const char *help,
                             const char *labels, const struct metrics_histogram *histogram)
{
    const char *comma = labels && *labels ? "," : "";

    labels = labels ? labels : "";
    metrics_head(out, name, "histogram", help);
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        str_printf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, metrics_bounds[i],
                   (unsigned long long)histogram->buckets[i]);
    str_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
               (unsigned long long)histogram->count);
    if (*labels)
        str_printf(out, "%s_sum{%s} %.17g\n%s_count{%s} %llu\n", name, labels, histogram->sum, name,
                   labels, (unsigned long long)histogram->count);
    else
        str_printf(out, "%s_sum %.17g\n%s_count %llu\n", name, histogram->sum, name,
                   (unsigned long long)histogram->count);
}

void metrics_put_buckets(struct str *out, const char *name, const char *labels, size_t n,
                         const double *bounds, const uint64_t *buckets, uint64_t count, double sum)
{
    uint64_t below = 0;

    for (size_t i = 0; i < n; i++) {
        below += buckets[i];
        str_printf(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, bounds[i],
                   (unsigned long long)below);
    }
    str_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, (unsigned long long)count);
    str_printf(out, "%s_sum{%s} %.17g\n%s_count{%s} %llu\n", name, labels, sum, name, labels,
               (unsigned long long)count);
}

/* These files are opened before the service loses the right to open files. */
static struct {
    DIR *fds;
    int statm;
} metrics_files = {NULL, -1};

void metrics_open(void)
{
    metrics_files.fds = opendir("/proc/self/fd");
    metrics_files.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

static unsigned metrics_count_fds(void)
{
    unsigned n = 0;

    if (!metrics_files.fds)
        return 0;
    rewinddir(metrics_files.fds);
    while (readdir(metrics_files.fds))
        n++;
    return n > 2 ? n - 2 : 0; /* "." and ".." */
}

void metrics_process(struct str *out, const char *prefix)
{
    unsigned long size, resident;
    char name[64], text[128];
    const ssize_t n = pread(metrics_files.statm, text, sizeof(text) - 1, 0);

    if (n > 0) {
        text[n] = 0;
        if (sscanf(text, "%lu %lu", &size, &resident) == 2) {
            snprintf(name, sizeof(name), "%s_resident_memory_bytes", prefix);
            metrics_gauge(out, name, "Resident memory.", NULL,
                          (double)resident * (double)pages_size());
        }
    }
    snprintf(name, sizeof(name), "%s_open_fds", prefix);
    metrics_gauge(out, name, "Open descriptors.", NULL, metrics_count_fds());
}

void metrics_server(struct str *out, const char *prefix, const struct http_server_stats *stats)
{
    const struct {
        const char *name, *help;
        bool counter;
        double value;
    } rows[] = {
        {"connections", "Open connections.", false, stats->n_connections},
        {"http_requests_active", "Requests that are being processed.", false, stats->n_requests},
        {"connections_accepted_total", "Connections accepted.", true, (double)stats->n_accepted},
        {"body_bytes", "Memory for bodies of requests that are being received or passed on.", false,
         (double)stats->n_body_bytes},
        {"connections_evicted_total", "Idle connections that were closed for new ones.", true,
         (double)stats->n_evicted},
        {"bodies_refused_total", "Requests refused because of the limit on all bodies.", true,
         (double)stats->n_crowded},
        {"connections_refused_total", "Connections above the limit.", true,
         (double)stats->n_refused},
        {"requests_malformed_total", "Requests refused before they were complete.", true,
         (double)stats->n_malformed},
        {"clients_stalled_total", "Clients that stopped reading.", true, (double)stats->n_stalled},
        {"clients_gone_total", "Clients that left before their answer was complete.", true,
         (double)stats->n_gone},
    };
    char name[96];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(name, sizeof(name), "%s_%s", prefix, rows[i].name);
        metrics_head(out, name, rows[i].counter ? "counter" : "gauge", rows[i].help);
        metrics_sample(out, name, NULL, rows[i].value);
    }
}
