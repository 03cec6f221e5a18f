/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cache service as a tier of an engine (see <infer/tier.h>)
 *
 * The client connects on first use, and again if the service has exited, which it does when idle.
 * Every call has a time limit. If the service does not answer in time, or is not running, the
 * client pauses: five seconds at first, doubling up to one minute; ten minutes if the service
 * speaks another protocol version. All these cases count as a miss.
 *
 * A client belongs to one engine, whose thread makes all calls.
 */

#include <infer/tier.h>

#include "common/wire/cache-protocol.h"
#include "core/str.h"

/* Long enough for a service that must be started first. */
#define CACHE_CLIENT_TIMEOUT_USEC (2 * 1000000u)

/* @path: of the socket; copied. @name: name of this client in the service's log; copied. The caller
 * frees *ret_tier with cache_client_free(), after the engine. -ENOMEM, -ENAMETOOLONG. */
int cache_client_new(const char *path, const char *name, uint64_t timeout_usec,
                     struct inf_tier **ret_tier);
/* NULL is allowed; returns NULL. */
struct inf_tier *cache_client_free(struct inf_tier *tier);

/* Writes the counters of all clients of this process, and the last status of the service, which is
 * at most some seconds old while the service is in use. Callable from any thread. */
void cache_client_metrics(struct str *out);
/* Whether the service answered the last status request, and its status. Callable from any thread.
 * False: there was no status request yet. */
bool cache_client_status(struct cache_status *ret_status);
