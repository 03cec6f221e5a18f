/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A service that answers with models: what it has and does whatever its models are for
 *
 * One loop thread owns all of it. Beside it run the thread that loads models (residents.h), some
 * that prepare requests, and those of the models. A service's own structure begins with a struct
 * model_host; functions that are handed the host find the rest there.
 *
 * What takes time and depends on a request, such as its template or its tokens, is the preparers':
 * each model has lanes of its own there, so that one that is slow delays no other.
 */

#include "common/service/metrics.h"
#include "host/residents.h"

struct config;
struct http_request;
struct model_host;
struct model_request;
struct models;
struct options;

/* An endpoint: a path that needs a model, or a function that answers at once. */
struct model_route {
    const char *method, *path;
    bool is_prefix;
    const void *endpoint; /* for params.begin; NULL: `answer` */
    /* These do not move the idle exit: a monitor must not keep models in memory. */
    void (*answer)(struct model_host *host, struct http_request *request);
};

struct model_host_params {
    const char *name; /* "chat"; static, as all that is pointed to */
    const struct model_route *routes;
    size_t n_routes;
    const struct residents_ops *residents;
    uint32_t max_models;
    uint32_t max_connections;
    uint32_t max_requests; /* more are told 429; 0: no limit */
    bool prepares;         /* host->preparers are wanted */
    size_t max_body;
    uint64_t idle_timeout_usec, request_timeout_usec; /* 0: none */
    const char *ready_status;                         /* as in struct service_params */
    void (*status)(void *host, char *text, size_t size);
    /* Makes the request that @endpoint words. */
    void (*begin)(struct model_host *host, const void *endpoint, struct http_request *request);
    /* Starts what else there is, once the loop is there; and ends it, when no request is left but
     * models still are. May be NULL. */
    int (*start)(struct model_host *host);
    void (*stop)(struct model_host *host);
};

struct model_host {
    struct model_host_params params;
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct jobs *preparers;           /* NULL: there are none */
    struct job_lane reading;          /* theirs, for bodies that are too large for the loop */
    struct models *models;            /* the last scan */
    uint64_t scanned_usec, scan_usec; /* when the list was read, and how long that took */
    struct residents residents;
    struct model_request *requests;
    uint32_t n_requests; /* in that list */
    struct {
        uint64_t n_requests, n_failed, n_refused, n_cancelled;
        struct metrics_histogram duration;
    } stats;
    bool expired; /* the time to finish after SIGTERM is over */
};

/* Serves until idle or terminated, after confine_start(); returns the status to exit with. */
int model_host_run(struct model_host *host, const struct model_host_params *params,
                   const struct options *options);

/* models.h's list, read again when it is older than a second; NULL when it cannot be read. */
const struct models *model_host_models(struct model_host *host);
/* The same; the list is read again when it lacks @name, which may be NULL: a model that was just
 * installed is found. */
const struct models *model_host_look(struct model_host *host, const char *name);
/* The same; NULL with a problem. */
const struct models *model_host_list(struct model_host *host, const char *name,
                                     struct problem *problem);

/* Whether @name is of a model that cannot be used (models_find_broken()); then with a problem. */
bool model_host_is_broken(const struct models *models, const char *name, struct problem *problem);

/* model-report.c */

/* The answer of /health but for its end, which begins with a comma; then sends it. */
void model_host_put_health(struct model_host *host, struct str *out);
void model_host_send_health(struct model_host *host, struct http_request *request,
                            const struct str *out);

/* No structure of numbers that `stats` of the residents writes is larger. */
#define MODEL_STATS_MAX 512
/* One number of each model, a field of that structure. */
struct model_metric {
    const char *name, *type, *help;
    size_t offset;
    enum { MODEL_METRIC_U64, MODEL_METRIC_U32, MODEL_METRIC_DOUBLE } kind;
};
/* The number that a field of `struct s` is. */
#define MODEL_METRIC(s, field)                                                                     \
    offsetof(struct s, field), _Generic(((struct s *)NULL)->field, uint64_t                        \
                                        : MODEL_METRIC_U64, uint32_t                               \
                                        : MODEL_METRIC_U32, double                                 \
                                        : MODEL_METRIC_DOUBLE)
void model_host_put_metrics(const struct model_host *host, const struct model_metric *metrics,
                            size_t n, struct str *out);
/* What all services count: requests, models, connections, memory; names begin with @prefix. */
void model_host_put_counters(const struct model_host *host, const char *prefix, struct str *out);
