/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the routes of the store service that the gateway forwards.
 *
 * The service and the gateway both make their tables from this list. Each row is ROUTE(METHOD,
 * PATH, RIGHT, MATCH, ERRORS, HANDLER). RIGHT is the right that an API key must have. MATCH is
 * EXACT, PREFIX or UPLOAD, which stands for ROUTE_EXACT and so on. ERRORS is the format of errors:
 * `ollama` stands for errors_ollama (common/http/error-shape.h). HANDLER is the function of the
 * service that gets the request; the gateway ignores it.
 */

#define STORE_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/api/pull", MANAGE, EXACT, ollama, store_pull)                                    \
    ROUTE(DELETE, "/api/delete", MANAGE, EXACT, ollama, store_delete)                              \
    ROUTE(POST, "/api/copy", MANAGE, EXACT, ollama, store_copy)                                    \
    ROUTE(POST, "/api/create", MANAGE, EXACT, ollama, store_create)                                \
    ROUTE(GET, "/api/blobs/", MANAGE, PREFIX, ollama, store_blob_find)                             \
    ROUTE(POST, "/api/blobs/", MANAGE, UPLOAD, ollama, store_upload)
