/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages connections: reads questions (requests of the chat service) and sends answers.
 *
 * A client sends one question at a time, and the body of an answer is in a memfd, so an answer fits
 * into the socket buffer. A client that does not read its answers is disconnected.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/service/log.h"
#include "common/wire/keep-protocol.h"
#include "keep/keep.h"

/* The largest number of connections. The chat service opens fewer. If there is one more, the oldest
 * connection is closed. */
#define SESSIONS_MAX 256

struct keep_session {
    struct keep *keep;
    int fd;
    struct loop_watch *watch;
    struct keep_session *prev, *next;
};

static void session_free(struct keep_session *session)
{
    struct keep *keep = session->keep;

    if (session->next)
        session->next->prev = session->prev;
    *(session->prev ? &session->prev->next : &keep->sessions) = session->next;
    keep->n_sessions--;
    loop_watch_free(session->watch);
    close(session->fd);
    free(session);
}

/* Fills in the numbers of an answer. If the archive cannot be read, they stay 0. */
static void session_put_numbers(const struct keep *keep, struct keep_numbers *ret_numbers)
{
    struct archive_numbers n = {};

    if (!keep->archive || archive_numbers(keep->archive, &n) < 0)
        return;
    *ret_numbers = (struct keep_numbers){
        .entries = n.n_entries,
        .bytes = n.n_bytes,
        .tenants = n.n_tenants,
        .added_total = n.n_added,
        .found_total = n.n_found,
        .missed_total = n.n_missed,
        .expired_total = n.n_expired,
        .evicted_total = n.n_evicted,
        .refused_total = n.n_refused,
    };
}

/* Answers @question. Writes the answer into @answer. */
static int session_serve(struct keep *keep, const struct keep_packet *question,
                         struct keep_packet *answer)
{
    _cleanup_str_ struct str body = {};
    const char *mark = memchr(question->target, '?', question->head.target_len);
    struct keep_request r = {
        .keep = keep,
        .method = question->head.method,
        .tenant = question->head.tenant,
        .path = {question->target, question->head.target_len},
        .now = time(NULL),
    };
    int e = keep_packet_read_body(question, true, &body);

    if (e < 0)
        return e;
    if (mark) {
        r.path.len = (size_t)(mark - question->target);
        r.query = (struct http_text){mark + 1, question->head.target_len - r.path.len - 1};
    }
    r.body = (struct http_text){body.data ? body.data : "", body.len};
    keep_answer_make(answer, keep_answer(&r));
    session_put_numbers(keep, &answer->head.numbers);
    e = keep_packet_add_body(answer, (struct http_text){r.out.data, r.out.len});
    str_done(&r.out);
    return e;
}

static void session_on_readable(void *data)
{
    struct keep_session *session = data;
    static struct keep_packet question, answer;
    int r = keep_packet_receive(&question, session->fd, MSG_DONTWAIT);

    answer.fd = -1;
    if (r == 0) {
        service_touch(session->keep->service);
        r = session_serve(session->keep, &question, &answer);
        r = r < 0 ? r : keep_packet_send(&answer, session->fd, MSG_DONTWAIT);
    }
    keep_packet_done(&question);
    keep_packet_done(&answer);
    if (r == 0)
        return;
    if (r == -EBADMSG || r == -EPROTONOSUPPORT)
        log_warn("a client sent a malformed request and was disconnected");
    else if (r != -ECONNRESET)
        log_info("a client was disconnected: %s", strerror(-r));
    session_free(session);
}

static int session_new(struct keep *keep, int fd)
{
    struct keep_session *session = NEW(struct keep_session, 1), *oldest = keep->sessions;
    int r;

    if (!session)
        return -ENOMEM;
    while (oldest && oldest->next)
        oldest = oldest->next;
    if (keep->n_sessions >= SESSIONS_MAX)
        session_free(oldest);
    *session = (struct keep_session){.keep = keep, .fd = fd, .next = keep->sessions};
    r = loop_watch_new(keep->loop, fd, session_on_readable, session, &session->watch);
    if (r < 0) {
        free(session);
        return r;
    }
    if (session->next)
        session->next->prev = session;
    keep->sessions = session;
    keep->n_sessions++;
    return 0;
}

void keep_close_sessions(struct keep *keep)
{
    while (keep->sessions)
        session_free(keep->sessions);
    for (size_t i = 0; i < keep->n_listeners; i++)
        keep->listeners[i].watch = loop_watch_free(keep->listeners[i].watch);
}

static void on_connection(void *data)
{
    struct keep_listener *listener = data;
    const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    service_touch(listener->keep->service);
    if (session_new(listener->keep, fd) < 0) {
        log_error("out of memory");
        close(fd);
    }
}

static void door_pause(void *data)
{
    struct keep *keep = data;

    for (size_t i = 0; i < keep->n_listeners; i++)
        keep->listeners[i].watch = loop_watch_free(keep->listeners[i].watch);
}

static void door_resume(void *data)
{
    struct keep *keep = data;

    for (size_t i = 0; i < keep->n_listeners; i++) {
        struct keep_listener *listener = &keep->listeners[i];

        if (!listener->watch &&
            loop_watch_new(keep->loop, listener->fd, on_connection, listener, &listener->watch) < 0)
            log_error("out of memory; no more connections");
    }
}

static int door_listen(void *data, struct loop *loop, int fd)
{
    struct keep *keep = data;
    struct keep_listener *listener = &keep->listeners[keep->n_listeners];

    if (keep->n_listeners == ARRAY_SIZE(keep->listeners))
        return -E2BIG;
    keep->loop = loop;
    *listener = (struct keep_listener){.keep = keep, .fd = fd};
    keep->n_listeners++;
    return loop_watch_new(loop, fd, on_connection, listener, &listener->watch);
}

const struct service_door keep_door = {
    .listen = door_listen,
    .pause = door_pause,
    .resume = door_resume,
};
