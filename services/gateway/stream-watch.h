/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows a streamed answer from event to event, without knowing what the events mean.
 *
 * If the transfer from a service breaks, the gateway may add an error event only between two
 * events, and only if the service did not send one.
 */

#include "common/http/error-shape.h"
#include "core/macros.h"

struct stream_watch {
    const struct error_shape *shape; /* the format of errors of the route; NULL: the answer is not a
                                        stream of events */
    size_t at;                       /* bytes of the current event so far; 0: between two events */
    size_t n_start;                  /* how many of the event's first bytes equal those of an error
                                        event */
    size_t n_tail;                   /* how many of the event's last bytes match the final line
                                        feeds */
    bool failed;                     /* an error event began */
};

void stream_watch_feed(struct stream_watch *watch, const char *data, size_t len);
/* Returns whether an error event may be added now. */
bool stream_watch_takes_error(const struct stream_watch *watch);
