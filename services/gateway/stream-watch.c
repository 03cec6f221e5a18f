/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ends of events in the bytes of a stream, and finds out which of them are errors. */
#include "gateway/stream-watch.h"

#include <string.h>

static void watch_byte(struct stream_watch *w, char c)
{
    const char *start = w->shape->start, *tail = w->shape->tail;

    if (w->n_start == w->at && start[w->at] && start[w->at] == c) {
        w->n_start++;
        w->failed = w->failed || start[w->n_start] == 0;
    }
    w->at++;
    /* The tail, which ends each event, consists only of line feeds. Therefore a byte that does not
     * continue the tail cannot be the first byte of another tail. */
    w->n_tail = tail[w->n_tail] == c ? w->n_tail + 1 : 0;
    if (tail[w->n_tail] == 0)
        w->at = w->n_start = w->n_tail = 0;
}

void stream_watch_feed(struct stream_watch *w, const char *data, size_t len)
{
    const char *end = data + len;

    while (w->shape && data < end) {
        const size_t n_start = strlen(w->shape->start);

        /* Only the beginning of an event and its line feeds matter. */
        if (w->at >= n_start && w->n_tail == 0) {
            const char *line = memchr(data, '\n', (size_t)(end - data));

            w->at += (size_t)((line ? line : end) - data);
            data = line ? line : end;
            if (!line)
                break;
        }
        watch_byte(w, *data++);
    }
}

bool stream_watch_takes_error(const struct stream_watch *w)
{
    return w->shape && w->at == 0 && !w->failed;
}
