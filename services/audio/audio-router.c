/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes of the audio service
 *
 * A new endpoint is one row: a task, or a function that answers at once.
 */
#include "audio/audio.h"
#include "audio/transcription.h"

static const enum inf_audio_task transcribe = INF_AUDIO_TRANSCRIBE, translate = INF_AUDIO_TRANSLATE;

const struct model_route audio_routes[] = {
    {"POST", "/v1/audio/transcriptions", .endpoint = &transcribe},
    {"POST", "/v1/audio/translations", .endpoint = &translate},
    {"GET", "/health", .answer = audio_health},
    {"GET", "/metrics", .answer = audio_metrics},
};
const size_t n_audio_routes = ARRAY_SIZE(audio_routes);
