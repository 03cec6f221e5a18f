/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the connections of a client that no call uses.
 *
 * A connection stays in the pool for a limited time, and leaves it at once when the service closes
 * it. The pool never connects, so that a call can use it without starting a service.
 */

#include "common/http/h2o.h"

struct idle;

struct idle_pool {
    struct idle *first; /* the connection that was used last */
    struct loop_queue keep;
};

void idle_pool_init(struct idle_pool *pool, struct loop *loop, uint64_t keep_usec);
void idle_pool_done(struct idle_pool *pool);
/* Closes all connections. */
void idle_pool_flush(struct idle_pool *pool);
/* Puts a connection into the pool, which owns it from here on and uses its `data`. */
void idle_pool_put(struct idle_pool *pool, h2o_socket_t *sock);
/* Takes out the connection that was used last. NULL: there is none, or
 * the service has closed them all. */
h2o_socket_t *idle_pool_take(struct idle_pool *pool);
