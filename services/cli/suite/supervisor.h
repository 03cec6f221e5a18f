/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Socket activation without systemd
 *
 * A supervisor holds the listening sockets of some services. A service is started by the first
 * connection to one of its sockets, with the same protocol that systemd uses (LISTEN_FDS,
 * LISTEN_PID, LISTEN_FDNAMES, NOTIFY_SOCKET); when it exits for idleness the sockets stay, and the
 * next connection starts it again. One thread; children die with it. Each service is in a session
 * of its own, so that keys of a terminal reach the supervisor alone, which stops services in order.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    SUPERVISOR_MAX_SERVICES = 8,
    SUPERVISOR_MAX_SOCKETS = 4,
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
};

struct supervisor;

/* @dir is where the sockets of services lie; its own for NOTIFY_SOCKET comes there as well. */
int supervisor_new(const char *dir, struct supervisor **ret, struct inf_err *reterr);
/* Stops what still runs. */
struct supervisor *supervisor_free(struct supervisor *s);
DEFINE_CLEANUP(struct supervisor *, supervisor_free);

/* Adds a service; takes its descriptors. -E2BIG. Services are stopped in the order of adding. */
int supervisor_add(struct supervisor *s, const struct supervisor_service *service);
/* Runs until SIGTERM or SIGINT (one more of them kills), drains the services, and returns 0, or
 * a negative errno value. */
int supervisor_run(struct supervisor *s, struct inf_err *reterr);

/* Forks a worker: supervisor_run() then runs until that ends, and passes signals on to it. Returns
 * its pid; 0 in the worker, which has its signals as they were before supervisor_new() and leaves
 * by exit(); or a negative errno value. */
pid_t supervisor_fork(struct supervisor *s, struct inf_err *reterr);
/* After supervisor_run(): the status of the worker, as waitpid() says it. False: it was told to
 * stop, because a service failed each time before it was ready. */
bool supervisor_ended(const struct supervisor *s, int *ret_status);

/* Listens on "ADDR:PORT", "[ADDR6]:PORT", "unix:PATH" (a dead socket there is replaced), or, for
 * packets instead of a stream, "seqpacket:PATH".
 * Returns the descriptor; *ret_port is 0 for unix. -EADDRINUSE when somebody listens. */
int supervisor_listen(const char *address, unsigned *ret_port, struct inf_err *reterr);
