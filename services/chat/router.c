/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the routes of the chat service: the routes of routes.h, which the gateway forwards, and
 * routes that only the gateway and other clients of the service's own socket can use. */
#include "chat/chat.h"
#include "chat/generation.h"
#include "chat/routes.h"

const struct model_route chat_routes[] = {{"GET", "/health", .answer = chat_health},
                                          {"GET", "/metrics", .answer = chat_metrics},
                                          {"GET", "/api/ps", .answer = ollama_ps},
                                          CHAT_ROUTES(MODEL_ROUTE)};
const size_t n_chat_routes = ARRAY_SIZE(chat_routes);
