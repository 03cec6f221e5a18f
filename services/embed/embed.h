/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The embed service: vectors of texts, and how well documents answer a query
 *
 * One loop thread owns everything here. Beside it run one thread that loads models, one that reads
 * and writes what is large, and those of the embedders.
 */

#include "common/loop.h"
#include "common/metrics.h"

struct call;
struct config;
struct http_request;
struct jobs;
struct models;
struct resident;
struct service;

struct embed_stats {
    uint64_t n_requests, n_answered, n_failed, n_refused, n_cancelled;
    uint64_t n_texts, n_tokens, n_loads;
    struct metrics_histogram duration;
};

struct embed {
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct jobs *loader, *preparer;
    struct models *models; /* the last scan */
    uint64_t scanned_usec;
    struct resident *residents;
    struct resident *loading;
    struct loop_task schedule;
    uint32_t n_calls;
    struct call *calls;
    struct embed_stats stats;
    bool expired; /* the time to finish after SIGTERM is over */
};

/* embed-router.c */
void embed_handle(void *data, struct http_request *request);
/* models.h's list, read again when it is older than a second; NULL when it cannot be read. */
const struct models *embed_models(struct embed *embed);

/* embed-report.c */
void embed_health(struct embed *embed, struct http_request *request);
void embed_metrics(struct embed *embed, struct http_request *request);
void embed_status(void *data, char *text, size_t size);
