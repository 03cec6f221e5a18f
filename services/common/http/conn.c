/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages the connections of the HTTP server, and reads from them.
 *
 * Only this file reads from connections: libh2o's reading is disabled and its read callback
 * replaced. A head is checked (head.c) and its request is admitted before any of the body is read.
 * libh2o gets a request only when the request is complete. It then gets a rewritten head, without
 * the body. So libh2o cannot interpret the head in another way than this server. If a request is
 * answered before libh2o gets it, this file writes the answer. After such an answer the connection
 * is not closed at once: the server reads and drops what the peer still sends, so that the answer
 * arrives. While a request is processed, nothing is read.
 */
#include <errno.h>
#include <string.h>

#include "common/http/api-error.h"
#include "common/http/server.h"

/* A connection is read at most this many times before other connections get their turn. */
#define CONN_READS 4

static void conn_on_read(h2o_socket_t *sock, const char *err);

/* libh2o's callback closes the connection when it gets an error, and then calls conn_on_close(). */
void http_conn_close(struct http_conn *conn)
{
    conn->read(conn->sock, h2o_socket_error_closed);
}

static void conn_on_close(void *data)
{
    struct http_conn *conn = data;
    struct http_server *server = conn->server;

    loop_task_cancel(server->loop, &conn->rearm);
    loop_wait_stop(&conn->wait);
    http_room_leave(conn);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    if (conn->request)
        http_request_over(conn->request);
    str_done(&conn->in);
    free(conn);
    server->stats.n_connections--;
    if (!server->stats.n_connections && server->params.unused)
        server->params.unused(server->params.unused_data);
}

/* Shuts down the receiving side of the socket. A request that the peer has already sent is still
 * read. */
static void conn_deafen(struct http_conn *conn)
{
    conn->deaf = true;
    shutdown(h2o_socket_get_fd(conn->sock), SHUT_RD);
}

static void conn_wait(struct http_conn *conn, enum http_wait what)
{
    loop_wait_start(&conn->server->waits[what], &conn->wait);
}

/* Marks the connection as busy: a request is being read or answered, so a new connection must not
 * replace this one. */
static void conn_engage(struct http_conn *conn, enum http_conn_state state)
{
    conn->state = state;
    http_room_busy(conn);
    loop_wait_stop(&conn->wait);
}

/* Makes the connection wait for a head. */
static void conn_rest(struct http_conn *conn)
{
    conn->state = HTTP_CONN_HEAD;
    http_room_idle(conn);
    conn_wait(conn, conn->used && !conn->in.len ? HTTP_WAIT_KEEP : HTTP_WAIT_HEAD);
}

/* --- answers written here --- */

static void conn_linger(struct http_conn *conn)
{
    /* Closing with unread input would reset the connection, and the peer might lose the answer. */
    shutdown(h2o_socket_get_fd(conn->sock), SHUT_WR);
    conn->state = HTTP_CONN_LINGER;
    conn->linger = MAX(conn->server->params.max_bodies, HTTP_SCRATCH);
    str_done(&conn->in);
    http_room_idle(conn);
    conn_wait(conn, HTTP_WAIT_LINGER);
    h2o_socket_read_start(conn->sock, conn_on_read);
}

static void conn_on_answered(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;

    if (err) {
        conn->request->failed = true;
        http_conn_close(conn);
        return;
    }
    http_request_over(conn->request);
    conn_linger(conn);
}

void http_conn_answer(struct http_conn *conn)
{
    h2o_iovec_t buf = h2o_iovec_init(conn->request->early.data, conn->request->early.len);

    conn_engage(conn, HTTP_CONN_ANSWER);
    h2o_socket_read_stop(conn->sock);
    h2o_socket_write(conn->sock, &buf, 1, conn_on_answered);
}

/* Refuses a request whose head is incomplete or malformed, or which must not be served. */
static void conn_refuse(struct http_conn *conn, struct head *head, int status, const char *code,
                        const char *message)
{
    struct http_request *request;

    if (status == 503)
        conn->server->stats.n_refused++;
    else
        conn->server->stats.n_malformed++;
    head->refusal.status = status;
    head->refusal.code = code;
    head->refusal.message = message;
    request = http_request_new(conn, head, conn->in.len);
    if (request)
        http_request_admit(request);
    else
        http_conn_close(conn);
}

static void conn_on_wait(struct loop_wait *wait)
{
    struct http_conn *conn = wait->data;

    if (conn->state == HTTP_CONN_BODY) {
        conn->server->stats.n_malformed++;
        api_error_send(conn->request, 408, "request_timeout", NULL, 0,
                       "The request body did not arrive in time.");
    } else if (conn->state == HTTP_CONN_HEAD && conn->in.len) {
        struct head head;

        if (head_check(conn->in.data, conn->in.len, conn->server->params.max_header, &head) ==
            HEAD_INCOMPLETE)
            conn_refuse(conn, &head, 408, "request_timeout",
                        "The request head did not arrive in time.");
    } else if (conn->state == HTTP_CONN_HEAD && conn->server->draining && !conn->deaf) {
        conn_deafen(conn);
    } else {
        http_conn_close(conn);
    }
}

/* --- reading --- */

static bool conn_read_body(struct http_conn *conn, const char *data, size_t len)
{
    size_t used = 0;

    switch (http_body_take(conn->request, data, len, &used)) {
    case HTTP_BODY_MORE:
        if (conn->request->body.streamed && !conn->request->body.paused)
            conn_wait(conn, HTTP_WAIT_BODY);
        return !conn->request->body.paused;
    case HTTP_BODY_ANSWERED:
        return false;
    case HTTP_BODY_WHOLE:
        break;
    }
    if (used < len && str_append(&conn->in, data + used, len - used) < 0) {
        http_conn_close(conn);
        return false;
    }
    http_conn_hand_over(conn);
    return false;
}

void http_conn_pause(struct http_conn *conn)
{
    if (conn->state != HTTP_CONN_BODY)
        return;
    h2o_socket_read_stop(conn->sock);
    loop_wait_stop(&conn->wait);
}

void http_conn_resume(struct http_conn *conn)
{
    if (conn->state != HTTP_CONN_BODY)
        return;
    conn_wait(conn, HTTP_WAIT_BODY);
    h2o_socket_read_start(conn->sock, conn_on_read);
}

static void conn_send_continue(struct http_conn *conn)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

    /* The send buffer is empty, so these few bytes fit. A client that does not get them sends its
     * body after a timeout. */
    if (write(h2o_socket_get_fd(conn->sock), text, sizeof(text) - 1) < 0)
        return;
}

/* Admits the request and begins to read its body. False: the request was answered, or libh2o has
 * it; the connection may be freed. */
static bool conn_begin_body(struct http_conn *conn)
{
    struct http_request *request = conn->request;
    struct str rest = conn->in;
    bool goes_on = true;

    http_request_admit(request);
    if (request->started)
        return false;
    if (!http_body_begin(request))
        return false;
    conn_engage(conn, HTTP_CONN_BODY);
    conn_wait(conn, HTTP_WAIT_BODY);
    if (request->head.continues && !rest.len)
        conn_send_continue(conn);
    conn->in = (struct str){};
    if (rest.len)
        goes_on = conn_read_body(conn, rest.data, rest.len);
    str_done(&rest);
    return goes_on;
}

/* Handles a complete head. False: stop reading. */
static bool conn_begin_request(struct http_conn *conn, const struct head *head)
{
    conn_engage(conn, conn->state);
    if (!http_request_new(conn, head, head->size)) {
        http_conn_close(conn);
        return false;
    }
    if (head->chunked || head->content_length)
        return conn_begin_body(conn);
    http_conn_hand_over(conn);
    return false;
}

/* Parses conn->in, whose last @more bytes are new. False: stop reading. */
static bool conn_read_head(struct http_conn *conn, size_t more)
{
    const size_t max_header = conn->server->params.max_header;
    const char *data = conn->in.data;
    struct head head;

    if (conn->used && conn->in.len == more)
        conn_wait(conn, HTTP_WAIT_HEAD);
    /* Without a new line end, the head is still incomplete and need not be parsed again. */
    if (conn->in.len < max_header && !memchr(data + conn->in.len - more, '\n', more))
        return true;
    switch (head_check(data, conn->in.len, max_header, &head)) {
    case HEAD_INCOMPLETE:
        return true;
    case HEAD_REFUSED:
        conn_refuse(conn, &head, head.refusal.status, head.refusal.code, head.refusal.message);
        return false;
    }
    if (!conn->refused)
        return conn_begin_request(conn, &head);
    conn_refuse(conn, &head, 503, "too_many_connections",
                "The server has reached its limit of connections; try again later.");
    return false;
}

/* Handles bytes that were read. False: stop reading; the connection may be freed. */
static bool conn_take(struct http_conn *conn, const char *data, size_t len)
{
    switch (conn->state) {
    case HTTP_CONN_HEAD:
        if (str_append(&conn->in, data, len) == 0)
            return conn_read_head(conn, len);
        break;
    case HTTP_CONN_BODY:
        return conn_read_body(conn, data, len);
    case HTTP_CONN_LINGER:
        if (len < conn->linger) {
            conn->linger -= len;
            return true;
        }
        break;
    default:
        return false;
    }
    http_conn_close(conn);
    return false;
}

static void conn_on_read(h2o_socket_t *sock, const char *err)
{
    struct http_conn *conn = sock->on_close.data;
    ssize_t n = 1;
    size_t size = 1;

    for (unsigned i = 0; i < CONN_READS && n == (ssize_t)size; i++) {
        char *space = conn->state == HTTP_CONN_BODY ? http_body_space(conn->request, &size) : NULL;

        if (!space) {
            space = conn->server->scratch;
            size = HTTP_SCRATCH;
        }
        n = err ? -1 : read(h2o_socket_get_fd(sock), space, size);
        if (n < 0 && !err && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            http_conn_close(conn);
            return;
        }
        if (!conn_take(conn, space, (size_t)n))
            return;
    }
}

/* --- libh2o --- */

/* Installs conn_on_read() instead of libh2o's read callback, at the start and after each answer. */
static void conn_arm(struct http_conn *conn)
{
    if (!h2o_socket_is_reading(conn->sock) || conn->sock->_cb.read == conn_on_read)
        return;
    conn->read = conn->sock->_cb.read;
    conn->sock->_cb.read = conn_on_read;
}

static void conn_rearm(struct loop_task *task)
{
    struct http_conn *conn = task->data;

    conn_arm(conn);
    conn_rest(conn);
    if (conn->in.len)
        conn_read_head(conn, conn->in.len);
    else if (conn->server->draining)
        conn_deafen(conn);
}

static char *conn_put(char *out, struct http_text text, const char *end)
{
    memcpy(out, text.data, text.len);
    out += text.len;
    memcpy(out, end, strlen(end));
    return out + strlen(end);
}

/* Returns whether libh2o must not get a header, because the header is about the body. */
static bool conn_keeps(struct http_text name)
{
    return http_text_is_nocase(name, "content-length") ||
           http_text_is_nocase(name, "transfer-encoding") || http_text_is_nocase(name, "expect");
}

void http_conn_hand_over(struct http_conn *conn)
{
    const struct head *head = &conn->request->head;
    /* A rewritten line may be longer than the original: the client may have omitted spaces, or CR
     * at the end. */
    h2o_iovec_t space =
        h2o_buffer_reserve(&conn->sock->input, head->size + 4 * head->n_headers + 16);
    char *out = space.base;

    conn_engage(conn, HTTP_CONN_BUSY);
    conn->used = true;
    out = conn_put(out, head->method, " ");
    out = conn_put(out, head->target, head->http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    for (size_t i = 0; i < head->n_headers; i++)
        if (!conn_keeps(head->headers[i].name)) {
            out = conn_put(out, head->headers[i].name, ": ");
            out = conn_put(out, head->headers[i].value, "\r\n");
        }
    memcpy(out, "\r\n", 2);
    conn->sock->input->size = (size_t)(out + 2 - space.base);
    conn->read(conn->sock, NULL);
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
    conn->wait = (struct loop_wait){.fire = conn_on_wait, .data = conn};
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->stats.n_connections++;
    server->stats.n_accepted++;
    http_room_enter(conn);
    sock->on_close.cb = conn_on_close;
    sock->on_close.data = conn;
    h2o_socket_dont_read(sock, 1);
    h2o_accept(&server->accept, sock);
    conn_arm(conn);
    conn_rest(conn);
}

void http_conn_drain(struct http_conn *conn)
{
    if (conn->state != HTTP_CONN_HEAD || conn->in.len || conn->rearm.queued)
        return;
    if (conn->used)
        conn_deafen(conn);
    else
        conn_wait(conn, HTTP_WAIT_LAST);
}
