/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The embed service: vectors of texts, and ranking of documents by a query
 *
 * One loop thread owns all objects. Other threads: one that loads models, one that reads and writes
 * large requests and answers, and those of the embedders.
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

/* embed-report.c */
void embed_health(struct model_host *host, struct http_request *request);
void embed_metrics(struct model_host *host, struct http_request *request);
/* For params.status. */
void embed_status(void *host, char *text, size_t size);
