/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host is the part that all services with models share, whatever the models do.
 *
 * The thread of the event loop owns all objects. Other threads open and load models (residents.h),
 * prepare requests, and compute. The structure of a service begins with a struct model_host, so
 * functions that get the host can convert the pointer to that structure.
 *
 * Work whose duration depends on a request, such as rendering templates and tokenizing, is done by
 * threads, the preparers. Each model has its own lanes in the queue of the preparers, so slow
 * requests to one model delay no other model.
 */

#include "common/config/service-table.h"
#include "common/http/error-shape.h"
#include "common/service/metrics.h"
#include "common/wire/history.h"
#include "host/residents.h"

struct config;
struct http_request;
struct model_host;
struct model_request;
struct models;
struct models_entry;
struct options;

/* Maps a path to an endpoint, which needs a model, or to a function that answers immediately. */
struct model_route {
    const char *method, *path;
    bool is_prefix;
    const struct error_shape *errors; /* NULL: OpenAI's */
    const void *endpoint;             /* passed to params.begin; NULL: `answer` answers the
                                         request */
    /* Answers immediately. Such requests do not restart the idle timeout: monitoring must not keep
     * models in memory. */
    void (*answer)(struct model_host *host, struct http_request *request);
};

/* Makes a struct model_route from a row of a service's routes.h. */
#define MODEL_ROUTE(method, path, right, match, api, handler)                                      \
    {#method, path, .is_prefix = ROUTE_##match, .errors = &errors_##api, handler},

struct model_host_params {
    const char *name; /* "chat"; static, like everything to which this structure points */
    const struct model_route *routes;
    size_t n_routes;
    const struct residents_ops *residents;
    uint32_t max_models;
    uint32_t max_connections;
    uint32_t max_requests; /* further requests get 429; 0: no limit */
    bool prepares;         /* the service needs host->preparers */
    size_t max_body;
    uint64_t idle_timeout_usec, request_timeout_usec; /* 0: no timeout */
    const char *ready_status;                         /* see struct service_params */
    void (*status)(void *host, char *text, size_t size);
    /* Begins a request to @endpoint. */
    void (*begin)(struct model_host *host, const void *endpoint, struct http_request *request);
    /* Returns the purpose for which a model is loaded by command (model-command.h), a key of
     * residents_want(); static. NULL: all models have the key NULL. */
    const void *(*load_key)(const struct models_entry *entry);
    /* `start` starts further parts of the service when the loop exists. `stop` ends these parts
     * when all requests have ended, before models are freed. Both may be NULL. */
    int (*start)(struct model_host *host);
    void (*stop)(struct model_host *host);
};

struct model_host {
    struct model_host_params params;
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct jobs *preparers;           /* NULL: there are none */
    struct job_lane reading;          /* the preparers' lane for reading large bodies */
    struct models *models;            /* the list of the last scan */
    uint64_t scanned_usec, scan_usec; /* when the list was read, and how long that took */
    /* when a name was last missing, and the time spent on reading the list for missing names */
    uint64_t looked_usec, look_spent_usec;
    struct residents residents;
    struct model_request *requests;
    uint32_t n_requests; /* number of `requests` */
    struct {
        uint64_t n_requests, n_failed, n_refused, n_cancelled;
        struct metrics_histogram duration;
    } stats;
    struct history_counts history; /* of ended requests, until the gateway collects them */
    bool expired;                  /* the drain timeout after SIGTERM is over */
};

/* Serves until the service is idle or terminated; call it after confine_start(). Returns the exit
 * status. */
int model_host_run(struct model_host *host, const struct model_host_params *params,
                   const struct options *options);

/* Returns the list of models, read again if it is older than a second; NULL: it cannot be read. */
const struct models *model_host_models(struct model_host *host);
/* Works like model_host_models(), but also reads the list again if it lacks @name, so that a model
 * that was just installed is found. @name may be NULL. */
const struct models *model_host_look(struct model_host *host, const char *name);
/* Does what model_host_look() does, and fills in the problem if it returns NULL. */
const struct models *model_host_list(struct model_host *host, const char *name,
                                     struct problem *problem);

/* Returns whether @name is a model that cannot be used (models_find_broken()), and fills in the
 * problem if so. */
bool model_host_is_broken(const struct models *models, const char *name, struct problem *problem);

/* model-report.c */

/* Writes the answer of /health without the closing brace. The caller appends further fields,
 * beginning with a comma, and the brace; then model_host_send_health() sends the answer. */
void model_host_put_health(struct model_host *host, struct str *out);
void model_host_send_health(struct model_host *host, struct http_request *request,
                            const struct str *out);

/* Largest size in bytes of the structure that residents_ops.stats fills. */
#define MODEL_STATS_MAX 4096
/* Describes a metric of each loaded model. Its value is a field of the structure that
 * residents_ops.stats fills. */
struct model_metric {
    const char *name, *type, *help;
    size_t offset;
    enum { MODEL_METRIC_U64, MODEL_METRIC_U32, MODEL_METRIC_DOUBLE } kind;
};
/* Makes the initializers of offset and kind for a field of `struct s`. */
#define MODEL_METRIC(s, field)                                                                     \
    offsetof(struct s, field), _Generic(((struct s *)NULL)->field, uint64_t                        \
                                        : MODEL_METRIC_U64, uint32_t                               \
                                        : MODEL_METRIC_U32, double                                 \
                                        : MODEL_METRIC_DOUBLE)
/* Writes the labels of metrics of a loaded model. */
void model_host_put_labels(const struct resident *resident, char *labels, size_t size);
#define MODEL_LABELS_SIZE 512
void model_host_put_metrics(const struct model_host *host, const struct model_metric *metrics,
                            size_t n, struct str *out);
/* Writes the metrics that all services with models have: requests, models, connections, memory.
 * Their names begin with @prefix. */
void model_host_put_counters(const struct model_host *host, const char *prefix, struct str *out);
