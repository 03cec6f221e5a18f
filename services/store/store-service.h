/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The store service changes the store of models for clients: it pulls models, removes them, gives
 * them further names, and makes models of files that clients upload and of other models.
 *
 * It has no network. For each pull it connects to the socket of sconce-fetch, so that systemd or
 * `sconce serve` starts a process sconce-fetch. The service verifies and installs what this process
 * has fetched. The thread of the event loop owns all objects. Pulls run on one thread, one after
 * the other; other changes run on a second thread, and a third one writes what clients upload.
 */

#include <jansson.h>

#include "common/http/http.h"
#include "common/http/request-id.h"
#include "common/pull/pull.h"
#include "common/service/jobs.h"
#include "common/service/loop.h"
#include "store/verified.h"

struct config;
struct problem;
struct pull;
struct service;
struct store_change;
struct store_upload;
struct store_request;
struct store_route;

/* The size of a buffer for the name of a model in bytes. */
#define STORE_NAME_SIZE 300

/* Complete uploaded files. */
struct uploads_sum {
    uint64_t bytes; /* each file counts with UPLOAD_LEAST bytes at least (uploads.c) */
    unsigned n;
};

/* The removal of old uploaded files, which also counts those that stay. */
struct uploads_tidying {
    struct job job; /* the first member */
    struct store_service *service;
    struct loop_timer timer; /* set while there are files */
    bool again;              /* uploads_tidy() was called since it was queued */
    bool runs;               /* the thread has the members below */
    uint64_t next_sec;       /* the time until the next file is old; UINT64_MAX: there is none */
    struct uploads_sum sum;
};

struct store_service {
    const struct config *config;
    struct service *service;
    struct jobs *jobs;
    struct job_lane pulling, changing, uploading;
    struct pull_secrets secrets;
    char *dir;          /* the store */
    char *fetch_socket; /* path of the socket of sconce-fetch */
    struct pull *pulls; /* pulls that wait or run */
    unsigned n_pulls, n_changes, n_uploads;
    uint64_t promised; /* bytes that running uploads will have */
    struct verified verified;
    struct store_change *creations;   /* creations that wait or run */
    struct loop_timer creations_tick; /* tells their clients that the work continues; set while
                                         there are creations */
    struct uploads_sum uploaded;
    struct uploads_tidying tidying;
    struct loop_timer
        tick; /* tells the clients of pulls what happened; set while there are pulls */
    struct {
        uint64_t n_pulled, n_failed, n_stopped, n_removed, n_named, n_uploaded, n_created;
    } stats;
};

/* Struct store_request is a request, from its head to its line in the access log. */
struct store_request {
    struct store_service *service;
    struct http_request *http;
    char id[REQUEST_ID_SIZE];
    const struct store_route *route; /* NULL: none, and the request was answered */
    struct pull *pull;               /* the pull that the client waits for; NULL: none */
    struct store_request *next_watcher;
    bool streams; /* the client wants the progress */
    bool begun;   /* the answer has begun */
    uint64_t told_usec;
    /* How much of the progress the client knows. */
    bool told_manifest;
    size_t told_files; /* files that are complete */
    uint64_t told_bytes, told_verified;
    struct store_change *change; /* the change that the client waits for; NULL: none */
    struct store_upload *upload; /* the upload that the client sends; NULL: none */
};

/* --- router.c --- */

/* Handles a request (struct http_server_params). @data is the struct store_service. */
void store_admit(void *data, struct http_request *request);
void store_handle(void *data, struct http_request *request);
/* Sends {"error":TEXT} with a status that follows from the negative errno value @r. */
void store_send_error(struct http_request *request, int r, const char *text);
/* Reads the object of a body. -EINVAL: *reterr_problem has the error. */
int store_read_body(struct http_request *request, json_t **ret_body,
                    struct problem *reterr_problem);
/* Reads the text of the field @name, or of @other, its older name, which may be NULL. A text that
 * is missing or empty is refused. */
int store_read_name(json_t *body, const char *name, const char *other, const char **ret,
                    struct problem *reterr_problem);

/* Refuses a text that cannot be the name of a model, as the field @param. */
int store_check_name(const char *name, const char *param, struct problem *reterr_problem);

/* --- pulls.c: POST /api/pull --- */

/* Begins an answer that is sent in parts, unless it has begun. A client that wants no stream gets
 * its head only when the answer is late. */
void store_answer_begin(struct store_request *r);
void store_pull(struct store_request *r);
/* Called when the client of @r left. When the last client of a pull leaves, the pull is stopped.
 * The files that have arrived stay, and the next pull of the same model continues with them. */
void pulls_leave(struct store_request *r);
/* Stops all pulls, because the process ends. */
void pulls_stop(struct store_service *s);
/* Tells the clients what happened since the last time (struct loop_timer). */
void pulls_tick(struct loop_timer *timer);

/* --- changes.c: DELETE /api/delete, POST /api/copy and POST /api/create --- */

void store_delete(struct store_request *r);
void store_copy(struct store_request *r);
void store_create(struct store_request *r);
/* Tells the clients of creations that take long that the work continues (struct loop_timer). */
void creations_tick(struct loop_timer *timer);
void changes_leave(struct store_request *r);
/* Removes from the store, on a thread, what processes that were killed have left. */
void changes_tidy(struct store_service *s);

/* --- uploads.c: HEAD and POST /api/blobs/sha256:DIGEST --- */

void store_blob_find(struct store_request *r);
/* Begins an upload when its head has arrived; may answer the request. */
void store_upload_begin(struct store_request *r);
/* Takes a part of the body (struct http_request_events), and its end. */
void uploads_take(struct store_request *r, const char *data, size_t len);
void store_upload(struct store_request *r);
/* Called when the client has left. Removes the file. */
void uploads_leave(struct store_request *r);
/* Counts the uploaded files, before the first request, and then calls uploads_tidy(). */
void uploads_init(struct store_service *s);
/* Removes, on a thread, uploaded files that are older than a day, and those of processes that were
 * killed, and counts the others. Does so again when the next file is a day old. */
void uploads_tidy(struct store_service *s);
/* Returns the path of the file with this digest, an uploaded one or a blob, which the caller frees;
 * NULL: there is none, or no memory. */
char *uploads_find(const char *dir, const char *digest);
