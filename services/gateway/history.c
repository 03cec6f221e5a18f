/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the numbers of requests from the services, and sends them to the history service.
 *
 * The gateway collects directly after requests, and at most ten times a second. It asks a service
 * only over a connection of the pool, which the service holds open, so collecting never starts a
 * service. Rows that a service still has are collected after its next request. The gateway sends
 * rows at most once in four seconds. Only the numbers of a request that has just ended may start
 * the history service; later rows are sent while it runs. Rows that cannot be sent are kept up to a
 * limit; rows beyond the limit are dropped.
 *
 * No request waits for this, and the gateway does not live longer because of it: when it ends, it
 * collects nothing more, and writes the rows that it has into the connection to the history
 * service, if that service holds one open.
 */
#include <string.h>

#include "common/config/config.h"
#include "common/service/service.h"
#include "core/clock.h"
#include "gateway/gateway.h"

#define HISTORY_ASK_USEC (100 * 1000u)
/* Connections stay in the pool for five seconds, so the connection over which rows were sent is
 * still open when the next rows are sent. */
#define HISTORY_SEND_USEC   (4 * 1000000u)
#define HISTORY_ANSWER_USEC (1000 * 1000u) /* services answer at once */
#define HISTORY_STORED_USEC (5 * 1000000u)
#define HISTORY_MAX_BYTES   (1024 * sizeof(struct history_row))

static void history_finish(struct gw_history *h);
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
        h->is_refused = !is_good;
        if (is_good) {
            str_clear(&h->rows);
            gw_mark_awake(h->gateway, BACKEND_HISTORY);
        }
        history_finish(h);
    } else {
        if (is_good)
            history_append(h, h->answer.data, h->answer.len);
        h->target++;
        history_go_on(h);
    }
}

static void history_on_patience(struct loop_timer *timer)
{
    struct gw_history *h = timer->data;

    http_call_cancel(h->call);
    h->call = NULL;
    history_end(h, HTTP_CALL_TIMEOUT, 0);
}

static void history_call(struct gw_history *h, unsigned target, uint64_t patience_usec,
                         const struct http_call_params *params)
{
    static const struct http_call_events events = {history_head, history_body, history_end};

    h->target = target;
    h->status = 0;
    str_clear(&h->answer);
    loop_timer_set(service_loop(h->gateway->service), &h->patience, patience_usec);
    if (http_call_start(h->gateway->upstreams[target], params, &events, h, &h->call) < 0)
        history_end(h, HTTP_CALL_NO_CONNECT, 0);
}

/* Appends the gateway's own rows. */
static void history_take_counts(struct gw_history *h)
{
    history_append(h, h->counts.rows, h->counts.n * sizeof(struct history_row));
    h->n_lost += h->counts.n_lost;
    h->counts.n = 0;
    h->counts.n_lost = 0;
}

/* Sends all rows. @held: without starting the history service. */
static void history_send(struct gw_history *h, bool held)
{
    h->sent_usec = clock_usec();
    history_call(h, BACKEND_HISTORY, HISTORY_STORED_USEC,
                 &(struct http_call_params){.method = "POST",
                                            .path = HISTORY_PATH,
                                            .body = {h->rows.data, h->rows.len},
                                            .has_body = true,
                                            .held = held});
}

static bool history_is_due(const struct gw_history *h)
{
    for (unsigned i = 0; i < N_BACKENDS; i++)
        if (h->due[i])
            return true;
    return h->counts.n > 0;
}

/* Sets the timer for the next round, if there is anything to do. */
static void history_schedule(struct gw_history *h)
{
    struct service *service = h->gateway->service;
    const uint64_t now = clock_usec();
    uint64_t at = UINT64_MAX;

    if (h->call || service_is_draining(service))
        return;
    if (history_is_due(h))
        at = h->asked_usec + HISTORY_ASK_USEC;
    if (h->rows.len && !h->is_refused)
        at = MIN(at, h->sent_usec + HISTORY_SEND_USEC);
    if (at != UINT64_MAX)
        loop_timer_set(service_loop(service), &h->timer, MAX(at, now) - now);
}

/* Ends a round. */
static void history_finish(struct gw_history *h)
{
    struct service *service = h->gateway->service;

    history_schedule(h);
    if (service_is_draining(service) &&
        http_server_stats(service_server(service))->n_connections == 0)
        service_drained(service);
}

/* Asks the next service that answered requests. After the last one, sends all rows, if the last
 * ones were sent long enough ago. */
static void history_go_on(struct gw_history *h)
{
    const bool is_draining = service_is_draining(h->gateway->service);
    unsigned target = h->target;

    while (target < N_BACKENDS && !h->due[target])
        target++;
    if (target < N_BACKENDS && !is_draining) {
        h->due[target] = false;
        history_call(
            h, target, HISTORY_ANSWER_USEC,
            &(struct http_call_params){.method = "GET", .path = HISTORY_PATH, .held = true});
        return;
    }
    history_take_counts(h);
    if (h->rows.len && !is_draining && clock_usec() >= h->sent_usec + HISTORY_SEND_USEC)
        history_send(h, !h->is_fresh);
    else
        history_finish(h);
}

static void history_on_timer(struct loop_timer *timer)
{
    struct gw_history *h = timer->data;

    h->is_fresh = history_is_due(h);
    h->asked_usec = clock_usec();
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
    const bool is_sending = h->call && h->target == BACKEND_HISTORY;

    /* A request that was written arrives even if this process does not wait for its answer. */
    if (h->call)
        http_call_cancel(h->call);
    if (gateway->service) {
        history_take_counts(h);
        if (h->rows.len && !is_sending)
            history_send(h, true);
        if (h->call)
            http_call_cancel(h->call);
        loop_timer_stop(service_loop(gateway->service), &h->timer);
        loop_timer_stop(service_loop(gateway->service), &h->patience);
    }
    history_counts_done(&h->counts);
    str_done(&h->answer);
    str_done(&h->rows);
}

void gw_history_note(struct gateway *gateway, enum service_backend target)
{
    struct gw_history *h = &gateway->history;

    if (target == BACKEND_HISTORY || !gateway->config->history.enabled)
        return;
    h->due[target] = true;
    h->is_refused = false;
    history_schedule(h);
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
    r->gateway->history.is_refused = false;
    history_schedule(&r->gateway->history);
}

bool gw_history_holds(const struct gateway *gateway)
{
    return gateway->history.call && gateway->history.target != BACKEND_HISTORY;
}

void gw_history_drain(struct gateway *gateway)
{
    loop_timer_stop(service_loop(gateway->service), &gateway->history.timer);
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
