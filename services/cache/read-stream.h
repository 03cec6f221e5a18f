/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams of blocks to clients
 *
 * Each stream is a pipe from which a client reads the blocks that it named. One thread fills all
 * pipes, a little at a time, so a client that does not read delays no other. Such a client loses
 * its stream after STREAM_IDLE_USEC. A stream that has ended leaves nothing behind.
 */

#include "cache/store.h"

#define STREAM_MAX        64 /* at once */
#define STREAM_MAX_OF_ONE 4  /* per connection: those being read, and those about to end */
/* Longest time without the client reading anything. */
#define STREAM_IDLE_USEC (5 * UINT64_C(1000000))

struct loop;
struct streams;

struct stream_params {
    struct loop *loop;
    /* Called on the loop: a block cannot be read from the disk. */
    void (*unreadable)(void *data, const uint8_t name[STORE_NAME_BYTES]);
    void *data;
};

/* -errno: the thread cannot be started. */
int streams_new(const struct stream_params *params, struct streams **ret_streams);
/* Ends all streams. NULL is fine; returns NULL. */
struct streams *streams_free(struct streams *set);
/* Starts sending the first @n of the blocks @names [n + n_ahead] at @places, and starts readahead
 * of the following blocks early. @client: the client whose oldest stream ends when there are too
 * many. The caller owns *ret_pipe, the read end. -errno. */
int stream_start(struct streams *set, struct store *store, uint64_t client,
                 const uint8_t (*names)[STORE_NAME_BYTES], const struct store_place *places,
                 uint32_t n, uint32_t n_ahead, int *ret_pipe);
/* Whether any stream is active. */
bool streams_busy(struct streams *set);
