/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards requests to services, and their answers to clients.
 *
 * Answers with status 200 are streamed, no faster than the client reads, with the exceptions that
 * forward_head() makes. Other answers are short and are forwarded in one piece. The gateway knows
 * only from the framing of HTTP (Content-Length or the last chunk) whether an answer is complete.
 * If a stream of events is incomplete because of a crash or an error, the gateway breaks off the
 * transfer to the client. Before that it sends an error event in the format of the API, if the
 * service did not send one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/service/service.h"
#include "common/wire/elsewhere.h"
#include "common/wire/session-id.h"
#include "core/clock.h"
#include "core/text.h"
#include "gateway/gateway.h"

#define FORWARD_WINDOW   ((size_t)256 * 1024)
#define FORWARD_MAX_BODY ((size_t)4 * 1024 * 1024)
/* After an answer, a service keeps running for about its idle timeout. The gateway subtracts this
 * margin, but at most a quarter of the timeout, so that a service that has exited does not count as
 * running. */
#define FORWARD_MARGIN_USEC (2 * 1000000u)
/* Services answer /health and /metrics at once; a call that takes longer than this has failed. */
#define FORWARD_ASK_USEC (10 * 1000000u)

void gw_mark_awake(struct gateway *gateway, enum service_backend target)
{
    const uint64_t idle = service_row_idle_usec(service_backends[target], gateway->config);

    gateway->awake_until_usec[target] =
        idle ? clock_usec() + idle - MIN(idle / 4, FORWARD_MARGIN_USEC) : UINT64_MAX;
}

static void forward_copy(char *out, size_t size, struct http_text value)
{
    snprintf(out, size, "%.*s", (int)MIN(value.len, size - 1), value.data);
}

/* Records whether the answer says that another service has the model (common/wire/elsewhere.h). A
 * request is sent to another service only once, and not at all if its body is not kept. */
static void forward_look_elsewhere(struct gw_request *r, int status,
                                   const struct http_header *headers, size_t n_headers)
{
    if (r->answered || r->was_elsewhere || status != ELSEWHERE_STATUS || gw_streams_body(r))
        return;
    for (size_t i = 0; i < n_headers; i++)
        for (unsigned k = 0; k < N_BACKENDS; k++)
            if (http_text_is_nocase(headers[i].name, ELSEWHERE_HEADER) &&
                http_text_is(headers[i].value, service_backends[k]->name)) {
                r->is_elsewhere = true;
                r->elsewhere = (enum service_backend)k;
            }
}

static void forward_head(void *user, int status, const struct http_header *headers,
                         size_t n_headers)
{
    static const char *const passed[] = {"retry-after", "cache-control", "x-accel-buffering",
                                         "allow", SESSION_ID_HEADER};
    struct gw_request *r = user;
    uint64_t length = UINT64_MAX;

    gw_liveness_leave(r);
    forward_look_elsewhere(r, status, headers, n_headers);
    /* A call is not retried after the head of an answer arrived, so the body of the request is no
     * longer needed. If the request is sent to another service, that service still needs the body.
     * The rest of a streamed body may still arrive; without its length, these bytes would be taken
     * for the next request. */
    if (!r->answered && !r->is_elsewhere && !gw_streams_body(r))
        http_request_drop_body(r->http);
    r->status = status;
    if (r->is_elsewhere)
        return;
    for (size_t i = 0; i < n_headers; i++) {
        const struct http_header *h = &headers[i];

        if (http_text_is_nocase(h->name, "content-type"))
            forward_copy(r->type, sizeof(r->type), h->value);
        if (http_text_is_nocase(h->name, "content-length") && h->value.len < 20) {
            length = 0;
            for (size_t k = 0; k < h->value.len; k++)
                length = length * 10 + (uint64_t)(h->value.data[k] - '0');
        }
        for (size_t k = 0; k < ARRAY_SIZE(passed); k++)
            if (!r->answered && http_text_is_nocase(h->name, passed[k]))
                http_response_header(r->http, passed[k], h->value.data, h->value.len);
    }
    /* The answer to HEAD has a length and no content, so it is also forwarded in one piece. So are
     * answers to requests whose bodies are forwarded while they arrive. */
    if (r->answered || status != 200 || http_text_is(http_request_method(r->http), "HEAD") ||
        gw_streams_body(r))
        return;
    r->streaming = true;
    if (text_starts_with(r->type, "text/event-stream") ||
        text_starts_with(r->type, "application/x-ndjson"))
        r->watch.shape = http_request_errors(r->http);
    http_response_begin(r->http, r->type[0] ? r->type : NULL, length);
}

static void forward_body(void *user, const char *data, size_t len)
{
    struct gw_request *r = user;

    if (r->is_elsewhere)
        return;
    if (!r->streaming) {
        if (r->body.len + len <= FORWARD_MAX_BODY)
            str_append(&r->body, data, len);
        return;
    }
    stream_watch_feed(&r->watch, data, len);
    if (http_response_write(r->http, data, len) < 0) {
        /* http_response_abort() may end the request, and with it this call. */
        http_response_abort(r->http, NULL, 0);
        return;
    }
    if (http_response_pending(r->http) > FORWARD_WINDOW)
        http_call_pause(r->call);
}

static void forward_break(struct gw_request *r)
{
    static const struct api_error error = {
        .status = 502,
        .code = "service_failed",
        .message = "The service ended in the middle of its answer.",
    };

    r->note = "answer broken off";
    r->is_broken = true;
    if (stream_watch_takes_error(&r->watch))
        api_error_break(r->http, &error);
    else
        http_response_abort(r->http, NULL, 0);
}

static void forward_refuse(struct gw_request *r, enum http_call_result result, int error)
{
    const struct service_row *row = service_backends[r->target];
    const char *name = row->name;

    if (result == HTTP_CALL_TIMEOUT) {
        r->note = "service timed out";
        api_error_send(r->http, 504, "service_timeout", NULL, 0,
                       "The %s service did not answer in time.", name);
    } else if (result == HTTP_CALL_LOST) {
        r->note = "service failed";
        api_error_send(r->http, 502, "service_failed", NULL, 0,
                       "The %s service ended before it answered.", name);
    } else if (result == HTTP_CALL_MALFORMED) {
        r->note = "malformed answer of the service";
        api_error_send(r->http, 502, "service_failed", NULL, 0,
                       "The %s service gave an answer that is not HTTP.", name);
    } else if (error == EAGAIN) {
        r->note = "service busy";
        api_error_send(r->http, 503, "service_busy", NULL, 1,
                       "The %s service has too many connections waiting; try again later.", name);
    } else if (error == ENOENT && row->package) {
        r->note = "service not installed";
        api_error_send(r->http, 501, "service_not_installed", NULL, 0,
                       "The %s service is not installed here: it is in the package %s. If this "
                       "package is installed, `sconce doctor` on the server tells why the service "
                       "has no socket.",
                       name, row->package);
    } else {
        r->note = "service unreachable";
        api_error_send(r->http, 502, "service_unreachable", NULL, 0,
                       "The %s service cannot be reached: %s.", name, strerror(error));
    }
}

static void forward_count(struct gw_request *r, enum http_call_result result)
{
    static const enum gw_failure failures[] = {
        [HTTP_CALL_NO_CONNECT] = GW_FAIL_CONNECT,  [HTTP_CALL_TIMEOUT] = GW_FAIL_TIMEOUT,
        [HTTP_CALL_LOST] = GW_FAIL_LOST,           [HTTP_CALL_TRUNCATED] = GW_FAIL_TRUNCATED,
        [HTTP_CALL_MALFORMED] = GW_FAIL_MALFORMED,
    };

    if (result == HTTP_CALL_DONE) {
        if (!r->answered) {
            gw_mark_awake(r->gateway, r->target);
            r->gateway->has_no_models[r->target] = false;
        }
        return;
    }
    r->gateway->n_failures[r->target][failures[result]]++;
    r->gateway->awake_until_usec[r->target] = 0;
}

static void forward_end(void *user, enum http_call_result result, int error)
{
    struct gw_request *r = user;

    gw_liveness_leave(r);
    r->gateway->n_forwarded[r->target]--;
    forward_count(r, result);
    r->is_absent = result == HTTP_CALL_NO_CONNECT && error == ENOENT;
    if (!r->answered)
        gw_history_note(r->gateway, r->target);
    if (r->answered) {
        loop_timer_stop(service_loop(r->gateway->service), &r->patience);
        if (result != HTTP_CALL_DONE)
            r->status = 0;
        r->answered(r);
    } else if (r->is_elsewhere && result == HTTP_CALL_DONE) {
        r->is_elsewhere = false;
        r->was_elsewhere = true;
        gw_forward(r, r->elsewhere);
    } else if (r->streaming) {
        if (result != HTTP_CALL_DONE)
            forward_break(r);
        else
            http_response_end(r->http);
    } else if (result == HTTP_CALL_DONE) {
        http_respond(r->http, r->status, r->type[0] ? r->type : NULL, r->body.data, r->body.len);
    } else {
        forward_refuse(r, result == HTTP_CALL_TRUNCATED ? HTTP_CALL_LOST : result, error);
    }
}

/* The service has taken what arrived of the body, so more may arrive. */
static void forward_writable(void *user)
{
    struct gw_request *r = user;

    http_request_resume_body(r->http);
}

static const struct http_call_events forward_events = {forward_head, forward_body, forward_end,
                                                       forward_writable};

void gw_forward_body(struct gw_request *r, const char *data, size_t len)
{
    /* Without a call, the service has answered already. */
    if (!r->call)
        return;
    if (http_call_write(r->call, data, len) < 0) {
        gw_forward_cancel(r);
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    } else if (http_call_pending(r->call) > FORWARD_WINDOW) {
        http_request_pause_body(r->http);
    }
}

void gw_forward_finish(struct gw_request *r)
{
    if (r->call && http_call_finish(r->call) < 0) {
        gw_forward_cancel(r);
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    }
}

static void forward_start(struct gw_request *r, const struct http_call_params *params)
{
    struct gateway *gateway = r->gateway;

    gateway->n_forwarded[r->target]++;
    if (http_call_start(gateway->upstreams[r->target], params, &forward_events, r, &r->call) < 0)
        forward_end(r, HTTP_CALL_NO_CONNECT, ENOMEM);
}

void gw_forward(struct gw_request *r, enum service_backend target)
{
    static const char *const passed[] = {"content-type", "accept", SESSION_ID_HEADER, "traceparent",
                                         "tracestate"};
    const struct http_text method = http_request_method(r->http);
    const struct http_text path = http_request_path(r->http);
    const struct http_text query = http_request_query(r->http);
    const char *key = gw_history_key(r);
    struct http_header headers[ARRAY_SIZE(passed) + 3];
    struct http_call_params params = {.headers = headers};
    _cleanup_str_ struct str target_text = {};
    char method_text[8];

    r->target = target;
    snprintf(method_text, sizeof(method_text), "%.*s", (int)method.len, method.data);
    if (str_append(&target_text, path.data, path.len) < 0 ||
        (query.len && (str_putc(&target_text, '?') < 0 ||
                       str_append(&target_text, query.data, query.len) < 0))) {
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
        if (http_request_header(r->http, passed[i], &headers[params.n_headers].value))
            headers[params.n_headers++].name = (struct http_text){passed[i], strlen(passed[i])};
    headers[params.n_headers++] =
        (struct http_header){{"x-request-id", 12}, {r->id, strlen(r->id)}};
    headers[params.n_headers++] = (struct http_header){
        {TENANT_HEADER, strlen(TENANT_HEADER)}, {r->access.tenant, strlen(r->access.tenant)}};
    if (key)
        headers[params.n_headers++] = (struct http_header){
            {HISTORY_KEY_HEADER, strlen(HISTORY_KEY_HEADER)}, {key, strlen(key)}};
    params.method = method_text;
    params.path = target_text.data;
    params.body = http_request_body(r->http);
    params.has_body = gw_takes_body(r);
    params.streams = gw_streams_body(r);
    params.length = http_request_length(r->http);
    gw_liveness_wait(r);
    forward_start(r, &params);
}

static void forward_on_patience(struct loop_timer *timer)
{
    struct gw_request *r = timer->data;

    http_call_cancel(r->call);
    forward_end(r, HTTP_CALL_TIMEOUT, 0);
}

void gw_ask(struct gw_request *r, enum service_backend target, const char *path)
{
    r->target = target;
    r->patience = (struct loop_timer){.fire = forward_on_patience, .data = r};
    loop_timer_set(service_loop(r->gateway->service), &r->patience, FORWARD_ASK_USEC);
    forward_start(r, &(struct http_call_params){.method = "GET", .path = path});
}

void gw_forward_cancel(struct gw_request *r)
{
    gw_liveness_leave(r);
    loop_timer_stop(service_loop(r->gateway->service), &r->patience);
    if (!r->call)
        return;
    if (!r->answered)
        gw_history_note(r->gateway, r->target);
    r->gateway->n_forwarded[r->target]--;
    http_call_cancel(r->call);
}

void gw_forward_give_up(struct gw_request *r)
{
    const char *name = service_backends[r->target]->name;

    gw_forward_cancel(r);
    r->gateway->n_failures[r->target][GW_FAIL_SILENT]++;
    r->gateway->awake_until_usec[r->target] = 0;
    r->note = "service silent";
    api_error_send(r->http, 503, "service_down", NULL, 5,
                   "The %s service does not start, or hangs; `sconce doctor` on the server tells "
                   "why.",
                   name);
}

bool gw_service_is_awake(const struct gateway *gateway, enum service_backend target)
{
    return gateway->n_forwarded[target] || clock_usec() < gateway->awake_until_usec[target];
}
