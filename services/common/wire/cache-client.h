/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cache service as a tier of an engine (see <infer/tier.h>)
 *
 * Connects when it is first needed, and again when the service has left meanwhile, as it does when
 * idle. Every call has a time limit. A service that does not answer within it, or is not there, is
 * not asked again for a while, which doubles each time from five seconds to one minute; one that
 * does not speak our version is not asked for ten minutes. All that is a miss.
 *
 * One client belongs to one engine, whose thread calls it.
 */

#include <infer/tier.h>

#include "common/wire/cache-protocol.h"
#include "core/str.h"

/* Enough for a service that must be started first. */
#define CACHE_CLIENT_TIMEOUT_USEC (2 * 1000000u)

/* @path: of the socket; copied. @name: what the service's log calls us; copied. The caller frees
 * *ret_tier by cache_client_free(), after the engine. -ENOMEM, -ENAMETOOLONG. */
int cache_client_new(const char *path, const char *name, uint64_t timeout_usec,
                     struct inf_tier **ret_tier);
/* NULL is fine; returns NULL. */
struct inf_tier *cache_client_free(struct inf_tier *tier);

/* What all clients of this process counted, and what the service said of itself when it was asked
 * last, which is at most some seconds ago while it is in use. Any thread. */
void cache_client_metrics(struct str *out);
/* Whether the service answered when it was asked last, and what it said of itself. Any thread.
 * False: it was not asked yet. */
bool cache_client_status(struct cache_status *ret_status);
