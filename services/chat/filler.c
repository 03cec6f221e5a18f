/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/filler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "core/macros.h"

/* Closes the sockets that the service manager passed, and forgets the path of its notify socket. */
static void filler_drop_sockets(void)
{
    const int n = sd_listen_fds(1);

    for (int i = 0; i < n; i++)
        close(SD_LISTEN_FDS_START + i);
    unsetenv("NOTIFY_SOCKET");
}

static _Noreturn void filler_child(int fd, pid_t parent, void (*fill)(void *data), void *data)
{
    char byte;
    ssize_t n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    filler_drop_sockets();
    do
        n = read(fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    close(fd);
    if (n == 1) {
        setpriority(PRIO_PROCESS, 0, 10);
        fill(data);
    }
    _exit(0);
}

void filler_start(struct filler *f, void (*fill)(void *data), void *data)
{
    const pid_t parent = getpid();
    int ends[2];
    pid_t pid;

    f->fd = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    /* The kernel removes the process when it exits; the service never waits for it. */
    signal(SIGCHLD, SIG_IGN);
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        filler_child(ends[0], parent, fill, data);
    }
    close(ends[0]);
    if (pid < 0)
        close(ends[1]);
    else
        f->fd = ends[1];
}

void filler_go(struct filler *f)
{
    if (f->fd >= 0 && write(f->fd, "", 1) != 1)
        return; /* the process has ended */
    filler_done(f);
}

void filler_done(struct filler *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
