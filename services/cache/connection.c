/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages connections: reads request packets and sends answer packets.
 *
 * A client sends one request at a time, so the answer fits into the socket buffer. The server
 * disconnects a client that does not read its answers.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "cache/server.h"
#include "common/service/log.h"

static void list_add(struct session *session)
{
    struct server *server = session->server;

    session->prev = NULL;
    session->next = server->sessions;
    if (session->next)
        session->next->prev = session;
    server->sessions = session;
    server->n_sessions++;
}

static void list_remove(struct session *session)
{
    struct server *server = session->server;

    if (session->next)
        session->next->prev = session->prev;
    *(session->prev ? &session->prev->next : &server->sessions) = session->next;
    server->n_sessions--;
}

static pid_t peer_of(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? 0 : peer.pid;
}

/* Makes room for one more connection: if @client, or all clients together, already have the
 * maximum number of connections, closes one of these connections. */
static void make_room(struct server *server, pid_t client)
{
    struct session *oldest = NULL, *own = NULL;
    size_t n_own = 0;

    for (struct session *s = server->sessions; s; s = s->next) {
        oldest = s;
        if (s->client == client) {
            own = s;
            n_own++;
        }
    }
    if (n_own >= SERVER_MAX_SESSIONS_OF_ONE)
        oldest = own;
    else if (server->n_sessions < SERVER_MAX_SESSIONS)
        return;
    if (server_may_complain(server, SERVER_CROWDED))
        log_warn("there are too many connections from %s; the one that has been silent longest is "
                 "closed",
                 oldest == own ? "the same process" : "all processes");
    session_free(oldest);
}

static void drop_in_fds(struct server *server)
{
    for (size_t i = 0; i < server->n_in_fds; i++)
        if (server->in_fds[i] >= 0)
            close(server->in_fds[i]);
    server->n_in_fds = 0;
}

static void take_fds(struct server *server, struct msghdr *msg)
{
    for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
        size_t n;

        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        n = MIN(n, ARRAY_SIZE(server->in_fds) - server->n_in_fds);
        memcpy(server->in_fds + server->n_in_fds, CMSG_DATA(h), n * sizeof(int));
        server->n_in_fds += n;
    }
}

/* Receives a packet. Returns 1: server->in has the packet; 0: there is no packet now; negative: the
 * connection has ended. */
static int connection_receive(struct session *session)
{
    struct server *server = session->server;
    struct iovec iov = {server->in.data, sizeof(server->in.data)};
    /* A client may send one descriptor, and there is space for two. The kernel drops further
     * descriptors and sets MSG_CTRUNC. */
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(server->in_fds))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const ssize_t n = recvmsg(session->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    take_fds(server, &msg);
    if (n == 0)
        return -ECONNRESET;
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -EBADMSG;
    server->in.len = (size_t)n;
    return 1;
}

/* Sends the answer, and closes the descriptor that is sent with it. */
static int send_answer(struct session *session)
{
    struct server *server = session->server;
    struct iovec iov = {server->out.data, server->out.len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(server->out_fd))];
    } control = {0};
    int r;

    if (server->out_fd >= 0) {
        control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS,
                                         .cmsg_len = CMSG_LEN(sizeof(server->out_fd))};
        memcpy(CMSG_DATA(&control.align), &server->out_fd, sizeof(server->out_fd));
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
    }
    r = sendmsg(session->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
    if (server->out_fd >= 0)
        close(server->out_fd);
    server->out_fd = -1;
    return r;
}

/* Tells a client that speaks another version of the protocol which version this service speaks. */
static void answer_alien(struct server *server, const struct cache_head *head)
{
    const struct cache_hello hello = {
        .least = CACHE_VERSION, .most = CACHE_VERSION, .name = "sconce-cache"};

    cache_begin(&server->out, &(struct cache_head){.version = CACHE_VERSION,
                                                   .type = CACHE_HELLO,
                                                   .answer = true,
                                                   .request = head->request,
                                                   .status = -EPROTONOSUPPORT});
    cache_put_hello(&server->out, &hello);
}

static int connection_serve(struct session *session)
{
    struct server *server = session->server;
    struct cache_reader body;
    struct cache_head head;
    int r, sent;

    server->out.len = 0;
    server->out_fd = -1;
    r = cache_read_head(&body, server->in.data, server->in.len, &head);
    if (r == -EPROTONOSUPPORT)
        answer_alien(server, &head);
    else if (r == 0)
        r = command_answer(session, &head, &body);
    if (server->out.len == 0)
        return r;
    sent = send_answer(session);
    return r < 0 ? r : sent;
}

static void session_on_readable(void *data)
{
    struct session *session = data;
    struct server *server = session->server;
    int r = connection_receive(session);

    list_remove(session);
    list_add(session);
    if (r > 0)
        r = connection_serve(session);
    drop_in_fds(server);
    if (r >= 0)
        return;
    if (r == -EBADMSG) {
        server->status.malformed_total++;
        if (server_may_complain(server, SERVER_MALFORMED))
            log_warn("a client%s%s sent a malformed request and was disconnected",
                     session->name[0] ? ", " : "", session->name);
    } else if (r != -ECONNRESET && r != -EPIPE) {
        log_info("a client%s%s was disconnected: %s", session->name[0] ? ", " : "", session->name,
                 strerror(-r));
    }
    session_free(session);
}

int session_new(struct server *server, int fd)
{
    struct session *session = NEW(struct session, 1);
    int r;

    if (!session) {
        close(fd);
        return -ENOMEM;
    }
    session->server = server;
    session->fd = fd;
    session->client = peer_of(fd);
    session->id = ++server->last_session;
    make_room(server, session->client);
    r = loop_watch_new(server->loop, fd, session_on_readable, session, &session->watch);
    if (r < 0) {
        close(fd);
        free(session);
        return r;
    }
    list_add(session);
    return 0;
}

struct session *session_free(struct session *session)
{
    list_remove(session);
    loop_watch_free(session->watch);
    close(session->fd);
    free(session);
    return NULL;
}
