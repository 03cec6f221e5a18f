/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events on their way from the engine thread to the caller
 *
 * Two logs of records: the engine appends to one, the reader walks the other, and they are
 * swapped when the reader has come to its end. Both keep their memory, so that steady work
 * allocates nothing. A log is bounded by what the running choices may generate.
 * An eventfd is readable while records wait.
 */

#include <pthread.h>

#include <infer/engine.h>

#include "core/str.h"
#include "sched/request.h"

struct events {
    struct str stage; /* engine thread: records of this step */
    pthread_mutex_t lock;
    struct str pending; /* under lock */
    bool signalled;     /* under lock: the eventfd is readable */
    int fd;
    struct str reading; /* reader */
    size_t i_read;
};

int events_init(struct events *e);
void events_done(struct events *e);

/* Engine thread. All append to the stage; -ENOMEM leaves it as it was. */
int events_add_prompt(struct events *e, const struct seq *s);
int events_add_tokens(struct events *e, const struct seq *s, const struct output_part *part);
int events_add_finish(struct events *e, const struct seq *s, bool last);
/* Hands the stage to the reader. False when there was no memory: call again. */
bool events_flush(struct events *e);
/* Drops what waits for request @id, but not the ends of its choices. */
void events_forget(struct events *e, uint64_t id);

/* Reader. 1 and *ret_event, or 0. */
int events_next(struct events *e, struct inf_event *ret_event);
