/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes of the chat service
 *
 * A new endpoint is one row: an endpoint that needs a model, or a function that answers at once.
 */
#include "chat/chat.h"
#include "chat/generation.h"

const struct model_route chat_routes[] = {
    {"POST", "/v1/chat/completions", .endpoint = &endpoint_chat},
    {"POST", "/v1/completions", .endpoint = &endpoint_completions},
    {"POST", "/tokenize", .endpoint = &endpoint_tokenize},
    {"POST", "/detokenize", .endpoint = &endpoint_detokenize},
    {"POST", "/apply-template", .endpoint = &endpoint_apply_template},
    {"GET", "/v1/models", .answer = chat_list_models},
    {"GET", "/v1/models/", .is_prefix = true, .answer = chat_show_model},
    {"GET", "/health", .answer = chat_health},
    {"GET", "/metrics", .answer = chat_metrics},
};
const size_t n_chat_routes = ARRAY_SIZE(chat_routes);
