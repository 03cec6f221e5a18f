/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects an engine to the cache service. The service becomes the engine's tier 2, which stores KV
 * blocks beyond the memory of the engine (see <infer/tier.h>).
 *
 * The client connects on first use. It connects again if the service has exited, for example
 * because the service was idle. Every call has a time limit. If the service does not answer in time
 * or cannot be reached, the client makes no calls for five seconds; the pause doubles with each
 * failure up to one minute. If the service speaks another version of the protocol, the pause is ten
 * minutes. In all these cases the engine sees a cache miss.
 *
 * A client belongs to one engine, whose thread makes all calls.
 */

#include <infer/tier.h>

#include "common/wire/cache-protocol.h"
#include "core/str.h"

/* The longest time that a call may take. It is enough even if the service must be started first. */
#define CACHE_CLIENT_TIMEOUT_USEC (2 * 1000000u)

/* Makes a client for the socket at @path. @name is the client's name in the service's log. Copies
 * both texts. The caller frees *ret_tier with cache_client_free(), after the engine. -ENOMEM. */
int cache_client_new(const char *path, const char *name, uint64_t timeout_usec,
                     struct inf_tier **ret_tier);
/* NULL is allowed; returns NULL. */
struct inf_tier *cache_client_free(struct inf_tier *tier);

/* Writes the counters of all clients of this process, and the last status that the service sent,
 * which is at most some seconds old while the service is in use. May be called from any thread. */
void cache_client_metrics(struct str *out);
/* Copies the last status that the service sent. False: the service has sent none yet. May be called
 * from any thread. */
bool cache_client_status(struct cache_status *ret_status);
