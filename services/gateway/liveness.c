/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether services that keep clients waiting are alive.
 *
 * A connection to a service that cannot start waits forever in the backlog of the service's socket,
 * and a service that hangs never answers. Therefore, while a client waits for the first byte, the
 * gateway probes the service: it requests /health on another connection, once per
 * gateway.probe_interval. After three probes without an answer the client gets an error. A service
 * that received SIGTERM accepts no connection but still finishes requests that it has read.
 * Therefore, if the service has read a request, the client gets the error only after eight probes.
 * Eight probes take longer than a service may take to finish its requests.
 */
#include "common/config/config.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "gateway/gateway.h"

enum {
    LIVENESS_UNREAD_PROBES = 3,
    LIVENESS_READ_PROBES = 8, /* by default 40 s; services finish within 32 s after SIGTERM */
};

static void liveness_head(void *user, int status, const struct http_header *headers,
                          size_t n_headers)
{
    (void)user;
    (void)status;
    (void)headers;
    (void)n_headers;
}

static void liveness_body(void *user, const char *data, size_t len)
{
    (void)user;
    (void)data;
    (void)len;
}

/* Any answer shows that the service is alive, even an error. */
static void liveness_end(void *user, enum http_call_result result, int error)
{
    struct gw_liveness *live = user;

    (void)error;
    live->n_failed = result == HTTP_CALL_DONE ? 0 : live->n_failed + 1;
}

static const struct http_call_events liveness_events = {liveness_head, liveness_body, liveness_end};

static void liveness_give_up(struct gw_liveness *live)
{
    struct gw_request *next;
    unsigned n = 0;

    for (struct gw_request *r = live->waiting; r; r = next) {
        const bool was_read = r->call && http_call_was_read(r->call);

        next = r->next_waiting;
        if (live->n_failed < (was_read ? LIVENESS_READ_PROBES : LIVENESS_UNREAD_PROBES))
            continue;
        n++;
        gw_forward_give_up(r);
    }
    if (n)
        log_event(LOG_ID_UNANSWERED, LOG_ERR, NULL,
                  "the %s service does not answer: %u requests were refused after %u probes",
                  service_backends[live->target]->name, n, live->n_failed);
}

static void liveness_tick(struct loop_timer *timer)
{
    struct gw_liveness *live = timer->data;
    struct gateway *gateway = live->gateway;

    if (live->call) {
        http_call_cancel(live->call);
        live->n_failed++;
    }
    if (live->n_failed >= LIVENESS_UNREAD_PROBES)
        liveness_give_up(live);
    if (!live->waiting)
        return;
    loop_timer_set(service_loop(gateway->service), timer,
                   gateway->config->gateway.probe_interval_usec);
    http_call_start(gateway->upstreams[live->target],
                    &(struct http_call_params){.method = "GET", .path = "/health"},
                    &liveness_events, live, &live->call);
}

void gw_liveness_init(struct gateway *gateway)
{
    for (unsigned i = 0; i < N_BACKENDS; i++) {
        struct gw_liveness *live = &gateway->liveness[i];

        *live = (struct gw_liveness){.gateway = gateway, .target = (enum service_backend)i};
        live->tick = (struct loop_timer){.fire = liveness_tick, .data = live};
    }
}

void gw_liveness_wait(struct gw_request *r)
{
    struct gateway *gateway = r->gateway;
    struct gw_liveness *live = &gateway->liveness[r->target];

    if (!live->waiting) {
        live->n_failed = 0;
        loop_timer_set(service_loop(gateway->service), &live->tick,
                       gateway->config->gateway.probe_interval_usec);
    }
    r->waits = true;
    r->prev_waiting = NULL;
    r->next_waiting = live->waiting;
    if (live->waiting)
        live->waiting->prev_waiting = r;
    live->waiting = r;
}

void gw_liveness_leave(struct gw_request *r)
{
    struct gateway *gateway = r->gateway;
    struct gw_liveness *live = &gateway->liveness[r->target];

    if (!r->waits)
        return;
    r->waits = false;
    if (r->next_waiting)
        r->next_waiting->prev_waiting = r->prev_waiting;
    if (r->prev_waiting)
        r->prev_waiting->next_waiting = r->next_waiting;
    else
        live->waiting = r->next_waiting;
    if (live->waiting)
        return;
    loop_timer_stop(service_loop(gateway->service), &live->tick);
    if (live->call)
        http_call_cancel(live->call);
}
