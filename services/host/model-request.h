/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One API request that needs a model, from its arrival to its last byte
 *
 * A service's own structure begins with a struct model_request. It is counted by all who may still
 * call it: the HTTP request, whoever computes, a job. When the client leaves, all that was begun
 * for it is cancelled at once. It ends once: with an answer (`ended`) or an error (`failed`).
 */

#include <stdatomic.h>

#include "common/http/http.h"
#include "common/http/request-id.h"
#include "core/str.h"
#include "host/residents.h"

struct model_host;
struct model_request;

struct model_request_ops {
    size_t size; /* of the service's structure; the rest of it begins as zeros */
    /* request->resident is held, until the request is freed. */
    void (*ready)(struct model_request *request);
    /* Ends what computes for it; may come more than once. */
    void (*cancel)(struct model_request *request);
    /* Words an error; NULL: as OpenAI does, in a stream or before it. */
    void (*refuse)(struct model_request *request, const struct problem *problem);
    /* Every few seconds; may be NULL. */
    void (*tick)(struct model_request *request);
    /* Frees what the service's structure holds. */
    void (*done)(struct model_request *request);
};

struct model_request {
    const struct model_request_ops *ops;
    struct model_host *host;
    struct http_request *http; /* NULL: over */
    unsigned n_refs;
    char id[REQUEST_ID_SIZE]; /* for logs */
    struct resident_waiter waiter;
    struct resident *resident;
    struct loop_timer timer;
    uint64_t start_usec, deadline_usec;
    bool streaming; /* sse_begin() was called */
    bool ended, failed;
    enum resident_lane lane; /* by its body's size */
    struct str body;         /* a copy, while a large one is read */
    struct job job;
    void (*work)(struct model_request *request);
    void (*then)(struct model_request *request);
    void (*read)(struct model_request *request, struct http_text body);
    atomic_bool unwanted; /* nobody waits for its answer: what is not begun need not be */
    struct model_request *prev, *next;
};

/* Takes the HTTP request over. NULL: it was refused already, there is no memory. */
struct model_request *model_request_new(struct model_host *host,
                                        const struct model_request_ops *ops,
                                        struct http_request *http);
/* Starts the clock; false: there are too many, and it was refused. */
bool model_request_admit(struct model_request *request);
/* Asks for a model; `ready` may come before this returns. */
void model_request_want(struct model_request *request, const struct models_entry *entry,
                        const void *key);
static inline void model_request_ref(struct model_request *request)
{
    request->n_refs++;
}
void model_request_unref(struct model_request *request);
/* Reads the body with @read, on the loop or, if it is large, beside it; @then is called on the loop
 * if somebody still waits for the answer. @read touches no http. */
void model_request_read(struct model_request *request,
                        void (*read)(struct model_request *request, struct http_text body),
                        void (*then)(struct model_request *request));
/* Does @work beside the loop, in a lane of the resident that is held; then as above. One at a time.
 */
void model_request_work(struct model_request *request, enum resident_lane lane,
                        void (*work)(struct model_request *request),
                        void (*then)(struct model_request *request));
/* Whether somebody still waits for its answer. */
static inline bool model_request_is_wanted(const struct model_request *request)
{
    return request->http && !request->failed && !request->ended;
}
/* Seconds since it arrived. */
double model_request_seconds(const struct model_request *request);
/* Ends the HTTP side; everything else is cancelled by what follows from that. */
void model_request_refuse(struct model_request *request, const struct problem *problem);
void model_request_fail(struct model_request *request, int status, const char *code,
                        const char *format, ...) PRINTF(4, 5);
/* The files of its model changed while it was computed (-ESTALE): 503, and the model is dropped. */
void model_request_stale(struct model_request *request);
