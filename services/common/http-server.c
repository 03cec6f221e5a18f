/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/1.1 server on libh2o 2.2 (evloop)
 *
 * What libh2o 2.2 lacks is added here, in http-conn.c and in http-request.c, and nowhere else:
 * - request heads are checked before it sees them;
 * - it stops reading while a request is processed and would not notice that its peer left: an
 *   epoll set of our own watches for EPOLLRDHUP;
 * - it has no write timeout: requests whose last write is too old are shut down.
 * HTTP/2 is off (no fix for rapid reset in 2.2).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/api-error.h"
#include "common/http-server.h"
#include "core/clock.h"

#define HTTP_PAUSE_USEC (100 * 1000u)

struct http_handler {
    h2o_handler_t super;
    struct http_server *server;
};

bool http_text_is(struct http_text text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

bool http_text_is_nocase(struct http_text text, const char *other)
{
    return text.len == strlen(other) && strncasecmp(text.data, other, text.len) == 0;
}

static void server_on_accept(h2o_socket_t *listener, const char *err);

void http_server_update_listeners(struct http_server *server)
{
    const bool full =
        server->stats.n_connections >= server->params.max_connections + HTTP_REFUSED_MAX;
    const bool listen =
        !server->paused && !server->draining && !full && !loop_timer_is_set(&server->unpause);

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
            /* Without descriptors or memory the socket stays readable: wait for some. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                loop_timer_set(server->loop, &server->unpause, HTTP_PAUSE_USEC);
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

    /* One at a time: what one event leads to may end the request of another. */
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

/* --- answers of libh2o's own --- */

struct error_ostream {
    h2o_ostream_t super;
    struct str body;
};

static void error_send(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs, size_t n_bufs,
                       h2o_send_state_t state)
{
    struct error_ostream *error = (struct error_ostream *)self;
    h2o_iovec_t buf = {error->body.data, error->body.len};

    (void)bufs;
    h2o_ostream_send_next(self, req, &buf, n_bufs ? 1 : 0, state);
}

static void error_dispose(void *data)
{
    str_done(data);
}

/* Broken chunks and the like are answered from inside libh2o, in plain text; make it JSON. */
static void error_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
    struct str *body = h2o_mem_alloc_shared(&req->pool, sizeof(*body), error_dispose);

    (void)self;
    *body = (struct str){};
    if (api_error_write(body, req->res.status,
                        req->res.status == 413 ? "request_too_large" : "bad_request", NULL,
                        req->res.status == 413 ? "The request body is too large."
                                               : "The request is malformed.") == 0) {
        struct error_ostream *error = (void *)h2o_add_ostream(req, sizeof(*error), slot);

        error->super.do_send = error_send;
        error->body = *body;
        req->res.content_length = body->len;
        memset(&req->res.headers, 0, sizeof(req->res.headers));
        h2o_add_header_by_str(&req->pool, &req->res.headers, H2O_STRLIT("content-type"), 0, NULL,
                              H2O_STRLIT("application/json"));
        slot = &error->super.next;
    }
    h2o_setup_next_ostream(req, slot);
}

/* --- the server --- */

int http_server_new(struct loop *loop, const struct http_server_params *params,
                    struct http_server **ret_server)
{
    struct http_server *server = NEW(struct http_server, 1);
    h2o_hostconf_t *host;
    h2o_pathconf_t *path;
    struct http_handler *handler;
    int r;

    if (!server)
        return -ENOMEM;
    server->loop = loop;
    server->params = *params;
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

    h2o_config_init(&server->config);
    server->config.server_name = h2o_iovec_init(NULL, 0);
    server->config.http1.upgrade_to_http2 = 0;
    server->config.http1.req_timeout = params->request_timeout_usec / 1000;
    /* The limit is enforced before libh2o; its own stands behind it. */
    server->config.max_request_entity_size = MAX(params->max_body, params->large_body) + HTTP_SLICE;
    host = h2o_config_register_host(&server->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_create_filter(&host->fallback_path, sizeof(h2o_filter_t))->on_setup_ostream = error_setup;
    path = h2o_config_register_path(host, "/", 0);
    handler = (struct http_handler *)h2o_create_handler(path, sizeof(*handler));
    handler->super.on_req = server_on_request;
    handler->server = server;
    h2o_context_init(&server->ctx, loop_base(loop)->loop, &server->config);
    server->accept = (h2o_accept_ctx_t){.ctx = &server->ctx, .hosts = server->config.hosts};
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
    /* libh2o 2.2 does not free it; kept here it is no leak to those who look for some. */
    static h2o_multithread_queue_t *volatile queue UNUSED;

    if (!server)
        return NULL;
    http_server_close(server);
    for (size_t i = 0; i < server->n_listeners; i++) {
        h2o_socket_read_stop(server->listeners[i].sock);
        h2o_socket_close(server->listeners[i].sock);
    }
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
    /* Not h2o_context_request_shutdown(): that sets timers for HTTP/2, which never comes. */
    server->ctx.shutdown_requested = 1;
    /* Idle connections read their end now; one whose request is on its way is still served. */
    for (struct http_conn *conn = server->conns; conn; conn = conn->next)
        http_conn_drain(conn);
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

const struct http_server_stats *http_server_stats(const struct http_server *server)
{
    return &server->stats;
}
