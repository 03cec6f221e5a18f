/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Blocks on their way to clients
 *
 * Each stream is a pipe, from which a client reads the blocks that it named. One thread fills all
 * of them, a little at a time, so that a client that does not read keeps nobody waiting; it loses
 * its stream after some seconds. Nothing is kept of a stream that has ended.
 */

#include "cache/store.h"

#define STREAM_MAX        64 /* at once */
#define STREAM_MAX_OF_ONE 4  /* of a connection: its readers', and those that are about to end */
/* Without the client reading anything. */
#define STREAM_IDLE_USEC (5 * UINT64_C(1000000))

struct loop;
struct streams;

struct stream_params {
    struct loop *loop;
    /* On the loop: a block cannot be read from the disk. */
    void (*unreadable)(void *data, const uint8_t name[STORE_NAME_BYTES]);
    void *data;
};

/* -errno: no thread. */
int streams_new(const struct stream_params *params, struct streams **ret_streams);
/* Ends all streams. NULL is fine; returns NULL. */
struct streams *streams_free(struct streams *set);
/* Begins to send the first @n of the blocks @names [n + n_ahead] at @places, and asks the disk for
 * what comes after them before it is needed. @client: of whom the oldest stream ends when there are
 * too many. *ret_pipe is the caller's: the end to read from. -errno. */
int stream_start(struct streams *set, struct store *store, uint64_t client,
                 const uint8_t (*names)[STORE_NAME_BYTES], const struct store_place *places,
                 uint32_t n, uint32_t n_ahead, int *ret_pipe);
/* Whether anything is being sent. */
bool streams_busy(struct streams *set);
