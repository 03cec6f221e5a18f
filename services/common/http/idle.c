/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps connections that no call uses (see idle.h). */
#include "common/http/idle.h"

#include <errno.h>

struct idle {
    struct idle_pool *pool;
    h2o_socket_t *sock;
    struct loop_wait wait;
    struct idle *prev, *next;
};

/* Takes the connection out of its pool. */
static h2o_socket_t *idle_take(struct idle *idle)
{
    h2o_socket_t *sock = idle->sock;

    if (idle->prev)
        idle->prev->next = idle->next;
    else
        idle->pool->first = idle->next;
    if (idle->next)
        idle->next->prev = idle->prev;
    loop_wait_stop(&idle->wait);
    h2o_socket_read_stop(sock);
    free(idle);
    return sock;
}

static void idle_on_wait(struct loop_wait *wait)
{
    h2o_socket_close(idle_take(wait->data));
}

/* Nothing may arrive without a request: the service has closed the connection, or is broken. */
static void idle_on_read(h2o_socket_t *sock, const char *err)
{
    (void)err;
    h2o_socket_close(idle_take(sock->data));
}

void idle_pool_init(struct idle_pool *pool, struct loop *loop, uint64_t keep_usec)
{
    pool->first = NULL;
    loop_queue_init(&pool->keep, loop, keep_usec);
}

void idle_pool_done(struct idle_pool *pool)
{
    idle_pool_flush(pool);
    loop_timer_stop(pool->keep.loop, &pool->keep.timer);
}

void idle_pool_flush(struct idle_pool *pool)
{
    while (pool->first)
        h2o_socket_close(idle_take(pool->first));
}

void idle_pool_put(struct idle_pool *pool, h2o_socket_t *sock)
{
    struct idle *idle = NEW(struct idle, 1);

    if (!idle) {
        h2o_socket_close(sock);
        return;
    }
    idle->pool = pool;
    idle->sock = sock;
    idle->wait = (struct loop_wait){.fire = idle_on_wait, .data = idle};
    idle->next = pool->first;
    if (idle->next)
        idle->next->prev = idle;
    pool->first = idle;
    loop_wait_start(&pool->keep, &idle->wait);
    sock->data = idle;
    h2o_socket_read_start(sock, idle_on_read);
}

h2o_socket_t *idle_pool_take(struct idle_pool *pool)
{
    while (pool->first) {
        h2o_socket_t *sock = idle_take(pool->first);
        char byte;

        if (recv(h2o_socket_get_fd(sock), &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN)
            return sock;
        h2o_socket_close(sock);
    }
    return NULL;
}
