/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the routes of the embed service that the gateway forwards.
 *
 * The service and the gateway both make their tables from this list. Each row is ROUTE(METHOD,
 * PATH, RIGHT, MATCH, ERRORS, HANDLER). RIGHT is the right that an API key must have. MATCH is
 * EXACT or PREFIX, which stands for ROUTE_EXACT or ROUTE_PREFIX. ERRORS is the format of errors:
 * `openai` stands for errors_openai (common/http/error-shape.h). HANDLER initializes the last field
 * of a struct model_route; the gateway does not use it.
 */

#define EMBED_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/v1/embeddings", INFER, EXACT, openai, .endpoint = &endpoint_embeddings)          \
    ROUTE(POST, "/v1/rerank", INFER, EXACT, openai, .endpoint = &endpoint_rerank)                  \
    ROUTE(POST, "/v1/similarity", INFER, EXACT, openai, .endpoint = &endpoint_v1_similarity)       \
    ROUTE(POST, "/v1/reranking", INFER, EXACT, openai, .endpoint = &endpoint_rerank)               \
    ROUTE(POST, "/v2/rerank", INFER, EXACT, openai, .endpoint = &endpoint_cohere_rerank)           \
    ROUTE(POST, "/v1/score", INFER, EXACT, openai, .endpoint = &endpoint_score)                    \
    ROUTE(POST, "/score", INFER, EXACT, openai, .endpoint = &endpoint_score)                       \
    ROUTE(POST, "/embedding", INFER, EXACT, llama, .endpoint = &endpoint_llama_embeddings)         \
    ROUTE(POST, "/embeddings", INFER, EXACT, llama, .endpoint = &endpoint_llama_embeddings)        \
    ROUTE(POST, "/reranking", INFER, EXACT, llama, .endpoint = &endpoint_rerank)                   \
    ROUTE(GET, "/info", INFER, EXACT, tei, .answer = embed_information)                            \
    ROUTE(POST, "/embed", INFER, EXACT, tei, .endpoint = &endpoint_embed)                          \
    ROUTE(POST, "/embed_all", INFER, EXACT, tei, .endpoint = &endpoint_embed_all)                  \
    ROUTE(POST, "/rerank", INFER, EXACT, openai, .endpoint = &endpoint_rerank)                     \
    ROUTE(POST, "/similarity", INFER, EXACT, tei, .endpoint = &endpoint_similarity)                \
    ROUTE(POST, "/api/embed", INFER, EXACT, ollama, .endpoint = &endpoint_ollama_embed)            \
    ROUTE(POST, "/api/embeddings", INFER, EXACT, ollama, .endpoint = &endpoint_ollama_embeddings)  \
    ROUTE(POST, "/api/rerank", INFER, EXACT, ollama, .endpoint = &endpoint_rerank)
