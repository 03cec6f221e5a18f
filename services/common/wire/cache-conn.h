/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects to the cache service. A connection carries one request and its answer at a time.
 *
 * Every call has a time limit. A failed call closes the connection, because a late answer could
 * otherwise be taken for the answer to the next request.
 */

#include "common/wire/cache-protocol.h"

struct cache_conn {
    int fd; /* -1: not connected */
    uint32_t request;
    enum cache_type asked;
    struct cache_packet packet; /* first the request, then its answer */
    struct cache_head head;     /* head of the answer */
    struct cache_reader body;   /* the part of the answer's body that was not read yet */
    int given;                  /* descriptor of the answer; a caller that takes it sets -1 */
};

#define CACHE_CONN_INIT                                                                            \
    {                                                                                              \
        .fd = -1, .given = -1                                                                      \
    }

/* Connects and sends HELLO. @name identifies the client to the service. Each later call waits for
 * at most @timeout_usec, too. -EPROTONOSUPPORT: the service speaks another version; -ETIMEDOUT; or
 * the error of connect(). */
int cache_conn_open(struct cache_conn *conn, const char *path, const char *name,
                    uint64_t timeout_usec);
/* Closes the connection and the descriptor of an answer that nobody took. */
void cache_conn_close(struct cache_conn *conn);

/* Begins a request in conn->packet. The caller then appends the body. */
void cache_conn_ask(struct cache_conn *conn, enum cache_type type, uint32_t n);
/* Sends the request, with the descriptor @fd unless it is -1, and does not wait for an answer. */
int cache_conn_send(struct cache_conn *conn, int fd);
/* Sends the request and receives its answer. Returns 0 if an answer arrived; conn->head.status is
 * the service's result. -ETIMEDOUT, -ECONNRESET, -EBADMSG…: there is no answer, and the connection
 * is closed. */
int cache_conn_call(struct cache_conn *conn, int fd);
