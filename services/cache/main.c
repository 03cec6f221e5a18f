/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs sconce-cache, the process that stores KV blocks (keys and values of tokens) on disk.
 *
 * It reads the configuration, prepares its directory, gives up privileges, takes its socket and
 * serves. If the configuration is wrong, the process serves nevertheless: `sconce cache status`
 * gets the error, and engines work without cached blocks on disk (tier 2).
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cache/directory.h"
#include "cache/server.h"
#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"

#define CACHE_MISCONFIGURED_USEC (2 * 1000000u)

/* Prepares the directory of the cache. Must run before the Landlock rules and the system call
 * filter are applied. */
static void prepare_directory(struct server *server)
{
    _cleanup_free_ char *dir = config_block_dir(server->config);
    int r;

    if (!dir)
        return;
    cache_text_set(server->status.directory, sizeof(server->status.directory), dir);
    r = directory_prepare(dir);
    if (r < 0)
        snprintf(server->status.problem, sizeof(server->status.problem), "%.150s: %s",
                 server->status.directory, strerror(-r));
}

static int cache_run(struct server *server, const struct options *options)
{
    const uint64_t idle = server->config->cache.idle_timeout_usec;
    char ready[280] = "";
    struct inf_err err = {};
    int r;

    r = service_new(
        &(struct service_params){
            .name = "cache",
            .door = &server_door,
            .door_type = SOCK_SEQPACKET,
            .idle_timeout_usec = options->wrong ? CACHE_MISCONFIGURED_USEC : idle,
            .drain_timeout_usec = options->drain_timeout_usec,
            .ready_status = ready,
            .busy = server_busy,
            .draining = server_drain,
            .status = server_status_text,
            .data = server,
        },
        &server->service, &err);
    if (r < 0) {
        log_error("%s", err.text);
    } else if ((r = server_start(server)) < 0) {
        log_error("cannot start the writer: %s", strerror(-r));
    } else {
        server_status_text(server, ready, sizeof(ready));
        r = service_run(server->service);
    }
    server_stop(server);
    service_free(server->service);
    return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct server server;
    struct options options;
    int r;

    /* Without this mask SQLite would create files with mode 0644. */
    umask(0077);
    log_open("cache");
    r = options_read("cache", argc, argv, &options);
    if (r >= 0)
        return r;
    server.config = options.config;
    prepare_directory(&server);
    if (!misconfigured_confine("cache", &options)) {
        r = 1;
    } else {
        server.config = options.config;
        if (options.wrong) {
            log_event(LOG_ID_MISCONFIGURED, LOG_ERR, NULL,
                      "the configuration is wrong, nothing is cached: %s", options.wrong);
            cache_text_set(server.status.problem, sizeof(server.status.problem), options.wrong);
        }
        r = cache_run(&server, &options);
    }
    options_done(&options);
    return r;
}
