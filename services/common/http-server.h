/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the HTTP server share: http-server.c (listeners, the server as a whole),
 * http-conn.c (connections until a request is whole), http-request.c (requests and answers). No
 * other file includes this header.
 */

#include "common/head.h"
#include "common/http-h2o.h"
#include "core/str.h"

/* Above max_connections so many more are accepted to be told 503; then accepting pauses. */
#define HTTP_REFUSED_MAX   64
#define HTTP_TICK_USEC     (1000 * 1000u)
#define HTTP_SLICE         ((size_t)64 * 1024) /* the most that is written at once */
#define HTTP_MAX_LISTENERS 16

enum http_conn_state {
    HTTP_CONN_HEAD,   /* reading a head */
    HTTP_CONN_BODY,   /* reading a body: libh2o counts it */
    HTTP_CONN_BUSY,   /* a request is being processed */
    HTTP_CONN_REFUSE, /* writing a refusal of our own */
    HTTP_CONN_LINGER, /* reading and dropping what the peer still sends */
};

struct http_listener {
    struct http_server *server;
    h2o_socket_t *sock;
    enum http_door door;
};

struct http_conn {
    struct http_server *server;
    enum http_door door;
    h2o_socket_t *sock;
    h2o_socket_cb read; /* libh2o's */
    enum http_conn_state state;
    struct head head;
    bool refused;        /* above the limit of connections */
    bool used;           /* there was a request */
    bool deaf;           /* we shut its reading side; what was sent before is still read */
    size_t max_body;     /* of the present request */
    size_t request_size; /* of the present request in sock->input */
    struct str text;     /* a refusal, or bytes of the next request */
    struct loop_task rearm;
    struct loop_timer linger;
    struct http_conn *prev, *next;
};

struct http_request {
    struct http_server *server;
    h2o_req_t *req;
    h2o_generator_t generator;
    struct http_conn *conn;
    const struct http_request_events *events;
    void *user;
    uint64_t start_usec, sent_usec;
    struct str filling, sending;
    size_t sent; /* of sending */
    bool started, in_flight, ending, aborting, ended, failed, watched;
    struct http_request *prev, *next;
};

struct http_server {
    struct loop *loop;
    struct http_server_params params;
    struct http_server_stats stats;
    h2o_globalconf_t config;
    h2o_context_t ctx;
    h2o_accept_ctx_t accept;
    struct http_listener listeners[HTTP_MAX_LISTENERS];
    size_t n_listeners;
    struct http_conn *conns;
    struct http_request *requests;
    struct http_request *handling; /* in the handler now; NULL when it ended there */
    int gone_fd;                   /* epoll set of the sockets whose requests are being processed */
    struct loop_watch *gone_watch;
    struct loop_timer tick, unpause;
    bool paused, draining;
};

/* Pauses and goes on accepting, as the number of connections and the server's state ask. */
void http_server_update_listeners(struct http_server *server);

/* Serves @sock, which it owns from here on. */
void http_conn_open(struct http_server *server, h2o_socket_t *sock, enum http_door door);
/* Closes it, and frees it by that. */
void http_conn_close(struct http_conn *conn);
/* Ends it where it is idle; one whose request is on its way is still served. */
void http_conn_drain(struct http_conn *conn);
/* Keeps what follows the present request until that is answered: libh2o would not check it. */
void http_conn_keep_rest(struct http_conn *conn);

/* A new request, from libh2o to the server's handler. */
void http_request_handle(struct http_server *server, h2o_req_t *req);
/* Ends a request whose peer left or stalls: `done` follows from the poller. */
void http_request_kill(struct http_request *request);
