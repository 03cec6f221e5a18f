/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends HTTP requests to unix sockets, with libh2o's sockets.
 *
 * libh2o's own client is not used: it ends the process for some malformed heads, and if a service
 * dies between two chunks, it treats the answer as complete. Answers are parsed with the same
 * strict parsers as requests (head.c, chunks.c), because a malicious model file may have taken over
 * a service. If a pooled connection turns out to be dead, its request is sent once more, on another
 * connection. The pool (idle.c) is not libh2o's, because a call may demand a connection that is
 * open already (http_call_params.held).
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#include "common/http/chunks.h"
#include "common/http/h2o.h"
#include "common/http/head.h"
#include "common/http/idle.h"
#include "core/clock.h"
#include "core/str.h"

#define CLIENT_MAX_HEADER ((size_t)32 * 1024)
#define CLIENT_MAX_EARLY  8 /* limit of informational answers (1xx) before the final answer */
#define CLIENT_SCRATCH    ((size_t)64 * 1024)
/* A pooled connection that was already dead fails at once. If it fails only after this time, the
 * service has probably crashed because of the request, and a retry would crash it again. */
#define CLIENT_RETRY_USEC (1000 * 1000u)

struct http_upstream {
    struct loop *loop;
    struct idle_pool idle;
    struct loop_queue patience;
    struct sockaddr_un address;
    char scratch[CLIENT_SCRATCH]; /* the bytes just read */
};

enum call_state {
    CALL_CONNECTING,
    CALL_WRITING,
    CALL_HEAD,
    CALL_BODY,
};

struct http_call {
    struct http_upstream *upstream;
    const struct http_call_events *events;
    void *user;
    struct http_call **slot; /* the caller's pointer, cleared when the call ends */
    enum call_state state;
    h2o_socket_t *sock;
    struct loop_wait patience;
    struct str request;          /* head of the request */
    struct str filling, sending; /* parts of a streamed body: to be sent, and being sent */
    struct str answer;           /* head of the answer, as far as received */
    h2o_iovec_t bufs[2];
    size_t n_bufs;
    struct head head; /* head of the answer; points into `answer` */
    uint64_t left;    /* remaining bytes of a body with a length */
    struct chunks chunks;
    uint64_t start_usec;
    unsigned n_early;
    bool streams, chunked, finished; /* a streamed body: its framing, and whether it is complete */
    bool writes;                     /* a write is in flight */
    bool held, pooled, retried, to_head, paused, in_callback, cancelled;
};

static void call_connect(struct http_call *call);
static void call_on_read(h2o_socket_t *sock, const char *err);

int http_upstream_new(struct loop *loop, const char *path, uint64_t timeout_usec,
                      uint64_t keep_usec, struct http_upstream **ret_upstream)
{
    struct http_upstream *upstream;

    if (strlen(path) >= sizeof(upstream->address.sun_path))
        return -ENAMETOOLONG;
    upstream = NEW(struct http_upstream, 1);
    if (!upstream)
        return -ENOMEM;
    upstream->loop = loop;
    upstream->address.sun_family = AF_UNIX;
    memcpy(upstream->address.sun_path, path, strlen(path));
    loop_queue_init(&upstream->patience, loop, timeout_usec);
    idle_pool_init(&upstream->idle, loop, keep_usec);
    *ret_upstream = upstream;
    return 0;
}

struct http_upstream *http_upstream_free(struct http_upstream *upstream)
{
    if (!upstream)
        return NULL;
    idle_pool_done(&upstream->idle);
    loop_timer_stop(upstream->loop, &upstream->patience.timer);
    free(upstream);
    return NULL;
}

/* --- the end of a call --- */

static void call_disconnect(struct http_call *call)
{
    loop_wait_stop(&call->patience);
    if (call->sock)
        h2o_socket_close(call->sock);
    call->sock = NULL;
}

static void call_free(struct http_call *call)
{
    call_disconnect(call);
    str_done(&call->request);
    str_done(&call->filling);
    str_done(&call->sending);
    str_done(&call->answer);
    free(call);
}

static void call_end(struct http_call *call, enum http_call_result result, int error)
{
    const struct http_call_events *events = call->events;
    void *user = call->user;

    *call->slot = NULL;
    call_free(call);
    events->end(user, result, error);
}

/* Ends a call whose answer is complete. @rest: whether unexpected bytes follow the answer. */
static void call_end_whole(struct http_call *call, bool rest)
{
    const bool is_sent = !call->streams || (call->finished && !http_call_pending(call));

    if (!rest && !call->head.closes && is_sent) {
        h2o_socket_read_stop(call->sock);
        loop_wait_stop(&call->patience);
        idle_pool_put(&call->upstream->idle, STEAL(call->sock));
    }
    call_end(call, HTTP_CALL_DONE, 0);
}

/* Ends or retries a call whose connection or answer is broken. */
static void call_fail(struct http_call *call, enum http_call_result result)
{
    const bool dead = call->pooled && !call->retried && !call->streams && !call->held &&
                      result == HTTP_CALL_LOST &&
                      clock_usec() - call->start_usec < CLIENT_RETRY_USEC;

    if (!dead) {
        call_end(call, result, 0);
        return;
    }
    call_disconnect(call);
    str_clear(&call->answer);
    call->retried = true;
    /* The retry must not use another dead connection of the pool. */
    idle_pool_flush(&call->upstream->idle);
    call_connect(call);
}

static void call_on_patience(struct loop_wait *wait)
{
    call_end(wait->data, HTTP_CALL_TIMEOUT, 0);
}

static void call_wait(struct http_call *call)
{
    loop_wait_start(&call->upstream->patience, &call->patience);
}

/* --- the answer --- */

/* Called after each callback. False: the callback canceled the call, which is now freed. */
static bool call_goes_on(struct http_call *call)
{
    call->in_callback = false;
    if (!call->cancelled)
        return true;
    call_free(call);
    return false;
}

static bool call_tell_body(struct http_call *call, struct http_text content)
{
    call->in_callback = true;
    call->events->body(call->user, content.data, content.len);
    return call_goes_on(call);
}

static bool call_tell_head(struct http_call *call)
{
    const struct head *head = &call->head;

    call->in_callback = true;
    call->events->head(call->user, head->status, head->headers, head->n_headers);
    return call_goes_on(call);
}

static void call_read_chunks(struct http_call *call, const char *data, size_t len)
{
    struct http_text content;
    size_t used;
    int r;

    while ((r = chunks_next(&call->chunks, data, len, &used, &content)) == 0) {
        if (!call_tell_body(call, content))
            return;
        data += used;
        len -= used;
    }
    if (r == CHUNKS_END)
        call_end_whole(call, used < len);
    else if (r != CHUNKS_MORE)
        call_end(call, HTTP_CALL_MALFORMED, 0);
}

static void call_read_body(struct http_call *call, const char *data, size_t len)
{
    const size_t n = (size_t)MIN(call->left, (uint64_t)len);

    if (call->head.chunked) {
        call_read_chunks(call, data, len);
        return;
    }
    call->left -= n;
    if (n && !call_tell_body(call, (struct http_text){data, n}))
        return;
    if (!call->left)
        call_end_whole(call, n < len);
}

/* Handles the complete final head in call->answer. */
static void call_begin_body(struct http_call *call)
{
    struct str rest = {};
    const struct head *head = &call->head;

    if (call->answer.len > head->size &&
        str_append(&rest, call->answer.data + head->size, call->answer.len - head->size) < 0) {
        call_fail(call, HTTP_CALL_LOST);
        return;
    }
    call->state = CALL_BODY;
    call->left = head->content_length;
    call->chunks = (struct chunks){.max = UINT64_MAX};
    if (!call_tell_head(call)) {
        str_done(&rest);
        return;
    }
    if (!head_has_content(head, call->to_head))
        call_end_whole(call, rest.len > 0);
    else
        call_read_body(call, rest.data, rest.len);
    str_done(&rest);
}

static void call_read_head(struct http_call *call)
{
    for (;;) {
        switch (head_check_answer(call->answer.data, call->answer.len, CLIENT_MAX_HEADER,
                                  call->to_head, &call->head)) {
        case HEAD_INCOMPLETE:
            return;
        case HEAD_REFUSED:
            call_end(call, HTTP_CALL_MALFORMED, 0);
            return;
        }
        if (call->head.status >= 200) {
            call_begin_body(call);
            return;
        }
        if (++call->n_early > CLIENT_MAX_EARLY) {
            call_end(call, HTTP_CALL_MALFORMED, 0);
            return;
        }
        str_cut(&call->answer, call->head.size);
    }
}

static void call_on_read(h2o_socket_t *sock, const char *err)
{
    struct http_call *call = sock->data;
    char *scratch = call->upstream->scratch;
    const ssize_t n = err ? 0 : read(h2o_socket_get_fd(sock), scratch, CLIENT_SCRATCH);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        call_fail(call, call->state == CALL_BODY ? HTTP_CALL_TRUNCATED : HTTP_CALL_LOST);
        return;
    }
    call_wait(call);
    if (call->state == CALL_BODY)
        call_read_body(call, scratch, (size_t)n);
    else if (str_append(&call->answer, scratch, (size_t)n) < 0)
        call_fail(call, HTTP_CALL_LOST);
    else
        call_read_head(call);
}

/* --- the request --- */

static void call_on_part(h2o_socket_t *sock, const char *err);

/* Sends what has been written of a streamed body, if nothing is being sent. */
static void call_pump(struct http_call *call)
{
    const struct str swap = call->sending;
    h2o_iovec_t buf;

    if (call->writes || !call->filling.len || call->state < CALL_HEAD)
        return;
    call->sending = call->filling;
    call->filling = swap;
    str_clear(&call->filling);
    buf = h2o_iovec_init(call->sending.data, call->sending.len);
    call->writes = true;
    h2o_socket_write(call->sock, &buf, 1, call_on_part);
}

static void call_on_part(h2o_socket_t *sock, const char *err)
{
    struct http_call *call = sock->data;

    call->writes = false;
    str_clear(&call->sending);
    /* A service that refuses the body may close the connection after its answer, which is still
     * read. */
    if (err)
        return;
    if (call->state == CALL_HEAD)
        call_wait(call);
    call_pump(call);
    if (!http_call_pending(call) && !call->finished)
        call->events->writable(call->user);
}

static void call_on_written(h2o_socket_t *sock, const char *err)
{
    struct http_call *call = sock->data;

    if (err) {
        call_fail(call, HTTP_CALL_LOST);
        return;
    }
    call->state = CALL_HEAD;
    call_wait(call);
    h2o_socket_dont_read(sock, 1);
    h2o_socket_read_start(sock, call_on_read);
    if (call->streams)
        call_pump(call);
}

static void call_write(struct http_call *call)
{
    call->state = CALL_WRITING;
    h2o_socket_write(call->sock, call->bufs, call->n_bufs, call_on_written);
}

static void call_on_connect(h2o_socket_t *sock, const char *err)
{
    struct http_call *call = sock->data;

    if (err)
        call_end(call, HTTP_CALL_NO_CONNECT, ECONNREFUSED);
    else
        call_write(call);
}

static void call_connect(struct http_call *call)
{
    struct http_upstream *upstream = call->upstream;

    call->state = CALL_CONNECTING;
    call_wait(call);
    call->sock = idle_pool_take(&upstream->idle);
    call->pooled = call->sock != NULL;
    errno = ENOTCONN;
    if (!call->sock && !call->held)
        call->sock = h2o_socket_connect(loop_base(upstream->loop)->loop,
                                        (struct sockaddr *)&upstream->address,
                                        sizeof(upstream->address), call_on_connect);
    if (!call->sock) {
        /* Unix sockets connect or fail immediately, so errno still has the reason. */
        call_end(call, HTTP_CALL_NO_CONNECT, errno);
        return;
    }
    call->sock->data = call;
    if (call->pooled)
        call_write(call);
}

static int call_write_head(struct http_call *call, const struct http_call_params *params)
{
    struct str *out = &call->request;
    int r = str_printf(out, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n",
                       params->method, params->path);

    for (size_t i = 0; r == 0 && i < params->n_headers; i++) {
        const struct http_header *h = &params->headers[i];

        r = str_append(out, h->name.data, h->name.len);
        r = r < 0 ? r : str_puts(out, ": ");
        r = r < 0 ? r : str_append(out, h->value.data, h->value.len);
        r = r < 0 ? r : str_puts(out, "\r\n");
    }
    if (r == 0 && params->streams && params->length == UINT64_MAX)
        r = str_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (r == 0 && params->streams)
        r = str_printf(out, "Content-Length: %llu\r\n", (unsigned long long)params->length);
    else if (r == 0 && params->has_body)
        r = str_printf(out, "Content-Length: %zu\r\n", params->body.len);
    return r < 0 ? r : str_puts(out, "\r\n");
}

int http_call_start(struct http_upstream *upstream, const struct http_call_params *params,
                    const struct http_call_events *events, void *user, struct http_call **ret_call)
{
    struct http_call *call = NEW(struct http_call, 1);
    int r;

    if (!call)
        return -ENOMEM;
    r = call_write_head(call, params);
    if (r < 0) {
        call_free(call);
        return r;
    }
    call->upstream = upstream;
    call->events = events;
    call->user = user;
    call->patience = (struct loop_wait){.fire = call_on_patience, .data = call};
    call->start_usec = clock_usec();
    call->slot = ret_call;
    call->to_head = strcmp(params->method, "HEAD") == 0;
    call->held = params->held;
    call->streams = params->streams;
    call->chunked = params->streams && params->length == UINT64_MAX;
    /* A call that streams its body cannot be repeated, so it uses no connection of the pool, which
     * may be dead. */
    if (call->streams)
        idle_pool_flush(&upstream->idle);
    call->bufs[0] = h2o_iovec_init(call->request.data, call->request.len);
    call->bufs[1] = h2o_iovec_init(params->body.data, params->has_body ? params->body.len : 0);
    call->n_bufs = call->bufs[1].len ? 2 : 1;
    *ret_call = call;
    call_connect(call);
    return 0;
}

int http_call_write(struct http_call *call, const void *data, size_t len)
{
    int r = call->chunked && len ? str_printf(&call->filling, "%zx\r\n", len) : 0;

    r = r < 0 ? r : str_append(&call->filling, data, len);
    if (r == 0 && call->chunked && len)
        r = str_puts(&call->filling, "\r\n");
    if (r == 0)
        call_pump(call);
    return r;
}

size_t http_call_pending(const struct http_call *call)
{
    return call->filling.len + call->sending.len;
}

int http_call_finish(struct http_call *call)
{
    int r = 0;

    call->finished = true;
    if (call->chunked)
        r = str_puts(&call->filling, "0\r\n\r\n");
    if (r == 0)
        call_pump(call);
    return r;
}

void http_call_cancel(struct http_call *call)
{
    *call->slot = NULL;
    if (call->in_callback)
        call->cancelled = true;
    else
        call_free(call);
}

bool http_call_was_read(const struct http_call *call)
{
    int unread;

    return call->sock && ioctl(h2o_socket_get_fd(call->sock), SIOCOUTQ, &unread) == 0 &&
           unread == 0;
}

void http_call_pause(struct http_call *call)
{
    if (call->paused || call->state != CALL_BODY)
        return;
    call->paused = true;
    h2o_socket_read_stop(call->sock);
    loop_wait_stop(&call->patience);
}

void http_call_resume(struct http_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    h2o_socket_read_start(call->sock, call_on_read);
    call_wait(call);
}
