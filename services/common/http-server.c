/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/1.1 server on libh2o 2.2 (evloop)
 *
 * What libh2o 2.2 lacks is added here and nowhere else:
 * - request heads are checked (head.c) in a read callback that stands before libh2o's own, so that
 *   malformed and oversized requests get JSON answers, and a lingering close that lets them arrive;
 * - libh2o stops reading while a request is processed and would not notice that its peer left: an
 *   epoll set of our own watches for EPOLLRDHUP;
 * - it has no write timeout: requests whose last write is too old are shut down;
 * - bytes of a pipelined request are kept aside until the present one is answered.
 * HTTP/2 is off (no fix for rapid reset in 2.2).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/api-error.h"
#include "common/head.h"
#include "common/http-h2o.h"
#include "core/clock.h"
#include "core/str.h"

/* Above max_connections so many more are accepted to be told 503; then accepting pauses. */
#define HTTP_REFUSED_MAX   64
#define HTTP_LINGER_USEC   (10 * 1000000u)
#define HTTP_PAUSE_USEC    (100 * 1000u)
#define HTTP_TICK_USEC     (1000 * 1000u)
#define HTTP_SLICE         ((size_t)64 * 1024)
#define HTTP_MAX_LISTENERS 16

enum http_conn_state {
    HTTP_CONN_HEAD,   /* reading a head */
    HTTP_CONN_BODY,   /* reading a body: libh2o counts it */
    HTTP_CONN_BUSY,   /* a request is being processed */
    HTTP_CONN_REFUSE, /* writing a refusal of our own */
    HTTP_CONN_LINGER, /* reading and dropping what the peer still sends */
};

struct http_listener {
    struct http_server *server;
    h2o_socket_t *sock;
    enum http_door door;
};

struct http_conn {
    struct http_server *server;
    enum http_door door;
    h2o_socket_t *sock;
    h2o_socket_cb read; /* libh2o's */
    enum http_conn_state state;
    struct head head;
    bool refused;        /* above the limit of connections */
    size_t request_size; /* of the present request in sock->input */
    struct str text;     /* a refusal, or bytes of the next request */
    struct loop_task rearm;
    struct loop_timer linger;
    struct http_conn *prev, *next;
};

struct http_request {
    struct http_server *server;
    h2o_req_t *req;
    h2o_generator_t generator;
    struct http_conn *conn;
    const struct http_request_events *events;
    void *user;
    uint64_t start_usec, sent_usec;
    struct str filling, sending;
    size_t sent; /* of sending */
    bool started, in_flight, ending, aborting, ended, failed, watched;
    struct http_request *prev, *next;
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
    struct http_conn *conns;
    struct http_request *requests;
    struct http_request *handling; /* in the handler now; NULL when it ended there */
    int gone_fd;                   /* epoll set of the sockets whose requests are being processed */
    struct loop_watch *gone_watch;
    struct loop_timer tick, unpause;
    bool paused, draining;
};

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

/* --- connections --- */

static void conn_on_read(h2o_socket_t *sock, const char *err);

static void server_on_accept(h2o_socket_t *listener, const char *err);

static void server_update_listeners(struct http_server *server)
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
    server_update_listeners(timer->data);
}

/* libh2o closes the connection on errors, and with it ours. */
static void conn_close(struct http_conn *conn)
{
    conn->read(conn->sock, h2o_socket_error_closed);
}

static void conn_on_close(void *data)
{
    struct http_conn *conn = data;
    struct http_server *server = conn->server;

    loop_task_cancel(server->loop, &conn->rearm);
    loop_timer_stop(server->loop, &conn->linger);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    str_done(&conn->text);
    free(conn);
    server->stats.n_connections--;
    server_update_listeners(server);
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

static void conn_on_linger(struct loop_timer *timer)
{
    conn_close(timer->data);
}

static void conn_on_refused(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;

    if (err) {
        conn_close(conn);
        return;
    }
    /* Closing with unread input would reset the connection, and the peer might never see why. */
    shutdown(h2o_socket_get_fd(sock), SHUT_WR);
    conn->state = HTTP_CONN_LINGER;
    loop_timer_set(conn->server->loop, &conn->linger, HTTP_LINGER_USEC);
    h2o_socket_read_start(sock, conn_on_read);
}

static void conn_refuse(struct http_conn *conn, int status, const char *code, const char *message)
{
    _cleanup_str_ struct str body = {};
    h2o_iovec_t buf;

    if (status == 503)
        conn->server->stats.n_refused++;
    else
        conn->server->stats.n_malformed++;
    h2o_socket_read_stop(conn->sock);
    conn->state = HTTP_CONN_REFUSE;
    str_clear(&conn->text);
    if (api_error_write(&body, status, code, NULL, message) < 0 ||
        str_printf(&conn->text,
                   "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
                   "%sContent-Length: %zu\r\n\r\n%s",
                   status, api_status_text(status), status == 503 ? "Retry-After: 1\r\n" : "",
                   body.len, body.data) < 0) {
        conn_close(conn);
        return;
    }
    buf = h2o_iovec_init(conn->text.data, conn->text.len);
    h2o_socket_write(conn->sock, &buf, 1, conn_on_refused);
}

static void conn_on_read(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;
    const struct http_server_params *params = &conn->server->params;
    const struct head_limits limits = {params->max_header, params->max_body};

    if (err) {
        conn_close(conn);
        return;
    }
    if (conn->state == HTTP_CONN_LINGER) {
        h2o_buffer_consume(&sock->input, sock->input->size);
        return;
    }
    if (conn->state == HTTP_CONN_HEAD) {
        switch (head_check(sock->input->bytes, sock->input->size, &limits, &conn->head)) {
        case HEAD_INCOMPLETE:
            return;
        case HEAD_REFUSED:
            conn_refuse(conn, conn->head.status, conn->head.code, conn->head.message);
            return;
        }
        if (conn->refused) {
            conn_refuse(conn, 503, "too_many_connections",
                        "The server has reached its limit of connections; try again later.");
            return;
        }
        conn->state = HTTP_CONN_BODY;
    }
    /* Lengths were checked with the head; a chunked body shows its size only as it comes. */
    if (conn->head.chunked && sock->input->size - conn->head.size > params->max_body) {
        conn_refuse(conn, 413, "request_too_large", "The request body is too large.");
        return;
    }
    conn->read(sock, NULL);
}

/* Puts our read callback before libh2o's, at the start and after each answer. */
static void conn_arm(struct http_conn *conn)
{
    if (!h2o_socket_is_reading(conn->sock) || conn->sock->_cb.read == conn_on_read)
        return;
    conn->read = conn->sock->_cb.read;
    conn->sock->_cb.read = conn_on_read;
    conn->state = HTTP_CONN_HEAD;
}

static void conn_rearm(struct loop_task *task)
{
    struct http_conn *conn = task->data;
    h2o_iovec_t space;

    conn_arm(conn);
    if (conn->state != HTTP_CONN_HEAD)
        return;
    if (!conn->text.len) {
        if (conn->server->draining)
            shutdown(h2o_socket_get_fd(conn->sock), SHUT_RD);
        return;
    }
    space = h2o_buffer_reserve(&conn->sock->input, conn->text.len);
    memcpy(space.base, conn->text.data, conn->text.len);
    conn->sock->input->size += conn->text.len;
    str_done(&conn->text);
    conn_on_read(conn->sock, NULL);
}

static void server_on_accept(h2o_socket_t *listener_sock, const char *err)
{
    const struct http_listener *listener = listener_sock->data;
    struct http_server *server = listener->server;

    (void)err;
    for (unsigned i = 0; i < 64 && h2o_socket_is_reading(listener_sock); i++) {
        h2o_socket_t *sock = h2o_evloop_socket_accept(listener_sock);
        struct http_conn *conn;

        if (!sock) {
            /* Without descriptors or memory the socket stays readable: wait for some. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                loop_timer_set(server->loop, &server->unpause, HTTP_PAUSE_USEC);
                server_update_listeners(server);
            }
            return;
        }
        conn = NEW(struct http_conn, 1);
        if (!conn) {
            h2o_socket_close(sock);
            return;
        }
        conn->server = server;
        conn->door = listener->door;
        conn->sock = sock;
        conn->rearm = (struct loop_task){.run = conn_rearm, .data = conn};
        conn->linger = (struct loop_timer){.fire = conn_on_linger, .data = conn};
        conn->refused = server->stats.n_connections >= server->params.max_connections;
        conn->next = server->conns;
        if (conn->next)
            conn->next->prev = conn;
        server->conns = conn;
        server->stats.n_connections++;
        server->stats.n_accepted++;
        sock->on_close.cb = conn_on_close;
        sock->on_close.data = conn;
        h2o_accept(&server->accept, sock);
        conn_arm(conn);
        server_update_listeners(server);
    }
}

/* --- requests --- */

static int request_fd(const struct http_request *request)
{
    return h2o_socket_get_fd(request->conn->sock);
}

static void request_watch(struct http_request *request)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = request};

    if (epoll_ctl(request->server->gone_fd, EPOLL_CTL_ADD, request_fd(request), &event) == 0)
        request->watched = true;
}

static void request_unwatch(struct http_request *request)
{
    if (request->watched)
        epoll_ctl(request->server->gone_fd, EPOLL_CTL_DEL, request_fd(request), NULL);
    request->watched = false;
}

/* Keeps what follows the present request for conn_rearm(): libh2o would parse it unchecked. */
static void conn_keep_rest(struct http_conn *conn)
{
    h2o_buffer_t *input = conn->sock->input;

    str_clear(&conn->text);
    if (input->size > conn->request_size) {
        str_append(&conn->text, input->bytes + conn->request_size,
                   input->size - conn->request_size);
        input->size = conn->request_size;
    }
}

static void request_dispose(void *data)
{
    struct http_request *request = data;
    struct http_server *server = request->server;

    request_unwatch(request);
    if (server->handling == request)
        server->handling = NULL;
    if (request->prev)
        request->prev->next = request->next;
    else
        server->requests = request->next;
    if (request->next)
        request->next->prev = request->prev;
    server->stats.n_requests--;
    if (request->failed || !request->ended) {
        request->failed = true;
        server->stats.n_gone++;
    }
    conn_keep_rest(request->conn);
    loop_task_queue(server->loop, &request->conn->rearm);
    if (request->events)
        request->events->done(request->user);
    str_done(&request->filling);
    str_done(&request->sending);
}

/* Sends the next slice when nothing is in flight. False: there was nothing to send. True: the
 * request may be gone already, for libh2o completes some ends at once. */
static bool request_pump(struct http_request *request)
{
    h2o_send_state_t state = H2O_SEND_STATE_IN_PROGRESS;
    h2o_iovec_t buf;

    if (request->in_flight || request->ended || !request->started)
        return false;
    if (request->sent == request->sending.len) {
        struct str swap = request->sending;

        request->sending = request->filling;
        request->filling = swap;
        str_clear(&request->filling);
        request->sent = 0;
    }
    buf.len = MIN(request->sending.len - request->sent, HTTP_SLICE);
    buf.base = buf.len ? request->sending.data + request->sent : NULL;
    request->sent += buf.len;
    if (request->sent == request->sending.len && !request->filling.len) {
        if (request->aborting || request->failed)
            state = H2O_SEND_STATE_ERROR;
        else if (request->ending)
            state = H2O_SEND_STATE_FINAL;
    }
    if (!buf.len && state == H2O_SEND_STATE_IN_PROGRESS)
        return false;
    request->sent_usec = clock_usec();
    request->in_flight = true;
    request->ended = state != H2O_SEND_STATE_IN_PROGRESS;
    h2o_send(request->req, &buf, buf.len ? 1 : 0, state);
    return true;
}

static void request_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct http_request *request =
        H2O_STRUCT_FROM_MEMBER(struct http_request, generator, generator);

    (void)req;
    request->in_flight = false;
    if (!request_pump(request) && request->events && request->events->writable)
        request->events->writable(request->user);
}

/* Ends a request whose peer left or stalls: `done` follows from the poller. */
static void request_kill(struct http_request *request)
{
    if (request->failed)
        return;
    request->failed = true;
    shutdown(request_fd(request), SHUT_RDWR);
    request->req->http1_is_persistent = 0;
    if (!request->started) {
        request->req->res.status = 499;
        request->req->res.reason = "Client Closed Request";
        request->req->res.content_length = 0;
        request->started = true;
        request->ending = true;
        h2o_start_response(request->req, &request->generator);
    }
    /* What is in flight fails by itself; otherwise a write must be tried for libh2o to notice. */
    str_clear(&request->filling);
    request->sent = request->sending.len;
    request_pump(request);
}

static void server_on_gone(void *data)
{
    struct http_server *server = data;
    struct epoll_event event;

    /* One at a time: what one event leads to may end the request of another. */
    for (unsigned i = 0; i < 256 && epoll_wait(server->gone_fd, &event, 1, 0) == 1; i++)
        request_kill(event.data.ptr);
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
            request_kill(request);
        }
    }
    if (server->requests)
        loop_timer_set(server->loop, timer, HTTP_TICK_USEC);
}

static int server_on_request(h2o_handler_t *self, h2o_req_t *req)
{
    struct http_server *server = ((struct http_handler *)self)->server;
    h2o_socket_t *sock = req->conn->callbacks->get_socket(req->conn);
    struct http_request *request =
        h2o_mem_alloc_shared(&req->pool, sizeof(*request), request_dispose);

    *request = (struct http_request){
        .server = server,
        .req = req,
        .generator = {.proceed = request_proceed},
        .conn = sock->on_close.data,
        .start_usec = clock_usec(),
        .next = server->requests,
    };
    if (request->next)
        request->next->prev = request;
    server->requests = request;
    server->stats.n_requests++;
    request->conn->state = HTTP_CONN_BUSY;
    request->conn->request_size = request->conn->head.size;
    if (req->entity.base)
        request->conn->request_size =
            (size_t)(req->entity.base + req->entity.len - sock->input->bytes);
    if (!loop_timer_is_set(&server->tick))
        loop_timer_set(server->loop, &server->tick, HTTP_TICK_USEC);
    server->handling = request;
    server->params.handle(server->params.data, request);
    if (server->handling && !request->ended)
        request_watch(request);
    server->handling = NULL;
    return 0;
}

enum http_door http_request_door(const struct http_request *request)
{
    return request->conn->door;
}

struct http_text http_request_method(const struct http_request *request)
{
    return text_of(request->req->input.method);
}

struct http_text http_request_path(const struct http_request *request)
{
    struct http_text path = text_of(request->req->input.path);
    const char *query = memchr(path.data, '?', path.len);

    if (query)
        path.len = (size_t)(query - path.data);
    return path;
}

struct http_text http_request_query(const struct http_request *request)
{
    const struct http_text target = text_of(request->req->input.path);
    const size_t path = http_request_path(request).len;

    if (path == target.len)
        return (struct http_text){"", 0};
    return (struct http_text){target.data + path + 1, target.len - path - 1};
}

struct http_text http_request_body(const struct http_request *request)
{
    return text_of(request->req->entity);
}

bool http_request_header(const struct http_request *request, const char *name,
                         struct http_text *ret_value)
{
    const ssize_t i = h2o_find_header_by_str(&request->req->headers, name, strlen(name), -1);

    if (i < 0)
        return false;
    *ret_value = text_of(request->req->headers.entries[i].value);
    return true;
}

size_t http_request_n_headers(const struct http_request *request)
{
    return request->req->headers.size;
}

struct http_header http_request_header_at(const struct http_request *request, size_t i)
{
    const h2o_header_t *header = &request->req->headers.entries[i];

    return (struct http_header){text_of(*header->name), text_of(header->value)};
}

uint64_t http_request_start_usec(const struct http_request *request)
{
    return request->start_usec;
}

int http_request_status(const struct http_request *request)
{
    return request->started ? request->req->res.status : 0;
}

uint64_t http_request_bytes(const struct http_request *request)
{
    return request->req->bytes_sent;
}

bool http_request_failed(const struct http_request *request)
{
    return request->failed || request->aborting;
}

void http_request_set_events(struct http_request *request, const struct http_request_events *events,
                             void *user)
{
    request->events = events;
    request->user = user;
}

/* --- answers --- */

void http_response_header(struct http_request *request, const char *name, const char *value,
                          size_t len)
{
    h2o_req_t *req = request->req;
    const h2o_iovec_t n = h2o_strdup(&req->pool, name, SIZE_MAX);
    const h2o_iovec_t v = h2o_strdup(&req->pool, value, len);

    h2o_add_header_by_str(&req->pool, &req->res.headers, n.base, n.len, 0, NULL, v.base, v.len);
}

void http_response_close(struct http_request *request)
{
    request->req->http1_is_persistent = 0;
}

static void response_start(struct http_request *request, int status, const char *type,
                           uint64_t length)
{
    h2o_req_t *req = request->req;

    assert(!request->started);
    req->res.status = status;
    req->res.reason = api_status_text(status);
    /* No Content (204) has no length either. */
    req->res.content_length = length == UINT64_MAX || status == 204 ? SIZE_MAX : (size_t)length;
    if (type)
        http_response_header(request, "content-type", type, strlen(type));
    if (request->server->draining)
        req->http1_is_persistent = 0;
    request->started = true;
    h2o_start_response(req, &request->generator);
}

void http_respond(struct http_request *request, int status, const char *type, const void *body,
                  size_t len)
{
    h2o_iovec_t buf;

    if (request->started)
        return;
    buf = h2o_strdup(&request->req->pool, body ? body : "", len);
    response_start(request, status, type, len);
    request->ended = request->in_flight = true;
    request->sent_usec = clock_usec();
    h2o_send(request->req, &buf, len && !http_text_is(http_request_method(request), "HEAD") ? 1 : 0,
             H2O_SEND_STATE_FINAL);
}

void http_response_begin(struct http_request *request, const char *type, uint64_t length)
{
    if (request->started)
        return;
    response_start(request, 200, type, length);
}

int http_response_write(struct http_request *request, const void *data, size_t len)
{
    int r;

    if (request->failed || request->ending || request->aborting)
        return 0;
    r = str_append(&request->filling, data, len);
    if (r < 0)
        return r;
    request_pump(request);
    return 0;
}

size_t http_response_pending(const struct http_request *request)
{
    return request->filling.len + request->sending.len - request->sent;
}

void http_response_end(struct http_request *request)
{
    request->ending = true;
    request_pump(request);
}

void http_response_abort(struct http_request *request, const void *last, size_t len)
{
    static const struct linger reset = {.l_onoff = 1};

    if (request->ended || request->aborting)
        return;
    request->aborting = true;
    /* The last words leave together with the broken chunk: its first part is still well-formed. */
    if (len && !request->failed && !request->ending)
        str_append(&request->filling, last, len);
    /* Before HTTP/1.1 the end of the connection is the end of the answer: reset it instead. */
    if (request->req->version < 0x101)
        setsockopt(request_fd(request), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    request_pump(request);
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
    server->config.max_request_entity_size = params->max_body + HTTP_SLICE;
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
        conn_close(server->conns);
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
    server_update_listeners(server);
    return 0;
}

void http_server_pause(struct http_server *server)
{
    server->paused = true;
    server_update_listeners(server);
}

void http_server_resume(struct http_server *server)
{
    server->paused = false;
    server_update_listeners(server);
}

void http_server_drain(struct http_server *server)
{
    server->draining = true;
    server_update_listeners(server);
    /* Not h2o_context_request_shutdown(): that sets timers for HTTP/2, which never comes. */
    server->ctx.shutdown_requested = 1;
    /* Idle connections read their end now; one whose request is on its way is still served. */
    for (struct http_conn *conn = server->conns; conn; conn = conn->next)
        if (conn->state == HTTP_CONN_HEAD && !conn->sock->input->size && !conn->rearm.queued)
            shutdown(h2o_socket_get_fd(conn->sock), SHUT_RD);
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

const struct http_server_stats *http_server_stats(const struct http_server *server)
{
    return &server->stats;
}
