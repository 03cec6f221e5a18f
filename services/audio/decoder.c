/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-audio-decoder forks a confined child process for each file that is to be decoded.
 *
 * The audio service starts it with one socket, descriptor 3; see decoder-protocol.h. The policy
 * `decoder` is applied before the first order. In the policy's phase `start`, this process can
 * start and end children and use its socket. Each child enters the phase `serve` before it reads
 * its file. In this phase a child can only allocate memory, write and exit; its file is already
 * mapped.
 *
 * Children end by themselves, by limits of memory and processor time, by an order to stop, or with
 * this process. This process ends with the service, when its socket is closed. It ignores the
 * signals that end a service, because the service handles them and finishes running requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "audio/decode.h"
#include "common/config/config.h"
#include "common/confine/confine.h"
#include "common/service/log.h"
#include "core/pages.h"

struct decoder_child {
    pid_t pid; /* 0: free */
    uint32_t id;
};

static struct {
    struct decoder_child children[DECODER_MAX];
    int signals;
    uint64_t own_memory; /* address space in bytes */
} decoder;

/* --- libraries --- */

/* libav needs libraries that write to stderr as soon as they are loaded. One of these libraries
 * warns that it cannot lock memory for secrets, although this process has no secrets. Since stderr
 * is the journal here, stderr is /dev/null while libraries are loaded. The dynamic loader writes
 * its own messages before that, so they are not lost. */
static int stderr_of_ours = -1;

static void libraries_mute(void)
{
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null < 0)
        return;
    stderr_of_ours = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, DECODER_SOCKET + 1);
    if (stderr_of_ours >= 0)
        dup2(null, STDERR_FILENO);
    close(null);
}

/* Functions in this section run after relocation, before the constructors of all libraries. */
__attribute__((section(".preinit_array"),
               used)) static void (*const libraries_first)(void) = libraries_mute;

static void libraries_are_loaded(void)
{
    if (stderr_of_ours < 0)
        return;
    dup2(stderr_of_ours, STDERR_FILENO);
    close(stderr_of_ours);
}

/* --- the child --- */

static int write_all(int fd, const void *data, size_t len)
{
    for (const char *p = data; len;) {
        const ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EPIPE;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int child_samples(void *user, const float *samples, size_t n)
{
    struct {
        struct decoder_frame head;
        float samples[DECODER_FRAME_SAMPLES];
    } frame = {.head = {DECODER_SAMPLES, (uint32_t)n}};

    memcpy(frame.samples, samples, n * sizeof(*samples));
    return write_all(*(const int *)user, &frame, sizeof(frame.head) + n * sizeof(*samples));
}

static void child_limit(int resource, uint64_t value)
{
    /* At the soft limit of processor time the kernel sends SIGXCPU, which shows the reason; one
     * second later, at the hard limit, it sends SIGKILL. */
    const struct rlimit limit = {value, value + (resource == RLIMIT_CPU ? 1 : 0)};

    if (setrlimit(resource, &limit) < 0)
        _exit(1);
}

/* Decodes a file in the child process; does not return. */
static void child_run(const struct decoder_order *order, int file, int pipe)
{
    struct decode_params params = {
        .size = order->size,
        .max_samples = order->max_samples,
        .samples = child_samples,
        .user = &pipe,
    };
    struct {
        struct decoder_frame head;
        struct decoder_end end;
    } last = {.head = {DECODER_END, sizeof(last.end)}};
    struct inf_err err;
    void *data = MAP_FAILED;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(DECODER_SOCKET);
    close(decoder.signals);
    close(STDERR_FILENO); /* the journal */
    if (order->size && order->size <= SIZE_MAX)
        data = mmap(NULL, order->size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    child_limit(RLIMIT_AS, decoder.own_memory + order->size + order->max_memory);
    child_limit(RLIMIT_CPU, order->max_cpu_sec);
    child_limit(RLIMIT_CORE, 0);
    if (data == MAP_FAILED || confine_seal(&err) < 0)
        _exit(1);
    params.data = data;
    if (decode_file(&params, &last.end) == 0)
        write_all(pipe, &last, sizeof(last));
    _exit(0);
}

/* --- the parent --- */

static void notice_send(uint32_t id, int status)
{
    const struct decoder_notice notice = {id, status};

    if (write(DECODER_SOCKET, &notice, sizeof(notice)) < 0)
        _exit(0);
}

/* Finds the entry of the child @pid, or a free entry if @pid is 0. NULL: there is none. */
static struct decoder_child *find_child(pid_t pid)
{
    for (size_t i = 0; i < DECODER_MAX; i++)
        if (decoder.children[i].pid == pid)
            return &decoder.children[i];
    return NULL;
}

static void child_start(const struct decoder_order *order, int file, int pipe)
{
    struct decoder_child *child = find_child(0);
    const pid_t pid = child ? fork() : -1;

    if (pid == 0)
        child_run(order, file, pipe);
    if (pid < 0) {
        notice_send(order->id, -1);
        return;
    }
    *child = (struct decoder_child){pid, order->id};
}

static void child_stop(uint32_t id)
{
    for (size_t i = 0; i < DECODER_MAX; i++)
        if (decoder.children[i].pid && decoder.children[i].id == id)
            kill(decoder.children[i].pid, SIGKILL);
}

static void on_signal(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    if (read(decoder.signals, &info, sizeof(info)) < 0)
        return;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct decoder_child *child = find_child(pid);

        if (child) {
            notice_send(child->id, status);
            *child = (struct decoder_child){0};
        }
    }
}

/* Takes the descriptors of a message; missing descriptors are -1. */
static void take_fds(struct msghdr *msg, int fds[2])
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    fds[0] = fds[1] = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
}

static void on_order(void)
{
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct decoder_order order;
    struct iovec iov = {&order, sizeof(order)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    const ssize_t n = recvmsg(DECODER_SOCKET, &msg, MSG_CMSG_CLOEXEC);
    int fds[2];

    if (n < 0 && errno == EINTR)
        return;
    if (n != sizeof(order))
        _exit(0); /* the service has ended */
    take_fds(&msg, fds);
    if (order.kind == DECODER_START && fds[0] >= 0 && fds[1] >= 0)
        child_start(&order, fds[0], fds[1]);
    else if (order.kind == DECODER_STOP)
        child_stop(order.id);
    for (size_t i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void decoder_serve(void)
{
    struct pollfd fds[] = {{decoder.signals, POLLIN, 0}, {DECODER_SOCKET, POLLIN, 0}};

    for (;;) {
        if (ppoll(fds, 2, NULL, NULL) < 0)
            continue;
        if (fds[0].revents)
            on_signal();
        if (fds[1].revents)
            on_order();
    }
}

/* --- before the first order --- */

/* Returns the size of this process's address space in bytes; 0: unknown. */
static uint64_t memory_now(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (f && fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (uint64_t)pages * pages_size();
}

static int decoder_prepare(bool landlock_optional, struct inf_err *reterr)
{
    _cleanup_(config_freep) struct config *config = NULL;
    sigset_t set;
    int r;

    /* Closes the listening sockets of the service, which the decoder must not have. */
    close_range(DECODER_SOCKET + 1, ~0U, 0);
    decode_prepare();
    decoder.own_memory = memory_now();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    decoder.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    r = decoder.signals < 0 ? -errno : config_new(&config);
    if (r < 0) {
        snprintf(reterr->text, sizeof(reterr->text), "%s", strerror(-r));
        return r;
    }
    if (landlock_optional)
        config->confinement.landlock = CONFIG_LANDLOCK_OPTIONAL;
    return confine_start("decoder", config, reterr);
}

int main(int argc, char **argv)
{
    const bool landlock_optional = argc == 2 && strcmp(argv[1], "--landlock-optional") == 0;
    struct inf_err err = {};

    libraries_are_loaded();
    log_open("audio-decoder");
    if (argc > 2 || (argc == 2 && !landlock_optional)) {
        fprintf(stderr, "sconce-audio-decoder is started by sconce-audio\n");
        return 2;
    }
    if (decoder_prepare(landlock_optional, &err) < 0) {
        log_error("%s", err.text);
        return 1;
    }
    decoder_serve();
}
