/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes of the embed service
 *
 * A new endpoint is one row: an endpoint that needs a model, or a function that answers at once.
 */
#include "embed/embed-request.h"
#include "embed/embed.h"

const struct model_route embed_routes[] = {
    {"POST", "/v1/embeddings", .endpoint = &endpoint_embeddings},
    {"POST", "/v1/rerank", .endpoint = &endpoint_rerank},
    {"POST", "/v1/similarity", .endpoint = &endpoint_v1_similarity},
    {"POST", "/embed", .endpoint = &endpoint_embed},
    {"POST", "/embed_all", .endpoint = &endpoint_embed_all},
    {"POST", "/rerank", .endpoint = &endpoint_rerank},
    {"POST", "/similarity", .endpoint = &endpoint_similarity},
    {"GET", "/health", .answer = embed_health},
    {"GET", "/metrics", .answer = embed_metrics},
};
const size_t n_embed_routes = ARRAY_SIZE(embed_routes);
