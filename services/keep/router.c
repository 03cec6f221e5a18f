/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests to their handlers, and deletes expired entries. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/http/error-shape.h"
#include "keep/keep.h"
#include "keep/path.h"

#define EXPIRY_MAX_USEC (3600 * 1000000ull)

static const struct {
    const char *method, *path;
    bool is_prefix;
    keep_handler *handle;
} routes[] = {
    {"GET", "/v1/responses/", true, responses_get},
    {"DELETE", "/v1/responses/", true, responses_delete},
    {"POST", "/v1/responses/", true, responses_post},
    {"POST", "/v1/conversations", false, conversations_create},
    {"GET", "/v1/conversations/", true, conversations_get},
    {"POST", "/v1/conversations/", true, conversations_post},
    {"DELETE", "/v1/conversations/", true, conversations_delete},
    {"POST", "/keep/load", false, exchange_load},
    {"POST", "/keep/save", false, exchange_save},
};

static keep_handler *route_find(const struct keep_request *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        const size_t len = strlen(routes[i].path);

        if ((routes[i].is_prefix
                 ? r->path.len > len && memcmp(r->path.data, routes[i].path, len) == 0
                 : http_text_is(r->path, routes[i].path)) &&
            strcmp(r->method, routes[i].method) == 0)
            return routes[i].handle;
    }
    return NULL;
}

static int request_run(struct keep_request *r, struct problem *problem)
{
    keep_handler *handle = route_find(r);
    int e;

    if (!r->keep->archive)
        return problem_set(problem, 503, "misconfigured", NULL, "Nothing is kept: %s.",
                           r->keep->problem);
    if (!handle)
        return path_unknown(r->path, problem);
    e = handle(r, problem);
    return e == -ENOMEM ? problem_no_memory(problem) : e;
}

int keep_answer(struct keep_request *r)
{
    struct problem problem = {};

    if (request_run(r, &problem) == 0)
        return 200;
    str_clear(&r->out);
    if (errors_openai.put(&r->out, &(struct api_error){problem.status, problem.code,
                                                       problem.param[0] ? problem.param : NULL,
                                                       problem.message}) < 0)
        str_clear(&r->out);
    return problem.status;
}

int keep_begin(struct keep_request *r, struct problem *problem)
{
    const int e = archive_begin(r->keep->archive, r->now);

    return e < 0 ? problem_set(problem, 503, "keep_failed", NULL,
                               "The kept entries cannot be read: %s.", strerror(-e))
                 : 0;
}

int keep_end(struct keep_request *r, int result, struct problem *problem)
{
    struct keep *keep = r->keep;

    if (result == 0)
        result = archive_commit(keep->archive);
    else
        archive_rollback(keep->archive);
    keep_schedule(keep);
    if (result == ARCHIVE_FULL)
        return problem_set(problem, 507, "keep_full", NULL,
                           "There is no room to keep this: the limits keep.max_bytes and "
                           "keep.max_total_bytes of the configuration are reached.");
    if (result < 0 && result != -EINVAL)
        return problem_set(problem, 503, "keep_failed", NULL,
                           "The kept entries cannot be read or written: %s.", strerror(-result));
    return result;
}

int keep_absent(struct problem *problem, const char *param, const char *what, const char *id)
{
    return problem_set(problem, 404, "not_found", param, "There is no %s with id '%.72s'.", what,
                       id);
}

/* --- expiry --- */

static void keep_on_expiry(struct loop_timer *timer)
{
    struct keep *keep = timer->data;

    if (archive_begin(keep->archive, time(NULL)) == 0)
        archive_commit(keep->archive);
    keep_schedule(keep);
}

void keep_schedule(struct keep *keep)
{
    const int64_t now = time(NULL);
    int64_t next = 0;

    keep->expiry.fire = keep_on_expiry;
    keep->expiry.data = keep;
    if (!keep->archive || archive_next_expiry(keep->archive, &next) < 0 || !next)
        return;
    /* The clock may be set while the timer runs, so the timer reads the clock at least once an
     * hour. */
    loop_timer_set(keep->loop, &keep->expiry,
                   next <= now ? 1000000u
                               : MIN((uint64_t)(next - now) * 1000000u, EXPIRY_MAX_USEC));
}
