/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The routes of the chat service
 *
 * The service and the gateway both make their tables of this list. Each row is ROUTE(METHOD, PATH,
 * RIGHT, MATCH, HANDLER). RIGHT is the right that an API key must have. MATCH is EXACT or PREFIX,
 * which stands for ROUTE_EXACT or ROUTE_PREFIX. HANDLER is the end of a struct model_route; the
 * gateway does not use it.
 */

#define CHAT_ROUTES(ROUTE)                                                                         \
    ROUTE(POST, "/v1/chat/completions", INFER, EXACT, .endpoint = &endpoint_chat)                  \
    ROUTE(POST, "/v1/completions", INFER, EXACT, .endpoint = &endpoint_completions)                \
    ROUTE(GET, "/v1/models", INFER, EXACT, .answer = chat_list_models)                             \
    ROUTE(GET, "/v1/models/", INFER, PREFIX, .answer = chat_show_model)                            \
    ROUTE(POST, "/tokenize", INFER, EXACT, .endpoint = &endpoint_tokenize)                         \
    ROUTE(POST, "/detokenize", INFER, EXACT, .endpoint = &endpoint_detokenize)                     \
    ROUTE(POST, "/apply-template", INFER, EXACT, .endpoint = &endpoint_apply_template)
