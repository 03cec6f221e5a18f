/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of the audio service: those of routes.h, which the gateway forwards, and two that only the
 * service's own socket has. */
#include "audio/audio.h"
#include "audio/routes.h"
#include "audio/transcription.h"

static const enum inf_audio_task transcribe = INF_AUDIO_TRANSCRIBE, translate = INF_AUDIO_TRANSLATE;

const struct model_route audio_routes[] = {{"GET", "/health", .answer = audio_health},
                                           {"GET", "/metrics", .answer = audio_metrics},
                                           AUDIO_ROUTES(MODEL_ROUTE)};
const size_t n_audio_routes = ARRAY_SIZE(audio_routes);
