/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the embed service: those of routes.h, which the gateway forwards, and two that only the
 * service's own socket has. */
#include "embed/embed-request.h"
#include "embed/embed.h"
#include "embed/routes.h"

const struct model_route embed_routes[] = {{"GET", "/health", .answer = embed_health},
                                           {"GET", "/metrics", .answer = embed_metrics},
                                           EMBED_ROUTES(MODEL_ROUTE)};
const size_t n_embed_routes = ARRAY_SIZE(embed_routes);
