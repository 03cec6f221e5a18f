/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-gateway is the process to which clients of the HTTP APIs connect.
 *
 * It reads the configuration, confines itself, takes its sockets and serves.
 */
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <time.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/metrics.h"
#include "common/service/misconfigured.h"
#include "common/service/service.h"
#include "gateway/gateway.h"

/* The gateway closes connections to services that were idle for this time, before the services
 * close them. */
#define GATEWAY_KEEP_USEC (5 * 1000000u)
/* Blocks of memory that are larger than this, such as those of bodies, go back to the system when
 * they are freed. If this limit were not set, the C library would raise it when the first body is
 * freed, and would then keep the memory of later bodies. */
#define GATEWAY_LARGE_BLOCK (256 * 1024)

/* Returns how many bytes all bodies together may take: enough for at least one body of the largest
 * size that a service accepts. */
static uint64_t gateway_max_bodies(const struct config *config)
{
    uint64_t most = config->gateway.max_bodies;

    for (unsigned i = 0; i < N_BACKENDS; i++)
        most = MAX(most, service_row_max_body(service_backends[i], config));
    return most;
}

static int gateway_connect(struct gateway *gateway, const struct options *options)
{
    int r = 0;

    for (unsigned i = 0; i < N_BACKENDS && r == 0; i++) {
        const struct service_row *row = service_backends[i];
        const char *given = options_socket(options, row);
        _cleanup_free_ char *path = NULL;

        if (!given && (r = config_socket_path(row->name, &path)) < 0) {
            log_error("cannot find the socket of the %s service: %s", row->name, strerror(-r));
            return r;
        }
        r = http_upstream_new(service_loop(gateway->service), given ? given : path,
                              gateway->config->gateway.backend_timeout_usec, GATEWAY_KEEP_USEC,
                              &gateway->upstreams[i]);
        if (r < 0)
            log_error("out of memory");
    }
    return r;
}

static bool gateway_holds(void *data)
{
    return gw_history_holds(data);
}

static void gateway_draining(void *data)
{
    gw_history_drain(data);
}

int main(int argc, char **argv)
{
    static struct gateway gateway;
    struct options options;
    struct inf_err err = {};
    int r;

    log_open("gateway");
    mallopt(M_MMAP_THRESHOLD, GATEWAY_LARGE_BLOCK);
    r = options_read("gateway", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    gw_auth_init(&gateway);
    if (!misconfigured_confine("gateway", &options)) {
        options_done(&options);
        return 1;
    }
    if (options.wrong) {
        r = misconfigured_serve("gateway", &options);
        options_done(&options);
        return r;
    }
    gateway.config = options.config;
    gateway.start_sec = time(NULL);
    gateway.keys = &options.keys;
    gw_liveness_init(&gateway);
    gw_history_init(&gateway);
    r = service_new(
        &(struct service_params){
            .name = "gateway",
            .http =
                {
                    .max_header = options.config->gateway.max_header,
                    .max_body = options.config->gateway.max_body,
                    .max_bodies = gateway_max_bodies(options.config),
                    .max_connections = options.config->gateway.max_connections,
                    .head_timeout_usec = options.config->gateway.header_timeout_usec,
                    .body_timeout_usec = options.config->gateway.body_timeout_usec,
                    .keep_timeout_usec = options.config->gateway.keepalive_timeout_usec,
                    .stall_timeout_usec = options.config->gateway.stall_timeout_usec,
                    .admit = gw_admit,
                    .handle = gw_handle,
                    .data = &gateway,
                },
            .idle_timeout_usec = options.config->gateway.idle_timeout_usec,
            .drain_timeout_usec = options.drain_timeout_usec,
            .draining = gateway_draining,
            .holds = gateway_holds,
            .data = &gateway,
        },
        &gateway.service, &err);
    if (r < 0) {
        log_error("%s", err.text);
    } else if ((r = gateway_connect(&gateway, &options)) == 0) {
        r = service_run(gateway.service);
    }
    if (gateway.service)
        http_server_close(service_server(gateway.service));
    gw_history_done(&gateway);
    for (size_t i = 0; i < N_BACKENDS; i++)
        http_upstream_free(gateway.upstreams[i]);
    service_free(gateway.service);
    options_done(&options);
    return r < 0 ? 1 : 0;
}
