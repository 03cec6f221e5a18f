/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to the cache service: one question and its answer at a time
 *
 * Every call has a time limit; what fails ends the connection, for an answer that comes late must
 * not be taken for that of another question.
 */

#include "common/wire/cache-protocol.h"

struct cache_conn {
    int fd; /* -1: not connected */
    uint32_t request;
    enum cache_type asked;
    struct cache_packet packet; /* the question, then the answer */
    struct cache_head head;     /* of the answer */
    struct cache_reader body;   /* of the answer, unread */
    int given;                  /* a descriptor that came with it; who takes it sets -1 */
};

#define CACHE_CONN_INIT                                                                            \
    {                                                                                              \
        .fd = -1, .given = -1                                                                      \
    }

/* Connects and says hello; @name tells the service who asks. Each call may wait for @timeout_usec.
 * -EPROTONOSUPPORT: the service does not speak our version; -ETIMEDOUT; what connect() says. */
int cache_conn_open(struct cache_conn *conn, const char *path, const char *name,
                    uint64_t timeout_usec);
/* Also forgets what an answer left behind. */
void cache_conn_close(struct cache_conn *conn);

/* Begins a question in conn->packet, to which the caller appends its body. */
void cache_conn_ask(struct cache_conn *conn, enum cache_type type, uint32_t n);
/* Sends it, with @fd unless -1; waits for no answer. */
int cache_conn_send(struct cache_conn *conn, int fd);
/* Sends it and receives its answer. 0 and the answer in @conn, whose status is the service's word;
 * -ETIMEDOUT, -ECONNRESET, -EBADMSG…: there is none, and the connection is closed. */
int cache_conn_call(struct cache_conn *conn, int fd);
