/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the routes of the audio service: the routes of routes.h, which the gateway forwards, and
 * routes that only clients of the service's own socket can use. */
#include "audio/audio.h"
#include "audio/routes.h"
#include "audio/transcription.h"
#include "host/model-command.h"

static const enum inf_audio_task transcribe = INF_AUDIO_TRANSCRIBE, translate = INF_AUDIO_TRANSLATE;

const struct model_route audio_routes[] = {
    {"GET", "/health", .answer = audio_health},
    {"GET", "/metrics", .answer = audio_metrics},
    {"GET", "/api/ps", .answer = audio_loaded},
    {"POST", "/v1/models/load", .answer = model_command_load},
    {"POST", "/v1/models/unload", .answer = model_command_unload},
    AUDIO_ROUTES(MODEL_ROUTE)};
const size_t n_audio_routes = ARRAY_SIZE(audio_routes);
