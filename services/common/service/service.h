/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Does what every service does: serves inherited sockets, notifies systemd, exits when idle, and
 * finishes its work on SIGTERM.
 *
 * A service exits when there was no activity for idle_timeout, no connection is open, and `busy`
 * reports no work; see also closes_idle_connections. It stops accepting before the final check, so
 * a connection that arrives later stays in the socket's backlog and starts the next process.
 */

#include "common/http/http.h"

struct loop;
struct service;

/* The name of the gateway's socket at which clients expect Ollama (HTTP_DOOR_OLLAMA). */
#define SERVICE_OLLAMA_SOCKET "gateway-ollama"

/* Struct service_door has the functions with which a service that does not speak HTTP accepts
 * connections. */
struct service_door {
    /* Accepts connections from the listening socket @fd, and owns it. */
    int (*listen)(void *data, struct loop *loop, int fd);
    /* Stops accepting until resumed; connections wait in the backlog. */
    void (*pause)(void *data);
    void (*resume)(void *data);
};

struct service_params {
    const char *name; /* "gateway"; static */
    struct http_server_params http;
    /* Used instead of `http`; NULL: the service speaks HTTP. Connections of a door do not count as
     * work; only `busy` tells whether there is work. After SIGTERM the service must call
     * service_drained() when no work is left. */
    const struct service_door *door;
    int door_type;              /* the type of the sockets of `door`: SOCK_SEQPACKET */
    uint64_t idle_timeout_usec; /* 0: never */
    /* If this is set, an idle service exits even if connections without requests are open; their
     * clients can open new ones. Otherwise such connections would keep the service running, for
     * example those of a client that often sends requests that do not restart the idle timeout. */
    bool closes_idle_connections;
    uint64_t drain_timeout_usec; /* after SIGTERM: time for running answers to finish */
    const char *ready_status;    /* STATUS= of an idle service; NULL: "Ready" */
    /* Returns whether there is work other than connections; may be NULL. */
    bool (*busy)(void *data);
    /* Returns the number of microseconds for which the service must not exit although it is idle;
     * 0: it may exit. May be NULL. */
    uint64_t (*stays)(void *data);
    /* Returns whether there is work that must be done before the exit after SIGTERM, when no
     * connection is left. The service must then call service_drained() when this work is done and
     * no connection is open. May be NULL. */
    bool (*holds)(void *data);
    bool is_long_busy; /* `busy` may return true for hours, so it is called only once per
                          idle_timeout */
    /* `draining` is called when SIGTERM arrives. `expired` is called when the drain timeout is
     * over, so that running work must end. Both may be NULL. */
    void (*draining)(void *data);
    void (*expired)(void *data);
    /* Writes the text of STATUS=; may be NULL. Called once a second while there is work, and for
     * some seconds after it. */
    void (*status)(void *data, char *text, size_t size);
    void *data; /* passed to the functions above */
};

/* Takes the sockets. Blocks SIGTERM and SIGINT and reads them from a descriptor, so it must be
 * called before threads start. */
int service_new(const struct service_params *params, struct service **ret_service,
                struct inf_err *reterr);
struct service *service_free(struct service *service);
struct loop *service_loop(struct service *service);
/* Returns the HTTP server; NULL: the service has a service_door of its own. */
struct http_server *service_server(struct service *service);
/* Tells systemd that the service is ready, and serves until the service is idle or terminated. */
int service_run(struct service *service);
/* Makes the service exit as soon as no request is running, so that the next process can use what
 * this process cannot. Logs @why. */
void service_retire(struct service *service, const char *why);
/* Restarts the idle timeout. */
void service_touch(struct service *service);
/* Called by a service with a service_door of its own when all work that was left at SIGTERM is
 * done. */
void service_drained(struct service *service);
bool service_is_draining(const struct service *service);
