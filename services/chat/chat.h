/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The chat service: text models behind OpenAI's API
 *
 * One loop thread owns everything here. Beside it run one thread that loads models, one that
 * renders and tokenizes long prompts, and the engine's own.
 */

#include "chat/device.h"
#include "common/loop.h"
#include "common/metrics.h"

struct config;
struct generation;
struct http_request;
struct jobs;
struct models;
struct models_entry;
struct resident;
struct resident_waiter;
struct service;

struct chat_stats {
    uint64_t n_requests, n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    uint64_t n_finished_stop, n_finished_length, n_failed, n_cancelled, n_refused, n_loads;
    struct metrics_histogram first_token, duration;
};

struct chat {
    const struct config *config;
    struct chat_device device;
    char *cache_socket; /* of the cache service; NULL: it is not used */
    struct service *service;
    struct loop *loop;
    struct jobs *loader, *preparer;
    struct models *models; /* the last scan */
    uint64_t scanned_usec;
    struct resident *residents;
    struct resident *loading;
    struct loop_task schedule;
    uint32_t n_generations;
    struct generation *generations;
    struct chat_stats stats;
    bool expired; /* the time to finish after SIGTERM is over */
};

/* router.c */
void chat_handle(void *data, struct http_request *request);

/* models.h's list, read again when it is older than a second; NULL when it cannot be read. */
const struct models *chat_models(struct chat *chat);

/* listing.c */
void chat_list_models(struct chat *chat, struct http_request *request);
void chat_show_model(struct chat *chat, struct http_request *request);

/* report.c */
void chat_health(struct chat *chat, struct http_request *request);
void chat_metrics(struct chat *chat, struct http_request *request);
void chat_status(void *data, char *text, size_t size);
