/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Models in memory
 *
 * At most max_models are resident; one model that is held for two purposes counts as two. A model
 * that is wanted and absent is opened and checked first, which costs little: what cannot be used is
 * told, and nothing makes room for it. Then it is loaded, in the place of the one that was used
 * longest ago and has no users; while all have, it waits. Users hold a resident from `ready` to
 * resident_release().
 *
 * What computes belongs to the service: its own structure begins with a struct resident, and
 * struct residents_ops says what is done with it.
 */

#include <infer/model.h>

#include "common/http/problem.h"
#include "common/service/jobs.h"
#include "common/service/loop.h"

struct models_entry;
struct resident;
struct residents;
struct service;

struct residents_ops {
    size_t size; /* of the service's structure; the rest of it begins as zeros */
    /* What the purpose @key of residents_want() asks of it beside its name, in any state; NULL:
     * nothing. -EINVAL: its model cannot do that at all, and none is loaded. */
    int (*serves)(const struct resident *resident, const void *key, struct problem *problem);
    /* Takes over what it needs of @key; may be NULL. -ENOMEM. */
    int (*init)(struct resident *resident, const void *key);
    /* Beside the loop, with resident->model: whether it can do what it is wanted for; may read what
     * else its files say. -EOPNOTSUPP, or what is wrong with the files. */
    int (*suits)(struct resident *resident, struct inf_err *reterr);
    /* The same, when it has a place: makes what computes. */
    int (*open)(struct resident *resident, struct inf_err *reterr);
    /* Frees what these made, as much of it as there is; on the loop or beside it. */
    void (*close)(struct resident *resident);
    /* The descriptor that is readable when there are results, and what takes them. */
    int (*fd)(const struct resident *resident);
    void (*readable)(struct resident *resident);
    /* Log how it ended; the second words it for those who waited, from state, load_status and @why.
     */
    void (*loaded)(const struct resident *resident);
    void (*failed)(const struct resident *resident, const char *why, struct problem *problem);
    /* What tells two of one name apart, in reports: purpose_name is static, the value is NULL where
     * the name is enough. May be NULL. */
    const char *purpose_name;
    const char *(*purpose)(const struct resident *resident);
    /* Writes the service's own structure of numbers. */
    void (*stats)(struct resident *resident, void *ret_stats);
};

/* What large requests of a model need does not delay its small ones. */
enum resident_lane { RESIDENT_SMALL, RESIDENT_LARGE, RESIDENT_N_LANES };

enum resident_state {
    RESIDENT_OPENING, /* wanted; its files are read */
    RESIDENT_QUEUED,  /* it can be used; it waits for a place */
    RESIDENT_LOADING,
    RESIDENT_READY,
};

struct resident {
    struct residents *pool;
    enum resident_state state;
    char *name, *path;
    uint64_t size; /* of its files, as is mtime, when it was wanted first */
    int64_t mtime;
    struct inf_model *model; /* NULL: it could not be opened */
    struct loop_watch *watch;
    uint32_t n_users;
    uint64_t used_usec;
    struct resident_waiter *waiters;
    struct job_lane lanes[RESIDENT_N_LANES]; /* of work for its requests, beside the loop */
    struct job job;
    struct resident *victim; /* freed by the loader, before it loads */
    struct inf_err err;
    int load_status;
    bool leads_out; /* load_status: a link came that this process may not follow */
    bool dropped;   /* it is in the pool's other list, until its users are gone */
    struct resident *next;
};

struct resident_waiter {
    /* @resident is held; NULL: @problem says why there is none. */
    void (*ready)(struct resident_waiter *waiter, struct resident *resident,
                  const struct problem *problem);
    struct resident *resident; /* that it waits for; NULL: it does not wait */
    struct resident_waiter *next;
};

struct residents {
    const struct residents_ops *ops;
    void *data; /* the service's own */
    struct service *service;
    struct loop *loop;
    struct jobs *loader;
    struct job_lane opening; /* the loader's, so that nobody waits for a load to be told */
    uint32_t max_models;     /* 0 is 1 */
    struct resident *first, *loading;
    struct resident *dropped; /* nobody new gets them */
    struct loop_task schedule;
    uint64_t n_loads;
};

/* Starts the loader's threads. What is set already stays: ops, data, service, loop, max_models. */
int residents_init(struct residents *pool);
/* Ends them; nothing is loaded after that. */
void residents_stop(struct residents *pool);
/* Frees all; after residents_stop(). */
void residents_done(struct residents *pool);

/* Calls waiter->ready, possibly before it returns. @key goes to the ops. */
void residents_want(struct residents *pool, const struct models_entry *entry, const void *key,
                    struct resident_waiter *waiter);
/* Waits no longer. */
void resident_forget(struct resident_waiter *waiter);
void resident_release(struct resident *resident);
/* The model's files changed: whoever wants it from now on gets one that is loaded anew, and this
 * one goes with its last user. @why is logged. */
void resident_drop(struct resident *resident, const char *why);
/* Looks at the model's files, and drops it when they changed. */
void resident_check(struct resident *resident);
/* The first ready one from @resident on, or NULL. */
struct resident *residents_ready(struct resident *resident);
/* The ready one of that name, or NULL. */
struct resident *residents_find(const struct residents *pool, const char *name);
/* The usual words for a model that cannot be loaded. */
void resident_load_problem(const struct resident *resident, const char *why,
                           struct problem *problem);
