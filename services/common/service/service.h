/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts that every service has: serving inherited sockets, notifying systemd, exiting when
 * idle, draining on SIGTERM
 *
 * A service exits when there was no activity for idle_timeout, no connection is open, and its owner
 * has no work. It stops accepting before the final check, so a connection that arrives then stays
 * in the socket's backlog and starts the next process.
 */

#include "common/http/http.h"

struct loop;
struct service;

/* Functions of a service that does not speak HTTP. */
struct service_door {
    /* Accepts connections from a listening socket, which it owns. */
    int (*listen)(void *data, struct loop *loop, int fd);
    /* Stops accepting until resumed; connections wait in the backlog. */
    void (*pause)(void *data);
    void (*resume)(void *data);
};

struct service_params {
    const char *name; /* "gateway"; static */
    struct http_server_params http;
    /* Used instead of `http`, with sockets of this type; NULL: HTTP. Connections do not count as
     * work; only params.busy does. A draining service must call service_drained() when no work is
     * left. */
    const struct service_door *door;
    int door_type;               /* SOCK_SEQPACKET */
    uint64_t idle_timeout_usec;  /* 0: never */
    uint64_t drain_timeout_usec; /* after SIGTERM: time for running answers to finish */
    const char *ready_status;    /* STATUS= of an idle service; NULL: "Ready" */
    /* Whether there is work other than connections; may be NULL. */
    bool (*busy)(void *data);
    /* `draining`: SIGTERM arrived. `expired`: the drain timeout is over, so running work must end.
     * May be NULL. */
    void (*draining)(void *data);
    void (*expired)(void *data);
    /* Writes the text of STATUS=; may be NULL. Called once a second while there is work, and for
     * some seconds after it. */
    void (*status)(void *data, char *text, size_t size);
    void *data; /* passed to these functions */
};

/* Takes the sockets, and blocks SIGTERM and SIGINT, which it reads from a descriptor. Call it
 * before threads start. */
int service_new(const struct service_params *params, struct service **ret_service,
                struct inf_err *reterr);
struct service *service_free(struct service *service);
struct loop *service_loop(struct service *service);
/* NULL: the service has its own service_door. */
struct http_server *service_server(struct service *service);
/* Sends READY and serves until it is idle or terminated. */
int service_run(struct service *service);
/* Exits as soon as no request is running, so that the next process can use what this one cannot.
 * @why is logged. */
void service_retire(struct service *service, const char *why);
/* Restarts the idle timeout. */
void service_touch(struct service *service);
/* For a service with its own service_door: all work that was left at SIGTERM is done. */
void service_drained(struct service *service);
bool service_is_draining(const struct service *service);
