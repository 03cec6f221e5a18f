/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process of sconce-cache: one loop that owns the store and all connections, one thread that
 * writes, and one that reads
 *
 * A question is answered in the callback that reads it. What takes a disk's time is done by the
 * writer thread, on descriptors that the store has planned places for, and by the thread that fills
 * the pipes of those who read.
 */

#include "cache/read-stream.h"
#include "cache/store.h"
#include "common/service/jobs.h"
#include "common/service/listen.h"
#include "common/service/loop.h"
#include "common/service/service.h"
#include "common/wire/cache-protocol.h"

/* Connections, of all processes and of one. Each takes two descriptors here. */
#define SERVER_MAX_SESSIONS        128
#define SERVER_MAX_SESSIONS_OF_ONE 64
/* What clients' memfds may hold in memory until it is written, and how many may wait for that, of
 * all processes and of one. Each takes a descriptor here. */
#define SERVER_MAX_PENDING     (UINT64_C(512) << 20)
#define SERVER_MAX_PUTS        256
#define SERVER_MAX_PUTS_OF_ONE 128

struct config;
struct server;

struct listener {
    struct server *server;
    int fd;
    struct loop_watch *watch; /* NULL: paused */
};

/* One connection. The list of all begins with the one that said something last. */
struct session {
    struct server *server;
    struct session *prev, *next;
    int fd;
    pid_t client; /* the process that connected; 0: it cannot be seen from here */
    struct loop_watch *watch;
    uint64_t id; /* of no other before or after it */
    bool greeted;
    bool manages; /* it showed that it can open what the directory has */
    char name[64];
};

/* Blocks of one PUT on their way to the disk. */
struct put {
    struct job job;
    struct server *server;
    struct put *prev, *next;
    struct store_write *write;
    int fd;
    pid_t client;
    uint32_t n_blocks;
    uint64_t n_bytes;
};

/* What clients can make the service say in its log, as often as they like. */
enum server_complaint {
    SERVER_MALFORMED,
    SERVER_CROWDED,
    SERVER_REJECTED,
    SERVER_N_COMPLAINTS,
};

struct server {
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct listener listeners[LISTEN_MAX];
    size_t n_listeners;
    struct session *sessions;
    size_t n_sessions;
    uint64_t last_session;
    struct store *store; /* NULL: status.problem says why */
    bool refusing;       /* switched off: only what `sconce cache` asks is answered */
    struct jobs *writer;
    struct streams *streams;
    struct put *puts; /* under way */
    struct loop_timer tend;
    struct loop_task tending;
    bool draining, tend_failed;
    uint64_t quiet_until[SERVER_N_COMPLAINTS];
    struct cache_status status;  /* what we count ourselves, and texts */
    struct cache_packet in, out; /* of the question that is being answered */
    int in_fds[2], out_fd;       /* that came, and that goes; -1: none */
    size_t n_in_fds;
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
/* Whether to log this now; the same is not said again for some seconds. */
bool server_may_complain(struct server *server, enum server_complaint what);
/* Blocks and bytes of @server and its store. */
void server_count(struct server *server, struct cache_status *ret_status);

/* connection.c */
/* Takes @fd, also on failure. Where there are too many connections, the one that was silent for
 * the longest time is closed: of the same process, if that one has too many, else of all. */
int session_new(struct server *server, int fd);
/* Returns NULL. */
struct session *session_free(struct session *session);

/* commands.c */
/* Answers the question in server->in, of which @head and the @body were read: fills server->out
 * and out_fd, which is closed when it was sent, or leaves out.len 0 for none. Takes what it needs
 * of in_fds. Negative: the connection ends, after out was sent if there is any. */
int answer(struct session *session, const struct cache_head *head, struct cache_reader *body);

/* write-queue.c */
/* Plans @blocks [n] of @fd, which it takes on success, and has them written. How many were taken,
 * or a negative errno; -EPERM: @fd is not memory that is sealed and all there. */
int put_start(struct session *session, const struct cache_origin *origin, int fd,
              const struct inf_tier_block *blocks, uint32_t n);
/* Ends all that the writer, which is no more, did not do. */
void put_abandon(struct server *server);
