/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the data and functions that the files of the process sconce-cache share.
 *
 * One loop owns the store and all connections. The callback that reads a request also answers it. A
 * second thread writes blocks to the disk, at places that the store has planned (write-queue.c). A
 * third thread reads blocks and fills the pipes of clients (read-stream.c).
 */

#include "cache/read-stream.h"
#include "cache/store.h"
#include "common/service/jobs.h"
#include "common/service/listen.h"
#include "common/service/loop.h"
#include "common/service/service.h"
#include "common/wire/cache-protocol.h"

/* Limits of the number of connections: from all processes together, and from one process. A
 * connection takes two descriptors of this process. */
#define SERVER_MAX_SESSIONS        128
#define SERVER_MAX_SESSIONS_OF_ONE 64
/* Limits of the blocks that wait to be written. SERVER_MAX_PENDING limits their bytes, which are in
 * memfds of clients. The other two limit the number of PUT requests: those of all processes
 * together, and those of one process. A request takes a descriptor of this process. */
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

/* Struct session is a connection. The list of connections begins with the connection that was
 * active most recently. */
struct session {
    struct server *server;
    struct session *prev, *next;
    int fd;
    pid_t client; /* id of the process that connected; 0: the id is not visible in this PID
                     namespace */
    struct loop_watch *watch;
    uint64_t id; /* never used again while this process runs */
    bool greeted;
    bool manages; /* the client has shown that it can open files of the directory */
    char name[64];
};

/* Struct put holds the blocks of one PUT request until they are on disk. */
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

/* Kinds of log messages that clients could cause without limit. Therefore these messages are
 * rate-limited. */
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
    struct put *puts; /* the puts that are being written */
    struct loop_timer tend;
    struct loop_task tending;
    bool draining, tend_failed;
    uint64_t quiet_until[SERVER_N_COMPLAINTS];
    struct cache_status status;  /* the counters of the server itself, and the texts */
    struct cache_packet in, out; /* the current request and its answer */
    int in_fds[2], out_fd;       /* descriptors that were received, and the descriptor to send; -1:
                                    none */
    size_t n_in_fds;
};

/* server.c */
extern const struct service_door server_door;
/* Starts the threads and opens the store. If the store cannot be opened, clients get the reason.
 * Must run before confine_seal(). -errno: a thread cannot be started. */
int server_start(struct server *server);
void server_stop(struct server *server);
bool server_busy(void *data);
void server_drain(void *data);
void server_status_text(void *data, char *text, size_t size);
/* Schedules maintenance of the store, which starts after SERVER_TEND_USEC. */
void server_tend_soon(struct server *server);
/* Returns whether to log a message of the kind @what now. Each kind is logged at most once in
 * SERVER_COMPLAIN_USEC. */
bool server_may_complain(struct server *server, enum server_complaint what);
/* Collects the counters of @server and of its store. */
void server_count(struct server *server, struct cache_status *ret_status);

/* connection.c */
/* Makes a connection from @fd, and owns @fd even on failure. If the client's process has too many
 * connections, closes one of its connections: the one that has been silent longest. If all
 * processes together have too many, closes the connection that has been silent longest, whichever
 * process has it. */
int session_new(struct server *server, int fd);
/* Closes the connection; returns NULL. */
struct session *session_free(struct session *session);

/* commands.c */
/* Answers the request in server->in with @head and @body. Fills server->out, and sets
 * server->out_fd, which the caller closes after sending it. If out.len stays 0, there is no answer.
 * Takes descriptors that it needs from in_fds. If the result is negative, the caller must send
 * `out` (if it is not empty), and then close the connection. */
int command_answer(struct session *session, const struct cache_head *head,
                   struct cache_reader *body);

/* write-queue.c */
/* Plans places for @blocks [@n], whose bytes are in @fd, and queues them for the writer. Returns
 * the number of blocks that it took, or a negative errno; -EPERM: @fd is not a sealed and fully
 * allocated memfd. If the number is positive, the queue owns @fd. */
int put_start(struct session *session, const struct cache_origin *origin, int fd,
              const struct inf_tier_block *blocks, uint32_t n);
/* Ends all puts that the writer had not finished when it stopped. */
void put_abandon(struct server *server);
