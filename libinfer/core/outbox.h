/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Results of a thread that wait for their reader
 *
 * The reader watches @fd, which is readable exactly while there are items. Writers and the reader
 * share a lock, which must be held for outbox_put() and outbox_take().
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/fifo.h"

struct outbox {
    struct fifo items;
    int fd; /* an eventfd */
};

/* Returns 0, or the negated error of eventfd(). */
int outbox_init(struct outbox *o);
/* Closes the descriptor. The items belong to the caller. */
void outbox_done(struct outbox *o);
void outbox_put(struct outbox *o, struct fifo_link *item);
/* Removes the oldest item. NULL: there is none. */
struct fifo_link *outbox_take(struct outbox *o);

/* Returns the time of clock_nsec() that is @timeout_msec from now; a negative timeout never
 * ends. */
uint64_t outbox_deadline(int timeout_msec);
/* Waits until @fd is readable, the time @end_nsec comes, or a signal interrupts the wait. Returns
 * false only if the time had come before the call. */
bool outbox_wait(int fd, uint64_t end_nsec);
