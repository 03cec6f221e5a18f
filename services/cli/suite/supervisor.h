/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts services when clients connect to their sockets, without systemd.
 *
 * A supervisor holds the listening sockets of some services. The first connection to a socket
 * starts the service of this socket, with the same protocol as systemd (LISTEN_FDS, LISTEN_PID,
 * LISTEN_FDNAMES, NOTIFY_SOCKET). When a service exits because it is idle, its sockets stay open,
 * and the next connection starts it again. The supervisor has one thread. When the supervisor dies,
 * the kernel sends SIGTERM to its children. Each service has a session of its own, so that only the
 * supervisor receives the signals of the terminal; the supervisor then stops the services in order.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    SUPERVISOR_MAX_SERVICES = 16,
    SUPERVISOR_MAX_SOCKETS = 5,
    SUPERVISOR_MAX_ARGS = 80,
};

struct supervisor_socket {
    const char *name; /* LISTEN_FDNAMES */
    int fd;           /* listening; owned by the supervisor */
};

struct supervisor_service {
    const char *name;                      /* "gateway" */
    const char *argv[SUPERVISOR_MAX_ARGS]; /* borrowed; argv[0] is the path of the program */
    struct supervisor_socket sockets[SUPERVISOR_MAX_SOCKETS];
    size_t n_sockets;
    bool is_program; /* the program is started for each connection to its only socket, and gets the
                        connection as its standard input and output */
};

struct supervisor;

/* Creates a supervisor. @dir is the directory of the services' sockets; the supervisor creates its
 * NOTIFY_SOCKET there too. */
int supervisor_new(const char *dir, struct supervisor **ret, struct inf_err *reterr);
/* Frees the supervisor, after stopping the services that still run. */
struct supervisor *supervisor_free(struct supervisor *s);
DEFINE_CLEANUP(struct supervisor *, supervisor_free);

/* Adds a service; takes ownership of its descriptors. -E2BIG: too many. Services are stopped in the
 * order in which they were added. */
int supervisor_add(struct supervisor *s, const struct supervisor_service *service);
/* Runs until SIGTERM or SIGINT, then lets the services finish their work and exit (a second signal
 * kills them), and returns 0 or a negative errno value. */
int supervisor_run(struct supervisor *s, struct inf_err *reterr);

/* Forks a worker, a process that uses the services: supervisor_run() then runs until the worker
 * ends, and forwards signals to it. Returns the worker's pid, or a negative errno value. In the
 * worker it returns 0; the worker has the signal mask from before supervisor_new(), and must end
 * with exit(). */
pid_t supervisor_fork(struct supervisor *s, struct inf_err *reterr);
/* Returns the worker's status from waitpid(); call it after supervisor_run(). False: the worker was
 * stopped because a service repeatedly failed before it was ready. */
bool supervisor_ended(const struct supervisor *s, int *ret_status);

/* Listens on "ADDR:PORT", "[ADDR6]:PORT", "unix:PATH", or, for packets instead of a stream,
 * "seqpacket:PATH". Replaces a unix socket at which nobody listens. Returns the descriptor;
 * *ret_port is 0 for unix sockets. -EADDRINUSE: another process listens there. */
int supervisor_listen(const char *address, unsigned *ret_port, struct inf_err *reterr);
