/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the routes of the embed service: the routes of routes.h, which the gateway forwards, and
 * routes that only the gateway and other clients of the service's own socket can use. */
#include "embed/embed-request.h"
#include "embed/embed.h"
#include "embed/routes.h"
#include "host/model-command.h"

const struct model_route embed_routes[] = {
    {"GET", "/health", .answer = embed_health},
    {"GET", "/metrics", .answer = embed_metrics},
    {"GET", "/api/ps", .answer = embed_loaded},
    {"POST", "/v1/models/load", .answer = model_command_load},
    {"POST", "/v1/models/unload", .answer = model_command_unload},
    EMBED_ROUTES(MODEL_ROUTE)};
const size_t n_embed_routes = ARRAY_SIZE(embed_routes);
