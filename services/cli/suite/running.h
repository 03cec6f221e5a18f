/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds out which services run. */

#include <sys/types.h>

#include "core/macros.h"

struct service_row;

/* Finds the process that opened the listening socket at "unix:PATH": a service manager or `sconce
 * serve`. It connects to the socket, which starts the service if it does not run. 0: not known. */
pid_t running_supervisor(const char *address);
/* Whether a child of @supervisor is the program of @service: 1, 0, or -1 if children are
 * not visible. */
int running_child(pid_t supervisor, const struct service_row *service);
