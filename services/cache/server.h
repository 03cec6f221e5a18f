/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process of sconce-cache: one loop that owns the store and all connections, one thread that
 * writes
 *
 * A question is answered in the callback that reads it. What takes a disk's time is done by the
 * writer thread, on descriptors that the store has planned places for.
 */

#include "cache/store.h"
#include "common/cache-protocol.h"
#include "common/jobs.h"
#include "common/listen.h"
#include "common/loop.h"
#include "common/service.h"

#define SERVER_MAX_SESSIONS 256
/* What clients' memfds may hold in memory until it is written. */
#define SERVER_MAX_PENDING (UINT64_C(512) << 20)

struct config;
struct server;

struct listener {
    struct server *server;
    int fd;
    struct loop_watch *watch; /* NULL: paused */
};

/* One connection. */
struct session {
    struct server *server;
    struct session *prev, *next;
    int fd;
    struct loop_watch *watch;
    bool greeted;
    char name[64];
    uint32_t *given; /* [n_given] segments that it has descriptors of */
    size_t n_given, n_given_space;
    size_t next_check; /* in given: is that segment still there? */
};

/* Blocks of one PUT on their way to the disk. */
struct put {
    struct job job;
    struct server *server;
    struct put *prev, *next;
    struct store_write *write;
    int fd;
    uint32_t n_blocks;
    uint64_t n_bytes;
};

struct server {
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct listener listeners[LISTEN_MAX];
    size_t n_listeners;
    struct session *sessions;
    size_t n_sessions;
    struct store *store; /* NULL: status.problem says why */
    bool refusing;       /* switched off: only what `sconce cache` asks is answered */
    struct jobs *writer;
    struct put *puts; /* under way */
    struct loop_timer tend;
    struct loop_task tending;
    bool draining, tend_failed;
    struct cache_status status;  /* what we count ourselves, and texts */
    struct cache_packet in, out; /* of the question that is being answered */
    int in_fds[2], out_fds[CACHE_MAX_FDS];
    size_t n_in_fds, n_out_fds;
};

/* server.c */
extern const struct service_door server_door;
/* Makes the writer and opens the store; what goes wrong with that is told to clients. Before the
 * last filter is applied. -errno: no thread. */
int server_start(struct server *server);
void server_stop(struct server *server);
bool server_busy(void *data);
void server_drain(void *data);
void server_status_text(void *data, char *text, size_t size);
/* The store has work to do, when there is time. */
void server_tend_soon(struct server *server);
/* Blocks and bytes of @server and its store. */
void server_count(struct server *server, struct cache_status *ret_status);

/* session.c */
int session_new(struct server *server, int fd);
/* Returns NULL. */
struct session *session_free(struct session *session);

/* answers.c */
/* Answers the question in server->in, of which @head and the @body were read: fills server->out
 * and out_fds, or leaves out.len 0 for none. Takes what it needs of in_fds. Negative: the
 * connection ends, after out was sent if there is any. */
int answer(struct session *session, const struct cache_head *head, struct cache_reader *body);

/* put.c */
/* Plans @blocks [n] of @fd, which it takes on success, and has them written. How many were taken,
 * or a negative errno. */
int put_start(struct server *server, const struct cache_origin *origin, int fd,
              const struct inf_tier_block *blocks, uint32_t n);
/* Ends all that the writer, which is no more, did not do. */
void put_abandon(struct server *server);
