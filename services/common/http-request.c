/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the HTTP server, and their answers
 *
 * A request lives in libh2o's pool of it and is disposed of with that. While it is processed an
 * epoll set of our own waits for its peer to leave, which libh2o would not notice.
 */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/api-error.h"
#include "common/http-server.h"
#include "core/clock.h"

static int request_fd(const struct http_request *request)
{
    return h2o_socket_get_fd(request->conn->sock);
}

static void request_watch(struct http_request *request)
{
    /* Where we shut the reading side, its end says nothing about the peer. */
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
    http_conn_keep_rest(request->conn);
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

void http_request_kill(struct http_request *request)
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

void http_request_handle(struct http_server *server, h2o_req_t *req)
{
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
    request->conn->used = true;
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
