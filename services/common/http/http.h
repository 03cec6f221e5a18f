/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares HTTP/1.1 for services: a server on inherited sockets, and a client for unix sockets.
 *
 * Only the files of this folder that include h2o.h use libh2o, so only these files change if libh2o
 * is replaced. All objects belong to the thread of their loop. HTTP/2 is disabled.
 *
 * When the head of a request is complete, the server calls `admit`, before it reads any of the
 * body. If `admit` does not answer the request, the server calls `handle` with the complete body.
 * `handle` answers the request with http_respond(), at once or later, or sends a stream with
 * http_response_begin(), http_response_write() and http_response_end(). Whether the request is
 * answered or its peer leaves or stalls, the server calls `done` once and then frees the request.
 */

#include <infer/types.h>
#include <string.h>
#include <strings.h>

#include "core/macros.h"

struct loop;
struct error_shape;
struct http_base;
struct http_server;
struct http_request;
struct http_upstream;
struct http_call;

/* Struct http_text is bytes that another object owns. They are not NUL-terminated. */
struct http_text {
    const char *data;
    size_t len;
};

struct http_header {
    struct http_text name, value;
};

static inline bool http_text_is(struct http_text text, const char *other) /* exact match */
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

static inline bool http_text_is_nocase(struct http_text text, const char *other)
{
    return text.len == strlen(other) && strncasecmp(text.data, other, text.len) == 0;
}

/* The kind of listening socket at which a request arrived. It determines how access is checked. */
enum http_door {
    HTTP_DOOR_UNIX,   /* the permissions of the socket file restrict access */
    HTTP_DOOR_TCP,    /* every program that reaches the address can connect */
    HTTP_DOOR_OLLAMA, /* like HTTP_DOOR_TCP, but the port at which clients expect Ollama */
    HTTP_N_DOORS,
};

/* These functions are the poller; only service/loop.c calls them. */
int http_base_new(struct http_base **ret_base);
struct http_base *http_base_free(struct http_base *base);
int http_base_poll(struct http_base *base, int timeout_msec);

/* --- server --- */

struct http_server_params {
    size_t max_header;           /* bytes of a request's head */
    size_t max_body;             /* bytes; `admit` may set another limit for its request */
    size_t max_bodies;           /* bytes of all bodies in memory; requests beyond that get 503 */
    uint32_t max_connections;    /* for each kind of socket; connections beyond that get 503 */
    uint64_t head_timeout_usec;  /* longest time from the moment when a connection may send a head
                                    until the head is complete */
    uint64_t body_timeout_usec;  /* longest time for receiving a body */
    uint64_t keep_timeout_usec;  /* longest time between two requests of a connection */
    uint64_t stall_timeout_usec; /* longest time in which a client reads nothing */
    /* Called when a head is complete, or when the server refuses it (http_request_is_refused()).
     * The callback may answer with http_respond(), set the limit of the body, and set events. The
     * server answers a refused request that `admit` does not answer. May be NULL. */
    void (*admit)(void *data, struct http_request *request);
    /* Called for each admitted request, which must be answered eventually. */
    void (*handle)(void *data, struct http_request *request);
    /* Called when the last connection is closed. May be NULL. */
    void (*unused)(void *unused_data);
    void *data, *unused_data;
};

struct http_server_stats {
    uint32_t n_connections; /* connections that are open now */
    uint32_t n_requests;    /* requests whose head was read and which are not over yet */
    size_t n_body_bytes;    /* bytes of bodies in memory, including reserved bytes */
    uint64_t n_accepted;
    uint64_t n_evicted;   /* idle connections closed for new ones */
    uint64_t n_refused;   /* connections above max_connections that got 503 */
    uint64_t n_crowded;   /* requests refused because of max_bodies */
    uint64_t n_malformed; /* requests that were not HTTP, exceeded a limit, or were too slow */
    uint64_t n_stalled;
    uint64_t n_gone; /* peers that left before their answer was complete */
};

int http_server_new(struct loop *loop, const struct http_server_params *params,
                    struct http_server **ret_server);
struct http_server *http_server_free(struct http_server *server);
DEFINE_CLEANUP(struct http_server *, http_server_free);
/* Closes all connections. `done` is called for each request. */
void http_server_close(struct http_server *server);
/* Accepts connections from a listening socket. The server owns @fd from here on. */
int http_server_listen(struct http_server *server, int fd, enum http_door door);
/* Pause and resume accepting. Connections that arrive in between wait in the socket's backlog. */
void http_server_pause(struct http_server *server);
void http_server_resume(struct http_server *server);
/* Stops permanently: accepts no new connections, closes idle ones, and closes each other connection
 * after its present answer. */
void http_server_drain(struct http_server *server);
const struct http_server_stats *http_server_stats(const struct http_server *server);

/* --- a request --- */

/* Returns the user at the other end of a unix socket. */
bool http_request_peer_uid(const struct http_request *request, uid_t *ret_uid);

struct http_request_events {
    /* Called when all written data has left the process and more can be written. May be NULL. */
    void (*writable)(void *user);
    /* Called when the request is over. The request must not be used afterwards. */
    void (*done)(void *user);
    /* Called with the next bytes of a streamed body. May answer the request, whose body is then not
     * read any further. Only for http_request_stream_body(). */
    void (*body)(void *user, const char *data, size_t len);
};

enum http_door http_request_door(const struct http_request *request);
struct http_text http_request_method(const struct http_request *request);
struct http_text http_request_path(const struct http_request *request);  /* without the query */
struct http_text http_request_query(const struct http_request *request); /* without '?' */
struct http_text http_request_body(const struct http_request *request);
/* Frees the body, which is complete, before the request is over. */
void http_request_drop_body(struct http_request *request);
/* Finds a header, ignoring case. False: absent. */
bool http_request_header(const struct http_request *request, const char *name,
                         struct http_text *ret_value);
/* Returns whether the server refuses the request; to be called in `admit`. The head of a refused
 * request may be known only in part. */
bool http_request_is_refused(const struct http_request *request);
/* Sets the limit of the body in bytes, which replaces max_body; to be called in `admit`. 0: the
 * request takes no body; a small body is read and dropped. */
void http_request_limit_body(struct http_request *request, size_t max_body);
/* Passes the body to the event `body` as it arrives, instead of storing it; to be called in
 * `admit`. `handle` is called when the body is complete. The body has no limit, and body_timeout is
 * the longest time between two parts of it. */
void http_request_stream_body(struct http_request *request);
/* Pause and resume reading a streamed body. At most 64 KiB more arrive after the pause. */
void http_request_pause_body(struct http_request *request);
void http_request_resume_body(struct http_request *request);
/* Returns the length of the body that the head announces; UINT64_MAX: it comes in chunks. */
uint64_t http_request_length(const struct http_request *request);
/* Marks the sender as authorized. When the server is full, connections of unauthorized clients are
 * closed first. */
void http_request_trust(struct http_request *request);
/* Returns the monotonic time at which the head was complete. */
uint64_t http_request_start_usec(const struct http_request *request);
/* Return the status of the answer (0 before the answer), and the bytes of content sent so far. */
int http_request_status(const struct http_request *request);
uint64_t http_request_bytes(const struct http_request *request);
/* Returns whether the peer left or stalled, or the answer was aborted. */
bool http_request_failed(const struct http_request *request);

void http_request_set_events(struct http_request *request, const struct http_request_events *events,
                             void *user);
/* Sets the format of errors, which is OpenAI's otherwise. @shape must be static. */
void http_request_set_errors(struct http_request *request, const struct error_shape *shape);
const struct error_shape *http_request_errors(const struct http_request *request);
/* Returns the pointer that was set with the events, or NULL. */
void *http_request_user(const struct http_request *request);

/* Adds a header to the answer; has no effect once the answer has begun. Copies both texts. */
void http_response_header(struct http_request *request, const char *name, const char *value,
                          size_t len);
/* Closes the connection after this answer. */
void http_response_close(struct http_request *request);
/* Sends a complete answer. @type NULL: none. The body is copied. */
void http_respond(struct http_request *request, int status, const char *type, const void *body,
                  size_t len);
/* Starts a stream. libh2o cannot frame streams with other statuses than 200, so the status of a
 * stream is 200. @length is the size of the following content in bytes, or UINT64_MAX if it is not
 * known. */
void http_response_begin(struct http_request *request, const char *type, uint64_t length);
/* Copies @data and sends it soon. Does nothing after the peer left. -ENOMEM. */
int http_response_write(struct http_request *request, const void *data, size_t len);
/* Returns the number of bytes that the kernel has not taken yet. A writer that is faster than its
 * peer must wait for `writable`. */
size_t http_response_pending(const struct http_request *request);
void http_response_end(struct http_request *request);
/* Sends pending data and then @last, and ends the answer so that the peer sees a broken transfer.
 * `done` may be called before this function returns, as in http_response_end(). */
void http_response_abort(struct http_request *request, const void *last, size_t len);

/* --- client --- */

enum http_call_result {
    HTTP_CALL_DONE,       /* a complete answer */
    HTTP_CALL_NO_CONNECT, /* nothing listens, or its backlog is full */
    HTTP_CALL_TIMEOUT,
    HTTP_CALL_LOST,      /* the connection broke before the answer began */
    HTTP_CALL_TRUNCATED, /* the connection broke within the answer */
    HTTP_CALL_MALFORMED, /* the received bytes are not valid HTTP */
};

struct http_call_events {
    /* Called when the head of the answer arrived. The body of the request is not read any more. */
    void (*head)(void *user, int status, const struct http_header *headers, size_t n_headers);
    void (*body)(void *user, const char *data, size_t len);
    /* The last event; the call is freed before it. @error is an errno value or 0. */
    void (*end)(void *user, enum http_call_result result, int error);
    /* Called when the service's socket has taken all of a streamed body that was written so far.
     * Only for calls with `streams`. */
    void (*writable)(void *user);
};

struct http_call_params {
    const char *method;
    const char *path;                  /* path and query */
    const struct http_header *headers; /* in addition to Host, Connection and Content-Length */
    size_t n_headers;
    struct http_text body; /* borrowed until `head` or `end` */
    bool has_body;
    bool streams;    /* the body is written with http_call_write(), and `body` is empty */
    uint64_t length; /* of a streamed body; UINT64_MAX: unknown, so it is sent in chunks */
    /* The call uses only a connection of the pool, so it never starts the service. If the pool has
     * no connection, or the service has closed it, the call fails. */
    bool held;
};

/* Makes a pool of keep-alive connections to the unix socket at @path. @timeout_usec is the longest
 * time between two reads, and @keep_usec is the time that a connection stays in the pool. */
int http_upstream_new(struct loop *loop, const char *path, uint64_t timeout_usec,
                      uint64_t keep_usec, struct http_upstream **ret_upstream);
struct http_upstream *http_upstream_free(struct http_upstream *upstream);
DEFINE_CLEANUP(struct http_upstream *, http_upstream_free);

/* Starts a call. Events may come before this function returns. The function sets *ret_call before
 * the first event. *ret_call becomes NULL before `end` is called. */
int http_call_start(struct http_upstream *upstream, const struct http_call_params *params,
                    const struct http_call_events *events, void *user, struct http_call **ret_call);
/* Copies and sends the next bytes of a streamed body. -ENOMEM. */
int http_call_write(struct http_call *call, const void *data, size_t len);
/* Returns the number of bytes that the service's socket has not taken yet. */
size_t http_call_pending(const struct http_call *call);
/* Ends a streamed body. -ENOMEM. */
int http_call_finish(struct http_call *call);
/* Cancels the call; no event follows. */
void http_call_cancel(struct http_call *call);
/* Returns whether the service has read the whole request from the socket. */
bool http_call_was_read(const struct http_call *call);
/* Pause and resume reading the answer. */
void http_call_pause(struct http_call *call);
void http_call_resume(struct http_call *call);
