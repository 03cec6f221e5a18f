/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs sconce-history, the process that keeps the numbers of requests.
 *
 * It reads the configuration, confines itself, opens its file and serves.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/metrics.h"
#include "common/service/misconfigured.h"
#include "common/service/service.h"
#include "core/err.h"
#include "core/file.h"
#include "history/history.h"

#define HISTORY_KEEP_USEC       (120 * 1000000u)
#define HISTORY_MAX_BODY        ((size_t)4 * 1024 * 1024)
#define HISTORY_MAX_CONNECTIONS 256

/* Makes the directory of the file, and missing directories above it. Must run before the Landlock
 * rules apply. Ignores errors, because opening the file then fails and reports an error. */
static void history_prepare_directory(const struct options *options)
{
    _cleanup_free_ char *dir =
        options->config && options->config->history.enabled ? config_history_dir() : NULL;

    if (dir)
        path_make_dirs(dir, 0700);
}

static int history_open(struct history *history, struct inf_err *reterr)
{
    const struct config *config = history->config;
    const struct ledger_limits limits = {
        .retention_sec = (int64_t)(config->history.retention_usec / 1000000u),
        .max_bytes = config->history.max_bytes,
    };
    _cleanup_free_ char *dir = config_history_dir();
    _cleanup_free_ char *path = dir ? path_join(dir, "history.db") : NULL;

    if (!path)
        return err_set(reterr, ENOENT, "there is no home directory to keep the file in");
    return ledger_open(path, &limits, &history->ledger, reterr);
}

static int history_serve(struct history *history, const struct options *options,
                         struct inf_err *reterr)
{
    const struct config *config = history->config;
    const int r = service_new(
        &(struct service_params){
            .name = "history",
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = HISTORY_MAX_BODY,
                    .max_connections = HISTORY_MAX_CONNECTIONS,
                    .max_bodies = 4 * HISTORY_MAX_BODY,
                    .head_timeout_usec = config->gateway.header_timeout_usec,
                    .body_timeout_usec = config->gateway.body_timeout_usec,
                    .keep_timeout_usec = HISTORY_KEEP_USEC,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .handle = history_handle,
                    .data = history,
                },
            .idle_timeout_usec = config->history.idle_timeout_usec,
            .closes_idle_connections = true,
            .drain_timeout_usec = options->drain_timeout_usec,
            .ready_status = history->problem[0] ? history->problem : NULL,
        },
        &history->service, reterr);

    return r < 0 ? r : service_run(history->service);
}

static int history_run(struct options *options)
{
    static struct history history;
    struct inf_err err = {};
    int r;

    history.config = options->config;
    if (options->config->history.enabled && history_open(&history, &err) < 0) {
        snprintf(history.problem, sizeof(history.problem), "%s", err.text);
        log_warn("no history is kept: %s", err.text);
    }
    r = history_serve(&history, options, &err);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    if (history.service)
        http_server_close(service_server(history.service));
    service_free(history.service);
    ledger_free(history.ledger);
    return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options options;
    int r;

    /* Without this mask SQLite would create files with mode 0644. */
    umask(0077);
    log_open("history");
    r = options_read("history", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    history_prepare_directory(&options);
    if (!misconfigured_confine("history", &options))
        r = 1;
    else if (options.wrong)
        r = misconfigured_serve("history", &options);
    else
        r = history_run(&options);
    options_done(&options);
    return r;
}
