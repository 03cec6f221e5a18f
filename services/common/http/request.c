/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages the requests of the HTTP server, and writes their answers.
 *
 * A request begins when its head was read, and ends with its answer or its connection. libh2o gets
 * the request when its body is complete, and then writes the answer. If the answer comes before the
 * body is complete, conn.c writes it. While a request is processed, libh2o would not notice that
 * the client leaves, so a separate epoll set watches for this.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/http/api-error.h"
#include "common/http/server.h"
#include "core/clock.h"

/* Bytes that the headers of most answers need. */
#define RESPONSE_HEADERS 200
/* Status in the access line if the client left before the answer began. */
#define REQUEST_LEFT 499

static void request_proceed(h2o_generator_t *generator, h2o_req_t *req);

static int request_fd(const struct http_request *request)
{
    return h2o_socket_get_fd(request->conn->sock);
}

static void request_watch(struct http_request *request)
{
    /* If this side has shut down reading, EPOLLRDHUP does not mean that the peer left. */
    struct epoll_event event = {
        .events = (request->conn->deaf ? 0 : EPOLLRDHUP) | EPOLLONESHOT,
        .data.ptr = request,
    };

    if (epoll_ctl(request->server->gone_fd, EPOLL_CTL_ADD, request_fd(request), &event) == 0)
        request->watched = true;
}

static void request_unwatch(struct http_request *request)
{
    if (request->watched)
        epoll_ctl(request->server->gone_fd, EPOLL_CTL_DEL, request_fd(request), NULL);
    request->watched = false;
}

struct http_request *http_request_new(struct http_conn *conn, const struct head *head, size_t size)
{
    struct http_server *server = conn->server;
    struct http_request *request = malloc(sizeof(*request));
    struct str rest = {};

    if (!request ||
        (conn->in.len > size && str_append(&rest, conn->in.data + size, conn->in.len - size) < 0)) {
        free(request);
        return NULL;
    }
    memset(request, 0, offsetof(struct http_request, head));
    head_copy(&request->head, head);
    request->server = server;
    request->conn = conn;
    request->body.max = server->params.max_body;
    request->text = conn->in;
    conn->in = rest;
    conn->request = request;
    request->generator.proceed = request_proceed;
    request->start_usec = clock_usec();
    request->next = server->requests;
    if (request->next)
        request->next->prev = request;
    server->requests = request;
    server->stats.n_requests++;
    if (!loop_timer_is_set(&server->tick))
        loop_timer_set(server->loop, &server->tick, HTTP_TICK_USEC);
    return request;
}

void http_request_over(struct http_request *request)
{
    struct http_server *server = request->server;

    request->conn->request = NULL;
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
    if (!request->status)
        request->status = REQUEST_LEFT;
    if (request->events)
        request->events->done(request->user);
    http_body_done(request);
    str_done(&request->text);
    str_done(&request->headers);
    str_done(&request->early);
    str_done(&request->filling);
    str_done(&request->sending);
    free(request);
}

/* Called when libh2o has finished with the request. */
static void request_on_disposed(void *tie)
{
    struct http_request *request = *(struct http_request **)tie;

    loop_task_queue(request->server->loop, &request->conn->rearm);
    http_request_over(request);
}

/* Sends the next slice of the answer if no slice is being sent. False: nothing was sent. True: the
 * request may already be freed, because libh2o completes some answers at once. */
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

void http_request_kill(struct http_request *request)
{
    if (request->failed)
        return;
    request->failed = true;
    if (!request->req) {
        http_conn_close(request->conn);
        return;
    }
    shutdown(request_fd(request), SHUT_RDWR);
    request->req->http1_is_persistent = 0;
    if (!request->started) {
        request->status = request->req->res.status = REQUEST_LEFT;
        request->req->res.reason = "Client Closed Request";
        request->req->res.content_length = 0;
        request->started = true;
        request->ending = true;
        h2o_start_response(request->req, &request->generator);
    }
    /* A write in flight fails by itself. Otherwise request_pump() attempts a write, so that libh2o
     * notices the closed connection. */
    str_clear(&request->filling);
    request->sent = request->sending.len;
    request_pump(request);
}

void http_request_admit(struct http_request *request)
{
    struct http_server *server = request->server;
    const struct head *head = &request->head;

    request->admitted = true;
    if (server->params.admit)
        server->params.admit(server->params.data, request);
    if (head->refusal.status && !request->started)
        api_error_send(request, head->refusal.status, head->refusal.code, NULL,
                       head->refusal.status == 503, "%s", head->refusal.message);
}

void http_request_handle(struct http_server *server, h2o_req_t *req)
{
    h2o_socket_t *sock = req->conn->callbacks->get_socket(req->conn);
    struct http_conn *conn = sock->on_close.data;
    struct http_request *request = conn->request;
    struct http_request **tie =
        h2o_mem_alloc_shared(&req->pool, sizeof(struct http_request *), request_on_disposed);

    *tie = request;
    request->req = req;
    server->handling = request;
    if (!request->admitted)
        http_request_admit(request);
    if (server->handling && !request->started)
        server->params.handle(server->params.data, request);
    if (server->handling && !request->ended)
        request_watch(request);
    server->handling = NULL;
}

bool http_request_peer_uid(const struct http_request *request, uid_t *ret_uid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (request->conn->door != HTTP_DOOR_UNIX ||
        getsockopt(request_fd(request), SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return false;
    *ret_uid = peer.uid;
    return true;
}

enum http_door http_request_door(const struct http_request *request)
{
    return request->conn->door;
}

struct http_text http_request_method(const struct http_request *request)
{
    return request->head.method;
}

struct http_text http_request_path(const struct http_request *request)
{
    struct http_text path = request->head.target;
    const char *query = path.len ? memchr(path.data, '?', path.len) : NULL;

    if (query)
        path.len = (size_t)(query - path.data);
    return path;
}

struct http_text http_request_query(const struct http_request *request)
{
    const struct http_text target = request->head.target;
    const size_t path = http_request_path(request).len;

    if (path == target.len)
        return (struct http_text){"", 0};
    return (struct http_text){target.data + path + 1, target.len - path - 1};
}

struct http_text http_request_body(const struct http_request *request)
{
    const struct http_body *body = &request->body;

    return (struct http_text){body->data ? body->data : "", body->len};
}

void http_request_drop_body(struct http_request *request)
{
    assert(request->req);
    http_body_done(request);
}

bool http_request_is_refused(const struct http_request *request)
{
    return request->head.refusal.status != 0;
}

void http_request_limit_body(struct http_request *request, size_t max_body)
{
    request->body.max = max_body;
}

void http_request_stream_body(struct http_request *request)
{
    request->body.streamed = true;
}

void http_request_pause_body(struct http_request *request)
{
    request->body.paused = true;
    http_conn_pause(request->conn);
}

void http_request_resume_body(struct http_request *request)
{
    if (!request->body.paused)
        return;
    request->body.paused = false;
    if (!request->started)
        http_conn_resume(request->conn);
}

uint64_t http_request_length(const struct http_request *request)
{
    return request->head.chunked ? UINT64_MAX : request->head.content_length;
}

void http_request_trust(struct http_request *request)
{
    request->conn->trusted = true;
}

bool http_request_header(const struct http_request *request, const char *name,
                         struct http_text *ret_value)
{
    const size_t len = strlen(name);

    for (size_t i = 0; i < request->head.n_headers; i++) {
        const struct http_header *h = &request->head.headers[i];

        if (h->name.len == len && strncasecmp(h->name.data, name, len) == 0) {
            *ret_value = h->value;
            return true;
        }
    }
    return false;
}

uint64_t http_request_start_usec(const struct http_request *request)
{
    return request->start_usec;
}

int http_request_status(const struct http_request *request)
{
    return request->status;
}

uint64_t http_request_bytes(const struct http_request *request)
{
    return request->req ? request->req->bytes_sent : request->n_early;
}

bool http_request_failed(const struct http_request *request)
{
    return request->failed || request->aborting;
}

void http_request_set_errors(struct http_request *request, const struct error_shape *shape)
{
    request->errors = shape;
}

const struct error_shape *http_request_errors(const struct http_request *request)
{
    return request->errors ? request->errors : &errors_openai;
}

void http_request_set_events(struct http_request *request, const struct http_request_events *events,
                             void *user)
{
    request->events = events;
    request->user = user;
}

void *http_request_user(const struct http_request *request)
{
    return request->user;
}

/* --- answers --- */

void http_response_header(struct http_request *request, const char *name, const char *value,
                          size_t len)
{
    const size_t before = request->headers.len;

    /* A request whose peer left counts as answered, with the status REQUEST_LEFT. */
    if (request->started)
        return;
    /* If there is no memory for a header, the answer lacks the header. */
    if (!before && str_reserve(&request->headers, RESPONSE_HEADERS) < 0)
        return;
    if (str_append(&request->headers, name, strlen(name) + 1) < 0 ||
        str_append(&request->headers, value, len) < 0 || str_putc(&request->headers, 0) < 0)
        request->headers.len = before;
}

void http_response_close(struct http_request *request)
{
    request->closing = true;
}

/* Begins an answer. Its headers cannot change afterwards. False: the answer has already begun. */
static bool response_begin(struct http_request *request, int status, const char *type)
{
    if (request->started)
        return false;
    if (type)
        http_response_header(request, "content-type", type, strlen(type));
    request->started = true;
    request->status = status;
    return true;
}

/* Returns the header at *at in the answer's headers, and moves *at past it. False: there are no
 * more. */
static bool response_next_header(const struct http_request *request, size_t *at, const char **name,
                                 const char **value)
{
    if (*at == request->headers.len)
        return false;
    *name = request->headers.data + *at;
    *value = *name + strlen(*name) + 1;
    *at += strlen(*name) + strlen(*value) + 2;
    return true;
}

/* Returns whether an answer has a length. An answer with the status 204 (No Content) must not have
 * a length. With the status 304 (Not Modified), the length would be that of the content that is not
 * sent. */
static bool response_has_length(int status)
{
    return status != 204 && status != 304;
}

static int response_put_date(struct http_request *request)
{
    h2o_mem_pool_t pool;
    h2o_timestamp_t now;
    int r;

    h2o_mem_init_pool(&pool);
    h2o_get_timestamp(&request->server->ctx, &pool, &now);
    r = str_printf(&request->early, "Date: %s\r\n", now.str->rfc1123);
    h2o_mem_clear_pool(&pool);
    return r;
}

/* Writes an answer before libh2o has the request. The rest of the request is not read, so the
 * connection closes. */
static void response_write_early(struct http_request *request, const void *body, size_t len)
{
    struct str *out = &request->early;
    const char *name, *value;
    size_t at = 0;
    int r =
        str_printf(out, "HTTP/1.1 %d %s\r\n", request->status, api_status_text(request->status));

    r = r < 0 ? r : response_put_date(request);
    r = r < 0 ? r : str_puts(out, "Connection: close\r\n");
    if (r == 0 && response_has_length(request->status))
        r = str_printf(out, "Content-Length: %zu\r\n", len);
    while (r == 0 && response_next_header(request, &at, &name, &value))
        r = str_printf(out, "%s: %s\r\n", name, value);
    r = r < 0 ? r : str_puts(out, "\r\n");
    if (r == 0 && !http_text_is(request->head.method, "HEAD")) {
        r = str_append(out, body, len);
        request->n_early = len;
    }
    if (r < 0)
        str_clear(out);
    request->ended = request->in_flight = true;
    request->sent_usec = clock_usec();
    http_body_done(request);
    http_conn_answer(request->conn);
}

static void response_start(struct http_request *request, uint64_t length)
{
    h2o_req_t *req = request->req;
    const char *name, *value;
    size_t at = 0;

    req->res.status = request->status;
    req->res.reason = api_status_text(request->status);
    req->res.content_length =
        length == UINT64_MAX || !response_has_length(request->status) ? SIZE_MAX : (size_t)length;
    while (response_next_header(request, &at, &name, &value)) {
        /* The texts stay valid until the request is over. */
        h2o_add_header_by_str(&req->pool, &req->res.headers, name, strlen(name), 0, NULL, value,
                              strlen(value));
    }
    if (request->closing || request->server->draining)
        req->http1_is_persistent = 0;
    h2o_start_response(req, &request->generator);
}

void http_respond(struct http_request *request, int status, const char *type, const void *body,
                  size_t len)
{
    h2o_iovec_t buf;

    if (!response_begin(request, status, type))
        return;
    if (!request->req) {
        response_write_early(request, body, len);
        return;
    }
    buf = h2o_strdup(&request->req->pool, body ? body : "", len);
    response_start(request, len);
    request->ended = request->in_flight = true;
    request->sent_usec = clock_usec();
    h2o_send(request->req, &buf, len && !http_text_is(http_request_method(request), "HEAD") ? 1 : 0,
             H2O_SEND_STATE_FINAL);
}

void http_response_begin(struct http_request *request, const char *type, uint64_t length)
{
    if (!response_begin(request, 200, type))
        return;
    assert(request->req);
    response_start(request, length);
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
    /* @last goes into the chunk that is broken at its end, so the client can still read @last. */
    if (len && !request->failed && !request->ending)
        str_append(&request->filling, last, len);
    /* Before HTTP/1.1, closing the connection ends the answer normally, so the connection is reset
     * instead. */
    if (request->req->version < 0x101)
        setsockopt(request_fd(request), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    request_pump(request);
}
