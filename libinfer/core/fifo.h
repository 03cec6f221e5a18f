/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A queue of items, each of which contains a link to the next one. The oldest item leaves first. */

#include <stddef.h>

/* Member of an item; CONTAINER_OF() finds the item. */
struct fifo_link {
    struct fifo_link *next;
};

struct fifo {
    struct fifo_link *head, **tail; /* the queue points into itself, so it must not be moved */
};

static inline void fifo_init(struct fifo *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

static inline void fifo_push(struct fifo *q, struct fifo_link *item)
{
    item->next = NULL;
    *q->tail = item;
    q->tail = &item->next;
}

/* Removes @item, which must be in the queue. */
static inline void fifo_remove(struct fifo *q, struct fifo_link *item)
{
    struct fifo_link **p = &q->head;

    while (*p != item)
        p = &(*p)->next;
    *p = item->next;
    if (!item->next)
        q->tail = p;
}

/* Removes the oldest item. NULL: there is none. */
static inline struct fifo_link *fifo_pop(struct fifo *q)
{
    struct fifo_link *item = q->head;

    if (item)
        fifo_remove(q, item);
    return item;
}
