/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to the cache service: one request and its answer at a time
 *
 * Every call has a time limit. A failed call closes the connection, because a late answer must not
 * be taken for the answer to another request.
 */

#include "common/wire/cache-protocol.h"

struct cache_conn {
    int fd; /* -1: not connected */
    uint32_t request;
    enum cache_type asked;
    struct cache_packet packet; /* the request, then the answer */
    struct cache_head head;     /* of the answer */
    struct cache_reader body;   /* of the answer, unread */
    int given;                  /* descriptor of the answer; set it to -1 when taking it */
};

#define CACHE_CONN_INIT                                                                            \
    {                                                                                              \
        .fd = -1, .given = -1                                                                      \
    }

/* Connects and sends HELLO. @name identifies the client to the service. Each call may wait for
 * @timeout_usec. -EPROTONOSUPPORT: the service speaks another version; -ETIMEDOUT; or the error of
 * connect(). */
int cache_conn_open(struct cache_conn *conn, const char *path, const char *name,
                    uint64_t timeout_usec);
/* Closes the connection, and frees the remains of an answer. */
void cache_conn_close(struct cache_conn *conn);

/* Begins a request in conn->packet. The caller appends the body. */
void cache_conn_ask(struct cache_conn *conn, enum cache_type type, uint32_t n);
/* Sends the request, with @fd unless it is -1, and does not wait for an answer. */
int cache_conn_send(struct cache_conn *conn, int fd);
/* Sends the request and receives its answer. Returns 0 and the answer in @conn, which has the
 * service's status; -ETIMEDOUT, -ECONNRESET, -EBADMSG…: no answer, and the connection is closed. */
int cache_conn_call(struct cache_conn *conn, int fd);
