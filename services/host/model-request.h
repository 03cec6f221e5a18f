/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API request that needs a model, from its arrival to its last byte
 *
 * The structure of a service begins with a struct model_request. Everything that may still call it
 * holds a reference: the HTTP request, the engine, a job. When the client leaves, all work for it
 * is canceled at once. A request ends once: with an answer (`ended`) or an error (`failed`).
 */

#include <stdatomic.h>

#include "common/http/http.h"
#include "common/http/request-id.h"
#include "core/str.h"
#include "host/residents.h"

struct model_host;
struct model_request;

struct model_request_ops {
    size_t size; /* of the service's structure; the additional part is zeroed */
    /* request->resident is held until the request is freed. */
    void (*ready)(struct model_request *request);
    /* Cancels the computation for the request; may be called more than once. */
    void (*cancel)(struct model_request *request);
    /* Sends an error; NULL: in OpenAI's format, within or before a stream. */
    void (*refuse)(struct model_request *request, const struct problem *problem);
    /* Called every few seconds; may be NULL. */
    void (*tick)(struct model_request *request);
    /* Frees the contents of the service's structure. */
    void (*done)(struct model_request *request);
};

struct model_request {
    const struct model_request_ops *ops;
    struct model_host *host;
    struct http_request *http; /* NULL: finished */
    unsigned n_refs;
    char id[REQUEST_ID_SIZE]; /* for logs */
    struct resident_waiter waiter;
    struct resident *resident;
    struct loop_timer timer;
    uint64_t start_usec, deadline_usec;
    bool streaming; /* sse_begin() was called */
    bool ended, failed;
    enum resident_lane lane; /* depends on the size of its body */
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
/* Reads the body with @read, on the loop or, if it is large, on a thread. Then @then is called on
 * the loop if the client still waits for the answer. @read must not use request->http. */
void model_request_read(struct model_request *request,
                        void (*read)(struct model_request *request, struct http_text body),
                        void (*then)(struct model_request *request));
/* Runs @work on a thread, in a lane of the held resident; then as above. Only one at a time. */
void model_request_work(struct model_request *request, enum resident_lane lane,
                        void (*work)(struct model_request *request),
                        void (*then)(struct model_request *request));
/* Whether the client still waits for the answer. */
static inline bool model_request_is_wanted(const struct model_request *request)
{
    return request->http && !request->failed && !request->ended;
}
/* Seconds since it arrived. */
double model_request_seconds(const struct model_request *request);
/* Answers with an error and ends the HTTP request; that cancels everything else. */
void model_request_refuse(struct model_request *request, const struct problem *problem);
void model_request_fail(struct model_request *request, int status, const char *code,
                        const char *format, ...) PRINTF(4, 5);
/* Handles a change of the model's files during the computation (-ESTALE): answers 503 and drops the
 * model. */
void model_request_stale(struct model_request *request);
