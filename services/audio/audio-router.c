/* SPDX-License-Identifier: Apache-2.0 */
/* A new endpoint is one row: a task, or a function that answers at once. */
#include <string.h>

#include "audio/audio.h"
#include "audio/transcription.h"
#include "common/api-error.h"
#include "common/confine.h"
#include "common/http.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "core/clock.h"

#define LISTING_FRESH_USEC (1000 * 1000u)

static const struct {
    const char *method, *path;
    enum inf_audio_task task;
    void (*answer)(struct audio *audio, struct http_request *request);
} routes[] = {
    {"POST", "/v1/audio/transcriptions", .task = INF_AUDIO_TRANSCRIBE},
    {"POST", "/v1/audio/translations", .task = INF_AUDIO_TRANSLATE},
    {"GET", "/health", .answer = audio_health},
    {"GET", "/metrics", .answer = audio_metrics},
};

const struct models *audio_models(struct audio *audio)
{
    const uint64_t now = clock_usec();
    struct models *models;
    struct inf_err err = {};

    if (audio->models && now - audio->scanned_usec < LISTING_FRESH_USEC)
        return audio->models;
    if (models_scan(audio->config, &models, &err) < 0) {
        log_error("cannot list the models: %s", err.text);
        return audio->models;
    }
    models_free(audio->models);
    audio->models = models;
    audio->scanned_usec = now;
    if (confine_is_outdated())
        service_retire(audio->service, "a model directory came that was missing at the start");
    return models;
}

static bool method_matches(struct http_text method, size_t i)
{
    return http_text_is(method, routes[i].method) ||
           (http_text_is(method, "HEAD") && strcmp(routes[i].method, "GET") == 0);
}

void audio_handle(void *data, struct http_request *request)
{
    struct audio *audio = data;
    const struct http_text path = http_request_path(request);
    const struct http_text method = http_request_method(request);
    size_t i = 0;

    while (i < ARRAY_SIZE(routes) && !http_text_is(path, routes[i].path))
        i++;
    if (i == ARRAY_SIZE(routes)) {
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s %.*s.",
                       (int)MIN(method.len, 16u), method.data, (int)MIN(path.len, 200u), path.data);
    } else if (!method_matches(method, i)) {
        const char *allow = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : "POST";

        http_response_header(request, "allow", allow, strlen(allow));
        api_error_send(request, 405, "method_not_allowed", NULL, 0, "%.*s takes %s.",
                       (int)MIN(path.len, 200u), path.data, allow);
    } else if (routes[i].answer) {
        /* These do not move the idle exit: a monitor must not keep models in memory. */
        routes[i].answer(audio, request);
    } else if (audio->expired) {
        api_error_send(request, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
    } else {
        service_touch(audio->service);
        transcription_new(audio, routes[i].task, request);
    }
}
