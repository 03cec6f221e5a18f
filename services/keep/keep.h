/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keep service keeps responses and conversations for clients.
 *
 * Its only client is the chat service, which passes on the requests of clients for /v1/responses
 * and /v1/conversations, and sends requests of its own (exchange.c). The protocol is in
 * common/wire/keep-protocol.h. All work runs on the thread of the event loop.
 */

#include "common/http/http.h"
#include "common/http/problem.h"
#include "common/service/loop.h"
#include "common/service/service.h"
#include "keep/archive.h"

struct config;

#define KEEP_MAX_LISTENERS 4

struct keep_session;

struct keep {
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct archive *archive; /* NULL: the archive cannot be used; `problem` says why */
    char problem[INF_ERR_BYTES];
    struct loop_timer expiry; /* fires when the next entry expires */
    struct keep_listener {
        struct keep *keep;
        int fd;
        struct loop_watch *watch;
    } listeners[KEEP_MAX_LISTENERS];
    size_t n_listeners;
    struct keep_session *sessions;
    size_t n_sessions;
};

/* A request. The texts are borrowed from its packet. */
struct keep_request {
    struct keep *keep;
    const char *method, *tenant;
    struct http_text path, query, body;
    int64_t now;
    struct str out; /* the answer */
};

/* The handler of a route writes the answer to r->out, as JSON. If it returns a negative number,
 * *problem is the answer. */
typedef int keep_handler(struct keep_request *r, struct problem *problem);

/* responses.c */
keep_handler responses_get, responses_delete, responses_post;
/* conversations.c */
keep_handler conversations_create, conversations_get, conversations_post, conversations_delete;
/* exchange.c: routes that only the chat service uses */
keep_handler exchange_load, exchange_save;

/* sessions.c: accepts connections (see struct service_door), and ends them. */
extern const struct service_door keep_door;
void keep_close_sessions(struct keep *keep);

/* router.c: answers a request; returns the status, and writes the body to r->out. */
int keep_answer(struct keep_request *r);
/* Sets the timer of the next expiry. */
void keep_schedule(struct keep *keep);

/* Begins a change. Fills in the problem if the archive fails. */
int keep_begin(struct keep_request *r, struct problem *problem);
/* Commits a change if @result is 0, else rolls it back. Returns @result, or the error of the
 * commit. @result is a result of archive.h, or -EINVAL if *problem is filled in already. */
int keep_end(struct keep_request *r, int result, struct problem *problem);
/* Fills in @problem for an @id that the tenant (the client's API key or user) does not have. */
int keep_absent(struct problem *problem, const char *param, const char *what, const char *id);
