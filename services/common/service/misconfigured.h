/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a service whose configuration is wrong.
 *
 * If such a service exited at once, systemd would start it again for each connection, and clients
 * would only see closed connections. Instead the service answers every request with a 503 and the
 * error text, and closes the connection. Two seconds after its start it exits at the first moment
 * at which no connection is open. Requests do not extend this time, so the next process soon reads
 * the corrected file.
 */

#include "core/macros.h"

struct options;

/*
 * Calls confine_start() for a service. If the configuration requires Landlock, the kernel lacks it,
 * and the service was started with sockets, the service applies the rest of the confinement and
 * counts as misconfigured from then on. False: the service is not confined and must end; the error
 * was logged.
 */
bool misconfigured_confine(const char *policy, struct options *options);
/* Serves the sockets with which @service was started. @options->wrong is the error text. Returns
 * the exit status. */
int misconfigured_serve(const char *service, const struct options *options);
