/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The embed service makes vectors of texts, and ranks documents by a query.
 *
 * The thread of the event loop owns all objects. Two threads open and load models. Several threads,
 * the preparers, tokenize texts, read large requests and write large answers. Each embedder has its
 * own threads.
 */

#include "host/model-host.h"

struct embed_stats {
    uint64_t n_answered, n_texts, n_tokens;
};

struct embed {
    struct model_host host;
    struct embed_stats stats;
};

/* embed-router.c */
extern const struct model_route embed_routes[];
extern const size_t n_embed_routes;

/* information.c */
void embed_information(struct model_host *host, struct http_request *request);
void embed_loaded(struct model_host *host, struct http_request *request);

/* embed-report.c */
void embed_health(struct model_host *host, struct http_request *request);
void embed_metrics(struct model_host *host, struct http_request *request);
/* The callback params.status of the host. */
void embed_status(void *host, char *text, size_t size);
