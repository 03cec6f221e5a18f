/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the supervisor's loop (see supervisor.h).
 *
 * The loop polls a signalfd, the notify socket, and the listening sockets of the services that do
 * not run. A service sends the message READY=1 when it can serve. If a service fails, the
 * supervisor waits for 0.1 s before the next start. If it fails before READY=1 again, this time is
 * doubled, up to 10 s, so that a broken service uses no CPU. Clients that wait meanwhile get an
 * error from the gateway when its timeouts expire.
 *
 * A program that accepts no connections itself is started once for each connection. Only one
 * process of such a program runs at a time, and further connections wait until it ends.
 */
#include "cli/suite/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/text.h"

enum {
    RESTART_MIN_USEC = 100000,
    RESTART_MAX_USEC = 10000000,
    DRAIN_USEC = 30000000, /* time from SIGTERM to SIGKILL */
    FIRST_FD = 3,          /* SD_LISTEN_FDS_START */
    MAX_FAILURES = 3,      /* after this many failures before READY=1, the worker is stopped */
};

struct child {
    struct supervisor_service service;
    pid_t pid; /* 0: not running */
    bool ready;
    unsigned n_failures;      /* consecutive failures before READY=1 */
    uint64_t delay_usec;      /* delay before the next start, after a crash */
    uint64_t not_before_usec; /* earliest time of the next start */
    uint64_t kill_usec;       /* time of SIGKILL, while stopping */
};

struct supervisor {
    struct child children[SUPERVISOR_MAX_SERVICES];
    size_t n;
    int signal_fd, notify_fd;
    struct sockaddr_un notify_addr; /* sun_path is empty until the socket exists */
    sigset_t old_mask;
    bool stopping;
    size_t i_stopping; /* children with lower numbers have received SIGTERM */
    pid_t worker;      /* 0: there is no worker, or it has ended */
    int worker_status;
    bool gave_up; /* the worker has been told to stop */
};

/* Opens the datagram socket DIR/notify. It is not an abstract socket, since sandboxed services
 * cannot reach abstract sockets. */
static int notify_open(struct supervisor *s, const char *dir)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const int one = 1;
    mode_t mask;
    int r;

    if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/notify", dir) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->notify_fd < 0)
        return -errno;
    setsockopt(s->notify_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
    /* If a socket of this name exists, it was left by a supervisor that has ended, because nobody
     * listened at the other sockets of this directory. */
    unlink(sa.sun_path);
    mask = umask(0177);
    r = bind(s->notify_fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
    umask(mask);
    if (r == 0)
        s->notify_addr = sa;
    return r;
}

int supervisor_new(const char *dir, struct supervisor **ret, struct inf_err *reterr)
{
    _cleanup_(supervisor_freep) struct supervisor *s = NEW(struct supervisor, 1);
    sigset_t mask;
    int r;

    if (!s)
        return err_set(reterr, ENOMEM, "out of memory");
    s->signal_fd = s->notify_fd = -1;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return err_set(reterr, errno, "signalfd: %s", strerror(errno));
    r = notify_open(s, dir);
    if (r < 0)
        return err_set(reterr, -r, "notify socket in %s: %s", dir, strerror(-r));
    *ret = STEAL(s);
    return 0;
}

struct supervisor *supervisor_free(struct supervisor *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        struct child *c = &s->children[i];

        if (c->pid > 0) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, NULL, 0);
        }
        for (size_t j = 0; j < c->service.n_sockets; j++)
            close(c->service.sockets[j].fd);
    }
    closep(&s->signal_fd);
    closep(&s->notify_fd);
    if (s->notify_addr.sun_path[0])
        unlink(s->notify_addr.sun_path);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    free(s);
    return NULL;
}

int supervisor_add(struct supervisor *s, const struct supervisor_service *service)
{
    if (s->n == SUPERVISOR_MAX_SERVICES || service->n_sockets > SUPERVISOR_MAX_SOCKETS)
        return -E2BIG;
    s->children[s->n++].service = *service;
    return 0;
}

/* Runs in the child between fork and exec: sets up the environment, the signals, and the
 * descriptors of the sockets, the first of which is 3. */
static void child_exec(const struct supervisor *s, const struct child *c)
{
    const struct supervisor_service *v = &c->service;
    char text[32], names[256] = "";
    int fds[SUPERVISOR_MAX_SOCKETS];

    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || setsid() < 0)
        _exit(127);
    /* First moves all descriptors above the target numbers, so that no dup2() overwrites one of the
     * descriptors. */
    for (size_t i = 0; i < v->n_sockets; i++) {
        fds[i] = fcntl(v->sockets[i].fd, F_DUPFD_CLOEXEC, FIRST_FD + SUPERVISOR_MAX_SOCKETS);
        if (fds[i] < 0)
            _exit(127);
    }
    for (size_t i = 0; i < v->n_sockets; i++) {
        if (dup2(fds[i], FIRST_FD + (int)i) < 0)
            _exit(127);
        if (i > 0)
            strncat(names, ":", sizeof(names) - strlen(names) - 1);
        strncat(names, v->sockets[i].name, sizeof(names) - strlen(names) - 1);
    }
    snprintf(text, sizeof(text), "%d", (int)getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof(text), "%zu", v->n_sockets);
    setenv("LISTEN_FDS", text, 1);
    setenv("LISTEN_FDNAMES", names, 1);
    setenv("NOTIFY_SOCKET", s->notify_addr.sun_path, 1);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    signal(SIGPIPE, SIG_DFL);
    execv(v->argv[0], (char *const *)(uintptr_t)v->argv);
    fprintf(stderr, "sconce serve: cannot start %s: %s\n", v->argv[0], strerror(errno));
    _exit(127);
}

/* Runs in the child between fork and exec, for a program that gets one connection as its standard
 * input and output. */
static void child_exec_connected(const struct supervisor *s, const struct child *c)
{
    const struct supervisor_service *v = &c->service;
    const int fd = accept4(v->sockets[0].fd, NULL, NULL, SOCK_CLOEXEC);

    /* The client may have disconnected already. */
    if (fd < 0)
        _exit(0);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || setsid() < 0 || dup2(fd, STDIN_FILENO) < 0 ||
        dup2(fd, STDOUT_FILENO) < 0)
        _exit(127);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    execv(v->argv[0], (char *const *)(uintptr_t)v->argv);
    fprintf(stderr, "sconce serve: cannot start %s: %s\n", v->argv[0], strerror(errno));
    _exit(127);
}

static void child_start(struct supervisor *s, struct child *c)
{
    const pid_t pid = fork();

    if (pid == 0 && c->service.is_program)
        child_exec_connected(s, c);
    else if (pid == 0)
        child_exec(s, c);
    if (pid < 0) {
        fprintf(stderr, "sconce serve: cannot fork: %s\n", strerror(errno));
        c->not_before_usec = clock_usec() + RESTART_MAX_USEC;
        return;
    }
    c->pid = pid;
    c->ready = false;
}

static void child_ended(struct child *c, int status, bool stopping)
{
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    c->pid = 0;
    if (clean || stopping) {
        c->delay_usec = 0;
        c->not_before_usec = 0;
        return;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        fprintf(stderr,
                "sconce serve: %s made a system call that its policy does not allow, and was "
                "killed; `sconce doctor` shows which call\n",
                c->service.name);
    else if (WIFSIGNALED(status))
        fprintf(stderr, "sconce serve: %s was killed by signal %d (%s)\n", c->service.name,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "sconce serve: %s failed with status %d\n", c->service.name,
                WEXITSTATUS(status));
    c->n_failures = c->ready ? 0 : c->n_failures + 1;
    c->delay_usec = c->ready || c->delay_usec == 0 ? RESTART_MIN_USEC
                                                   : MIN(c->delay_usec * 2, RESTART_MAX_USEC);
    c->not_before_usec = clock_usec() + c->delay_usec;
}

static void worker_ended(struct supervisor *s, int status)
{
    s->worker = 0;
    s->worker_status = status;
    s->stopping = true;
}

/* Stops the worker (see supervisor.h), which would wait forever for the broken service. */
static void worker_give_up(struct supervisor *s)
{
    if (!s->worker || s->gave_up)
        return;
    kill(s->worker, SIGTERM);
    s->gave_up = true;
}

static void supervisor_reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->worker)
            worker_ended(s, status);
        for (size_t i = 0; i < s->n; i++) {
            if (s->children[i].pid != pid)
                continue;
            child_ended(&s->children[i], status, s->stopping);
            if (s->children[i].n_failures >= MAX_FAILURES)
                worker_give_up(s);
        }
    }
}

/* Handles READY=1 from a child; other messages of the protocol are only for systemd. */
static void on_notify(struct supervisor *s)
{
    char text[4096];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;

    for (;;) {
        struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
        const ssize_t n = recvmsg(s->notify_fd, &msg, MSG_CMSG_CLOEXEC);
        struct ucred cred = {0};

        if (n < 0)
            return;
        text[n] = 0;
        for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h))
            if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_CREDENTIALS)
                memcpy(&cred, CMSG_DATA(h), sizeof(cred));
        if (!text_starts_with(text, "READY=1") && !strstr(text, "\nREADY=1"))
            continue;
        for (size_t i = 0; i < s->n; i++)
            if (s->children[i].pid > 0 && s->children[i].pid == cred.pid)
                s->children[i].ready = true;
    }
}

static void stop_next(struct supervisor *s)
{
    while (s->i_stopping < s->n && s->children[s->i_stopping].pid == 0)
        s->i_stopping++;
    if (s->i_stopping == s->n)
        return;
    if (s->children[s->i_stopping].kill_usec == 0) {
        kill(s->children[s->i_stopping].pid, SIGTERM);
        s->children[s->i_stopping].kill_usec = clock_usec() + DRAIN_USEC;
    } else if (clock_usec() >= s->children[s->i_stopping].kill_usec) {
        kill(s->children[s->i_stopping].pid, SIGKILL);
    }
}

static void on_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        if (s->worker) {
            /* The terminal sends its signals to the worker too; only other signals are
             * forwarded. */
            if (info.ssi_code == SI_USER || info.ssi_code == SI_QUEUE)
                kill(s->worker, (int)info.ssi_signo);
            continue;
        }
        if (s->stopping)
            for (size_t i = 0; i < s->n; i++)
                if (s->children[i].pid > 0)
                    kill(s->children[i].pid, SIGKILL);
        s->stopping = true;
    }
    supervisor_reap(s);
}

/* Fills the poll set; returns its size and the timeout in milliseconds. */
static size_t poll_set(const struct supervisor *s, struct pollfd *fds, size_t *owner, int *ret_msec)
{
    const uint64_t now = clock_usec();
    size_t n = 0;

    *ret_msec = s->stopping ? 100 : -1;
    fds[n++] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = s->notify_fd, .events = POLLIN};
    for (size_t i = 0; i < s->n && !s->stopping; i++) {
        const struct child *c = &s->children[i];

        if (c->pid > 0)
            continue;
        if (c->not_before_usec > now) {
            const int msec = (int)((c->not_before_usec - now) / 1000 + 1);

            *ret_msec = *ret_msec < 0 ? msec : MIN(*ret_msec, msec);
            continue;
        }
        for (size_t j = 0; j < c->service.n_sockets; j++) {
            owner[n] = i;
            fds[n++] = (struct pollfd){.fd = c->service.sockets[j].fd, .events = POLLIN};
        }
    }
    return n;
}

int supervisor_run(struct supervisor *s, struct inf_err *reterr)
{
    struct pollfd fds[2 + SUPERVISOR_MAX_SERVICES * SUPERVISOR_MAX_SOCKETS];
    size_t owner[ARRAY_SIZE(fds)] = {0};

    for (;;) {
        int msec;
        const size_t n = poll_set(s, fds, owner, &msec);

        if (s->stopping) {
            stop_next(s);
            if (s->i_stopping == s->n)
                return 0;
        }
        if (poll(fds, n, msec) < 0) {
            if (errno == EINTR)
                continue;
            return err_set(reterr, errno, "poll: %s", strerror(errno));
        }
        on_notify(s);
        on_signal(s);
        for (size_t i = 2; i < n && !s->stopping; i++)
            if (fds[i].revents && s->children[owner[i]].pid == 0)
                child_start(s, &s->children[owner[i]]);
    }
}

pid_t supervisor_fork(struct supervisor *s, struct inf_err *reterr)
{
    const pid_t pid = fork();

    if (pid < 0)
        return err_set(reterr, errno, "fork: %s", strerror(errno));
    if (pid > 0)
        return s->worker = pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    return 0;
}

bool supervisor_ended(const struct supervisor *s, int *ret_status)
{
    *ret_status = s->worker_status;
    return !s->gave_up;
}
