/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The routes of the audio service
 *
 * The service and the gateway both make their tables of this list. Each row is ROUTE(METHOD, PATH,
 * RIGHT, MATCH, HANDLER). RIGHT is the right that an API key must have. MATCH is EXACT or PREFIX,
 * which stands for ROUTE_EXACT or ROUTE_PREFIX. HANDLER is the end of a struct model_route; the
 * gateway does not use it.
 */

#define AUDIO_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/v1/audio/transcriptions", INFER, EXACT, .endpoint = &transcribe)                 \
    ROUTE(POST, "/v1/audio/translations", INFER, EXACT, .endpoint = &translate)
