/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes events from the engine thread to the caller.
 *
 * An event is stored as a record. The engine thread collects the records of a step in a buffer (the
 * stage), and then moves them to the log of pending records. Meanwhile the reader reads another
 * log. The two logs are swapped when the reader reaches the end of its log. The stage and the logs
 * keep their memory, so that steady work allocates nothing. A log cannot grow without limit,
 * because running choices (the answers of a request) have a limited output. An eventfd is readable
 * while records wait.
 */

#include <pthread.h>

#include <infer/engine.h>

#include "core/str.h"
#include "sched/request.h"

struct events {
    struct str stage; /* used by the engine thread only: records of the current step */
    pthread_mutex_t lock;
    struct str pending; /* under lock */
    bool signalled;     /* under lock: the eventfd is readable */
    int fd;
    struct str reading; /* used by the reader only */
    size_t i_read;
};

int events_init(struct events *e);
void events_done(struct events *e);

/* These functions append a record to the stage. The engine thread calls them. They return 0, or
 * -ENOMEM without a change of the stage. */
/* Adds INF_EVENT_PROGRESS if the request wants it and there is progress. */
int events_add_progress(struct events *e, struct seq *s, uint32_t n_computed);
int events_add_prompt(struct events *e, const struct seq *s);
int events_add_tokens(struct events *e, const struct seq *s, const struct output_part *part);
int events_add_finish(struct events *e, const struct seq *s, bool last);
/* Passes the records of the stage to the reader. Returns false if there is not enough memory; then
 * the caller must try again later. */
bool events_flush(struct events *e);
/* Drops waiting records of request @id, except the ends of its choices. */
void events_forget(struct events *e, uint64_t id);

/* Returns 1 and the next event in *ret_event, or 0 if there is none. Only the reader calls this
 * function. */
int events_next(struct events *e, struct inf_event *ret_event);
