/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process beside the chat service that compiles kernels for a GPU and stores them.
 *
 * Compiling all usual kernels takes a driver a minute or more, so the service does not wait for
 * it. The service itself cannot store what it compiles, because it writes no files once it
 * serves. The process is forked before drivers are loaded, because drivers do not survive a fork.
 * It then waits for a byte from the service. The process never sees a request, because it closes
 * the service's sockets. It has the confinement that the service has during its start.
 */

struct filler {
    int fd; /* the service's end of the pipe; negative: there is no process */
};

/* Forks the process; the caller must have a single thread. After filler_go(), the new process calls
 * @fill(@data) and exits. The kernel kills the new process when the caller's process ends. If the
 * process cannot be started, @f->fd is negative; this is not an error. */
void filler_start(struct filler *f, void (*fill)(void *data), void *data);
/* Lets the process call the function @fill that filler_start() got. */
void filler_go(struct filler *f);
/* Lets the process exit if it did not get filler_go(). */
void filler_done(struct filler *f);
