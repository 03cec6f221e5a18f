/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a service whose configuration is wrong.
 *
 * If such a service exited at once, systemd would start it again for each connection, and clients
 * would only see closed connections. Instead the service answers every request with a 503 and the
 * error text. After two seconds it exits as soon as no connection is open, even if requests keep
 * arriving, so that the next process reads the corrected file.
 */

#include "core/macros.h"

struct options;

/*
 * Calls confine_start() for a service. If the kernel has no Landlock and the configuration requires
 * it, the service applies the remaining confinement and is misconfigured from then on. False: the
 * service is not confined and must end; the error was logged.
 */
bool misconfigured_confine(const char *policy, struct options *options);
/* Serves the sockets with which @service was started. @options->wrong is the error text. Returns
 * the exit status. */
int misconfigured_serve(const char *service, const struct options *options);
