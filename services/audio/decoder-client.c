/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends orders to the decoder and reads the results. Each decoding has a pipe and a child process.
 *
 * When a decoding ends, its child is told to stop, even if it reported success. A decoding and its
 * child occupy one slot in a table. The slot becomes free when both have ended; a notice from the
 * decoder reports the end of the child.
 */
#include "audio/decoder-client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "audio/frames.h"
#include "common/service/log.h"
#include "common/service/loop.h"
#include "core/err.h"

#define DECODER_STALL_USEC (60 * 1000000u)
/* Limit of reads per callback, so that other work of the loop gets its turn. */
#define DECODER_READS 16

/* Struct decoder_slot holds a child and its decoding; either may end before the other. */
struct decoder_slot {
    uint32_t id; /* 0: free */
    struct decoding *decoding;
};

struct decoder {
    int sock;
    pid_t pid;
    struct loop *loop;
    struct loop_watch *watch;
    uint64_t stall_usec;
    uint32_t last_id;
    bool lost;
    void (*on_lost)(void *user);
    void *lost_user;
    struct decoder_slot slots[DECODER_MAX];
};

struct decoding {
    struct decoder *decoder;
    struct decoder_slot *slot;
    const struct decoding_events *events;
    void *user;
    int pipe;
    struct loop_watch *watch; /* NULL: paused, or at the end of the pipe */
    struct loop_timer stall;
    struct loop_task again; /* offers the samples again that the callback did not take */
    bool resting, at_end, has_status;
    int status;           /* exit status of the child, from waitpid() */
    const float *offered; /* [n_offered] samples that are not yet taken */
    size_t n_offered;
    struct frames frames;
};

/* --- orders --- */

static int decoder_send(struct decoder *decoder, const struct decoder_order *order, const int *fds,
                        size_t n_fds)
{
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {(void *)order, sizeof(*order)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds) {
        struct cmsghdr *c;

        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    return sendmsg(decoder->sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void slot_stop(struct decoder *decoder, const struct decoder_slot *slot)
{
    const struct decoder_order order = {.kind = DECODER_STOP, .id = slot->id};

    if (!decoder->lost)
        decoder_send(decoder, &order, NULL, 0);
}

/* --- the end of a decoding --- */

struct decoding *decoding_cancel(struct decoding *d)
{
    if (!d)
        return NULL;
    loop_watch_free(d->watch);
    loop_timer_stop(d->decoder->loop, &d->stall);
    loop_task_cancel(d->decoder->loop, &d->again);
    close(d->pipe);
    d->slot->decoding = NULL;
    if (d->has_status)
        d->slot->id = 0;
    else
        slot_stop(d->decoder, d->slot);
    free(d);
    return NULL;
}

static void decoding_finish(struct decoding *d, enum decoding_outcome outcome,
                            const struct decoder_end *end)
{
    const struct decoding_events *events = d->events;
    const struct decoder_end none = {0};
    void *user = d->user;

    decoding_cancel(d);
    events->end(user, outcome, end ? end : &none);
}

static bool is_out_of_time(int status)
{
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
}

/* Handles the end of a pipe that brought no result. The reason follows from the child's exit
 * status, so the decoding ends when this status is known too. */
static void decoding_explain(struct decoding *d)
{
    loop_watch_free(STEAL(d->watch));
    d->at_end = true;
    if (d->has_status)
        decoding_finish(d, is_out_of_time(d->status) ? DECODING_SLOW : DECODING_CRASHED, NULL);
}

static void decoding_on_stall(struct loop_timer *timer)
{
    decoding_finish(timer->data, DECODING_SLOW, NULL);
}

/* --- samples --- */

static void decoding_rest(struct decoding *d)
{
    d->resting = true;
    loop_watch_free(STEAL(d->watch));
    loop_timer_stop(d->decoder->loop, &d->stall);
}

/* Offers the next samples to the callback. False: the caller must not read on, and the decoding may
 * have been freed. */
static bool decoding_offer(struct decoding *d)
{
    struct decoder *decoder = d->decoder;
    const struct decoder_slot *slot = d->slot;
    const uint32_t id = slot->id;
    struct decoder_end end;
    int r;

    if (!d->n_offered) {
        r = frames_next(&d->frames, &d->offered, &d->n_offered, &end);
        if (r == FRAMES_NONE)
            return true;
        if (r != FRAMES_SAMPLES) {
            decoding_finish(d, r == FRAMES_END ? DECODING_TOLD : DECODING_CRASHED,
                            r == FRAMES_END ? &end : NULL);
            return false;
        }
    }
    r = d->events->samples(d->user, d->offered, d->n_offered);
    if (decoder->lost || slot->id != id || slot->decoding != d)
        return false; /* the callback canceled the decoding */
    if (!r) {
        decoding_rest(d);
        return false;
    }
    d->n_offered = 0;
    return true;
}

static void decoding_on_readable(void *data)
{
    struct decoding *d = data;

    for (unsigned i = 0; i < DECODER_READS; i++) {
        size_t room;
        void *to = frames_room(&d->frames, &room);
        const ssize_t n = read(d->pipe, to, room);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            decoding_explain(d);
            return;
        }
        loop_timer_set(d->decoder->loop, &d->stall, d->decoder->stall_usec);
        frames_add(&d->frames, (size_t)n);
        if (!decoding_offer(d))
            return;
    }
}

static int decoding_listen(struct decoding *d)
{
    const int r = loop_watch_new(d->decoder->loop, d->pipe, decoding_on_readable, d, &d->watch);

    if (r == 0)
        loop_timer_set(d->decoder->loop, &d->stall, d->decoder->stall_usec);
    return r;
}

static void decoding_go_on(struct loop_task *task)
{
    struct decoding *d = task->data;

    if (!d->resting)
        return;
    d->resting = false;
    if (decoding_offer(d) && decoding_listen(d) < 0)
        decoding_finish(d, DECODING_LOST, NULL);
}

void decoding_resume(struct decoding *d)
{
    if (d->resting)
        loop_task_queue(d->decoder->loop, &d->again);
}

static struct decoder_slot *free_slot(struct decoder *decoder)
{
    for (size_t i = 0; i < DECODER_MAX; i++)
        if (!decoder->slots[i].id)
            return &decoder->slots[i];
    return NULL;
}

int decoding_start(struct decoder *decoder, const struct decoding_params *params,
                   const struct decoding_events *events, void *user, struct decoding **ret_decoding)
{
    struct decoder_slot *slot = free_slot(decoder);
    struct decoder_order order = {
        .kind = DECODER_START,
        .size = params->size,
        .max_samples = params->max_samples,
        .max_memory = params->max_memory,
        .max_cpu_sec = params->max_cpu_sec,
    };
    _cleanup_close_ int out = -1, in = -1;
    struct decoding *d;
    int fds[2], r;

    if (decoder->lost || !slot)
        return slot ? -EPIPE : -EAGAIN;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    out = fds[0];
    in = fds[1];
    if (fcntl(out, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    d = NEW(struct decoding, 1);
    if (!d)
        return -ENOMEM;
    d->decoder = decoder;
    d->events = events;
    d->user = user;
    d->slot = slot;
    d->pipe = out;
    d->stall = (struct loop_timer){.fire = decoding_on_stall, .data = d};
    d->again = (struct loop_task){.run = decoding_go_on, .data = d};
    order.id = ++decoder->last_id ? decoder->last_id : ++decoder->last_id;
    r = decoding_listen(d);
    if (r == 0)
        r = decoder_send(decoder, &order, (const int[]){params->file, in}, 2);
    if (r < 0) {
        loop_watch_free(d->watch);
        loop_timer_stop(decoder->loop, &d->stall);
        free(d);
        return r;
    }
    out = -1;
    *slot = (struct decoder_slot){order.id, d};
    *ret_decoding = d;
    return 0;
}

/* --- the decoder as a whole --- */

static void decoder_lose(struct decoder *decoder)
{
    decoder->lost = true;
    loop_watch_free(STEAL(decoder->watch));
    log_error("the decoder ended");
    for (size_t i = 0; i < DECODER_MAX; i++)
        if (decoder->slots[i].decoding)
            decoding_finish(decoder->slots[i].decoding, DECODING_LOST, NULL);
    if (decoder->on_lost)
        decoder->on_lost(decoder->lost_user);
}

static void decoder_on_notice(void *data)
{
    struct decoder *decoder = data;
    struct decoder_notice notice;
    const ssize_t n = recv(decoder->sock, &notice, sizeof(notice), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != sizeof(notice)) {
        decoder_lose(decoder);
        return;
    }
    for (size_t i = 0; i < DECODER_MAX; i++) {
        struct decoder_slot *slot = &decoder->slots[i];
        struct decoding *d = slot->decoding;

        if (slot->id != notice.id)
            continue;
        if (!d) {
            slot->id = 0;
            return;
        }
        d->has_status = true;
        d->status = notice.status;
        if (d->at_end)
            decoding_explain(d);
        return;
    }
}

/* Finds the decoder's program in the directory of this program. */
static int find_program(char *path, size_t size)
{
    static const char name[] = "sconce-audio-decoder";
    const ssize_t n = readlink("/proc/self/exe", path, size);
    char *slash;

    if (n < 0 || (size_t)n >= size)
        return n < 0 ? -errno : -ENAMETOOLONG;
    path[n] = 0;
    slash = strrchr(path, '/');
    if (!slash || (size_t)(slash + 1 - path) + sizeof(name) > size)
        return -ENAMETOOLONG;
    memcpy(slash + 1, name, sizeof(name));
    return 0;
}

static int decoder_spawn(struct decoder *decoder, const char *program, bool landlock_optional,
                         int sock)
{
    char *argv[] = {(char *)program, landlock_optional ? (char *)"--landlock-optional" : NULL,
                    NULL};
    /* The decoder gets no environment variables, because they could contain secrets and paths of
     * sockets. */
    char *environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, sock, DECODER_SOCKET);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(&decoder->pid, program, &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int decoder_open(const struct decoder_params *params, struct decoder **ret_decoder,
                 struct inf_err *reterr)
{
    struct decoder *decoder = NEW(struct decoder, 1);
    char beside[PATH_MAX];
    const char *program = params->program ? params->program : beside;
    int socks[2] = {-1, -1}, r = 0;

    if (!decoder)
        return err_set(reterr, ENOMEM, "out of memory");
    decoder->sock = -1;
    decoder->stall_usec = params->stall_usec ? params->stall_usec : DECODER_STALL_USEC;
    if (!params->program)
        r = find_program(beside, sizeof(beside));
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        r = -errno;
    decoder->sock = socks[0];
    if (r == 0)
        r = decoder_spawn(decoder, program, params->landlock_optional, socks[1]);
    if (socks[1] >= 0)
        close(socks[1]);
    if (r < 0) {
        decoder_close(decoder);
        return err_set(reterr, -r, "the decoder cannot be started: %s", strerror(-r));
    }
    *ret_decoder = decoder;
    return 0;
}

struct decoder *decoder_close(struct decoder *decoder)
{
    if (!decoder)
        return NULL;
    for (size_t i = 0; i < DECODER_MAX; i++)
        decoding_cancel(decoder->slots[i].decoding);
    loop_watch_free(decoder->watch);
    if (decoder->sock >= 0)
        close(decoder->sock);
    free(decoder);
    return NULL;
}

int decoder_attach(struct decoder *decoder, struct loop *loop, void (*lost)(void *user), void *user)
{
    decoder->loop = loop;
    decoder->on_lost = lost;
    decoder->lost_user = user;
    return loop_watch_new(loop, decoder->sock, decoder_on_notice, decoder, &decoder->watch);
}
