/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The routes of the embed service
 *
 * The service and the gateway both make their tables of this list. Each row is ROUTE(METHOD, PATH,
 * RIGHT, MATCH, HANDLER). RIGHT is the right that an API key must have. MATCH is EXACT or PREFIX,
 * which stands for ROUTE_EXACT or ROUTE_PREFIX. HANDLER is the end of a struct model_route; the
 * gateway does not use it.
 */

#define EMBED_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/v1/embeddings", INFER, EXACT, .endpoint = &endpoint_embeddings)                  \
    ROUTE(POST, "/v1/rerank", INFER, EXACT, .endpoint = &endpoint_rerank)                          \
    ROUTE(POST, "/v1/similarity", INFER, EXACT, .endpoint = &endpoint_v1_similarity)               \
    ROUTE(POST, "/embed", INFER, EXACT, .endpoint = &endpoint_embed)                               \
    ROUTE(POST, "/embed_all", INFER, EXACT, .endpoint = &endpoint_embed_all)                       \
    ROUTE(POST, "/rerank", INFER, EXACT, .endpoint = &endpoint_rerank)                             \
    ROUTE(POST, "/similarity", INFER, EXACT, .endpoint = &endpoint_similarity)
