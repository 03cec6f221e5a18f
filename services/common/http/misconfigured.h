/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A service whose configuration is wrong
 *
 * If it ended, systemd would start it again for each connection, and clients would see a dead
 * socket. It answers instead: every request gets a 503 with the text of the mistake. It leaves
 * after two seconds, however many clients ask, so that the next one meets the mended file.
 */

#include "core/macros.h"

struct options;

/*
 * confine_start() of a service. Where the kernel has no Landlock and the configuration does not
 * allow for that, the service confines itself by the rest and is misconfigured from here on. False:
 * it is not confined and must end, which was logged.
 */
bool misconfigured_confine(const char *policy, struct options *options);
/* Serves the sockets that @service was started with; @options->wrong is the text. Returns the
 * status to exit with. */
int misconfigured_serve(const char *service, const struct options *options);
