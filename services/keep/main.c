/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs sconce-keep, the process that keeps responses and conversations.
 *
 * A kept response or conversation is called an entry. With keep.storage: memory, which is the
 * default, the process runs as long as it holds entries that have not expired, and writes nothing.
 * With keep.storage: disk, the entries are in the file kept.db of its own directory, and the
 * process exits when it is idle.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"
#include "common/service/service.h"
#include "core/err.h"
#include "core/file.h"
#include "keep/keep.h"

#define KEEP_MISCONFIGURED_USEC (2 * 1000000u)

static bool keep_is_on_disk(const struct options *options)
{
    return options->config->keep.storage == CONFIG_STORAGE_DISK;
}

/* Makes the directory of the archive, and missing directories above it. Must run before the
 * Landlock rules apply. Ignores errors, because opening the archive then fails and reports an
 * error. */
static void keep_prepare_directory(const struct options *options)
{
    _cleanup_free_ char *dir = keep_is_on_disk(options) ? config_keep_dir() : NULL;

    if (dir)
        path_make_dirs(dir, 0700);
}

static int keep_open(struct keep *keep, const struct options *options, struct inf_err *reterr)
{
    const struct config *config = options->config;
    const struct archive_limits limits = {
        .expiry_sec = (int64_t)(config->keep.expiry_usec / 1000000u),
        .max_bytes = config->keep.max_bytes,
        .max_total_bytes = config->keep.max_total_bytes,
    };
    _cleanup_free_ char *dir = keep_is_on_disk(options) ? config_keep_dir() : NULL;
    _cleanup_free_ char *path = dir ? path_join(dir, "kept.db") : NULL;

    if (keep_is_on_disk(options) && !path)
        return err_set(reterr, ENOENT,
                       "keep.storage is disk, but there is no home directory for the files");
    return archive_open(path, &limits, &keep->archive, reterr);
}

/* Returns whether the process must not exit. If it exited, entries in memory would be lost. */
static bool keep_busy(void *data)
{
    const struct keep *keep = data;
    struct archive_numbers numbers = {};

    return keep->config->keep.storage == CONFIG_STORAGE_MEMORY && keep->archive &&
           archive_numbers(keep->archive, &numbers) == 0 && numbers.n_entries > 0;
}

static void keep_drain(void *data)
{
    struct keep *keep = data;

    service_drained(keep->service);
}

static int keep_serve(struct keep *keep, const struct options *options, struct inf_err *reterr)
{
    const uint64_t idle = keep->config->keep.idle_timeout_usec;
    int r = service_new(
        &(struct service_params){
            .name = "keep",
            .door = &keep_door,
            .door_type = SOCK_SEQPACKET,
            .idle_timeout_usec = keep->archive ? idle : KEEP_MISCONFIGURED_USEC,
            .drain_timeout_usec = options->drain_timeout_usec,
            .busy = keep_busy,
            .is_long_busy = true,
            .draining = keep_drain,
            .ready_status = keep->archive ? NULL : keep->problem,
            .data = keep,
        },
        &keep->service, reterr);

    if (r < 0)
        return r;
    keep_schedule(keep);
    return service_run(keep->service);
}

/* Runs the service. If the configuration is wrong, each request gets the error. */
static int keep_run(struct options *options)
{
    static struct keep keep;
    struct inf_err err = {};
    int r = 0;

    keep.config = options->config;
    if (options->wrong)
        snprintf(keep.problem, sizeof(keep.problem), "%s", options->wrong);
    else if ((r = keep_open(&keep, options, &err)) < 0)
        snprintf(keep.problem, sizeof(keep.problem), "%s", err.text);
    if (!keep.archive)
        log_event(LOG_ID_MISCONFIGURED, LOG_ERR, NULL, "nothing is kept: %s", keep.problem);
    r = keep_serve(&keep, options, &err);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    keep_close_sessions(&keep);
    if (keep.loop)
        loop_timer_stop(keep.loop, &keep.expiry);
    service_free(keep.service);
    archive_free(keep.archive);
    return r < 0 ? 1 : 0;
}

/* Seeds jansson's hash tables, which would otherwise open /dev/urandom. */
static void seed_hashes(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), 0) < 0)
        log_warn("getrandom: %s", strerror(errno));
    json_object_seed(seed ? seed : 1);
}

int main(int argc, char **argv)
{
    struct options options;
    int r;

    /* Without this mask SQLite would create files with mode 0644. */
    umask(0077);
    log_open("keep");
    r = options_read("keep", argc, argv, &options);
    if (r >= 0)
        return r;
    keep_prepare_directory(&options);
    if (!misconfigured_confine("keep", &options)) {
        r = 1;
    } else {
        seed_hashes();
        r = keep_run(&options);
    }
    options_done(&options);
    return r;
}
