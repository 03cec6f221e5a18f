/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls systemd's D-Bus interface for `sconce setup` (see manager.h).
 */
#include "cli/machine/manager.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-bus.h>

#include "cli/machine/edits.h"
#include "cli/machine/places.h"
#include "cli/machine/units.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/file.h"

#define SYSTEMD_NAME      "org.freedesktop.systemd1"
#define SYSTEMD_PATH      "/org/freedesktop/systemd1"
#define SYSTEMD_INTERFACE "org.freedesktop.systemd1.Manager"

enum {
    MANAGER_MAX_JOBS = 8,
    MANAGER_MAX_UNIT_FILE = 1 << 20,
};

/* Timeout of the jobs of one request. A service may take 45 s to stop. */
#define MANAGER_JOB_USEC (90 * 1000000u)

struct manager {
    const struct places *places;
    struct edits *edits;
    struct units *units; /* NULL: offline */
    /* The object paths and results of the jobs that run */
    struct {
        char *path; /* NULL: the job has finished */
        const char *unit;
        bool failed;
    } jobs[MANAGER_MAX_JOBS];
    size_t n_jobs;
    sd_bus_slot *removed;
};

static int on_job_removed(sd_bus_message *message, void *data,
                          sd_bus_error *error __attribute__((unused)))
{
    struct manager *m = data;
    const char *path, *unit, *result;
    uint32_t id;

    if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0)
        return 0;
    for (size_t i = 0; i < m->n_jobs; i++)
        if (m->jobs[i].path && strcmp(m->jobs[i].path, path) == 0) {
            free(STEAL(m->jobs[i].path));
            m->jobs[i].failed = strcmp(result, "done") != 0 && strcmp(result, "skipped") != 0;
        }
    return 0;
}

int manager_open(const struct places *places, struct edits *edits, struct manager **ret_manager,
                 struct inf_err *reterr)
{
    _cleanup_(manager_closep) struct manager *m = NEW(struct manager, 1);
    struct unit_state state;

    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->places = places;
    m->edits = edits;
    if (!places->root[0] && units_open(places->user, &m->units) >= 0 &&
        !units_state(m->units, "sconce.target", &state))
        m->units = units_close(m->units);
    *ret_manager = STEAL(m);
    return 0;
}

struct manager *manager_close(struct manager *m)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < m->n_jobs; i++)
        free(m->jobs[i].path);
    sd_bus_slot_unref(m->removed);
    units_close(m->units);
    free(m);
    return NULL;
}

bool manager_is_offline(const struct manager *m)
{
    return !m->units;
}

bool manager_is_active(struct manager *m, const char *unit)
{
    struct unit_state s;

    return m->units && units_state(m->units, unit, &s) && strcmp(s.active, "active") == 0;
}

/* Calls @done with the path of the link for each unit in WantedBy= of @unit. If @done returns
 * a number other than 0, stops and returns this number. */
static int each_link(const struct manager *m, const char *unit, const char *target,
                     const char *text,
                     int (*done)(const struct manager *m, const char *target, const char *link,
                                 struct inf_err *reterr),
                     struct inf_err *reterr)
{
    static const char key[] = "\nWantedBy=";

    for (const char *p = text; (p = strstr(p, key));) {
        p += sizeof(key) - 1;
        for (size_t n; *p && *p != '\n'; p += n) {
            _cleanup_free_ char *link = NULL;
            int r;

            p += strspn(p, " \t");
            n = strcspn(p, " \t\n");
            if (n == 0)
                continue;
            if (asprintf(&link, "%s/%.*s.wants/%s", m->places->unit_dir, (int)n, p, unit) < 0) {
                link = NULL;
                return err_set(reterr, ENOMEM, "out of memory");
            }
            r = done(m, target, link, reterr);
            if (r != 0)
                return r;
        }
    }
    return 0;
}

static int link_unit(const struct manager *m, const char *target, const char *link,
                     struct inf_err *reterr)
{
    return edit_link(m->edits, target, link, reterr);
}

static int unlink_unit(const struct manager *m, const char *target __attribute__((unused)),
                       const char *link, struct inf_err *reterr)
{
    return edit_unlink(m->edits, link, reterr);
}

static int is_linked(const struct manager *m __attribute__((unused)),
                     const char *target __attribute__((unused)), const char *link,
                     struct inf_err *reterr __attribute__((unused)))
{
    char target_there[8];

    return readlink(link, target_there, sizeof(target_there)) >= 0;
}

static int with_links(const struct manager *m, const char *unit,
                      int (*done)(const struct manager *m, const char *target, const char *link,
                                  struct inf_err *reterr),
                      struct inf_err *reterr)
{
    _cleanup_free_ char *target = places_find_unit(m->places, unit), *path = NULL, *text = NULL;
    size_t len;
    int r;

    if (!target)
        return err_set(reterr, ENOENT, "%s is not installed for %s", unit,
                       m->places->user ? "users" : "the system");
    if (asprintf(&path, "%s%s", m->places->root, target) < 0) {
        path = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    r = file_read(path, MANAGER_MAX_UNIT_FILE, &text, &len, reterr);
    return r < 0 ? r : each_link(m, unit, target, text, done, reterr);
}

int manager_enable(struct manager *m, const char *unit, struct inf_err *reterr)
{
    return with_links(m, unit, link_unit, reterr);
}

int manager_disable(struct manager *m, const char *unit, struct inf_err *reterr)
{
    return with_links(m, unit, unlink_unit, reterr);
}

bool manager_is_enabled(const struct places *places, const char *unit)
{
    const struct manager m = {.places = places};

    return with_links(&m, unit, is_linked, NULL) > 0;
}

static const char *manager_option(const struct manager *m)
{
    return m->places->user ? " --user" : "";
}

int manager_reload(struct manager *m, struct inf_err *reterr)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *call = NULL, *reply = NULL;
    sd_bus *bus;
    int r;

    if (!m->units)
        return 0;
    if (m->edits->dry_run) {
        printf("would run: systemctl%s daemon-reload\n", manager_option(m));
        return 0;
    }
    /* systemd runs all generators during a reload, which can take long on a busy machine. */
    bus = units_bus(m->units);
    r = sd_bus_message_new_method_call(bus, &call, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_INTERFACE,
                                       "Reload");
    if (r >= 0)
        r = sd_bus_call(bus, call, MANAGER_JOB_USEC, &error, &reply);
    sd_bus_message_unref(call);
    sd_bus_message_unref(reply);
    if (r < 0)
        err_set(reterr, -r, "systemctl%s daemon-reload: %s", manager_option(m),
                error.message ? error.message : strerror(-r));
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static const char *manager_verb(const char *method)
{
    static const char *const verbs[][2] = {{"StartUnit", "start"},
                                           {"StopUnit", "stop"},
                                           {"RestartUnit", "restart"},
                                           {"TryRestartUnit", "try-restart"}};

    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i][0], method) == 0)
            return verbs[i][1];
    return method;
}

static int manager_queue(struct manager *m, const struct manager_job *job, struct inf_err *reterr)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    const char *path;
    int r;

    /* systemd refuses to start a unit that was started too often (StartLimitBurst=, in newer
     * versions also for sockets). This call resets the counter of starts, because the user asks for
     * this start. */
    if (strcmp(job->method, "StartUnit") == 0)
        sd_bus_call_method(units_bus(m->units), SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_INTERFACE,
                           "ResetFailedUnit", NULL, NULL, "s", job->unit);
    r = sd_bus_call_method(units_bus(m->units), SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_INTERFACE,
                           job->method, &error, &reply, "ss", job->unit, "replace");
    if (r >= 0)
        r = sd_bus_message_read(reply, "o", &path);
    if (r < 0) {
        err_set(reterr, -r, "systemctl%s %s %s: %s", manager_option(m), manager_verb(job->method),
                job->unit, error.message ? error.message : strerror(-r));
    } else {
        m->jobs[m->n_jobs].path = strdup(path);
        m->jobs[m->n_jobs].unit = job->unit;
        m->jobs[m->n_jobs++].failed = false;
    }
    sd_bus_message_unref(reply);
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static bool jobs_run(const struct manager *m)
{
    for (size_t i = 0; i < m->n_jobs; i++)
        if (m->jobs[i].path)
            return true;
    return false;
}

static int wait_for_jobs(struct manager *m, struct inf_err *reterr)
{
    const uint64_t end = clock_usec() + MANAGER_JOB_USEC;
    int r;

    while (jobs_run(m)) {
        r = sd_bus_process(units_bus(m->units), NULL);
        if (r == 0)
            r = sd_bus_wait(units_bus(m->units), 1000000);
        if (r < 0)
            return err_set(reterr, -r, "systemd: %s", strerror(-r));
        if (clock_usec() > end)
            return err_set(reterr, ETIMEDOUT,
                           "systemd does not finish its jobs; see "
                           "`systemctl%s list-jobs`",
                           manager_option(m));
    }
    for (size_t i = 0; i < m->n_jobs; i++) {
        struct unit_state s = {0};

        if (!m->jobs[i].failed)
            continue;
        units_state(m->units, m->jobs[i].unit, &s);
        return err_set(reterr, EPROTO, "%s did not start (%s); see `systemctl%s status %s`",
                       m->jobs[i].unit, s.result[0] ? s.result : "failed", manager_option(m),
                       m->jobs[i].unit);
    }
    return 0;
}

static int manager_subscribe(struct manager *m)
{
    int r;

    if (m->removed)
        return 0;
    r = sd_bus_match_signal(units_bus(m->units), &m->removed, NULL, SYSTEMD_PATH, SYSTEMD_INTERFACE,
                            "JobRemoved", on_job_removed, m);
    if (r >= 0)
        r = sd_bus_call_method(units_bus(m->units), SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_INTERFACE,
                               "Subscribe", NULL, NULL, "");
    return r;
}

int manager_run(struct manager *m, const struct manager_job *jobs, size_t n_jobs,
                struct inf_err *reterr)
{
    int r;

    assert(n_jobs <= MANAGER_MAX_JOBS);
    if (!m->units)
        return 0;
    if (m->edits->dry_run) {
        for (size_t i = 0; i < n_jobs; i++)
            printf("would run: systemctl%s %s %s\n", manager_option(m),
                   manager_verb(jobs[i].method), jobs[i].unit);
        return 0;
    }
    r = manager_subscribe(m);
    if (r < 0)
        return err_set(reterr, -r, "systemd: %s", strerror(-r));
    m->n_jobs = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        r = manager_queue(m, &jobs[i], reterr);
        if (r < 0)
            break;
    }
    if (r >= 0)
        return wait_for_jobs(m, reterr);
    wait_for_jobs(m, NULL);
    return r;
}
