/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the results of a thread until their reader takes them. */
#include "core/outbox.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/macros.h"

int outbox_init(struct outbox *o)
{
    fifo_init(&o->items);
    o->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return o->fd < 0 ? -errno : 0;
}

void outbox_done(struct outbox *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

void outbox_put(struct outbox *o, struct fifo_link *item)
{
    fifo_push(&o->items, item);
    eventfd_write(o->fd, 1);
}

struct fifo_link *outbox_take(struct outbox *o)
{
    struct fifo_link *item = fifo_pop(&o->items);
    eventfd_t count;

    if (!o->items.head)
        eventfd_read(o->fd, &count);
    return item;
}

uint64_t outbox_deadline(int timeout_msec)
{
    return timeout_msec < 0 ? UINT64_MAX : clock_nsec() + (uint64_t)timeout_msec * 1000000;
}

bool outbox_wait(int fd, uint64_t end_nsec)
{
    const uint64_t now = clock_nsec();
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (now >= end_nsec)
        return false;
    poll(&p, 1, end_nsec == UINT64_MAX ? -1 : (int)((end_nsec - now) / 1000000 + 1));
    return true;
}
