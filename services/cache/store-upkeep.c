/* SPDX-License-Identifier: Apache-2.0 */
/* Maintains the store: does the work that can wait. */
#include "cache/store-inner.h"

#include <errno.h>

#include "core/clock.h"

/* Interval of checks of the limits. */
#define ROOM_USEC 1000000

static int upkeep_tend(struct store *s)
{
    int r;

    if (s->n_touches > 0) {
        r = transaction_write_touches(s, TOUCHES_STEP);
        return r < 0 ? r : 1;
    }
    /* A file system may report freed space only after a while. */
    if (clock_usec() - s->tended_usec >= ROOM_USEC) {
        s->tended_usec = clock_usec();
        r = room_make(s);
        /* -ENOSPC is not an error here: something other than the cache fills the file system. */
        if (r < 0 && r != -ENOSPC)
            return r;
    }
    return compact_step(s);
}

int store_tend(struct store *s)
{
    int r = store_ready(s);

    if (r == 0)
        r = upkeep_tend(s);
    if (store_settle(s, r))
        r = 1;
    return r;
}

int store_flush(struct store *s)
{
    int r = store_ready(s);

    if (r == 0)
        r = transaction_write_touches(s, TOUCHES_MAX);
    return r < 0 ? r : catalog_checkpoint(s->catalog);
}
