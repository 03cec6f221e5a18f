/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP client of unix sockets, on libh2o's http1client
 *
 * libh2o 2.2 takes a backend that dies between two chunks for a clean end; here an end without its
 * last chunk is told as HTTP_CALL_TRUNCATED. A request on a kept connection that was dead already
 * is sent once more.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#include "common/http-h2o.h"
#include "core/clock.h"
#include "core/str.h"

/* A kept connection that was dead already says so at once; later, the other side crashed on this
 * very request, and trying again would crash it again. */
#define HTTP_RETRY_USEC (1000 * 1000u)

struct http_upstream {
    struct loop *loop;
    h2o_socketpool_t pool;
    h2o_timeout_t io_timeout;
    h2o_http1client_ctx_t ctx;
    struct sockaddr_un address;
    uint64_t keep_usec;
    struct http_call *connecting; /* inside h2o_http1client_connect_with_pool() */
};

struct http_call {
    struct http_upstream *upstream;
    h2o_http1client_t *client;
    const struct http_call_events *events;
    void *user;
    struct http_call **slot; /* the caller's pointer, cleared at the end */
    struct str head;
    h2o_iovec_t bufs[2];
    h2o_socket_cb paused_read;
    uint64_t start_usec;
    int error;
    bool pooled, retried, framed, chunked, is_head, in_callback, cancelled;
};

static void call_connect(struct http_call *call);

static void upstream_open(struct http_upstream *upstream)
{
    h2o_socketpool_init_by_address(&upstream->pool, (struct sockaddr *)&upstream->address,
                                   sizeof(upstream->address), 0, SIZE_MAX);
    h2o_socketpool_set_timeout(&upstream->pool, loop_base(upstream->loop)->loop,
                               upstream->keep_usec / 1000);
}

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
    upstream->keep_usec = keep_usec;
    upstream->address.sun_family = AF_UNIX;
    memcpy(upstream->address.sun_path, path, strlen(path));
    upstream_open(upstream);
    h2o_timeout_init(loop_base(loop)->loop, &upstream->io_timeout, timeout_usec / 1000);
    upstream->ctx.loop = loop_base(loop)->loop;
    upstream->ctx.io_timeout = &upstream->io_timeout;
    *ret_upstream = upstream;
    return 0;
}

struct http_upstream *http_upstream_free(struct http_upstream *upstream)
{
    if (!upstream)
        return NULL;
    h2o_socketpool_dispose(&upstream->pool);
    h2o_timeout_dispose(upstream->ctx.loop, &upstream->io_timeout);
    free(upstream);
    return NULL;
}

static void call_free(struct http_call *call)
{
    str_done(&call->head);
    free(call);
}

static void call_end(struct http_call *call, enum http_call_result result)
{
    if (!call->cancelled) {
        *call->slot = NULL;
        call->events->end(call->user, result, call->error);
    }
    call_free(call);
}

/* Whether libh2o's words mean a timeout: it has no other sign of one. */
static bool call_timed_out(const char *err)
{
    return strstr(err, "timeout") != NULL;
}

static int call_on_body(h2o_http1client_t *client, const char *err)
{
    struct http_call *call = client->data;
    h2o_buffer_t *input = client->sock->input;
    const bool eos = err == h2o_http1client_error_is_eos;

    /* After an error the buffer holds bytes that were not decoded. */
    if ((!err || eos) && input->size) {
        call->in_callback = true;
        call->events->body(call->user, input->bytes, input->size);
        call->in_callback = false;
        h2o_buffer_consume(&client->sock->input, input->size);
    }
    if (!err && !call->cancelled)
        return 0;
    /* A chunked body that ends without bytes being read ended by the closing of the connection. */
    if (!err)
        call_free(call);
    else if (eos && call->framed && !(call->chunked && !client->sock->bytes_read))
        call_end(call, HTTP_CALL_DONE);
    else
        call_end(call, call_timed_out(err) ? HTTP_CALL_TIMEOUT : HTTP_CALL_TRUNCATED);
    return -1;
}

static h2o_http1client_body_cb call_on_head(h2o_http1client_t *client, const char *err,
                                            int minor_version, int status, h2o_iovec_t message,
                                            h2o_header_t *headers, size_t n_headers, int size)
{
    struct http_call *call = client->data;
    struct http_header *list;

    (void)minor_version;
    (void)message;
    (void)size;
    if (err && err != h2o_http1client_error_is_eos) {
        /* A kept connection that the other side closed meanwhile: once more on a fresh one. */
        if (call->pooled && !call->retried && !call_timed_out(err) &&
            clock_usec() - call->start_usec < HTTP_RETRY_USEC) {
            call->retried = true;
            call_connect(call);
        } else {
            call_end(call, call_timed_out(err) ? HTTP_CALL_TIMEOUT : HTTP_CALL_LOST);
        }
        return NULL;
    }
    list = NEW(struct http_header, n_headers);
    for (size_t i = 0; list && i < n_headers; i++) {
        list[i] = (struct http_header){text_of(*headers[i].name), text_of(headers[i].value)};
        if (http_text_is(list[i].name, "transfer-encoding"))
            call->framed = call->chunked = true;
        else if (http_text_is(list[i].name, "content-length"))
            call->framed = true;
    }
    call->in_callback = true;
    call->events->head(call->user, status, list, list ? n_headers : 0);
    call->in_callback = false;
    free(list);
    if (call->cancelled) {
        call_free(call);
        return NULL;
    }
    if (err) {
        call_end(call, HTTP_CALL_DONE);
        return NULL;
    }
    return call_on_body;
}

static h2o_http1client_head_cb call_on_connect(h2o_http1client_t *client, const char *err,
                                               h2o_iovec_t **ret_bufs, size_t *ret_n_bufs,
                                               int *ret_is_head)
{
    struct http_call *call = client->data;

    if (err) {
        /* Unix sockets connect or fail at once, so errno still says why. */
        call->error = call->upstream->connecting == call ? errno : ECONNREFUSED;
        call_end(call, call_timed_out(err) ? HTTP_CALL_TIMEOUT : HTTP_CALL_NO_CONNECT);
        return NULL;
    }
    /* A connection out of the pool is there at once, a fresh one after a turn of the loop. */
    call->pooled = call->upstream->connecting == call;
    *ret_bufs = call->bufs;
    *ret_n_bufs = call->bufs[1].len ? 2 : 1;
    *ret_is_head = call->is_head;
    return call_on_head;
}

static void call_connect(struct http_call *call)
{
    struct http_upstream *upstream = call->upstream;

    /* The retry must not meet another dead connection. */
    if (call->retried)
        http_upstream_flush(upstream);
    upstream->connecting = call;
    errno = 0;
    h2o_http1client_connect_with_pool(&call->client, call, &upstream->ctx, &upstream->pool,
                                      call_on_connect);
    upstream->connecting = NULL;
}

void http_upstream_flush(struct http_upstream *upstream)
{
    h2o_socketpool_dispose(&upstream->pool);
    upstream_open(upstream);
}

static int call_write_head(struct http_call *call, const struct http_call_params *params)
{
    int r =
        str_printf(&call->head, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n",
                   params->method, params->path);

    for (size_t i = 0; r == 0 && i < params->n_headers; i++) {
        const struct http_header *h = &params->headers[i];

        r = str_append(&call->head, h->name.data, h->name.len);
        r = r < 0 ? r : str_puts(&call->head, ": ");
        r = r < 0 ? r : str_append(&call->head, h->value.data, h->value.len);
        r = r < 0 ? r : str_puts(&call->head, "\r\n");
    }
    if (r == 0 && params->has_body)
        r = str_printf(&call->head, "Content-Length: %zu\r\n", params->body.len);
    return r < 0 ? r : str_puts(&call->head, "\r\n");
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
    call->start_usec = clock_usec();
    call->slot = ret_call;
    call->is_head = strcmp(params->method, "HEAD") == 0;
    call->bufs[0] = h2o_iovec_init(call->head.data, call->head.len);
    call->bufs[1] = h2o_iovec_init(params->body.data, params->has_body ? params->body.len : 0);
    *ret_call = call;
    call_connect(call);
    return 0;
}

void http_call_cancel(struct http_call *call)
{
    *call->slot = NULL;
    if (call->in_callback) {
        call->cancelled = true;
        return;
    }
    h2o_http1client_cancel(call->client);
    call_free(call);
}

bool http_call_was_read(const struct http_call *call)
{
    int unread;

    return call->client->sock &&
           ioctl(h2o_socket_get_fd(call->client->sock), SIOCOUTQ, &unread) == 0 && unread == 0;
}

void http_call_pause(struct http_call *call)
{
    if (call->paused_read || !call->client->sock || !call->client->sock->_cb.read)
        return;
    call->paused_read = call->client->sock->_cb.read;
    h2o_socket_read_stop(call->client->sock);
}

void http_call_resume(struct http_call *call)
{
    if (!call->paused_read)
        return;
    h2o_socket_read_start(call->client->sock, call->paused_read);
    call->paused_read = NULL;
}
