/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-store, the store service, changes the models of this machine for clients.
 *
 * It reads the configuration and the token, makes the store its working directory, confines itself,
 * takes its socket and serves.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/metrics.h"
#include "common/service/misconfigured.h"
#include "common/service/service.h"
#include "common/store/store.h"
#include "core/err.h"
#include "store/store-service.h"

/* Only the gateway and tools on this machine connect. */
#define STORE_MAX_CONNECTIONS 1024
/* The gateway keeps idle connections for a shorter time than this, so only the gateway closes
 * them. */
#define STORE_KEEP_USEC (120 * 1000000u)
#define STORE_THREADS   3u /* one for each lane */

static bool store_busy(void *data)
{
    const struct store_service *s = data;

    return s->n_pulls + s->n_changes + s->n_uploads > 0;
}

static void store_draining(void *data)
{
    pulls_stop(data);
}

static void store_status(void *data, char *text, size_t size)
{
    const struct store_service *s = data;

    if (s->n_pulls)
        snprintf(text, size, "Pulling models: %u", s->n_pulls);
    else if (s->n_uploads)
        snprintf(text, size, "Receiving files of models: %u", s->n_uploads);
    else if (s->n_changes)
        snprintf(text, size, "Changing models: %u", s->n_changes);
    else
        snprintf(text, size, "Ready");
}

static int store_open(struct store_service *s, const struct options *options,
                      struct inf_err *reterr)
{
    const struct config *config = s->config;
    int r = service_new(
        &(struct service_params){
            .name = "store",
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = config->gateway.max_body,
                    .max_connections = STORE_MAX_CONNECTIONS,
                    .max_bodies = config->gateway.max_bodies,
                    .head_timeout_usec = config->gateway.header_timeout_usec,
                    .body_timeout_usec = config->gateway.body_timeout_usec,
                    .keep_timeout_usec = STORE_KEEP_USEC,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .admit = store_admit,
                    .handle = store_handle,
                    .data = s,
                },
            .idle_timeout_usec = config->store.idle_timeout_usec,
            .closes_idle_connections = true,
            .drain_timeout_usec = options->drain_timeout_usec,
            .busy = store_busy,
            .draining = store_draining,
            .status = store_status,
            .data = s,
        },
        &s->service, reterr);

    if (r < 0)
        return r;
    s->tick = (struct loop_timer){.fire = pulls_tick, .data = s};
    s->creations_tick = (struct loop_timer){.fire = creations_tick, .data = s};
    r = jobs_new(service_loop(s->service), "store", STORE_THREADS, &s->jobs);
    return r < 0 ? err_set(reterr, -r, "threads: %s", strerror(-r)) : 0;
}

static int store_run(struct store_service *s, const struct options *options)
{
    struct inf_err err = {0};
    size_t seed = 0;
    int r;

    /* Without a seed, jansson would open /dev/urandom. */
    if (getrandom(&seed, sizeof(seed), 0) < 0)
        log_warn("getrandom: %s", strerror(errno));
    json_object_seed(seed ? seed : 1);
    verified_init(&s->verified);
    r = store_open(s, options, &err);
    if (r == 0) {
        changes_tidy(s);
        uploads_init(s);
        r = service_run(s->service);
    }
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    pulls_stop(s);
    s->jobs = jobs_free(s->jobs);
    if (s->service) {
        http_server_close(service_server(s->service));
        loop_timer_stop(service_loop(s->service), &s->tick);
        loop_timer_stop(service_loop(s->service), &s->creations_tick);
        loop_timer_stop(service_loop(s->service), &s->tidying.timer);
    }
    s->service = service_free(s->service);
    verified_done(&s->verified);
    return r < 0 ? 1 : 0;
}

/* Finds the store and makes it the working directory, because the policy allows writing only there.
 * Also reads the token and the certificates, which the policy hides later. */
static int store_prepare(struct store_service *s, const struct options *options,
                         struct inf_err *reterr)
{
    int r = store_directory(s->config, options->has_models, &s->dir, reterr);

    if (r == 0)
        r = store_make_dirs(s->dir, reterr);
    if (r == 0 && chdir(s->dir) < 0)
        r = err_set(reterr, errno, "%s: %s", s->dir, strerror(errno));
    if (r == 0)
        r = pull_secrets_read(s->config, &s->secrets, reterr);
    if (r < 0)
        return r;
    if (options->program_socket)
        s->fetch_socket = strdup(options->program_socket);
    else if (config_socket_path("fetch", &s->fetch_socket) < 0)
        return err_set(reterr, ENOENT, "the option --fetch-socket is missing");
    return s->fetch_socket ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

int main(int argc, char **argv)
{
    static struct store_service s;
    struct options options;
    struct inf_err err = {0};
    int r;

    log_open("store");
    r = options_read("store", argc, argv, &options);
    if (r >= 0)
        return r;
    /* Everybody may read models. */
    umask(0022);
    metrics_open();
    s.config = options.config;
    if (!options.wrong && store_prepare(&s, &options, &err) < 0 &&
        options_set_wrong(&options, err.text) < 0)
        r = 1;
    else if (!misconfigured_confine("store", &options))
        r = 1;
    else if (options.wrong)
        r = misconfigured_serve("store", &options);
    else
        r = store_run(&s, &options);
    pull_secrets_done(&s.secrets);
    free(s.dir);
    free(s.fetch_socket);
    options_done(&options);
    return r;
}
