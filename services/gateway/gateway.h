/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gateway: the one process that clients reach
 *
 * It checks who asks and how much, finds the service that answers, and passes bytes on. It opens no
 * model and knows nothing of JSON but the errors that it writes itself. All of it runs on one loop.
 */

#include "common/config/rights.h"
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

enum gw_service {
    GW_CHAT,
    GW_EMBED,
    GW_AUDIO,
    GW_N_SERVICES,
};

enum gw_failure {
    GW_FAIL_CONNECT,
    GW_FAIL_LOST,
    GW_FAIL_TIMEOUT,
    GW_FAIL_TRUNCATED,
    GW_FAIL_MALFORMED, /* its answer was not HTTP */
    GW_FAIL_SILENT,    /* it does not even answer whether it lives */
    GW_N_FAILURES,
};

/* The requests that wait for the first byte of a service, and the question whether it lives. */
struct gw_liveness {
    struct gateway *gateway;
    enum gw_service target;
    struct gw_request *waiting;
    struct loop_timer tick;
    struct http_call *call;
    unsigned n_failed; /* questions in a row without an answer */
};

struct gateway {
    const struct config *config;
    const struct key_list *keys; /* of files; those of config stand beside them */
    uid_t own_uid;               /* whose gateway this is */
    uid_t unmapped_uid;          /* what users look like whom our user namespace does not map */
    struct service *service;
    struct http_upstream *upstreams[GW_N_SERVICES];
    struct gw_liveness liveness[GW_N_SERVICES];
    /* Until then a service that answered cannot have left for idleness; 0: it never answered. */
    uint64_t awake_until_usec[GW_N_SERVICES];
    uint32_t n_forwarded[GW_N_SERVICES]; /* calls that run now */
    uint64_t n_answers[6];               /* by status / 100; [0]: none, the client left */
    uint64_t n_unauthorized;
    uint64_t n_failures[GW_N_SERVICES][GW_N_FAILURES];
    struct metrics_histogram duration;
};

/* What a request may do, and in whose name. */
struct gw_access {
    unsigned rights;      /* a set of enum right */
    bool by_key;          /* it showed a key that is known */
    const char *key_name; /* of that key; NULL: none, or it has no name */
    char tenant[TENANT_SIZE];
};

/* One request of a client, from its head to its access line. */
struct gw_request {
    struct gateway *gateway;
    struct http_request *http;
    const struct gw_route *route; /* once it was let in */
    char id[REQUEST_ID_SIZE];
    const char *note;        /* static, for the access line */
    struct gw_access access; /* zeroed before gw_auth_check(), and where that is not called */
    struct http_call *call;
    enum gw_service target;
    struct gw_request *prev_waiting, *next_waiting;
    bool waits;      /* for the first byte; in the list of gw_liveness */
    struct str body; /* an answer that is passed on in one piece */
    int status;      /* of that answer */
    char type[128], retry_after[16];
    bool streaming, is_sse, sse_failed;
    bool is_absent; /* the service has no socket */
    char tail[14];  /* the last bytes of a stream of events */
    size_t n_tail;
    void (*answered)(struct gw_request *r); /* health and metrics: the call is over */
    struct loop_timer patience;             /* for these */
    struct str text;                        /* what they have written so far */
    bool any_ill;                           /* health: a service did not answer well */
    bool is_up[GW_N_SERVICES];              /* metrics: it answered */
};

/* handler.c: a head has come; and: a request that was let in is whole. */
void gw_admit(void *data, struct http_request *request);
void gw_handle(void *data, struct http_request *request);

enum gw_auth {
    GW_AUTH_PASSES,
    GW_AUTH_NO_KEYS, /* the door asks for a key, and there is none that could pass */
    GW_AUTH_WRONG,   /* no key, or a wrong one */
    GW_AUTH_FOREIGN, /* a page of the web that nobody named, at a door that asks for no key */
};

/* auth.c: reads who we are; before confinement, which closes /proc. */
void gw_auth_init(struct gateway *gateway);
/* Whether the request may enter by its door, and what it may do then. Takes the same time for all
 * keys of one length. Whose caches the request uses, which clients cannot say themselves: those of
 * its key (told by a digest, the key stays here), else of its user at a unix socket; all who come
 * by TCP without a key share theirs. *ret_access is written when it passes; its key_name is the
 * configuration's. */
enum gw_auth gw_auth_check(const struct gateway *gateway, const struct http_request *request,
                           struct gw_access *ret_access);
/* cors.c: whether a script of a page asks, of an origin that the configuration does not name. */
bool gw_cors_is_foreign(const struct config *config, const struct http_request *request);
/* Adds the headers of an allowed origin; true: it was a preflight and is answered. */
bool gw_cors_handle(const struct config *config, struct http_request *request);

/* forward.c: passes the request on; the answer comes as it comes. */
void gw_forward(struct gw_request *r, enum gw_service target);
/* Asks a service for @path on behalf of a request; r->answered() is called at the end with
 * r->status (0: no answer) and r->body. */
void gw_ask(struct gw_request *r, enum gw_service target, const char *path);
/* Ends what runs upstream. */
void gw_forward_cancel(struct gw_request *r);
/* The same, and tells the client that the service does not start, or hangs. */
void gw_forward_give_up(struct gw_request *r);
const char *gw_service_name(enum gw_service target);
/* The package of a service that need not be installed; NULL: it is always there. Static. */
const char *gw_service_package(enum gw_service target);
/* After so long without requests the service exits; 0: never. */
uint64_t gw_service_idle_usec(const struct gateway *gateway, enum gw_service target);
/* It runs, as far as is known without waking it. */
bool gw_service_is_awake(const struct gateway *gateway, enum gw_service target);

/* liveness.c: a request waits from when it is sent until its first byte comes or it is over. */
void gw_liveness_init(struct gateway *gateway);
void gw_liveness_wait(struct gw_request *r);
void gw_liveness_leave(struct gw_request *r);

/* health.c */
void gw_health(struct gw_request *r);
/* Whether it asks the services too, which wakes them and tells what they do. */
bool gw_health_is_deep(const struct gw_request *r);
void gw_metrics(struct gw_request *r);
