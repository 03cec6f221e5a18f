/* SPDX-License-Identifier: Apache-2.0 */
/* What can wait. */
#include "cache/store-inner.h"

#include <errno.h>

#include "core/clock.h"

/* Limits are looked at that often when nothing is put. */
#define ROOM_USEC 1000000

static int tend(struct store *s)
{
    int r;

    if (s->n_touches > 0) {
        r = change_write_touches(s, TOUCHES_STEP);
        return r < 0 ? r : 1;
    }
    /* File systems may take a while to tell of space that they were given back. */
    if (clock_usec() - s->tended_usec >= ROOM_USEC) {
        s->tended_usec = clock_usec();
        r = room_make(s);
        /* The file system is too full, and not by what is here. */
        if (r < 0 && r != -ENOSPC)
            return r;
    }
    return tidy_step(s);
}

int store_tend(struct store *s)
{
    int r = store_ready(s);

    if (r == 0)
        r = tend(s);
    if (store_settle(s, r))
        r = 1;
    return r;
}

int store_flush(struct store *s)
{
    int r = store_ready(s);

    if (r == 0)
        r = change_write_touches(s, TOUCHES_MAX);
    return r < 0 ? r : catalog_checkpoint(s->catalog);
}
