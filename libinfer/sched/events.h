/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Event queue from the engine thread to the caller
 *
 * There are two logs of records: the engine appends to one while the reader walks the other. They
 * are swapped when the reader reaches its end. Both keep their memory, so that steady work
 * allocates nothing. The output that running choices may generate bounds a log. An eventfd is
 * readable while records wait.
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

/* For the engine thread: the functions append to the stage, and -ENOMEM leaves it unchanged. */
int events_add_prompt(struct events *e, const struct seq *s);
int events_add_tokens(struct events *e, const struct seq *s, const struct output_part *part);
int events_add_finish(struct events *e, const struct seq *s, bool last);
/* Passes the stage to the reader. Returns false if memory is short: call again later. */
bool events_flush(struct events *e);
/* Drops waiting records of request @id, except the ends of its choices. */
void events_forget(struct events *e, uint64_t id);

/* For the reader: returns 1 and *ret_event, or 0. */
int events_next(struct events *e, struct inf_event *ret_event);
