/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/1.1 for our services: a server on inherited sockets, a client of unix sockets
 *
 * The files of this folder that include h2o.h are the only ones that name libh2o; a newer one, or
 * another library, changes them alone. All objects belong to the thread of their loop. HTTP/2 is
 * off.
 *
 * A request is shown to `admit` when its head is whole, before any of its body is read; when that
 * does not answer it, it is handed to `handle` with its whole body. It is answered at once by
 * http_respond(), or later, or as a stream: begin, write…, end. When its peer leaves or stalls,
 * when it was answered, in every case: `done` is called once, and afterwards the request is gone.
 */

#include <infer/types.h>
#include <string.h>
#include <strings.h>

#include "core/macros.h"

struct loop;
struct http_base;
struct http_server;
struct http_request;
struct http_upstream;
struct http_call;

/* Bytes that someone else owns; not NUL-terminated. */
struct http_text {
    const char *data;
    size_t len;
};

struct http_header {
    struct http_text name, value;
};

static inline bool http_text_is(struct http_text text, const char *other) /* exactly */
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

static inline bool http_text_is_nocase(struct http_text text, const char *other)
{
    return text.len == strlen(other) && strncasecmp(text.data, other, text.len) == 0;
}

/* By which kind of listening socket a request came: what guards it depends on that. */
enum http_door {
    HTTP_DOOR_UNIX, /* the permissions of the socket file say who may come */
    HTTP_DOOR_TCP,  /* every program that reaches the address may come */
    HTTP_N_DOORS,
};

/* The poller; for loop.c. */
int http_base_new(struct http_base **ret_base);
struct http_base *http_base_free(struct http_base *base);
int http_base_poll(struct http_base *base, int timeout_msec);

/* --- server --- */

struct http_server_params {
    size_t max_header;           /* bytes of a request's head */
    size_t max_body;             /* bytes, unless `admit` says otherwise */
    size_t max_bodies;           /* bytes of all bodies in memory; more are told 503 */
    uint32_t max_connections;    /* of each kind of door; more are told 503 */
    uint64_t head_timeout_usec;  /* to receive a head, from when a connection may send one */
    uint64_t body_timeout_usec;  /* to receive a body */
    uint64_t keep_timeout_usec;  /* idle, between two requests */
    uint64_t stall_timeout_usec; /* a client that reads nothing */
    /* Called when a head is whole, or when the server refuses it (http_request_is_refused()): it
     * may answer, by http_respond(), say what body it takes, and set events. A refused request
     * that it does not answer is answered by the server. May be NULL. */
    void (*admit)(void *data, struct http_request *request);
    /* Called for each request that was admitted; it must be answered sooner or later. */
    void (*handle)(void *data, struct http_request *request);
    /* Called when the last connection was closed; may be NULL. */
    void (*unused)(void *unused_data);
    void *data, *unused_data;
};

struct http_server_stats {
    uint32_t n_connections; /* open now */
    uint32_t n_requests;    /* whose head was read, and not done */
    size_t n_body_bytes;    /* of bodies in memory, or promised room there */
    uint64_t n_accepted;
    uint64_t n_evicted;   /* idle connections that made room for others */
    uint64_t n_refused;   /* above max_connections */
    uint64_t n_crowded;   /* requests whose body had no room within max_bodies */
    uint64_t n_malformed; /* not HTTP, beyond the limits, or too slow */
    uint64_t n_stalled;
    uint64_t n_gone; /* peers that left before their answer was complete */
};

int http_server_new(struct loop *loop, const struct http_server_params *params,
                    struct http_server **ret_server);
struct http_server *http_server_free(struct http_server *server);
DEFINE_CLEANUP(struct http_server *, http_server_free);
/* Closes all connections, whatever runs on them: `done` is called for each request. */
void http_server_close(struct http_server *server);
/* Takes connections from a listening socket; the server owns @fd from here on. */
int http_server_listen(struct http_server *server, int fd, enum http_door door);
/* Stops and goes on accepting; what arrives meanwhile waits in the socket's backlog. */
void http_server_pause(struct http_server *server);
void http_server_resume(struct http_server *server);
/* For good: no new connections, idle ones are closed, the others after their present answer. */
void http_server_drain(struct http_server *server);
const struct http_server_stats *http_server_stats(const struct http_server *server);

/* --- a request --- */

/* The user at the other end of a unix socket. */
bool http_request_peer_uid(const struct http_request *request, uid_t *ret_uid);

struct http_request_events {
    /* All that was written has left the process: time to write more. May be NULL. */
    void (*writable)(void *user);
    /* The request is over; nothing of it may be touched afterwards. */
    void (*done)(void *user);
};

enum http_door http_request_door(const struct http_request *request);
struct http_text http_request_method(const struct http_request *request);
struct http_text http_request_path(const struct http_request *request);  /* without the query */
struct http_text http_request_query(const struct http_request *request); /* without '?' */
struct http_text http_request_body(const struct http_request *request);
/* Its body is not needed any more: its memory is given back before the request is over. */
void http_request_drop_body(struct http_request *request);
/* By name, in any case; false: absent. */
bool http_request_header(const struct http_request *request, const char *name,
                         struct http_text *ret_value);
size_t http_request_n_headers(const struct http_request *request);
struct http_header http_request_header_at(const struct http_request *request, size_t i);
/* For `admit`: the server refuses it, and its head may be known in part only. */
bool http_request_is_refused(const struct http_request *request);
/* For `admit`: the largest body that is taken, instead of max_body. 0: none; a small one is read
 * and dropped. */
void http_request_limit_body(struct http_request *request, size_t max_body);
/* Its sender has shown a right to be here: its connection makes room for others after those of
 * strangers. */
void http_request_trust(struct http_request *request);
/* When the head was whole, on the monotonic clock. */
uint64_t http_request_start_usec(const struct http_request *request);
/* What was answered: 0 before that; and the bytes of content so far. */
int http_request_status(const struct http_request *request);
uint64_t http_request_bytes(const struct http_request *request);
/* The peer left, stalled, or the answer was aborted. */
bool http_request_failed(const struct http_request *request);

void http_request_set_events(struct http_request *request, const struct http_request_events *events,
                             void *user);
/* What was set with the events, or NULL. */
void *http_request_user(const struct http_request *request);

/* Adds a header to the answer; before respond or begin. Copies both. */
void http_response_header(struct http_request *request, const char *name, const char *value,
                          size_t len);
/* The connection ends with this answer, whatever the peer would like. */
void http_response_close(struct http_request *request);
/* The whole answer. @type NULL: none. The body is copied. */
void http_respond(struct http_request *request, int status, const char *type, const void *body,
                  size_t len);
/* Starts a stream. Statuses other than 200 have no framing in libh2o, so streams are 200.
 * @length is the size of what will follow, or UINT64_MAX. */
void http_response_begin(struct http_request *request, const char *type, uint64_t length);
/* Copies and sends soon; -ENOMEM. After the peer left it does nothing. */
int http_response_write(struct http_request *request, const void *data, size_t len);
/* Bytes written that the kernel has not taken yet: who writes faster than the peer reads waits
 * for `writable`. */
size_t http_response_pending(const struct http_request *request);
void http_response_end(struct http_request *request);
/* Sends what is pending, @last behind it, and ends in a way that the peer sees as a broken
 * transfer. `done` may come before this returns, as with http_response_end(). */
void http_response_abort(struct http_request *request, const void *last, size_t len);

/* --- client --- */

enum http_call_result {
    HTTP_CALL_DONE,       /* a whole answer */
    HTTP_CALL_NO_CONNECT, /* nothing listens, or its backlog is full */
    HTTP_CALL_TIMEOUT,
    HTTP_CALL_LOST,      /* the connection broke before the answer began */
    HTTP_CALL_TRUNCATED, /* it broke in the middle of the answer */
    HTTP_CALL_MALFORMED, /* what came, before the answer began or in it, is not HTTP */
};

struct http_call_events {
    /* The head of the answer; the body of the request is not read any more. */
    void (*head)(void *user, int status, const struct http_header *headers, size_t n_headers);
    void (*body)(void *user, const char *data, size_t len);
    /* The last event; the call is gone afterwards. @error is an errno value or 0. */
    void (*end)(void *user, enum http_call_result result, int error);
};

struct http_call_params {
    const char *method;
    const char *path;                  /* with the query */
    const struct http_header *headers; /* sent beside Host, Connection and Content-Length */
    size_t n_headers;
    struct http_text body; /* borrowed until the head of the answer, or the end */
    bool has_body;
};

/* A pool of kept-alive connections to the unix socket at @path. @timeout_usec: between two reads;
 * @keep_usec: how long a connection stays in the pool. */
int http_upstream_new(struct loop *loop, const char *path, uint64_t timeout_usec,
                      uint64_t keep_usec, struct http_upstream **ret_upstream);
struct http_upstream *http_upstream_free(struct http_upstream *upstream);
DEFINE_CLEANUP(struct http_upstream *, http_upstream_free);
/* Closes the connections that wait in the pool. */
void http_upstream_flush(struct http_upstream *upstream);

/* Events may come before this returns; *ret_call is set first and is NULL once `end` was called. */
int http_call_start(struct http_upstream *upstream, const struct http_call_params *params,
                    const struct http_call_events *events, void *user, struct http_call **ret_call);
/* No event follows. */
void http_call_cancel(struct http_call *call);
/* Whether the service has taken the whole request out of the socket. */
bool http_call_was_read(const struct http_call *call);
/* Stops and goes on reading the answer. */
void http_call_pause(struct http_call *call);
void http_call_resume(struct http_call *call);
