/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache service for models that run in this process: the user's own, else the machine's where
 * its socket is open to us. Without one nothing is said: all is computed.
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
