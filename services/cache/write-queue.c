/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues the blocks of PUT requests until they are on disk.
 *
 * The store plans places when a request arrives, the writer thread writes and syncs, and the loop
 * then adds the rows to the store. Until the rows are added, this process holds the client's memfd,
 * so the queue is limited in bytes and in number.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/server.h"
#include "common/service/log.h"

#define PUT_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static struct put *put_of(struct job *job)
{
    return CONTAINER_OF(job, struct put, job);
}

static void put_run(struct job *job)
{
    struct put *put = put_of(job);

    /* put->write stores the result. */
    store_write_run(put->write, put->fd);
}

static void put_finish(struct put *put)
{
    struct server *server = put->server;
    const int r = store_put_end(server->store, put->write);
    const uint32_t kept = r > 0 ? MIN((uint32_t)r, put->n_blocks) : 0;

    server->status.pending_blocks -= put->n_blocks;
    server->status.pending_bytes -= put->n_bytes;
    server->status.failed_blocks_total += put->n_blocks - kept;
    if (r < 0 && r != -EBADMSG)
        log_warn("blocks cannot be written: %s", strerror(-r));
    if (put->next)
        put->next->prev = put->prev;
    *(put->prev ? &put->prev->next : &server->puts) = put->next;
    close(put->fd);
    free(put);
}

static void put_done(struct job *job)
{
    struct server *server = put_of(job)->server;

    put_finish(put_of(job));
    service_touch(server->service);
    server_tend_soon(server);
    if (server->draining && !server->puts)
        server_drain(server);
}

void put_abandon(struct server *server)
{
    while (server->puts)
        put_finish(server->puts);
}

/* Returns whether the first @end bytes of @fd can no longer change and are all allocated. Reading a
 * page that is not allocated would allocate the page, and the kernel would charge it to this
 * process as long as the client keeps the memfd. */
static bool is_fit(int fd, uint64_t end)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & PUT_SEALS) == PUT_SEALS && fstat(fd, &st) == 0 &&
           (uint64_t)st.st_size >= end && st.st_blocks >= (st.st_size + 511) / 512;
}

/* Returns whether one more put of @client may wait. */
static bool has_room(const struct server *server, pid_t client)
{
    uint32_t n = 0, n_own = 0;

    for (const struct put *put = server->puts; put; put = put->next) {
        n++;
        n_own += put->client == client;
    }
    return n < SERVER_MAX_PUTS && n_own < SERVER_MAX_PUTS_OF_ONE;
}

/* Returns how many of @blocks, counted from the first, may wait. Sets *ret_bytes to the size of
 * these blocks. */
static uint32_t count_that_fit(const struct server *server, const struct inf_tier_block *blocks,
                               uint32_t n, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (blocks[i].size > SERVER_MAX_PENDING - server->status.pending_bytes - bytes)
            break;
        bytes += blocks[i].size;
    }
    *ret_bytes = bytes;
    return i;
}

static int put_plan(struct put *put, const struct cache_origin *origin,
                    const struct inf_tier_block *blocks)
{
    const struct store_origin from = {origin->model, origin->codec, origin->tenant,
                                      origin->session[0] ? origin->session : NULL};
    struct store_block list[CACHE_MAX_BLOCKS];

    for (uint32_t i = 0; i < put->n_blocks; i++) {
        memcpy(list[i].name, blocks[i].name, sizeof(list[i].name));
        memcpy(list[i].parent, blocks[i].parent, sizeof(list[i].parent));
        list[i].index = blocks[i].index;
        list[i].offset = blocks[i].offset;
        list[i].size = blocks[i].size;
        list[i].sum = blocks[i].sum;
    }
    return store_put_begin(put->server->store, &from, list, put->n_blocks, &put->write);
}

int put_start(struct session *session, const struct cache_origin *origin, int fd,
              const struct inf_tier_block *blocks, uint32_t n)
{
    struct server *server = session->server;
    uint64_t end = 0, bytes;
    struct put *put;
    int r;

    for (uint32_t i = 0; i < n; i++) {
        if (blocks[i].offset > UINT64_MAX - blocks[i].size)
            return -EPERM;
        end = MAX(end, blocks[i].offset + blocks[i].size);
    }
    if (!is_fit(fd, end))
        return -EPERM;
    if (server->draining || !has_room(server, session->client))
        return 0;
    n = count_that_fit(server, blocks, n, &bytes);
    if (n == 0)
        return 0;
    put = NEW(struct put, 1);
    if (!put)
        return -ENOMEM;
    *put = (struct put){.job = {.run = put_run, .done = put_done},
                        .server = server,
                        .fd = fd,
                        .client = session->client,
                        .n_blocks = n,
                        .n_bytes = bytes};
    r = put_plan(put, origin, blocks);
    if (r < 0) {
        free(put);
        return r;
    }
    put->next = server->puts;
    if (put->next)
        put->next->prev = put;
    server->puts = put;
    server->status.pending_blocks += n;
    server->status.pending_bytes += bytes;
    jobs_queue(server->writer, NULL, &put->job);
    return (int)n;
}
