/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-chat: takes the sockets, reads the configuration, gives up new rights, serves
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "chat/chat.h"
#include "chat/generation.h"
#include "chat/resident.h"
#include "common/config.h"
#include "common/jobs.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/misconfigured.h"
#include "common/models.h"
#include "common/options.h"
#include "common/service.h"

/* Peers are the gateway and tools of this machine; the gateway's own limits are stricter. */
#define CHAT_MAX_CONNECTIONS 4096
/* Longer than the gateway keeps its connections, so that only the gateway closes them. */
#define CHAT_REQUEST_USEC (120 * 1000000u)

/* Left alone, jansson would open /dev/urandom. */
static size_t chat_seed(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), 0) < 0)
        log_warn("getrandom: %s", strerror(errno));
    return seed ? seed : 1;
}

static bool chat_busy(void *data)
{
    const struct chat *chat = data;

    return chat->n_generations > 0 || chat->loading;
}

static void chat_expired(void *data)
{
    struct chat *chat = data;
    struct generation *next;

    chat->expired = true;
    for (struct generation *g = chat->generations; g; g = next) {
        next = g->next;
        generation_fail(g, 503, "shutting_down", "The service is ending; try again.");
    }
}

static int chat_start(struct chat *chat)
{
    int r;

    chat->loop = service_loop(chat->service);
    chat->schedule = (struct loop_task){.run = resident_schedule, .data = chat};
    r = jobs_new(chat->loop, "loader", &chat->loader);
    return r < 0 ? r : jobs_new(chat->loop, "preparer", &chat->preparer);
}

static void chat_stop(struct chat *chat)
{
    jobs_free(chat->loader);
    jobs_free(chat->preparer);
    /* Answers end with their connections; then engines, which have nobody to tell any more. */
    if (chat->service)
        http_server_close(service_server(chat->service));
    resident_free_all(chat);
    models_free(chat->models);
    service_free(chat->service);
    free(chat->cache_socket);
}

/* What the service serves, once it knows its device. */
static int chat_run(struct chat *chat, const struct options *options)
{
    const struct config *config = options->config;
    char ready[sizeof(chat->device.text) + 16];
    struct inf_err err = {};
    int r;

    snprintf(ready, sizeof(ready), "Ready, on %s", chat->device.text);
    json_object_seed(chat_seed());
    chat->config = config;
    r = service_new(
        &(struct service_params){
            .name = "chat",
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = config->gateway.max_body,
                    .max_connections = CHAT_MAX_CONNECTIONS,
                    .request_timeout_usec = CHAT_REQUEST_USEC,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .handle = chat_handle,
                    .data = chat,
                },
            .idle_timeout_usec = config->chat.idle_timeout_usec,
            .drain_timeout_usec = options->drain_timeout_usec,
            .ready_status = ready,
            .busy = chat_busy,
            .expired = chat_expired,
            .status = chat_status,
            .data = chat,
        },
        &chat->service, &err);
    if (r < 0) {
        log_error("%s", err.text);
    } else if ((r = chat_start(chat)) < 0) {
        log_error("cannot start threads: %s", strerror(-r));
    } else {
        r = service_run(chat->service);
    }
    chat_stop(chat);
    return r < 0 ? 1 : 0;
}

/* Where the cache service listens, if it shall be used; NULL where no directory can be named is as
 * good as a service that is not there. */
static char *chat_cache_socket(const struct options *options)
{
    char *path;

    if (!options->config->cache.enabled)
        return NULL;
    if (options->cache_socket)
        return strdup(options->cache_socket);
    return config_socket_path("cache", &path) < 0 ? NULL : path;
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
    chat_device_done(&chat.device);
    options_done(&options);
    return r;
}
