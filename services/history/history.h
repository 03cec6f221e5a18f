/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The history service keeps the numbers of requests in a file of its own directory.
 *
 * The gateway sends rows with POST HISTORY_PATH (common/wire/history.h), and forwards GET
 * /v1/history of clients that may manage. All work runs on one event loop.
 */

#include "common/http/http.h"
#include "history/ledger.h"

struct config;
struct service;

/* Struct history is what the handlers of requests get. */
struct history {
    const struct config *config;
    struct service *service;
    struct ledger *ledger; /* NULL: the history is off, or `problem` says why there is none */
    char problem[512];     /* "": none */
    uint64_t n_stored;     /* rows that were stored */
    uint64_t n_lost;       /* rows that could not be stored */
};

struct history_route {
    const char *method, *path;
    void (*answer)(struct history *history, struct http_request *request);
};

/* router.c: the callback `handle` of the HTTP server. @data is the struct history. */
void history_handle(void *data, struct http_request *request);

/* report.c: answers GET /v1/history with sums of the rows between two times. */
void history_report(struct history *history, struct http_request *request);
