/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-embed: takes the socket, reads the configuration, gives up new rights, serves
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>

#include "common/config.h"
#include "common/jobs.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/misconfigured.h"
#include "common/models.h"
#include "common/options.h"
#include "common/service.h"
#include "embed/call.h"
#include "embed/embed.h"
#include "embed/embed-resident.h"

/* Peers are the gateway and tools of this machine; the gateway's own limits are stricter. */
#define EMBED_MAX_CONNECTIONS 4096
/* Longer than the gateway keeps its connections, so that only the gateway closes them. */
#define EMBED_REQUEST_USEC (120 * 1000000u)

/* Left alone, jansson would open /dev/urandom. */
static size_t embed_seed(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), 0) < 0)
        log_warn("getrandom: %s", strerror(errno));
    return seed ? seed : 1;
}

static bool embed_busy(void *data)
{
    const struct embed *embed = data;

    return embed->n_calls > 0 || embed->loading;
}

static void embed_expired(void *data)
{
    struct embed *embed = data;
    struct call *next;

    embed->expired = true;
    for (struct call *c = embed->calls; c; c = next) {
        next = c->next;
        call_fail(c, 503, "shutting_down", "The service is ending; try again.");
    }
}

static int embed_start(struct embed *embed)
{
    int r;

    embed->loop = service_loop(embed->service);
    embed->schedule = (struct loop_task){.run = resident_schedule, .data = embed};
    r = jobs_new(embed->loop, "loader", &embed->loader);
    return r < 0 ? r : jobs_new(embed->loop, "preparer", &embed->preparer);
}

static void embed_stop(struct embed *embed)
{
    jobs_free(embed->loader);
    jobs_free(embed->preparer);
    /* Answers end with their connections; then embedders, which have nobody to tell any more. */
    if (embed->service)
        http_server_close(service_server(embed->service));
    resident_free_all(embed);
    models_free(embed->models);
    service_free(embed->service);
}

static int embed_run(struct embed *embed, const struct options *options)
{
    const struct config *config = options->config;
    struct inf_err err = {};
    int r;

    json_object_seed(embed_seed());
    embed->config = config;
    r = service_new(
        &(struct service_params){
            .name = "embed",
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = config->gateway.max_body,
                    .max_connections = EMBED_MAX_CONNECTIONS,
                    .request_timeout_usec = EMBED_REQUEST_USEC,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .handle = embed_handle,
                    .data = embed,
                },
            .idle_timeout_usec = config->embed.idle_timeout_usec,
            .drain_timeout_usec = options->drain_timeout_usec,
            .busy = embed_busy,
            .expired = embed_expired,
            .status = embed_status,
            .data = embed,
        },
        &embed->service, &err);
    if (r < 0) {
        log_error("%s", err.text);
    } else if ((r = embed_start(embed)) < 0) {
        log_error("cannot start threads: %s", strerror(-r));
    } else {
        r = service_run(embed->service);
    }
    embed_stop(embed);
    return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct embed embed;
    struct options options;
    int r;

    log_open("embed");
    r = options_read("embed", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    if (!misconfigured_confine("embed", &options))
        r = 1;
    else if (options.wrong)
        r = misconfigured_serve("embed", &options);
    else
        r = embed_run(&embed, &options);
    options_done(&options);
    return r;
}
