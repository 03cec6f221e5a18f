/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the HTTP server, until a request is whole
 *
 * A read callback of ours stands before libh2o's own: it checks request heads (head.c), so that
 * malformed and oversized requests get JSON answers and a lingering close that lets these arrive.
 * While a request is processed nobody reads; bytes behind it are kept aside until it is answered.
 */
#include <string.h>

#include "common/api-error.h"
#include "common/http-server.h"

#define HTTP_LINGER_USEC (10 * 1000000u)
/* Whoever has just connected is about to send: when the service ends, so long for it to come. */
#define HTTP_FRESH_USEC (500 * 1000u)

static void conn_on_read(h2o_socket_t *sock, const char *err);

/* libh2o closes the connection on errors, and with it ours. */
void http_conn_close(struct http_conn *conn)
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
    http_server_update_listeners(server);
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

/* The peer may have sent a request already, which is then read before the end. */
static void conn_deafen(struct http_conn *conn)
{
    conn->deaf = true;
    shutdown(h2o_socket_get_fd(conn->sock), SHUT_RD);
}

static void conn_on_linger(struct loop_timer *timer)
{
    struct http_conn *conn = timer->data;

    if (conn->state == HTTP_CONN_LINGER)
        http_conn_close(conn);
    else if (conn->state == HTTP_CONN_HEAD && !conn->sock->input->size && !conn->rearm.queued)
        conn_deafen(conn);
}

static void conn_on_refused(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;

    if (err) {
        http_conn_close(conn);
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
        http_conn_close(conn);
        return;
    }
    buf = h2o_iovec_init(conn->text.data, conn->text.len);
    h2o_socket_write(conn->sock, &buf, 1, conn_on_refused);
}

/* By the path, which stands behind the method; while that is not whole nothing is decided. */
static size_t conn_max_body(const struct http_server_params *params, const char *data, size_t len)
{
    const char *path = memchr(data, ' ', len);
    const size_t n = params->large_path ? strlen(params->large_path) : 0;

    if (n && path && (size_t)(data + len - path) > n &&
        memcmp(path + 1, params->large_path, n) == 0)
        return params->large_body;
    return params->max_body;
}

static void conn_on_read(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;
    const struct http_server_params *params = &conn->server->params;

    if (err) {
        http_conn_close(conn);
        return;
    }
    if (conn->state == HTTP_CONN_LINGER) {
        h2o_buffer_consume(&sock->input, sock->input->size);
        return;
    }
    if (conn->state == HTTP_CONN_HEAD) {
        const struct head_limits limits = {
            params->max_header, conn_max_body(params, sock->input->bytes, sock->input->size)};

        conn->max_body = limits.max_body;
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
    if (conn->head.chunked && sock->input->size - conn->head.size > conn->max_body) {
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
            conn_deafen(conn);
        return;
    }
    space = h2o_buffer_reserve(&conn->sock->input, conn->text.len);
    memcpy(space.base, conn->text.data, conn->text.len);
    conn->sock->input->size += conn->text.len;
    str_done(&conn->text);
    conn_on_read(conn->sock, NULL);
}

void http_conn_open(struct http_server *server, h2o_socket_t *sock, enum http_door door)
{
    struct http_conn *conn = NEW(struct http_conn, 1);

    if (!conn) {
        h2o_socket_close(sock);
        return;
    }
    conn->server = server;
    conn->door = door;
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
    http_server_update_listeners(server);
}

void http_conn_keep_rest(struct http_conn *conn)
{
    h2o_buffer_t *input = conn->sock->input;

    str_clear(&conn->text);
    if (input->size > conn->request_size) {
        str_append(&conn->text, input->bytes + conn->request_size,
                   input->size - conn->request_size);
        input->size = conn->request_size;
    }
}

void http_conn_drain(struct http_conn *conn)
{
    if (conn->state != HTTP_CONN_HEAD || conn->sock->input->size || conn->rearm.queued)
        return;
    if (conn->used)
        conn_deafen(conn);
    else
        loop_timer_set(conn->server->loop, &conn->linger, HTTP_FRESH_USEC);
}
