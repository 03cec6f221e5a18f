/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The routes of the audio service
 *
 * The service and the gateway both make their tables of this list. Each row is
 * ROUTE(METHOD, PATH, RIGHT, MATCH, HANDLER): the right that an API key must have, ROUTE_EXACT or
 * ROUTE_PREFIX without its prefix, and the end of a struct model_route, which the gateway leaves
 * out.
 */

#define AUDIO_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/v1/audio/transcriptions", INFER, EXACT, .endpoint = &transcribe)                 \
    ROUTE(POST, "/v1/audio/translations", INFER, EXACT, .endpoint = &translate)
