/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Models in memory
 *
 * At most max_models are resident; one model with keys and values of two kinds counts as two. A
 * model that is wanted and absent is loaded on the loader
 * thread, in the place of the one that was used longest ago and has no users; while all have, it
 * waits. Users hold a resident from `ready` to resident_release().
 */

#include <infer/engine.h>

#include "common/problem.h"
#include "common/jobs.h"
#include "common/loop.h"

struct chat;
struct models_entry;

enum resident_state {
    RESIDENT_QUEUED, /* wanted, waits for a place */
    RESIDENT_LOADING,
    RESIDENT_READY,
};

struct resident {
    struct chat *chat;
    enum resident_state state;
    char *name, *path;
    char *kv_type; /* that a request asked for; NULL: the configured one */
    int64_t mtime;
    char fingerprint[24]; /* "fp_…" */
    struct inf_model *model;
    struct inf_engine *engine;
    struct inf_tier *tier; /* of the engine, which it outlives; NULL: none */
    struct loop_watch *watch;
    uint32_t n_users;
    uint64_t used_usec;
    struct resident_waiter *waiters;
    struct job job;
    struct inf_model *victim_model; /* freed by the loader, before it loads */
    struct inf_engine *victim_engine;
    struct inf_tier *victim_tier;
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

/* Calls waiter->ready, possibly before it returns. @kv_type: NULL: as configured; "any": whichever
 * is there. */
void resident_want(struct chat *chat, const struct models_entry *entry, const char *kv_type,
                   struct resident_waiter *waiter);
/* Waits no longer. */
void resident_forget(struct resident_waiter *waiter);
void resident_release(struct resident *resident);
/* The ready one of that name, or NULL. */
struct resident *resident_find(struct chat *chat, const char *name);
/* For chat->schedule. */
void resident_schedule(struct loop_task *task);
/* At the end of the service; the loader thread is gone already. */
void resident_free_all(struct chat *chat);
