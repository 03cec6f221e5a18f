/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-chat, the chat service, generates text.
 *
 * It reads the configuration, confines itself, opens its device and serves.
 */
#include <stdio.h>
#include <string.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "chat/generation.h"
#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"

/* Only the gateway and tools on this machine connect; by default, the gateway opens fewer
 * connections than this. */
#define CHAT_MAX_CONNECTIONS 4096

static int chat_start(struct model_host *host)
{
    chat_memory_set_budgets(CONTAINER_OF(host, struct chat, host));
    return 0;
}

/* Serves requests; the device must be open. */
static int chat_run(struct chat *chat, const struct options *options)
{
    const struct config *config = options->config;
    char ready[sizeof(chat->device.text) + 16];

    snprintf(ready, sizeof(ready), "Ready, on %s", chat->device.text);
    return model_host_run(&chat->host,
                          &(struct model_host_params){
                              .name = "chat",
                              .routes = chat_routes,
                              .n_routes = n_chat_routes,
                              .residents = &chat_residents_ops,
                              .max_models = config->chat.max_models,
                              .max_connections = CHAT_MAX_CONNECTIONS,
                              .prepares = true,
                              .max_body = config->gateway.max_body,
                              .idle_timeout_usec = config->chat.idle_timeout_usec,
                              .request_timeout_usec = config->chat.request_timeout_usec,
                              .ready_status = ready,
                              .status = chat_status,
                              .begin = generation_new,
                              .start = chat_start,
                          },
                          options);
}

/* Returns the path of the cache service's socket. NULL: the cache is disabled, or no directory for
 * sockets is known; the service then works without a cache. */
static char *chat_cache_socket(const struct options *options)
{
    char *path;

    if (!options->config->cache.enabled)
        return NULL;
    if (options->sockets[SERVICE_CACHE])
        return strdup(options->sockets[SERVICE_CACHE]);
    return config_socket_path(service_rows[SERVICE_CACHE].name, &path) < 0 ? NULL : path;
}

/* Returns the path of the keep service's socket. NULL: no directory for sockets is known; responses
 * are then not kept. */
static char *chat_keep_socket(const struct options *options)
{
    char *path;

    if (options->sockets[SERVICE_KEEP])
        return strdup(options->sockets[SERVICE_KEEP]);
    return config_socket_path(service_rows[SERVICE_KEEP].name, &path) < 0 ? NULL : path;
}

static int chat_confined(struct chat *chat, struct options *options)
{
    if (chat_device_open(&chat->device, options) < 0) {
        log_error("out of memory");
        return 1;
    }
    if (options->wrong)
        return misconfigured_serve("chat", options);
    chat->cache_socket = chat_cache_socket(options);
    chat->keep_socket = chat_keep_socket(options);
    return chat_run(chat, options);
}

int main(int argc, char **argv)
{
    static struct chat chat;
    struct options options;
    int r;

    log_open("chat");
    r = options_read("chat", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    if (chat_device_choose(&chat.device, &options) < 0 ||
        !misconfigured_confine(chat.device.policy, &options))
        r = 1;
    else
        r = chat_confined(&chat, &options);
    free(chat.cache_socket);
    free(chat.keep_socket);
    chat_device_done(&chat.device);
    options_done(&options);
    return r;
}
