/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks installed programs and units, systemd's service managers, and the versions of programs
 * that run.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/units.h"
#include "cli/setup/setup.h"
#include "cli/suite/http-get.h"
#include "common/config/service-table.h"
#include "core/file.h"

enum {
    OLDEST_SYSTEMD = 252, /* the oldest version that has all directives of the units */
};

/* Unit 0 is the target, and the units of services follow. */
enum {
    N_ALL_UNITS = 1 + N_SERVICE_UNITS,
};

static const char *unit_name(size_t i)
{
    return i == 0 ? SETUP_TARGET : service_units[i - 1];
}

/* Returns the command that installs @package; NULL: the package manager is not known. */
static const char *install_command(const char *package)
{
    return path_exists("/usr/bin/apt-get") ? doctor_text("sudo apt-get install %s", package) : NULL;
}

void doctor_install(struct doctor *d)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        const struct service_row *row = &service_rows[i];
        _cleanup_free_ char *path = serve_program(row);

        if (!path && row->package)
            doctor_tell(d, FINDING_ADVICE, "install", install_command(row->package),
                        "the %s service is not installed; it is in the package %s", row->name,
                        row->package);
        else if (!path)
            doctor_tell(d, FINDING_BROKEN, "install", NULL,
                        "%s is not installed in %s: install the package of sconce again",
                        row->program, SCONCE_LIBEXECDIR);
    }
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        _cleanup_free_ char *unit = places_find_unit(&side->places, SETUP_GATEWAY);

        if (!unit && side->units)
            doctor_tell(
                d, side->used ? FINDING_BROKEN : FINDING_ADVICE, "install", "sconce serve",
                "no units of sconce are installed for %s: services can only run in the foreground",
                side->places.user ? "users" : "the machine");
    }
}

static void check_absent(struct doctor *d, const struct doctor_side *side)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    const char *usual = doctor_text("/run/user/%u", (unsigned)geteuid());
    const enum finding_kind kind = side->used ? FINDING_BROKEN : FINDING_ADVICE;

    /* Without systemd and without used units there is nothing to report; doctor_doors() reports
     * whether a socket is open. */
    if (sd_booted() <= 0 && !side->used)
        return;
    if (sd_booted() <= 0)
        doctor_tell(d, kind, "managers", "sconce serve",
                    "systemd does not run; start the services in the foreground");
    else if (!side->places.user)
        doctor_tell(d, FINDING_UNSEEN, "managers", doctor_text("sudo sconce doctor --system"),
                    "the machine's systemd does not answer requests of this user");
    else if (run && run[0] == '/')
        doctor_tell(d, kind, "managers",
                    doctor_text("sudo systemctl restart user@%u.service", (unsigned)geteuid()),
                    "your user's systemd does not answer in %s", run);
    else if (path_is_dir(usual))
        doctor_tell(d, kind, "managers", doctor_text("export XDG_RUNTIME_DIR=%s", usual),
                    "XDG_RUNTIME_DIR is not set in this session, so your systemd cannot be found");
    else
        doctor_tell(d, kind, "managers",
                    doctor_text("sudo loginctl enable-linger %s && export XDG_RUNTIME_DIR=%s",
                                getenv("USER") ? doctor_quote(getenv("USER")) : "$(id -un)", usual),
                    "you have no login session (su and sudo create none), so your user's systemd "
                    "does not run");
}

static void check_linger(struct doctor *d)
{
    const struct passwd *user = getpwuid(geteuid());

    if (!user || geteuid() == 0 ||
        path_exists(doctor_text("/var/lib/systemd/linger/%s", user->pw_name)))
        return;
    doctor_tell(d, FINDING_ADVICE, "managers", "loginctl enable-linger",
                "lingering is off: your services stop when you log out, and start when you log in");
}

/* Returns whether sconce needs this unit. If such a unit is masked, nothing can start the unit, and
 * sconce cannot work. The socket for TCP, for example, is not needed. */
static bool is_needed(const char *unit)
{
    const struct service_row *row = service_row_of_unit(unit);

    if (!row)
        return strcmp(unit, SETUP_TARGET) == 0;
    return row->is_needed && (strcmp(unit, row->unit) == 0 || strcmp(unit, row->socket_unit) == 0);
}

/* Reports all masked units in one finding, with the command that unmasks them. If the services of
 * this side are not used, the finding is only advice, since somebody may have masked the units on
 * purpose. */
static void check_masks(struct doctor *d, const struct doctor_side *side)
{
    _cleanup_str_ struct str names = {0}, words = {0};
    const bool wanted = side->used || d->n_sides == 1;
    bool needed = false;
    size_t n = 0;

    for (size_t i = 0; i < N_ALL_UNITS; i++) {
        struct unit_state s;

        if (!units_state(side->units, unit_name(i), &s) || strcmp(s.load, "masked") != 0)
            continue;
        needed |= is_needed(unit_name(i));
        str_printf(&names, "%s%s", n ? ", " : "", unit_name(i));
        str_printf(&words, " %s", unit_name(i));
        n++;
    }
    if (!names.data || !words.data)
        return;
    doctor_tell(d, needed && wanted ? FINDING_BROKEN : FINDING_ADVICE, "managers",
                doctor_text("%s unmask%s%s%s", doctor_systemctl(side), words.data,
                            wanted ? doctor_text(" && %s start ", doctor_systemctl(side)) : "",
                            wanted ? "sconce.target" : ""),
                "%s %s %s masked, so nothing can start %s", doctor_whose(side), names.data,
                n > 1 ? "are" : "is", n > 1 ? "them" : "it");
}

void doctor_managers(struct doctor *d)
{
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        bool reload = false;
        char version[64];

        /* Users of the machine's services need no service manager of their own. */
        if (!side->units && (side->used || d->n_sides == 1))
            check_absent(d, side);
        if (!side->units)
            continue;
        if (units_manager_text(side->units, "Version", version, sizeof(version)) &&
            atoi(version) > 0 && atoi(version) < OLDEST_SYSTEMD)
            doctor_tell(d, FINDING_ADVICE, "managers", NULL,
                        "systemd has version %s; the units need %d or newer, and older versions "
                        "leave out parts of "
                        "the sandbox",
                        version, OLDEST_SYSTEMD);
        for (size_t k = 0; k < N_ALL_UNITS; k++) {
            struct unit_state s;

            reload |= units_state(side->units, unit_name(k), &s) && s.needs_reload;
        }
        if (reload)
            doctor_tell(d, FINDING_BROKEN, "managers",
                        doctor_text("%s daemon-reload", doctor_systemctl(side)),
                        "unit files of sconce have changed since systemd loaded them");
        check_masks(d, side);
        if (side->places.user && side->used)
            check_linger(d);
    }
}

/* Returns true if the program of process @pid was replaced on disk after the process started. */
static bool is_replaced(uint32_t pid)
{
    char path[PATH_MAX];
    const ssize_t n = readlink(doctor_text("/proc/%u/exe", (unsigned)pid), path, sizeof(path) - 1);

    path[n > 0 ? n : 0] = 0;
    return strstr(path, " (deleted)") != NULL;
}

/* Compares the version of the running gateway with this program's. */
static void check_gateway(struct doctor *d, const struct doctor_side *side)
{
    _cleanup_str_ struct str body = {0};
    const char *version;
    struct inf_err err;
    json_t *j;
    int status;

    if (!side->places.socket_dir)
        return;
    status = http_get(doctor_text("unix:%s/gateway.sock", side->places.socket_dir), "/health", NULL,
                      &body, &err);
    j = status < 0 ? NULL : json_loadb(body.data ? body.data : "", body.len, 0, NULL);
    version = json_string_value(json_object_get(j, "version"));
    if (version && strcmp(version, SCONCE_VERSION) != 0)
        doctor_tell(d, FINDING_ADVICE, "versions",
                    doctor_text("%s try-restart 'sconce-*.service'", doctor_systemctl(side)),
                    "the running gateway has version %s, this program has %s", version,
                    SCONCE_VERSION);
    json_decref(j);
}

void doctor_versions(struct doctor *d)
{
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];

        for (size_t k = 0; k < N_SERVICES && side->units; k++) {
            const char *unit = service_rows[k].unit;
            struct unit_state s;

            if (!units_state(side->units, unit, &s) || strcmp(s.active, "active") != 0)
                continue;
            if (is_replaced(s.pid))
                doctor_tell(d, FINDING_ADVICE, "versions",
                            doctor_text("%s try-restart %s", doctor_systemctl(side), unit),
                            "%s runs a program whose file was replaced since it started", unit);
            else if (k == SERVICE_GATEWAY)
                check_gateway(d, side);
        }
    }
}
