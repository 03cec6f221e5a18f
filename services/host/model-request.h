/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Struct model_request is an API request that needs a model, from its arrival to its last byte.
 *
 * Each service has its own structure for requests, which begins with a struct model_request. The
 * HTTP request, the engine and a job each hold a reference to the request while they may call its
 * functions. When the client leaves, all work for the request is canceled immediately. A request
 * ends once, either with an answer (`ended`) or with an error (`failed`).
 */

#include <stdatomic.h>

#include "common/http/http.h"
#include "common/http/request-id.h"
#include "common/wire/history.h"
#include "core/str.h"
#include "host/residents.h"

struct model_host;
struct model_request;

struct model_request_ops {
    size_t size; /* size of the service's structure; the part after struct model_request is
                    zeroed */
    /* Called when the model is loaded; request->resident is held until the request is freed. */
    void (*ready)(struct model_request *request);
    /* Cancels the computation for the request; may be called more than once. */
    void (*cancel)(struct model_request *request);
    /* Called every few seconds; may be NULL. */
    void (*tick)(struct model_request *request);
    /* Called before a stream is broken off with an error; may send further events. May be NULL. */
    void (*failing)(struct model_request *request, const struct problem *problem);
    /* Called at the end of a request: fills in the numbers of tokens and of times that the history
     * counts; may be NULL. */
    void (*count)(const struct model_request *request, uint64_t numbers[HISTORY_NUMBERS]);
    /* Frees the contents of the service's structure. */
    void (*done)(struct model_request *request);
};

struct model_request {
    const struct model_request_ops *ops;
    struct model_host *host;
    struct http_request *http; /* NULL: finished */
    unsigned n_refs;
    char id[REQUEST_ID_SIZE]; /* for logs */
    char key[HISTORY_KEY];    /* the name of its API key, for the history; "": none */
    struct resident_waiter waiter;
    struct resident *resident;
    struct loop_timer timer;
    uint64_t start_usec, deadline_usec;
    bool streaming; /* the answer has begun, and is a stream of events */
    bool ended, failed;
    bool is_elsewhere;       /* with `failed`: another service gets the request, and counts it */
    bool refused;            /* with `failed`: because the service was busy */
    enum resident_lane lane; /* chosen by the size of the body */
    struct str body;         /* a copy, while a large body is read */
    struct job job;
    void (*work)(struct model_request *request);
    void (*then)(struct model_request *request);
    void (*read)(struct model_request *request, struct http_text body);
    atomic_bool
        unwanted; /* no client waits for the answer, so work that has not begun can be skipped */
    struct model_request *prev, *next;
};

/* Takes over the HTTP request. NULL: out of memory, and the request was refused. */
struct model_request *model_request_new(struct model_host *host,
                                        const struct model_request_ops *ops,
                                        struct http_request *http);
/* Starts the timeout. False: there are too many requests, and this one was refused. */
bool model_request_admit(struct model_request *request);
/* Requests a model; `ready` may be called before this returns. */
void model_request_want(struct model_request *request, const struct models_entry *entry,
                        const void *key);
static inline void model_request_ref(struct model_request *request)
{
    request->n_refs++;
}
void model_request_unref(struct model_request *request);
/* Reads the body with @read. If the body is large, @read runs on a preparer thread (model-host.h),
 * otherwise on the loop. Then @then is called on the loop if the client still waits for the answer.
 * @read must not use request->http. */
void model_request_read(struct model_request *request,
                        void (*read)(struct model_request *request, struct http_text body),
                        void (*then)(struct model_request *request));
/* Runs @work on a preparer thread, in a lane (a queue of jobs) of the held resident. If the request
 * holds no resident, the lane is the one for reading large bodies. Then @then is called as by
 * model_request_read(). A request can have only one job at a time. */
void model_request_work(struct model_request *request, enum resident_lane lane,
                        void (*work)(struct model_request *request),
                        void (*then)(struct model_request *request));
/* Sets how long the held model stays in memory after its last use, at most models.max_keep_alive.
 * If models.max_keep_alive is 0, does nothing. The last request that sets a time decides. */
void model_request_keep(struct model_request *request, uint64_t keep_usec);
/* Works like model_request_work(), but needs no resident: the job waits in @lane. */
void model_request_aside(struct model_request *request, struct job_lane *lane,
                         void (*work)(struct model_request *request),
                         void (*then)(struct model_request *request));
/* Returns whether the client still waits for the answer. */
static inline bool model_request_is_wanted(const struct model_request *request)
{
    return request->http && !request->failed && !request->ended;
}
/* Returns the seconds since the request arrived. */
double model_request_seconds(const struct model_request *request);
/* Answers with an error, ends the HTTP request and cancels the computation. */
void model_request_refuse(struct model_request *request, const struct problem *problem);
void model_request_fail(struct model_request *request, int status, const char *code,
                        const char *format, ...) PRINTF(4, 5);
/* Handles a change of the model's files during the computation (-ESTALE): answers 503 and drops the
 * model. */
void model_request_stale(struct model_request *request);
