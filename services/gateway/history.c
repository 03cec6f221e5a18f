/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the numbers of requests from the services, and sends them to the history service.
 *
 * The gateway does this a few seconds after requests ended, on separate connections, so no request
 * waits for it. Rows that cannot be sent are kept up to a limit; rows beyond the limit are dropped.
 */
#include <string.h>

#include "common/config/config.h"
#include "common/service/service.h"
#include "gateway/gateway.h"

#define HISTORY_EACH_USEC     (5 * 1000000u)
#define HISTORY_HURRY_USEC    1000u
#define HISTORY_PATIENCE_USEC (5 * 1000000u)
#define HISTORY_MAX_BYTES     (1024 * sizeof(struct history_row))

static void history_go_on(struct gw_history *h);

static void history_head(void *user, int status, const struct http_header *headers,
                         size_t n_headers)
{
    struct gw_history *h = user;

    (void)headers;
    (void)n_headers;
    h->status = status;
}

static void history_body(void *user, const char *data, size_t len)
{
    struct gw_history *h = user;

    if (h->answer.len + len > HISTORY_MAX_BYTES || str_append(&h->answer, data, len) < 0)
        h->status = 0;
}

/* Appends rows to those that will be sent, and drops rows for which there is no room. */
static void history_append(struct gw_history *h, const void *rows, size_t len)
{
    if (len % sizeof(struct history_row) != 0 || h->rows.len + len > HISTORY_MAX_BYTES ||
        str_append(&h->rows, rows, len) < 0)
        h->n_lost += len / sizeof(struct history_row);
}

/* Handles the end of a call: rows of a service arrived, or rows were sent. */
static void history_end(void *user, enum http_call_result result, int error)
{
    struct gw_history *h = user;
    const bool is_good = result == HTTP_CALL_DONE && h->status == 200;

    (void)error;
    loop_timer_stop(service_loop(h->gateway->service), &h->patience);
    if (h->target == BACKEND_HISTORY) {
        if (is_good) {
            str_clear(&h->rows);
            gw_mark_awake(h->gateway, BACKEND_HISTORY);
        }
        h->target = N_BACKENDS;
    } else {
        if (is_good)
            history_append(h, h->answer.data, h->answer.len);
        h->target++;
    }
    history_go_on(h);
}

static void history_on_patience(struct loop_timer *timer)
{
    struct gw_history *h = timer->data;

    http_call_cancel(h->call);
    h->call = NULL;
    history_end(h, HTTP_CALL_TIMEOUT, 0);
}

static void history_call(struct gw_history *h, unsigned target,
                         const struct http_call_params *params)
{
    static const struct http_call_events events = {history_head, history_body, history_end};

    h->target = target;
    h->status = 0;
    str_clear(&h->answer);
    loop_timer_set(service_loop(h->gateway->service), &h->patience, HISTORY_PATIENCE_USEC);
    if (http_call_start(h->gateway->upstreams[target], params, &events, h, &h->call) < 0)
        history_end(h, HTTP_CALL_NO_CONNECT, 0);
}

/* Sends the rows of all services and of the gateway. */
static void history_send(struct gw_history *h)
{
    history_append(h, h->counts.rows, h->counts.n * sizeof(struct history_row));
    h->n_lost += h->counts.n_lost;
    h->counts.n = 0;
    h->counts.n_lost = 0;
    if (!h->rows.len) {
        h->target = N_BACKENDS;
        history_go_on(h);
        return;
    }
    history_call(h, BACKEND_HISTORY,
                 &(struct http_call_params){.method = "POST",
                                            .path = HISTORY_PATH,
                                            .body = {h->rows.data, h->rows.len},
                                            .has_body = true});
}

static bool history_is_due(const struct gw_history *h)
{
    for (unsigned i = 0; i < N_BACKENDS; i++)
        if (h->due[i])
            return true;
    return h->counts.n > 0;
}

/* Returns whether numbers may still be sent. While the gateway ends, it does not start the history
 * service, because the whole system may be stopping. */
static bool history_may_send(const struct gw_history *h)
{
    return !service_is_draining(h->gateway->service) ||
           gw_service_is_awake(h->gateway, BACKEND_HISTORY);
}

static void history_schedule(struct gw_history *h)
{
    struct service *service = h->gateway->service;

    if (h->gateway->config->history.enabled && !h->call && !loop_timer_is_set(&h->timer) &&
        history_may_send(h))
        loop_timer_set(service_loop(service), &h->timer,
                       service_is_draining(service) ? HISTORY_HURRY_USEC : HISTORY_EACH_USEC);
}

/* Ends a round. Rows that could not be sent are kept for the next round, or dropped if the gateway
 * is about to end. */
static void history_finish(struct gw_history *h)
{
    struct service *service = h->gateway->service;

    if (history_is_due(h))
        history_schedule(h);
    else if (service_is_draining(service) &&
             http_server_stats(service_server(service))->n_connections == 0)
        service_drained(service);
}

/* Asks the next service that answered requests; after the last one sends all rows. A service that
 * exited or failed is not asked: it has no rows, and the request would start it. */
static void history_go_on(struct gw_history *h)
{
    unsigned target = h->target;

    if (target == N_BACKENDS) {
        history_finish(h);
        return;
    }
    while (target < N_BACKENDS &&
           !(h->due[target] && gw_service_is_awake(h->gateway, (enum service_backend)target))) {
        h->due[target] = false;
        target++;
    }
    if (target == N_BACKENDS) {
        history_send(h);
        return;
    }
    h->due[target] = false;
    history_call(h, target, &(struct http_call_params){.method = "GET", .path = HISTORY_PATH});
}

static void history_on_timer(struct loop_timer *timer)
{
    struct gw_history *h = timer->data;

    h->target = 0;
    history_go_on(h);
}

void gw_history_init(struct gateway *gateway)
{
    struct gw_history *h = &gateway->history;

    h->gateway = gateway;
    h->timer = (struct loop_timer){.fire = history_on_timer, .data = h};
    h->patience = (struct loop_timer){.fire = history_on_patience, .data = h};
}

void gw_history_done(struct gateway *gateway)
{
    struct gw_history *h = &gateway->history;

    if (h->call)
        http_call_cancel(h->call);
    if (gateway->service) {
        loop_timer_stop(service_loop(gateway->service), &h->timer);
        loop_timer_stop(service_loop(gateway->service), &h->patience);
    }
    history_counts_done(&h->counts);
    str_done(&h->answer);
    str_done(&h->rows);
}

void gw_history_note(struct gateway *gateway, enum service_backend target)
{
    if (target == BACKEND_HISTORY || !gateway->config->history.enabled)
        return;
    gateway->history.due[target] = true;
    history_schedule(&gateway->history);
}

void gw_history_count(struct gw_request *r)
{
    const int status = http_request_status(r->http);
    uint64_t numbers[HISTORY_NUMBERS] = {[HISTORY_REQUESTS] = 1};

    if (!r->gateway->config->history.enabled)
        return;
    if (!r->is_broken && (r->status || status < 400 || status == 499))
        return;
    numbers[status == 429 || status == 503 ? HISTORY_REFUSED : HISTORY_ERRORS] = 1;
    history_count(&r->gateway->history.counts, "gateway", NULL, r->access.key_name, numbers);
    history_schedule(&r->gateway->history);
}

bool gw_history_is_busy(const struct gateway *gateway)
{
    return gateway->history.call || loop_timer_is_set(&gateway->history.timer);
}

void gw_history_hurry(struct gateway *gateway)
{
    struct gw_history *h = &gateway->history;

    if (!loop_timer_is_set(&h->timer))
        return;
    if (history_may_send(h))
        loop_timer_set(service_loop(gateway->service), &h->timer, HISTORY_HURRY_USEC);
    else
        loop_timer_stop(service_loop(gateway->service), &h->timer);
}

const char *gw_history_key(const struct gw_request *r)
{
    const char *name = r->access.key_name;

    if (!name || !name[0] || !r->gateway->config->history.enabled)
        return NULL;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return NULL;
    return name;
}
