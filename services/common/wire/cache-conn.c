/* SPDX-License-Identifier: Apache-2.0 */
/* Makes connections to the cache service (see cache-conn.h). The time limits are options of the
 * socket. */
#include "common/wire/cache-conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static int set_limits(int fd, uint64_t usec)
{
    const struct timeval tv = {.tv_sec = (time_t)(usec / 1000000),
                               .tv_usec = (suseconds_t)(usec % 1000000)};

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
        return -errno;
    return 0;
}

static int connect_to(struct cache_conn *conn, const char *path, uint64_t timeout_usec)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int r;

    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    memcpy(sa.sun_path, path, strlen(path));
    conn->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        return -errno;
    r = set_limits(conn->fd, timeout_usec);
    if (r == 0 && connect(conn->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        r = errno == EAGAIN ? -ETIMEDOUT : -errno;
    return r;
}

static int say_hello(struct cache_conn *conn, const char *name)
{
    struct cache_hello hello = {.least = CACHE_VERSION, .most = CACHE_VERSION}, theirs;
    int r;

    cache_text_set(hello.name, sizeof(hello.name), name);
    cache_conn_ask(conn, CACHE_HELLO, 0);
    cache_put_hello(&conn->packet, &hello);
    r = cache_conn_call(conn, -1);
    if (r < 0)
        return r;
    if (conn->head.status < 0)
        return conn->head.status;
    return cache_read_hello(&conn->body, &theirs);
}

int cache_conn_open(struct cache_conn *conn, const char *path, const char *name,
                    uint64_t timeout_usec)
{
    int r;

    cache_conn_close(conn);
    r = connect_to(conn, path, timeout_usec);
    if (r == 0)
        r = say_hello(conn, name);
    if (r < 0)
        cache_conn_close(conn);
    return r;
}

static void drop_given(struct cache_conn *conn)
{
    if (conn->given >= 0)
        close(conn->given);
    conn->given = -1;
}

void cache_conn_close(struct cache_conn *conn)
{
    drop_given(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
}

void cache_conn_ask(struct cache_conn *conn, enum cache_type type, uint32_t n)
{
    cache_begin(&conn->packet, &(struct cache_head){.version = CACHE_VERSION,
                                                    .type = (uint16_t)type,
                                                    .request = ++conn->request,
                                                    .n = n});
    conn->asked = type;
}

int cache_conn_send(struct cache_conn *conn, int fd)
{
    struct iovec iov = {conn->packet.data, conn->packet.len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    ssize_t n;

    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(int));
    }
    do {
        n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    n = errno == EAGAIN ? -ETIMEDOUT : errno == EPIPE ? -ECONNRESET : -errno;
    cache_conn_close(conn);
    return (int)n;
}

/* Takes the descriptor of an answer. The buffer holds one descriptor; if there are more, the kernel
 * sets MSG_CTRUNC. */
static void take_given(struct cache_conn *conn, struct msghdr *msg)
{
    struct cmsghdr *h = CMSG_FIRSTHDR(msg);

    if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
        memcpy(&conn->given, CMSG_DATA(h), sizeof(conn->given));
}

static int conn_receive(struct cache_conn *conn)
{
    struct iovec iov = {conn->packet.data, sizeof(conn->packet.data)};
    union {
        struct cmsghdr align;
        char space[CMSG_LEN(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n;

    do {
        n = recvmsg(conn->fd, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    take_given(conn, &msg);
    if (n == 0)
        return -ECONNRESET;
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -EBADMSG;
    conn->packet.len = (size_t)n;
    return 0;
}

int cache_conn_call(struct cache_conn *conn, int fd)
{
    int r;

    drop_given(conn);
    r = cache_conn_send(conn, fd);
    if (r < 0)
        return r;
    r = conn_receive(conn);
    if (r == 0)
        r = cache_read_head(&conn->body, conn->packet.data, conn->packet.len, &conn->head);
    if (r == 0 && (!conn->head.answer || conn->head.request != conn->request ||
                   conn->head.type != conn->asked))
        r = -EBADMSG;
    if (r < 0)
        cache_conn_close(conn);
    return r;
}
