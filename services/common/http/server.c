/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the HTTP/1.1 server on libh2o 2.2 and its event loop.
 *
 * This file and the files that server.h names add what libh2o 2.2 lacks:
 * - heads and bodies of requests are checked, limited and answered before libh2o sees them;
 * - when the server is full, it closes an idle connection to accept a new one;
 * - libh2o stops reading while a request is processed, and would not notice that the peer leaves: a
 *   separate epoll set watches for EPOLLRDHUP;
 * - libh2o has no write timeout: the server ends requests whose last write has waited too long.
 *
 * HTTP/2 is disabled, because libh2o 2.2 has no fix for the attack "rapid reset" (CVE-2023-44487).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/http/server.h"
#include "core/clock.h"

#define SERVER_PAUSE_USEC  (100 * 1000u)
#define SERVER_LINGER_USEC (10 * 1000000u)
/* When the service ends, a client that has just connected gets this time to send its request. */
#define SERVER_LAST_USEC    (500 * 1000u)
#define SERVER_FOREVER_MSEC (365 * 86400 * UINT64_C(1000))

struct http_handler {
    h2o_handler_t super;
    struct http_server *server;
};

static void server_on_accept(h2o_socket_t *listener, const char *err);

/* Pauses or resumes accepting, according to the server's state. */
static void http_server_update_listeners(struct http_server *server)
{
    const bool listen =
        !server->paused && !server->draining && !loop_timer_is_set(&server->unpause);

    for (size_t i = 0; i < server->n_listeners; i++) {
        h2o_socket_t *sock = server->listeners[i].sock;
        const bool reading = h2o_socket_is_reading(sock);

        if (listen && !reading)
            h2o_socket_read_start(sock, server_on_accept);
        else if (!listen && reading)
            h2o_socket_read_stop(sock);
    }
}

static void server_unpause(struct loop_timer *timer)
{
    http_server_update_listeners(timer->data);
}

static void server_on_accept(h2o_socket_t *listener_sock, const char *err)
{
    const struct http_listener *listener = listener_sock->data;
    struct http_server *server = listener->server;

    (void)err;
    for (unsigned i = 0; i < 64 && h2o_socket_is_reading(listener_sock); i++) {
        h2o_socket_t *sock = h2o_evloop_socket_accept(listener_sock);

        if (!sock) {
            /* If descriptors or memory run out, the socket stays readable, so the server closes a
             * connection, or waits. */
            if ((errno == EMFILE || errno == ENFILE) && http_room_spare(server))
                continue;
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                loop_timer_set(server->loop, &server->unpause, SERVER_PAUSE_USEC);
                http_server_update_listeners(server);
            }
            return;
        }
        http_conn_open(server, sock, listener->door);
    }
}

static void server_on_gone(void *data)
{
    struct http_server *server = data;
    struct epoll_event event;

    /* Takes one event at a time, because handling one event may end the request of another
     * event. */
    for (unsigned i = 0; i < 256 && epoll_wait(server->gone_fd, &event, 1, 0) == 1; i++)
        http_request_kill(event.data.ptr);
}

static void server_on_tick(struct loop_timer *timer)
{
    struct http_server *server = timer->data;
    const uint64_t now = clock_usec();
    struct http_request *next;

    for (struct http_request *request = server->requests; request; request = next) {
        next = request->next;
        if (request->in_flight && now - request->sent_usec > server->params.stall_timeout_usec) {
            server->stats.n_stalled++;
            http_request_kill(request);
        }
    }
    if (server->requests)
        loop_timer_set(server->loop, timer, HTTP_TICK_USEC);
}

static int server_on_request(h2o_handler_t *self, h2o_req_t *req)
{
    http_request_handle(((struct http_handler *)self)->server, req);
    return 0;
}

/* --- the server --- */

/* libh2o gets only complete requests without bodies, so it needs no timeouts or limits. */
static void server_configure(struct http_server *server)
{
    h2o_hostconf_t *host;
    h2o_pathconf_t *path;
    struct http_handler *handler;

    h2o_config_init(&server->config);
    server->config.server_name = h2o_iovec_init(NULL, 0);
    server->config.http1.upgrade_to_http2 = 0;
    server->config.http1.req_timeout = SERVER_FOREVER_MSEC;
    host = h2o_config_register_host(&server->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    path = h2o_config_register_path(host, "/", 0);
    handler = (struct http_handler *)h2o_create_handler(path, sizeof(*handler));
    handler->super.on_req = server_on_request;
    handler->server = server;
    h2o_context_init(&server->ctx, loop_base(server->loop)->loop, &server->config);
    server->accept = (h2o_accept_ctx_t){.ctx = &server->ctx, .hosts = server->config.hosts};
}

static void server_init_rooms(struct http_server *server)
{
    const struct http_server_params *params = &server->params;
    const uint64_t waits[HTTP_N_WAITS] = {
        [HTTP_WAIT_HEAD] = params->head_timeout_usec, [HTTP_WAIT_BODY] = params->body_timeout_usec,
        [HTTP_WAIT_KEEP] = params->keep_timeout_usec, [HTTP_WAIT_LINGER] = SERVER_LINGER_USEC,
        [HTTP_WAIT_LAST] = SERVER_LAST_USEC,
    };

    for (unsigned i = 0; i < HTTP_N_WAITS; i++)
        loop_queue_init(&server->waits[i], server->loop, waits[i]);
    for (unsigned i = 0; i < HTTP_N_DOORS; i++) {
        h2o_linklist_init_anchor(&server->rooms[i].idle[0]);
        h2o_linklist_init_anchor(&server->rooms[i].idle[1]);
        h2o_linklist_init_anchor(&server->rooms[i].refused);
    }
}

int http_server_new(struct loop *loop, const struct http_server_params *params,
                    struct http_server **ret_server)
{
    struct http_server *server = NEW(struct http_server, 1);
    int r;

    if (!server)
        return -ENOMEM;
    server->loop = loop;
    server->params = *params;
    server->params.max_bodies = MAX(params->max_bodies, params->max_body);
    server->tick = (struct loop_timer){.fire = server_on_tick, .data = server};
    server->unpause = (struct loop_timer){.fire = server_unpause, .data = server};
    server->gone_fd = epoll_create1(EPOLL_CLOEXEC);
    r = server->gone_fd < 0 ? -errno : 0;
    if (r == 0)
        r = loop_watch_new(loop, server->gone_fd, server_on_gone, server, &server->gone_watch);
    if (r < 0) {
        if (server->gone_fd >= 0)
            close(server->gone_fd);
        free(server);
        return r;
    }
    server_init_rooms(server);
    server_configure(server);
    *ret_server = server;
    return 0;
}

void http_server_close(struct http_server *server)
{
    server->draining = true;
    server->params.unused = NULL;
    while (server->conns)
        http_conn_close(server->conns);
}

struct http_server *http_server_free(struct http_server *server)
{
    /* libh2o 2.2 does not free this queue. The static pointer keeps leak checkers quiet. */
    static h2o_multithread_queue_t *volatile queue UNUSED;

    if (!server)
        return NULL;
    http_server_close(server);
    for (size_t i = 0; i < server->n_listeners; i++) {
        h2o_socket_read_stop(server->listeners[i].sock);
        h2o_socket_close(server->listeners[i].sock);
    }
    for (unsigned i = 0; i < HTTP_N_WAITS; i++)
        loop_timer_stop(server->loop, &server->waits[i].timer);
    loop_timer_stop(server->loop, &server->tick);
    loop_timer_stop(server->loop, &server->unpause);
    loop_watch_free(server->gone_watch);
    close(server->gone_fd);
    h2o_evloop_run(loop_base(server->loop)->loop, 0);
    queue = server->ctx.queue;
    h2o_context_dispose(&server->ctx);
    h2o_config_dispose(&server->config);
    free(server);
    return NULL;
}

int http_server_listen(struct http_server *server, int fd, enum http_door door)
{
    struct http_listener *listener;

    if (server->n_listeners == HTTP_MAX_LISTENERS)
        return -EMFILE;
    listener = &server->listeners[server->n_listeners++];
    listener->server = server;
    listener->door = door;
    listener->sock =
        h2o_evloop_socket_create(loop_base(server->loop)->loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    listener->sock->data = listener;
    http_server_update_listeners(server);
    return 0;
}

void http_server_pause(struct http_server *server)
{
    server->paused = true;
    http_server_update_listeners(server);
}

void http_server_resume(struct http_server *server)
{
    server->paused = false;
    http_server_update_listeners(server);
}

void http_server_drain(struct http_server *server)
{
    server->draining = true;
    http_server_update_listeners(server);
    /* h2o_context_request_shutdown() is not used: it sets timers for HTTP/2. */
    server->ctx.shutdown_requested = 1;
    /* Shuts down reading of idle connections. A request that was already sent is still served. */
    for (struct http_conn *conn = server->conns; conn; conn = conn->next)
        http_conn_drain(conn);
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

const struct http_server_stats *http_server_stats(const struct http_server *server)
{
    return &server->stats;
}
