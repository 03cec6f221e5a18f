/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the server: accepts connections, maintains the store, and shuts down.
 *
 * Maintenance of the store starts SERVER_TEND_USEC after it was scheduled. It runs in short steps,
 * between which the server answers requests.
 */
#include "cache/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/config/config.h"
#include "common/service/log.h"
#include "core/clock.h"

#define SERVER_TEND_USEC     (200 * 1000u)
#define SERVER_COMPLAIN_USEC (10 * UINT64_C(1000000))

static void on_connection(void *data)
{
    struct listener *listener = data;
    struct server *server = listener->server;
    const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    service_touch(server->service);
    if (session_new(server, fd) < 0)
        log_error("out of memory");
}

static void door_pause(void *data)
{
    struct server *server = data;

    for (size_t i = 0; i < server->n_listeners; i++)
        server->listeners[i].watch = loop_watch_free(server->listeners[i].watch);
}

static void door_resume(void *data)
{
    struct server *server = data;

    for (size_t i = 0; i < server->n_listeners; i++) {
        struct listener *listener = &server->listeners[i];

        if (!listener->watch && loop_watch_new(server->loop, listener->fd, on_connection, listener,
                                               &listener->watch) < 0)
            log_error("out of memory; no more connections");
    }
}

static int door_listen(void *data, struct loop *loop, int fd)
{
    struct server *server = data;
    struct listener *listener = &server->listeners[server->n_listeners];

    server->loop = loop;
    *listener = (struct listener){.server = server, .fd = fd};
    server->n_listeners++;
    return loop_watch_new(loop, fd, on_connection, listener, &listener->watch);
}

const struct service_door server_door = {
    .listen = door_listen,
    .pause = door_pause,
    .resume = door_resume,
};

static void server_tend(struct server *server)
{
    int r = store_tend(server->store);

    if (r > 0) {
        loop_task_queue(server->loop, &server->tending);
        return;
    }
    if (r == 0 && !server->puts)
        r = store_flush(server->store);
    if (r < 0 && !server->tend_failed)
        log_warn("maintenance of the store failed: %s", strerror(-r));
    server->tend_failed = r < 0;
}

static void on_tend_timer(struct loop_timer *timer)
{
    server_tend(timer->data);
}

static void on_tend_task(struct loop_task *task)
{
    server_tend(task->data);
}

void server_tend_soon(struct server *server)
{
    if (server->store && !server->tending.queued && !loop_timer_is_set(&server->tend))
        loop_timer_set(server->loop, &server->tend, SERVER_TEND_USEC);
}

bool server_may_complain(struct server *server, enum server_complaint what)
{
    const uint64_t now = clock_usec();

    if (now < server->quiet_until[what])
        return false;
    server->quiet_until[what] = now + SERVER_COMPLAIN_USEC;
    return true;
}

static void open_store(struct server *server)
{
    const struct config *config = server->config;
    struct inf_err err = {};
    int r;

    if (server->status.problem[0])
        return;
    if (!server->status.directory[0]) {
        snprintf(server->status.problem, sizeof(server->status.problem),
                 "there is no home directory for the cache; set cache.directory");
        return;
    }
    r = store_open(
        &(struct store_params){.path = server->status.directory,
                               .limits = {.max_bytes = config->cache.max_bytes,
                                          .max_tenant_bytes = config->cache.tenant_max_bytes,
                                          .min_free_bytes = config->cache.min_free}},
        &server->store, &err);
    if (r < 0)
        cache_text_set(server->status.problem, sizeof(server->status.problem), err.text);
    else if (config->cache.enabled == CONFIG_FALSE)
        cache_text_set(server->status.problem, sizeof(server->status.problem),
                       "the cache is switched off (cache.enabled)");
    server->refusing = config->cache.enabled == CONFIG_FALSE;
}

/* Removes the row of a block that cannot be read from the disk any more, so that engines compute
 * the block and put it again. */
static void on_unreadable(void *data, const uint8_t name[STORE_NAME_BYTES])
{
    struct server *server = data;

    if (server->store && store_reject(server->store, name) == 0)
        server_tend_soon(server);
}

int server_start(struct server *server)
{
    int r;

    server->tend = (struct loop_timer){.fire = on_tend_timer, .data = server};
    server->tending = (struct loop_task){.run = on_tend_task, .data = server};
    r = jobs_new(server->loop, "writer", 1, &server->writer);
    if (r == 0)
        r = streams_new(&(struct stream_params){.loop = server->loop,
                                                .unreadable = on_unreadable,
                                                .data = server},
                        &server->streams);
    if (r < 0)
        return r;
    open_store(server);
    if (server->status.problem[0])
        log_error("nothing is cached: %s", server->status.problem);
    server_tend_soon(server);
    return 0;
}

void server_stop(struct server *server)
{
    server->writer = jobs_free(server->writer);
    server->streams = streams_free(server->streams);
    if (server->store)
        put_abandon(server);
    while (server->sessions)
        session_free(server->sessions);
    if (server->loop) {
        door_pause(server);
        loop_timer_stop(server->loop, &server->tend);
        loop_task_cancel(server->loop, &server->tending);
    }
    server->store = store_close(server->store);
}

bool server_busy(void *data)
{
    const struct server *server = data;

    return server->puts || streams_busy(server->streams) || server->tending.queued ||
           loop_timer_is_set(&server->tend);
}

void server_drain(void *data)
{
    struct server *server = data;

    server->draining = true;
    if (!server->puts)
        service_drained(server->service);
}

void server_count(struct server *server, struct cache_status *ret_status)
{
    struct cache_status status = server->status;
    struct store_stats stats;

    status.clients = server->n_sessions;
    status.max_bytes = server->config->cache.max_bytes;
    if (server->store) {
        store_stats(server->store, &stats);
        status.blocks = stats.blocks;
        status.bytes = stats.bytes;
        status.max_bytes = stats.max_bytes;
        status.free_bytes = stats.free_bytes;
        status.index_bytes = stats.index_bytes;
        status.segments = stats.segments;
        status.found_blocks_total = stats.hits;
        status.missed_blocks_total = stats.misses;
        status.found_bytes_total = stats.bytes_found;
        status.written_blocks_total = stats.puts;
        status.written_bytes_total = stats.bytes_put;
        status.evicted_blocks_total = stats.evictions;
        status.evicted_bytes_total = stats.bytes_evicted;
        status.rejected_blocks_total = stats.rejected;
        status.purged_blocks_total = stats.purged;
        status.moved_bytes_total = stats.moved;
        status.rebuilds_total = stats.rebuilds;
    }
    *ret_status = status;
}

void server_status_text(void *data, char *text, size_t size)
{
    struct server *server = data;
    struct cache_status status;
    size_t n;

    server_count(server, &status);
    if (status.problem[0]) {
        snprintf(text, size, "Nothing is cached: %s", status.problem);
        return;
    }
    snprintf(text, size, "%" PRIu64 " blocks, %.1f GiB", status.blocks,
             (double)status.bytes / (1 << 30));
    n = strlen(text);
    if (status.max_bytes)
        snprintf(text + n, size - n, " of %.1f", (double)status.max_bytes / (1 << 30));
    n = strlen(text);
    if (status.pending_blocks)
        snprintf(text + n, size - n, ", writing %" PRIu64, status.pending_blocks);
}
