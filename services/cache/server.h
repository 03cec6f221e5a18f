/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process sconce-cache
 *
 * One loop owns the store and all connections. One thread writes blocks (write-queue.c) and one
 * reads them (read-stream.c). The callback that reads a request also answers it. Disk writes are
 * done by the writer thread, at places that the store has planned; reads are done by the thread
 * that fills the pipes of readers.
 */

#include "cache/read-stream.h"
#include "cache/store.h"
#include "common/service/jobs.h"
#include "common/service/listen.h"
#include "common/service/loop.h"
#include "common/service/service.h"
#include "common/wire/cache-protocol.h"

/* Limits of connections: of all processes, and of one. Each takes two descriptors in this
 * process. */
#define SERVER_MAX_SESSIONS        128
#define SERVER_MAX_SESSIONS_OF_ONE 64
/* Limits of blocks that wait to be written: bytes in clients' memfds, and number of requests of all
 * processes and of one. Each takes a descriptor in this process. */
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

/* A connection. The list begins with the most recently active one. */
struct session {
    struct server *server;
    struct session *prev, *next;
    int fd;
    pid_t client; /* the process that connected; 0: its process id is not visible here */
    struct loop_watch *watch;
    uint64_t id; /* unique in the life of the process */
    bool greeted;
    bool manages; /* it has shown that it can open files of the directory */
    char name[64];
};

/* The blocks of one PUT request until they are on disk. */
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

/* Log messages that clients can cause without limit, and which are therefore rate-limited. */
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
    bool refusing;       /* cache.enabled is false: only requests of `sconce cache` are answered */
    struct jobs *writer;
    struct streams *streams;
    struct put *puts; /* under way */
    struct loop_timer tend;
    struct loop_task tending;
    bool draining, tend_failed;
    uint64_t quiet_until[SERVER_N_COMPLAINTS];
    struct cache_status status;  /* counts of the server itself, and texts */
    struct cache_packet in, out; /* the present request and its answer */
    int in_fds[2], out_fd;       /* descriptors that were received, and the one to send; -1: none */
    size_t n_in_fds;
};

/* server.c */
extern const struct service_door server_door;
/* Starts the writer and opens the store. If the store cannot be opened, clients get the reason.
 * Must run before the last system call filter is applied. -errno: a thread cannot be started. */
int server_start(struct server *server);
void server_stop(struct server *server);
bool server_busy(void *data);
void server_drain(void *data);
void server_status_text(void *data, char *text, size_t size);
/* Schedules upkeep of the store for when the service is quiet. */
void server_tend_soon(struct server *server);
/* Whether to log this now. The same complaint is logged at most once in SERVER_COMPLAIN_USEC. */
bool server_may_complain(struct server *server, enum server_complaint what);
/* Counts of @server and its store. */
void server_count(struct server *server, struct cache_status *ret_status);

/* connection.c */
/* Takes @fd, also on failure. When there are too many connections, the one that has been silent
 * longest is closed: of the same process if that one has too many, else of all. */
int session_new(struct server *server, int fd);
/* Returns NULL. */
struct session *session_free(struct session *session);

/* commands.c */
/* Answers the request in server->in, whose @head and @body were parsed: fills server->out and
 * out_fd, which is closed after sending; out.len 0 means no answer. Takes what it needs from
 * in_fds. Negative: the connection must be closed, after out is sent if it is not empty. */
int command_answer(struct session *session, const struct cache_head *head,
                   struct cache_reader *body);

/* write-queue.c */
/* Plans @blocks [n] of @fd, which it takes on success, and queues them for the writer. Returns how
 * many were taken, or a negative errno; -EPERM: @fd is not a sealed and fully allocated memfd. */
int put_start(struct session *session, const struct cache_origin *origin, int fd,
              const struct inf_tier_block *blocks, uint32_t n);
/* Ends all puts that the writer, which has stopped, did not do. */
void put_abandon(struct server *server);
