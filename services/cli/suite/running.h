/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether services run, as far as it can be told without waking them. */

#include <sys/types.h>

#include "core/macros.h"

/* The process that opened the listening socket at "unix:PATH": a service manager or `sconce serve`.
 * Connects to it, which starts its service where that sleeps. 0: it is not known. */
pid_t running_supervisor(const char *address);
/* Whether a child of @supervisor is the program of @service ("chat"): 1, 0, or -1 where children
 * cannot be seen. */
int running_child(pid_t supervisor, const char *service);
