/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds out which services run. Services are children of the process that opened their sockets. */

#include <sys/types.h>

#include "core/macros.h"

struct service_row;

/* Finds the process that opened the listening socket at "unix:PATH": a service manager or `sconce
 * serve`. The function connects to the socket, which starts the service if it does not run. 0: not
 * known. */
pid_t running_supervisor(const char *address);
/* Returns 1 if a child process of @supervisor runs the program of @service, 0 if none does, and -1
 * if this process cannot see the children. */
int running_child(pid_t supervisor, const struct service_row *service);
