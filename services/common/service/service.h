/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What every service does: serve inherited sockets, tell systemd, exit when idle, drain on SIGTERM
 *
 * A service exits when for idle_timeout there was no activity, no connection is open, and its
 * owner has no work. It stops accepting before it looks for the last time: a connection that comes
 * then stays in the socket's backlog and starts the next instance.
 */

#include "common/http/http.h"

struct loop;
struct service;

/* What a service serves when that is not HTTP. */
struct service_door {
    /* Takes connections of a listening socket, which it owns. */
    int (*listen)(void *data, struct loop *loop, int fd);
    /* Takes no connection, until resumed: they wait in the backlog. */
    void (*pause)(void *data);
    void (*resume)(void *data);
};

struct service_params {
    const char *name; /* "gateway"; static */
    struct http_server_params http;
    /* Instead of http, on sockets of this type; NULL: HTTP. Connections do not count as work:
     * params.busy does, and whoever drains calls service_drained() when nothing is left. */
    const struct service_door *door;
    int door_type;               /* SOCK_SEQPACKET */
    uint64_t idle_timeout_usec;  /* 0: never */
    uint64_t drain_timeout_usec; /* SIGTERM: how long running answers may take */
    const char *ready_status;    /* STATUS= of an idle service; NULL: "Ready" */
    /* Whether there is work beside the connections; may be NULL. */
    bool (*busy)(void *data);
    /* SIGTERM came; and: the time to finish is over, end what runs. May be NULL. */
    void (*draining)(void *data);
    void (*expired)(void *data);
    /* Writes the text of STATUS=; may be NULL. Called about once a second while there is work. */
    void (*status)(void *data, char *text, size_t size);
    void *data; /* for these */
};

/* Takes the sockets and blocks SIGTERM and SIGINT, which it reads. Call before threads start. */
int service_new(const struct service_params *params, struct service **ret_service,
                struct inf_err *reterr);
struct service *service_free(struct service *service);
struct loop *service_loop(struct service *service);
/* NULL: it has a door of its own. */
struct http_server *service_server(struct service *service);
/* Says READY and serves until idle or terminated. */
int service_run(struct service *service);
/* Leaves as soon as nothing runs: its successor sees what it cannot. @why is for the log. */
void service_retire(struct service *service, const char *why);
/* Moves the moment of idle exit. */
void service_touch(struct service *service);
/* Of a service with a door of its own: all that SIGTERM found is done. */
void service_drained(struct service *service);
bool service_is_draining(const struct service *service);
