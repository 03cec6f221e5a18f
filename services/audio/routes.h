/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the routes of the audio service that the gateway forwards.
 *
 * The service and the gateway both make their tables from this list. Each row is ROUTE(METHOD,
 * PATH, RIGHT, MATCH, ERRORS, HANDLER). RIGHT is the right that an API key must have. MATCH is
 * EXACT or PREFIX, which stands for ROUTE_EXACT or ROUTE_PREFIX. ERRORS is the format of errors:
 * `openai` stands for errors_openai (common/http/error-shape.h). HANDLER initializes the field
 * `endpoint` or `answer` of a struct model_route; the gateway does not use it.
 */

#define AUDIO_ROUTES(ROUTE)                                                                        \
    ROUTE(POST, "/v1/audio/transcriptions", INFER, EXACT, openai, .endpoint = &transcribe)         \
    ROUTE(POST, "/v1/audio/translations", INFER, EXACT, openai, .endpoint = &translate)
