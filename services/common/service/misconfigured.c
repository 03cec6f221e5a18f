/* SPDX-License-Identifier: Apache-2.0 */
/* Answers requests with errors while the configuration is wrong (see misconfigured.h). */
#include "common/service/misconfigured.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/confine/confine.h"
#include "common/http/access-line.h"
#include "common/http/api-error.h"
#include "common/http/request-id.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "core/utf8.h"

#define MISCONFIGURED_LIFE_USEC (2 * 1000000u)

struct misconfigured {
    const char *name;
    const char *text;
    struct service *service;
};

/* Returns whether the request is for Anthropic's API, whose errors have a different format. */
static bool wants_anthropic(const struct http_request *request)
{
    static const char prefix[] = "/v1/messages";
    const struct http_text path = http_request_path(request);

    return path.len >= sizeof(prefix) - 1 && memcmp(path.data, prefix, sizeof(prefix) - 1) == 0;
}

/* Struct misconfigured_request has what the access line of a request needs. */
struct misconfigured_request {
    const struct misconfigured *m;
    struct http_request *http;
    char id[REQUEST_ID_SIZE];
};

static void misconfigured_done(void *user)
{
    struct misconfigured_request *r = user;

    access_line(r->http,
                (struct log_access){.id = r->id, .is_inner = strcmp(r->m->name, "gateway") != 0});
    free(r);
}

static const struct http_request_events misconfigured_events = {.done = misconfigured_done};

/* If there is no memory, the request gets no access line. */
static void misconfigured_admit(void *data, struct http_request *request)
{
    struct misconfigured_request *r = NEW(struct misconfigured_request, 1);

    if (!r)
        return;
    r->m = data;
    r->http = request;
    request_id_take(request, "req_", r->id);
    http_request_set_events(request, &misconfigured_events, r);
}

static void misconfigured_handle(void *data, struct http_request *request)
{
    const struct misconfigured *m = data;
    char message[400];

    /* service_touch() is not called, because repeated requests must not keep the process
     * running. */
    http_response_close(request);
    snprintf(message, sizeof(message), "The configuration of the %s service is wrong: %s", m->name,
             m->text);
    if (wants_anthropic(request))
        http_request_set_errors(request, &errors_anthropic);
    api_error_send(request, 503, "misconfigured", NULL, 5, "%s", message);
}

bool misconfigured_confine(const char *policy, struct options *options)
{
    struct inf_err err = {};
    int r = confine_start(policy, options->config, &err);

    if (r == -ENOTSUP && sd_listen_fds(0) > 0) {
        if (!options->wrong && options_set_wrong(options, err.text) < 0)
            return false;
        options->config->confinement.landlock = CONFIG_LANDLOCK_OPTIONAL;
        r = confine_start(policy, options->config, &err);
    }
    if (r < 0)
        log_error("%s", err.text);
    return r == 0;
}

int misconfigured_serve(const char *service, const struct options *options)
{
    struct misconfigured m = {.name = service, .text = options->wrong};
    const struct config *config = options->config;
    struct inf_err err = {};
    char status[300];
    int r;

    log_event(LOG_ID_MISCONFIGURED, LOG_ERR, NULL,
              "the configuration is wrong; every request gets this error: %s", m.text);
    snprintf(status, sizeof(status), "The configuration is wrong: %s", m.text);
    /* systemd rejects text that was cut within a character. */
    status[utf8_valid_prefix(status, strlen(status))] = 0;
    r = service_new(
        &(struct service_params){
            .name = service,
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = config->gateway.max_body,
                    .max_bodies = config->gateway.max_bodies,
                    .max_connections = config->gateway.max_connections,
                    .head_timeout_usec = config->gateway.header_timeout_usec,
                    .body_timeout_usec = config->gateway.body_timeout_usec,
                    .keep_timeout_usec = config->gateway.keepalive_timeout_usec,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .admit = misconfigured_admit,
                    .handle = misconfigured_handle,
                    .data = &m,
                },
            .idle_timeout_usec = MISCONFIGURED_LIFE_USEC,
            .drain_timeout_usec = options->drain_timeout_usec,
            .ready_status = status,
        },
        &m.service, &err);
    if (r < 0) {
        log_error("%s", err.text);
        return 1;
    }
    r = service_run(m.service);
    http_server_close(service_server(m.service));
    service_free(m.service);
    return r < 0 ? 1 : 0;
}
