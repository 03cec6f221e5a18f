/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls with libh2o's event loop, and watches other descriptors in it.
 *
 * libh2o's buffering in temporary files is disabled, because a confined service cannot create
 * files.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/http/h2o.h"

struct loop_watch {
    h2o_socket_t *sock;
    void (*readable)(void *data);
    void *data;
};

int http_base_new(struct http_base **ret_base)
{
    struct http_base *base = NEW(struct http_base, 1);

    if (!base)
        return -ENOMEM;
    h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
    base->loop = h2o_evloop_create();
    *ret_base = base;
    return 0;
}

struct http_base *http_base_free(struct http_base *base)
{
    /* libh2o 2.2 cannot close the epoll descriptor of a loop. This does not matter, because a
     * process ends when its loop does. */
    if (base) {
        h2o_evloop_run(base->loop, 0);
        free(base->loop);
        free(base);
    }
    return NULL;
}

int http_base_poll(struct http_base *base, int timeout_msec)
{
    return h2o_evloop_run(base->loop, timeout_msec) == 0 ? 0 : -errno;
}

static void watch_on_read(h2o_socket_t *sock, const char *err)
{
    struct loop_watch *watch = sock->data;

    (void)err;
    watch->readable(watch->data);
}

int loop_watch_new(struct loop *loop, int fd, void (*readable)(void *data), void *data,
                   struct loop_watch **ret_watch)
{
    struct loop_watch *watch = NEW(struct loop_watch, 1);
    int copy;

    if (!watch)
        return -ENOMEM;
    /* A socket of libh2o closes its descriptor, so it gets a copy of the caller's descriptor. */
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
        free(watch);
        return -errno;
    }
    watch->readable = readable;
    watch->data = data;
    watch->sock = h2o_evloop_socket_create(loop_base(loop)->loop, copy, H2O_SOCKET_FLAG_DONT_READ);
    watch->sock->data = watch;
    h2o_socket_read_start(watch->sock, watch_on_read);
    *ret_watch = watch;
    return 0;
}

struct loop_watch *loop_watch_free(struct loop_watch *watch)
{
    if (watch) {
        h2o_socket_read_stop(watch->sock);
        h2o_socket_close(watch->sock);
        free(watch);
    }
    return NULL;
}
