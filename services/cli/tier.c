/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects models that run in this process to tier 2 of the KV cache.
 *
 * Tier 2 is the user's own cache service. If the user has none, it is the machine's cache service,
 * provided that this process may use the socket of that service. Without a cache service all
 * prompts are computed, and no message is printed.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "common/config/config.h"
#include "common/wire/cache-client.h"

#define SYSTEM_SOCKET "/run/sconce/cache.sock"

struct inf_tier *cli_tier_new(const struct config *config)
{
    _cleanup_free_ char *own = NULL;
    struct inf_tier *tier = NULL;
    const char *path = SYSTEM_SOCKET;

    if (!config->cache.enabled || !config->chat.prefix_cache)
        return NULL;
    if (config_socket_path("cache", &own) == 0 && access(own, R_OK | W_OK) == 0)
        path = own;
    else if (access(path, R_OK | W_OK) < 0)
        return NULL;
    return cache_client_new(path, "sconce run", CACHE_CLIENT_TIMEOUT_USEC, &tier) < 0 ? NULL : tier;
}

struct inf_tier *cli_tier_free(struct inf_tier *tier)
{
    return cache_client_free(tier);
}
