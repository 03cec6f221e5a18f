/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gateway: the only process that clients connect to
 *
 * It checks access and limits, chooses the service for a request, and forwards bytes. It opens no
 * model and parses no JSON; it only writes JSON errors. Everything runs on one loop.
 */

#include "common/config/rights.h"
#include "common/config/service-table.h"
#include "common/http/http.h"
#include "common/http/request-id.h"
#include "common/service/loop.h"
#include "common/service/metrics.h"
#include "common/wire/tenant.h"

struct config;
struct gw_request;
struct gw_route;
struct key_list;
struct service;

enum gw_failure {
    GW_FAIL_CONNECT,
    GW_FAIL_LOST,
    GW_FAIL_TIMEOUT,
    GW_FAIL_TRUNCATED,
    GW_FAIL_MALFORMED, /* the answer was not HTTP */
    GW_FAIL_SILENT,    /* it did not answer the health checks either */
    GW_N_FAILURES,
};

/* Requests that wait for the first byte of a service, and the health check of that service. */
struct gw_liveness {
    struct gateway *gateway;
    enum service_backend target;
    struct gw_request *waiting;
    struct loop_timer tick;
    struct http_call *call;
    unsigned n_failed; /* consecutive health checks without an answer */
};

struct gateway {
    const struct config *config;
    const struct key_list *keys; /* of key files, in addition to those of the configuration */
    uid_t own_uid;               /* user that runs this gateway */
    uid_t unmapped_uid;          /* id of users that the user namespace does not map */
    struct service *service;
    struct http_upstream *upstreams[N_BACKENDS];
    struct gw_liveness liveness[N_BACKENDS];
    /* Until then a service that answered cannot have exited when idle; 0: it has not answered
     * yet. */
    uint64_t awake_until_usec[N_BACKENDS];
    uint32_t n_forwarded[N_BACKENDS]; /* calls in progress */
    uint64_t n_answers[6];            /* by status / 100; [0]: none, because the client left */
    uint64_t n_unauthorized;
    uint64_t n_failures[N_BACKENDS][GW_N_FAILURES];
    struct metrics_histogram duration;
};

/* The rights of a request, and the client in whose name it is made. */
struct gw_access {
    unsigned rights;      /* bits of enum right */
    bool by_key;          /* the request has a known key */
    const char *key_name; /* name of that key; NULL: no key, or it has no name */
    char tenant[TENANT_SIZE];
};

/* A client's request, from its head to its access line. */
struct gw_request {
    struct gateway *gateway;
    struct http_request *http;
    const struct gw_route *route; /* set when it was admitted */
    char id[REQUEST_ID_SIZE];
    const char *note;        /* static, for the access line */
    struct gw_access access; /* zeroed before gw_auth_check(), and if that is not called */
    struct http_call *call;
    enum service_backend target;
    struct gw_request *prev_waiting, *next_waiting;
    bool waits;      /* waits for the first byte; in the list of gw_liveness */
    struct str body; /* an answer that is forwarded in one piece */
    int status;      /* of that answer */
    char type[128], retry_after[16];
    bool streaming, is_sse, sse_failed;
    bool is_absent; /* the socket of the service does not exist */
    char tail[14];  /* the last bytes of a stream of events */
    size_t n_tail;
    void (*answered)(struct gw_request *r); /* health and metrics: called when the call has ended */
    struct loop_timer patience;             /* timeout of that call */
    struct str text;                        /* text of the answer so far */
    bool any_ill;                           /* health: a service did not answer correctly */
    bool is_up[N_BACKENDS];                 /* metrics: the service answered */
};

/* handler.c: gw_admit() is called for a complete head, gw_handle() for a complete admitted
 * request. */
void gw_admit(void *data, struct http_request *request);
void gw_handle(void *data, struct http_request *request);

enum gw_auth {
    GW_AUTH_PASSES,
    GW_AUTH_NO_KEYS, /* the socket requires a key, and no key is configured */
    GW_AUTH_WRONG,   /* no key, or a wrong one */
    GW_AUTH_FOREIGN, /* a web page whose origin is not configured, on a socket that requires no key
                      */
};

/* auth.c: reads the user ids of this process; call it before confinement, which closes /proc. */
void gw_auth_init(struct gateway *gateway);
/* Checks whether the request may pass, and with which rights. The check takes the same time for all
 * keys of one length. It also sets the tenant, which clients cannot choose. A key has a tenant: its
 * digest, because the key itself is not passed on. Without a key, each user of a unix socket has a
 * tenant, and all TCP clients share one. *ret_access is written if the request passes; its key_name
 * belongs to the configuration. */
enum gw_auth gw_auth_check(const struct gateway *gateway, const struct http_request *request,
                           struct gw_access *ret_access);
/* cors.c: whether the request comes from a web page whose origin is not configured. */
bool gw_cors_is_foreign(const struct config *config, const struct http_request *request);
/* Adds the headers for an allowed origin. True: it was a preflight request and is answered. */
bool gw_cors_handle(const struct config *config, struct http_request *request);

/* forward.c: forwards the request, and its answer as it arrives. */
void gw_forward(struct gw_request *r, enum service_backend target);
/* Sends a GET request for @path to a service on behalf of @r. At the end r->answered() is called
 * with r->status (0: no answer) and r->body. */
void gw_ask(struct gw_request *r, enum service_backend target, const char *path);
/* Cancels the call to the service. */
void gw_forward_cancel(struct gw_request *r);
/* Like gw_forward_cancel(), and answers that the service does not start, or hangs. */
void gw_forward_give_up(struct gw_request *r);
/* Whether the service is running, as far as is known without starting it. */
bool gw_service_is_awake(const struct gateway *gateway, enum service_backend target);

/* liveness.c: a request waits from when it is sent until its first byte arrives or it is over. */
void gw_liveness_init(struct gateway *gateway);
void gw_liveness_wait(struct gw_request *r);
void gw_liveness_leave(struct gw_request *r);

/* health.c */
void gw_health(struct gw_request *r);
/* Whether the request includes services, which starts them and shows their activity. */
bool gw_health_is_deep(const struct gw_request *r);
void gw_metrics(struct gw_request *r);
