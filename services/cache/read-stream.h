/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends streams of blocks to clients.
 *
 * Each stream is a pipe from which a client reads the blocks that it named. One thread fills all
 * pipes, a little at a time, so a client that does not read delays no other client. A client that
 * reads nothing for STREAM_IDLE_USEC loses its stream.
 */

#include "cache/store.h"

#define STREAM_MAX        64 /* maximum number of streams of all clients at the same time */
#define STREAM_MAX_OF_ONE 4  /* maximum number of streams of one connection */
/* The longest time in which a client may read nothing. */
#define STREAM_IDLE_USEC (5 * UINT64_C(1000000))

struct loop;
struct streams;

struct stream_params {
    struct loop *loop;
    /* Called on the loop when a block cannot be read from the disk. */
    void (*unreadable)(void *data, const uint8_t name[STORE_NAME_BYTES]);
    void *data;
};

/* Starts the thread that sends streams. -errno: the thread cannot be started. */
int streams_new(const struct stream_params *params, struct streams **ret_streams);
/* Ends all streams and the thread. NULL is allowed; returns NULL. */
struct streams *streams_free(struct streams *set);
/* Starts a stream. @names and @places describe @n + @n_ahead blocks. The first @n are sent; the
 * others, which the client is expected to request next, are only read ahead. @client is the id of
 * the connection. If the connection has too many streams, its oldest stream ends. The caller owns
 * *ret_pipe, which is the read end of a pipe. -errno. */
int stream_start(struct streams *set, struct store *store, uint64_t client,
                 const uint8_t (*names)[STORE_NAME_BYTES], const struct store_place *places,
                 uint32_t n, uint32_t n_ahead, int *ret_pipe);
/* Returns whether any stream is active. */
bool streams_busy(struct streams *set);
