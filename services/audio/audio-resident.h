/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Models in memory
 *
 * At most max_models are resident. A model that is wanted and absent is loaded on the loader
 * thread, in the place of the one that was used longest ago and has no users; while all have, it
 * waits. Users hold a resident from `ready` to resident_release().
 */

#include <infer/audio.h>

#include "common/jobs.h"
#include "common/loop.h"
#include "common/problem.h"

struct audio;
struct models_entry;

enum resident_state {
    RESIDENT_QUEUED, /* wanted, waits for a place */
    RESIDENT_LOADING,
    RESIDENT_READY,
};

struct resident {
    struct audio *audio;
    enum resident_state state;
    char *name, *path;
    int64_t mtime;
    struct inf_model *model;
    struct inf_transcriber *transcriber;
    struct loop_watch *watch;
    uint32_t n_users;
    uint64_t used_usec;
    struct resident_waiter *waiters;
    struct job job;
    struct inf_model *victim_model; /* freed by the loader, before it loads */
    struct inf_transcriber *victim_transcriber;
    struct inf_err err;
    int load_status;
    struct resident *next;
};

struct resident_waiter {
    /* @resident is held; NULL: @problem says why there is none. */
    void (*ready)(struct resident_waiter *waiter, struct resident *resident,
                  const struct problem *problem);
    struct resident *resident; /* that it waits for; NULL: it does not wait */
    struct resident_waiter *next;
};

/* Calls waiter->ready, possibly before it returns. */
void resident_want(struct audio *audio, const struct models_entry *entry,
                   struct resident_waiter *waiter);
/* Waits no longer. */
void resident_forget(struct resident_waiter *waiter);
void resident_release(struct resident *resident);
/* For audio->schedule. */
void resident_schedule(struct loop_task *task);
/* At the end of the service; the loader thread is gone already. */
void resident_free_all(struct audio *audio);
