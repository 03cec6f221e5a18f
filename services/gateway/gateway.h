/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gateway is the only process to which clients of the HTTP APIs connect.
 *
 * It checks access and limits, chooses the service for a request, and forwards bytes. It opens no
 * model and parses no JSON; it only writes JSON errors. All its work runs on one event loop.
 */

#include "common/config/rights.h"
#include "common/config/service-table.h"
#include "common/http/http.h"
#include "common/http/request-id.h"
#include "common/service/loop.h"
#include "common/service/metrics.h"
#include "common/wire/history.h"
#include "common/wire/tenant.h"
#include "core/str.h"
#include "gateway/stream-watch.h"

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
    GW_FAIL_SILENT,    /* the service answered neither the request nor health checks */
    GW_N_FAILURES,
};

/* Struct gw_liveness has the requests that wait for the first byte from one service, and the health
 * check of that service. */
struct gw_liveness {
    struct gateway *gateway;
    enum service_backend target;
    struct gw_request *waiting;
    struct loop_timer tick;
    struct http_call *call;
    unsigned n_failed; /* consecutive health checks without an answer */
};

/* Struct gw_history has the numbers of requests for the history service (common/wire/history.h). */
struct gw_history {
    struct gateway *gateway;
    struct history_counts counts; /* requests that no service answered */
    bool due[N_BACKENDS];         /* a service answered requests since its rows were collected */
    struct loop_timer timer;      /* the next round of collecting and sending */
    uint64_t asked_usec;          /* when the last round began */
    uint64_t sent_usec;           /* when rows were sent; 0: not yet */
    bool is_fresh;                /* requests ended just before this round */
    bool is_refused;              /* rows could not be sent, and no request ended since */
    struct loop_timer patience;   /* the timeout of `call` */
    struct http_call *call;
    unsigned target;   /* the service that is asked; BACKEND_HISTORY: rows are sent */
    int status;        /* of the answer */
    struct str answer; /* its rows */
    struct str rows;   /* rows that are not sent yet */
    uint64_t n_lost;   /* rows, and requests of this gateway, that were dropped */
};

struct gateway {
    const struct config *config;
    const struct key_list *keys; /* keys of key files, in addition to keys of the configuration */
    int64_t start_sec;           /* when this process started, in Unix seconds */
    uid_t own_uid;               /* user that runs this gateway */
    uid_t unmapped_uid;          /* id of all users whom the user namespace does not map */
    struct service *service;
    struct http_upstream *upstreams[N_BACKENDS];
    struct gw_liveness liveness[N_BACKENDS];
    /* A service that answered does not exit because of idleness before this time. 0: the service
     * has not answered yet, or the last call failed. */
    uint64_t awake_until_usec[N_BACKENDS];
    /* The service reported that it has no model loaded, and was not called since. */
    bool has_no_models[N_BACKENDS];
    uint32_t n_forwarded[N_BACKENDS]; /* calls in progress */
    uint64_t n_answers[6];            /* numbers of answers by status / 100; [0]: no answer, because
                                         the client left */
    uint64_t n_unauthorized;
    uint64_t n_failures[N_BACKENDS][GW_N_FAILURES];
    struct metrics_histogram duration;
    struct gw_history history;
};

/* The rights of a request, and the client in whose name it is made. The tenant is the owner of the
 * cached prompts that the request may use, and of the responses that it stores. */
struct gw_access {
    unsigned rights;      /* bits of enum right */
    bool by_key;          /* the request has a known key */
    const char *key_name; /* name of that key; NULL: no key, or it has no name */
    char tenant[TENANT_SIZE];
};

/* Struct gw_request is a client's request, from its head to its line in the access log. */
struct gw_request {
    struct gateway *gateway;
    struct http_request *http;
    const struct gw_route *route; /* set when the request was admitted */
    char id[REQUEST_ID_SIZE];
    const char *note;        /* for the line in the access log; static */
    struct gw_access access; /* zeroed until gw_auth_check() lets the request pass */
    struct http_call *call;
    enum service_backend target;
    struct gw_request *prev_waiting, *next_waiting;
    bool waits;      /* waits for the first byte; in the list of gw_liveness */
    struct str body; /* an answer that is forwarded in one piece */
    int status;      /* status of the service's answer */
    char type[128], retry_after[16];
    bool streaming;
    bool is_broken;     /* the answer was broken off, so the service may not have counted it */
    bool is_elsewhere;  /* the service says that `elsewhere` has the model */
    bool was_elsewhere; /* the request was sent on to that service */
    enum service_backend elsewhere; /* see is_elsewhere */
    bool is_absent;                 /* the socket of the service does not exist */
    struct stream_watch watch;
    void (*answered)(struct gw_request *r); /* called when a request that gw_ask() sent has ended */
    struct loop_timer patience;             /* timeout of that request */
    struct str text;                        /* the part of the answer that was collected so far */
    bool any_ill;                           /* in requests to /health: a service did not answer
                                               correctly; in requests for the loaded models: memory
                                               was short */
    bool is_up[N_BACKENDS];                 /* in requests to /metrics: the service answered */
};

/* handler.c: the server calls gw_admit() when the head of a request is complete, and gw_handle()
 * when an admitted request is complete. */
void gw_admit(void *data, struct http_request *request);
void gw_handle(void *data, struct http_request *request);
/* Returns whether the route takes a body: POST, and DELETE if the path does not name what is
 * deleted. */
bool gw_takes_body(const struct gw_request *r);

enum gw_auth {
    GW_AUTH_PASSES,
    GW_AUTH_NO_KEYS, /* the socket requires a key, and no key is configured */
    GW_AUTH_WRONG,   /* the key is missing or wrong */
    GW_AUTH_FOREIGN, /* a web page of an unknown origin sent the request without a key */
};

/* auth.c: sets own_uid and unmapped_uid; call it before confinement, which closes /proc. */
void gw_auth_init(struct gateway *gateway);
/* Checks whether the request may pass, and with which rights. The check takes the same time for all
 * keys of the same length. The function also sets the tenant, which clients cannot choose. The
 * tenant of a request with a key is a digest of the key, because services do not get the key
 * itself. Without a key, each user of a unix socket is a tenant, and all TCP clients are one
 * tenant. A user who cannot be identified gets the tenant TENANT_ALONE. Root and the user of the
 * gateway have all rights on a unix socket, even if they send a key that has fewer rights.
 * *ret_access is written if the request passes; the lists of keys own its key_name. */
enum gw_auth gw_auth_check(const struct gateway *gateway, const struct http_request *request,
                           struct gw_access *ret_access);
/* cors.c: returns whether the request comes from a web page that is neither the gateway's own nor
 * of a configured origin. */
bool gw_cors_is_foreign(const struct config *config, const struct http_request *request);
/* Adds the headers for an allowed origin. Returns true if the request was a preflight request. The
 * function then also answers the request. */
bool gw_cors_handle(const struct config *config, struct http_request *request);

/* forward.c: forwards the request to a service, and the answer to the client as it arrives. */
void gw_forward(struct gw_request *r, enum service_backend target);
/* Forwards a part of a body that is forwarded while it arrives, and ends this body. gw_forward()
 * has begun the call when the head of the request was complete. */
void gw_forward_body(struct gw_request *r, const char *data, size_t len);
void gw_forward_finish(struct gw_request *r);
/* Returns whether the body of the route is forwarded while it arrives. */
bool gw_streams_body(const struct gw_request *r);
/* Sends a GET request for @path to a service on behalf of @r. At the end r->answered() is called
 * with r->status (0: no answer) and r->body. */
void gw_ask(struct gw_request *r, enum service_backend target, const char *path);
/* Cancels the call to the service. */
void gw_forward_cancel(struct gw_request *r);
/* Does what gw_forward_cancel() does, and tells the client that the service does not start, or
 * hangs. */
void gw_forward_give_up(struct gw_request *r);
/* Notes that the service has just answered a request, so that it runs for its idle timeout. */
void gw_mark_awake(struct gateway *gateway, enum service_backend target);

/* Returns whether the service is known to be running; does not start it. */
bool gw_service_is_awake(const struct gateway *gateway, enum service_backend target);

/* liveness.c: a request counts as waiting from the moment at which it is sent to the service, until
 * the first byte of the answer arrives or the request ends. */
void gw_liveness_init(struct gateway *gateway);
void gw_liveness_wait(struct gw_request *r);
void gw_liveness_leave(struct gw_request *r);

/* history.c */
void gw_history_init(struct gateway *gateway);
/* Ends the call in progress, writes the rows that are left to the history service if it holds a
 * connection open, and frees everything. */
void gw_history_done(struct gateway *gateway);
/* Records that a service answered a request, so that the rows of this service are collected. */
void gw_history_note(struct gateway *gateway, enum service_backend target);
/* Counts a request that has ended, if no service counts it. */
void gw_history_count(struct gw_request *r);
/* Returns whether a service was asked for its rows and has not answered yet. The service forgets
 * the rows that it sends, so a gateway that received SIGTERM waits for them, for at most a second.
 */
bool gw_history_holds(const struct gateway *gateway);
/* Collects nothing more, because the gateway received SIGTERM. */
void gw_history_drain(struct gateway *gateway);
/* Returns the name of the request's key for HISTORY_KEY_HEADER, or NULL: there is none, the history
 * is off, or the name cannot stand in a header. */
const char *gw_history_key(const struct gw_request *r);

/* health.c */
void gw_health(struct gw_request *r);
/* Returns whether a request to /health also asks the services, which starts them and shows their
 * activity. */
bool gw_health_is_deep(const struct gw_request *r);
void gw_metrics(struct gw_request *r);

/* ollama.c: the endpoints of Ollama's API that need no service, or several. */
void gw_ollama_greet(struct gw_request *r);
void gw_ollama_version(struct gw_request *r);
/* Lists the loaded models of all services. Starts a service only if this process has not called it
 * yet. */
void gw_ollama_loaded(struct gw_request *r);
/* Refuses a request that would publish a model. */
void gw_ollama_refuse(struct gw_request *r);
/* openapi.c */
void gw_openapi(struct gw_request *r);
/* page.c: answers GET /. Browsers get the web page if it is switched on; other clients get a
 * greeting, by which they find out whether the server can be reached. */
void gw_page(struct gw_request *r);
/* Sends a file of the web page. */
void gw_page_file(struct gw_request *r);
