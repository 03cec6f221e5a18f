/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares what the files of the HTTP server share.
 *
 * server.c has the listeners and the server as a whole. room.c decides which connections stay when
 * the server is full. conn.c manages connections and reads from them. body.c receives request
 * bodies. request.c manages requests and writes answers. No other file includes this header.
 */

#include "common/http/chunks.h"
#include "common/http/h2o.h"
#include "common/http/head.h"
#include "core/str.h"

/* When the server is full and no connection can be closed, this many more connections of each kind
 * of socket are accepted, and get a 503. */
#define HTTP_REFUSED_MAX   64
#define HTTP_TICK_USEC     (1000 * 1000u)
#define HTTP_SLICE         ((size_t)64 * 1024) /* limit of bytes of one write */
#define HTTP_SCRATCH       ((size_t)64 * 1024) /* limit of bytes of one read */
#define HTTP_MAX_LISTENERS 16

enum http_conn_state {
    HTTP_CONN_HEAD,   /* the connection waits for a request, or reads a head */
    HTTP_CONN_BODY,   /* reading a body */
    HTTP_CONN_BUSY,   /* libh2o has a request */
    HTTP_CONN_ANSWER, /* writing an answer without libh2o */
    HTTP_CONN_LINGER, /* reading and dropping what the peer still sends */
};

/* The events for which a connection can wait. Each event has its own timeout. */
enum http_wait {
    HTTP_WAIT_HEAD,
    HTTP_WAIT_BODY,
    HTTP_WAIT_KEEP,
    HTTP_WAIT_LINGER,
    HTTP_WAIT_LAST, /* after SIGTERM, a client that has just connected sends its request */
    HTTP_N_WAITS,
};

struct http_listener {
    struct http_server *server;
    h2o_socket_t *sock;
    enum http_door door;
};

/* Struct http_room holds the connections of one kind of socket. */
struct http_room {
    uint32_t n;             /* accepted connections, without the refused ones */
    h2o_linklist_t idle[2]; /* idle connections, oldest first; [1]: trusted ones */
    h2o_linklist_t refused; /* connections above the limit */
    uint32_t n_refused;
};

struct http_conn {
    struct http_server *server;
    enum http_door door;
    h2o_socket_t *sock;
    h2o_socket_cb read; /* libh2o's callback */
    enum http_conn_state state;
    bool refused; /* it is above the limit of connections */
    bool trusted; /* a request on it was authorized */
    bool used;    /* it had a request before */
    bool deaf; /* this side has shut down reading; bytes that the peer sent before are still read */
    struct str in;                /* the beginning of a head, or bytes after the present request */
    size_t linger;                /* bytes that are still to be read and dropped */
    struct http_request *request; /* the present request */
    struct loop_wait wait;
    struct loop_task rearm;
    h2o_linklist_t link; /* in a list of the struct http_room */
    struct http_conn *prev, *next;
};

struct http_body {
    char *data;
    size_t len, size; /* bytes of `data`: received, allocated */
    size_t charged;   /* bytes counted against the server's max_bodies */
    size_t max;
    bool dropped;  /* read without storing */
    bool streamed; /* passed on as it arrives */
    bool paused;   /* a streamed body is not read at present */
    uint64_t left; /* remaining bytes of a body with a length */
    struct chunks chunks;
};

struct http_request {
    struct http_server *server;
    struct http_conn *conn;
    struct str text; /* the bytes of the head */
    struct http_body body;
    struct str headers; /* headers of the answer: name, NUL, value, NUL, … */
    struct str early;   /* an answer written by conn.c */
    size_t n_early;     /* bytes of its content */
    h2o_req_t *req;     /* NULL until libh2o has the request */
    h2o_generator_t generator;
    const struct http_request_events *events;
    void *user;
    const struct error_shape *errors; /* NULL: OpenAI's */
    uint64_t start_usec, sent_usec;
    int status;
    struct str filling, sending;
    size_t sent; /* bytes of `sending` that libh2o has */
    bool admitted, started, in_flight, ending, aborting, ended, failed, watched, closing;
    struct http_request *prev, *next;
    struct head head; /* points into text; the last member, because it is large and rarely full */
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
    struct http_room rooms[HTTP_N_DOORS];
    struct http_conn *conns;
    struct http_request *requests;
    struct http_request *handling; /* the request whose handler is running; NULL: none, or the
                                      handler has ended it */
    struct loop_queue waits[HTTP_N_WAITS];
    int gone_fd; /* epoll set of the sockets whose requests are being processed */
    struct loop_watch *gone_watch;
    struct loop_timer tick, unpause;
    bool paused, draining;
    char scratch[HTTP_SCRATCH]; /* the bytes just read */
};

/* --- room.c --- */

/* Adds a connection, closing an idle one if necessary, or marks it as refused. */
void http_room_enter(struct http_conn *conn);
void http_room_leave(struct http_conn *conn);
/* After http_room_idle(), a new connection may replace @conn. After http_room_busy(), no connection
 * may replace it. */
void http_room_idle(struct http_conn *conn);
void http_room_busy(struct http_conn *conn);
/* Closes an idle connection to free a descriptor: one over TCP if possible, else one of the unix
 * socket. False: there is none. */
bool http_room_spare(struct http_server *server);

/* --- conn.c --- */

/* Makes a connection that serves @sock and owns it. */
void http_conn_open(struct http_server *server, h2o_socket_t *sock, enum http_door door);
/* Closes and frees a connection, and ends its request. */
void http_conn_close(struct http_conn *conn);
/* Closes an idle connection. A request that was already sent is still served. */
void http_conn_drain(struct http_conn *conn);
/* Passes the present request to libh2o, which calls http_request_handle(). When this function
 * returns, the request may be over and the connection freed. */
void http_conn_hand_over(struct http_conn *conn);
/* Pause and resume reading the body of the present request. */
void http_conn_pause(struct http_conn *conn);
void http_conn_resume(struct http_conn *conn);
/* Writes the answer conn->request->early, then closes the connection in such a way that the peer
 * can still read the answer. */
void http_conn_answer(struct http_conn *conn);

/* --- body.c --- */

/* Prepares for reading the announced body. False: the body will not be read, and the request was
 * answered. */
bool http_body_begin(struct http_request *request);
/* Returns memory for the next *ret_size bytes or fewer, which the caller then passes to
 * http_body_take(). NULL: the caller may use any buffer. */
char *http_body_space(const struct http_request *request, size_t *ret_size);
enum http_body_result {
    HTTP_BODY_MORE,
    HTTP_BODY_WHOLE,
    HTTP_BODY_ANSWERED, /* the body was invalid, and the request was answered */
};
/* Takes bytes that were read. With HTTP_BODY_WHOLE, *ret_used says how many bytes belong to the
 * body. */
enum http_body_result http_body_take(struct http_request *request, const char *data, size_t len,
                                     size_t *ret_used);
/* Frees the memory of the body. */
void http_body_done(struct http_request *request);

/* --- request.c --- */

/* Begins a request whose head is complete or refused. Takes the @size bytes of conn->in into which
 * @head points. NULL: out of memory. */
struct http_request *http_request_new(struct http_conn *conn, const struct head *head, size_t size);
/* Calls the server's `admit`, and answers a refused request that `admit` did not answer. */
void http_request_admit(struct http_request *request);
/* Called when libh2o hands a request over; calls the server's handler. */
void http_request_handle(struct http_server *server, h2o_req_t *req);
/* Ends a request whose peer left or stalls. `done` is called before this function returns, or later
 * from the event loop. */
void http_request_kill(struct http_request *request);
/* Ends the request: calls `done` and frees it. */
void http_request_over(struct http_request *request);
