/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A resident is a model in memory.
 *
 * At most max_models models are resident, and they take at most the memory of the budgets; a model
 * that is used for two purposes counts twice. When a model that is not in memory is requested, its
 * files are first opened and checked, which is cheap. If the model cannot be used, or can never fit
 * into the budgets, the error is reported, and no other model is unloaded. Otherwise the model
 * replaces residents without users, or waits until residents have no users (residents-memory.h). A
 * user, usually a request, holds a resident from the call of `ready` until it calls
 * resident_release(); a resident with users is never unloaded.
 *
 * The service adds the engine: its own structure begins with a struct resident, and the functions
 * of its struct residents_ops handle the engine.
 */

#include <infer/model.h>

#include "common/http/problem.h"
#include "common/models/settings.h"
#include "common/service/jobs.h"
#include "common/service/loop.h"

struct models_entry;
struct resident;
struct residents;
struct service;

struct residents_ops {
    size_t size; /* size of the service's structure; the part after struct resident is zeroed */
    /* Returns whether the resident, in any state, can serve the purpose @key of residents_want().
     * -EINVAL: the model cannot serve the purpose at all, so no resident is made for it. May be
     * NULL; then all residents serve all purposes. */
    int (*serves)(const struct resident *resident, const void *key, struct problem *problem);
    /* Copies the parts of @key that the resident needs; may be NULL. Returns 0 or -ENOMEM. */
    int (*init)(struct resident *resident, const void *key);
    /* Runs on a thread, with resident->model: checks whether the model can serve the purpose; may
     * read other files of the model. -EOPNOTSUPP, or the error of the files. */
    int (*suits)(struct resident *resident, struct inf_err *reterr);
    /* Runs on a thread after `suits`: sets least_bytes, want_bytes and device_bytes. NULL: the
     * weights are all that the model needs. -EOPNOTSUPP, -ENOMEM. */
    int (*measure)(struct resident *resident, struct inf_err *reterr);
    /* Writes a sentence that begins with a blank and says what would fit into @room bytes, or
     * writes nothing; may be NULL. */
    void (*advise)(const struct resident *resident, uint64_t room, char *text, size_t size);
    /* Runs on a thread, when there is room for the resident: makes the engine. */
    int (*open)(struct resident *resident, struct inf_err *reterr);
    /* Frees what `init`, `suits` and `open` made, even if one of them failed; runs on the loop or
     * on a thread. */
    void (*close)(struct resident *resident);
    /* `fd` returns a descriptor that is readable when there are results; `readable` takes them. */
    int (*fd)(const struct resident *resident);
    void (*readable)(struct resident *resident);
    /* `loaded` and `failed` log the result of loading. `failed` also makes the problem for waiting
     * requests from state, load_status and @why. */
    void (*loaded)(const struct resident *resident);
    void (*failed)(const struct resident *resident, const char *why, struct problem *problem);
    /* Reports distinguish residents of one model by their purpose. purpose_name is the label of the
     * purpose in reports, a static text. purpose() returns the purpose of a resident, or NULL if
     * the name of the model is sufficient. Both may be NULL. */
    const char *purpose_name;
    const char *(*purpose)(const struct resident *resident);
    /* Writes the service's own statistics structure. */
    void (*stats)(struct resident *resident, void *ret_stats);
};

/* Each resident has two lanes (queues of jobs, see jobs.h), so that large requests to a model do
 * not delay small requests. */
enum resident_lane { RESIDENT_SMALL, RESIDENT_LARGE, RESIDENT_N_LANES };

enum resident_state {
    RESIDENT_OPENING, /* requested; its files are being read */
    RESIDENT_QUEUED,  /* it can be used, and waits for a place */
    RESIDENT_LOADING,
    RESIDENT_READY,
};

#define RESIDENT_KEEP_USUAL MODEL_KEEP_USUAL
/* A pinned resident keeps its service running for this long. */
#define RESIDENT_PINNED_USEC ((uint64_t)100 * 365 * 86400 * 1000000)

struct resident {
    struct residents *pool;
    enum resident_state state;
    char *name, *path;
    uint64_t size; /* size and mtime are those of its files when it was first requested */
    int64_t mtime;
    struct arena arena;             /* owns the texts of `settings` */
    struct model_settings settings; /* of the model's manifest */
    struct inf_model *model;        /* NULL: it could not be opened */
    /* Memory in bytes, in addition to that of the device: the least with which it can be loaded,
     * how much it would use, and how much it gets. */
    uint64_t least_bytes, want_bytes, host_bytes;
    uint64_t device_bytes; /* memory of the device that it gets */
    struct loop_watch *watch;
    uint32_t n_users;
    uint64_t used_usec, loaded_usec; /* when the last user released it, and when it was loaded */
    uint64_t since_usec;             /* since when it has waited for room */
    struct resident_waiter *waiters;
    struct job_lane lanes[RESIDENT_N_LANES]; /* the jobs of its requests on threads */
    struct job job;
    uint64_t keep_usec;       /* how long it stays after its last use; RESIDENT_KEEP_USUAL: until
                                 the service exits or another model needs its place */
    bool pinned;              /* it stays until it is unloaded by command */
    struct resident *victims; /* list of residents that the loader frees before it loads this one */
    struct resident_spare *spares; /* list of spares (residents-spare.h) that it frees as well */
    struct inf_err err;
    int load_status;
    bool leads_out; /* load_status is caused by a link whose target this process may not open */
    bool dropped;   /* it is in pool->dropped until it has no users */
    bool yields;    /* it was dropped because another resident waits for its memory */
    struct resident *next;
};

struct resident_waiter {
    /* Called once. The waiter holds @resident; if @resident is NULL, @problem has the reason. */
    void (*ready)(struct resident_waiter *waiter, struct resident *resident,
                  const struct problem *problem);
    struct resident *resident; /* the resident for which the waiter waits; NULL: not waiting */
    struct resident_waiter *next;
};

struct residents {
    const struct residents_ops *ops;
    void *data; /* passed to the functions in `ops` */
    struct service *service;
    struct loop *loop;
    struct jobs *loader;
    struct job_lane opening; /* the loader's lane for opening models, so that a model can be opened
                                while another one is loaded */
    uint32_t max_models;     /* 0 means 1 */
    uint64_t host_budget, device_budget; /* bytes for all residents together; 0: no limit */
    struct resident *first, *loading;
    struct resident *dropped;      /* list of dropped residents, which get no new users */
    struct resident_spare *spares; /* list of models that stay open; the youngest is the first */
    struct loop_task schedule;
    struct loop_timer expiry; /* fires when the first unused resident has stayed for its keep_usec,
                                 or when a waiting resident has waited for RESIDENT_PATIENCE_USEC */
    uint64_t n_loads;
};

/* Starts the loader's threads. The fields ops, data, service, loop and max_models must be set
 * before. */
int residents_init(struct residents *pool);
/* Ends the threads; nothing is loaded afterwards. */
void residents_stop(struct residents *pool);
/* Frees everything; call it after residents_stop(). */
void residents_done(struct residents *pool);

/* Requests a resident for the model @entry and the purpose @key, which is passed to the ops. Calls
 * waiter->ready when the resident is loaded, possibly before this function returns. */
void residents_want(struct residents *pool, const struct models_entry *entry, const void *key,
                    struct resident_waiter *waiter);
/* Stops waiting; does nothing if the waiter does not wait. */
void resident_forget(struct resident_waiter *waiter);
void resident_release(struct resident *resident);
/* Drops a resident whose files changed: new requests get a newly loaded resident, and this one is
 * freed when its last user releases it. @why is logged. */
void resident_drop(struct resident *resident, const char *why);
/* Checks the model's files, and drops the resident if they changed. */
void resident_check(struct resident *resident);
/* Unloads the residents of that name as soon as they have no users. Pinned residents are unloaded
 * only if @by_command is true. Returns how many residents have the name. */
unsigned residents_unload(struct residents *pool, const char *name, bool by_command);
/* Returns for how many microseconds a resident must stay in memory because it is pinned, or because
 * a request or its manifest set its keep_usec; 0: no resident must stay. */
uint64_t residents_kept_usec(const struct residents *pool);
/* Returns the first ready resident in the list that begins at @resident, or NULL. */
struct resident *residents_ready(struct resident *resident);
/* Returns the ready resident of that name, or NULL. */
struct resident *residents_find(const struct residents *pool, const char *name);
/* Fills the usual problem for a model that cannot be loaded. */
void resident_load_problem(const struct resident *resident, const char *why,
                           struct problem *problem);
