/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks sockets, ports, API keys and groups.
 *
 * The checks do not connect to sockets, because that would start services. They read from the
 * kernel's tables which sockets listen.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/api-keys.h"
#include "cli/machine/manager.h"
#include "cli/machine/ports.h"
#include "cli/machine/units.h"
#include "cli/setup/setup.h"
#include "common/config/config.h"
#include "common/config/key-file.h"
#include "common/config/service-table.h"
#include "core/file.h"

/* Returns true if a process listens on the unix socket @path. */
static bool doors_listens(const char *path)
{
    FILE *f = fopen("/proc/net/unix", "re");
    bool found = false;
    char line[512];

    while (f && !found && fgets(line, sizeof(line), f)) {
        unsigned flags;
        int at = 0;

        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%*x: %*x %*x %x %*x %*x %*u %n", &flags, &at) == 1 && at > 0)
            found = (flags & 0x10000) && strcmp(line + at, path) == 0;
    }
    if (f)
        fclose(f);
    return found;
}

/* Returns true if no socket listens and no socket has failed, which means that somebody stopped all
 * sockets. */
static bool all_are_stopped(const struct doctor_side *side)
{
    struct unit_state tcp;
    size_t n = 0;

    for (size_t i = 0; i < SETUP_N_SOCKETS; i++)
        if (units_state(side->units, setup_sockets[i].unit, &tcp) &&
            strcmp(tcp.active, "inactive") != 0)
            return false;
    for (size_t i = 0; i < N_SERVICES; i++) {
        struct unit_state s;

        if (!units_state(side->units, service_rows[i].socket_unit, &s) ||
            strcmp(s.load, "loaded") != 0)
            continue;
        if (strcmp(s.active, "inactive") != 0)
            return false;
        n++;
    }
    return n > 1;
}

/* Checks the target. Returns false if the sockets need no checks of their own, because the state of
 * the target explains the state of the sockets. */
static bool check_target(struct doctor *d, const struct doctor_side *side)
{
    struct unit_state s;

    if (side->masked)
        return false;
    if (!units_state(side->units, SETUP_TARGET, &s))
        return true;
    if (strcmp(s.active, "active") != 0) {
        doctor_tell(d, FINDING_BROKEN, "doors",
                    doctor_text("%s start %s", doctor_systemctl(side), SETUP_TARGET),
                    "all of sconce is stopped: %s %s is %s, though it is enabled",
                    doctor_whose(side), SETUP_TARGET, s.active);
        return false;
    }
    if (all_are_stopped(side)) {
        doctor_tell(d, FINDING_BROKEN, "doors",
                    doctor_text("%s restart %s", doctor_systemctl(side), SETUP_TARGET),
                    "all of sconce is stopped: none of %s sockets listens", doctor_whose(side));
        return false;
    }
    if (!manager_is_enabled(&side->places, SETUP_TARGET))
        doctor_tell(
            d, FINDING_ADVICE, "doors",
            doctor_text("%ssconce setup %s", doctor_sudo(side), places_option(&side->places)),
            "%s %s is not enabled: its sockets will not open after the next %s", doctor_whose(side),
            SETUP_TARGET, side->places.user ? "login" : "boot");
    return true;
}

/* Returns whether a unit is masked. If a service is masked, its socket cannot start either;
 * doctor_managers() reports the service. */
static bool is_masked(const struct doctor_side *side, const char *unit)
{
    struct unit_state s;

    return units_state(side->units, unit, &s) && strcmp(s.load, "masked") == 0;
}

/* Checks a socket. A socket cannot start while its service runs, so the command in the finding
 * stops the service first. */
static void check_socket(struct doctor *d, const struct doctor_side *side,
                         const struct service_row *row)
{
    const char *socket = row->socket_unit;
    const char *command = doctor_text("%s stop %s && %s restart %s", doctor_systemctl(side),
                                      row->unit, doctor_systemctl(side), socket);
    struct unit_state s;
    struct stat st;

    if (!units_state(side->units, socket, &s) || strcmp(s.load, "loaded") != 0 ||
        is_masked(side, row->unit))
        return;
    if (strcmp(s.active, "active") != 0)
        doctor_tell(d, FINDING_BROKEN, "doors", command, "%s %s is %s%s%s", doctor_whose(side),
                    socket, s.active, s.result[0] && strcmp(s.result, "success") ? ": " : "",
                    s.result[0] && strcmp(s.result, "success") ? s.result : "");
    else if (s.n_listen > 0 && s.listen[0][0] == '/' && lstat(s.listen[0], &st) < 0 &&
             errno == ENOENT)
        doctor_tell(d, FINDING_BROKEN, "doors", command,
                    "%s was removed, though %s listens: nobody can connect", s.listen[0], socket);
}

/* Checks that the groups to which the machine's sockets belong exist. Without these groups systemd
 * cannot open the sockets. */
static void check_groups(struct doctor *d, const struct doctor_side *side)
{
    static const char *const names[] = {"sconce", "sconce-services", "sconce-kv", "sconce-kept",
                                        "sconce-store"};

    for (size_t i = 0; i < ARRAY_SIZE(names) && !side->places.user; i++)
        if (!getgrnam(names[i]))
            doctor_tell(d, FINDING_BROKEN, "doors",
                        doctor_text("%ssystemd-sysusers sconce.conf", doctor_sudo(side)),
                        "the group %s does not exist, and the machine's sockets need it", names[i]);
}

/* Checks that the group sconce may not use the socket of a service behind the gateway. Such a
 * service trusts every client, so only the gateway may use the socket. An older version of sconce
 * gave the group access. */
static void check_inner_socket(struct doctor *d, const struct doctor_side *side,
                               const struct service_row *row)
{
    const char *path = doctor_text("%s/%s", side->places.socket_dir, row->socket);
    const struct group *group = getgrnam("sconce");
    struct stat st;

    if (!side->places.user && group && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_gid == group->gr_gid)
        doctor_tell(d, FINDING_BROKEN, "doors",
                    doctor_text("%ssystemd-tmpfiles --create sconce.conf", doctor_sudo(side)),
                    "the group sconce may use %s: its members can send requests in the name of "
                    "other users, and "
                    "the gateway may have no access",
                    path);
}

static void check_port(struct doctor *d, const struct doctor_side *side,
                       const struct setup_socket *socket)
{
    const unsigned port = setup_port(&side->places, socket);
    struct port_owner owner;
    struct unit_state s;
    char who[200];

    if (!units_state(side->units, socket->unit, &s) || strcmp(s.active, "active") == 0 ||
        !manager_is_enabled(&side->places, socket->unit))
        return;
    if (port_find_owner("", port, &owner)) {
        port_describe(&owner, who, sizeof(who));
        doctor_tell(d, FINDING_BROKEN, "doors",
                    doctor_text("%ssconce setup %s %s --port %u", doctor_sudo(side), socket->noun,
                                places_option(&side->places), port_next_free(MAX(port, 1024u))),
                    "port %u is taken by %s, so %s TCP port is closed", port, who,
                    doctor_whose(side));
    } else {
        doctor_tell(d, FINDING_BROKEN, "doors",
                    doctor_text("%ssconce setup %s %s", doctor_sudo(side), socket->noun,
                                places_option(&side->places)),
                    "%s %s is %s, though it is enabled", doctor_whose(side), socket->unit,
                    s.active);
    }
}

static bool tcp_is_open(const struct doctor_side *side)
{
    struct unit_state s;

    for (size_t i = 0; side->units && i < SETUP_N_SOCKETS; i++)
        if (units_state(side->units, setup_sockets[i].unit, &s) && strcmp(s.active, "active") == 0)
            return true;
    return false;
}

/* Checks that the calling user, unless it is root, may use the machine's unix socket. */
static void check_group(struct doctor *d, const struct doctor_side *side)
{
    const char *path = doctor_text("%s/gateway.sock", side->places.socket_dir);
    const struct group *group = getgrnam("sconce");
    const struct passwd *user = getpwuid(geteuid());
    bool member = false;

    /* Users with services of their own do not need the machine's socket. */
    if (geteuid() == 0 || side->places.user || (d->sides[0].places.user && d->sides[0].used) ||
        !path_exists(path) || access(path, R_OK | W_OK) == 0 || !group || !user)
        return;
    for (char **m = group->gr_mem; *m; m++)
        member |= strcmp(*m, user->pw_name) == 0;
    doctor_tell(
        d, tcp_is_open(side) ? FINDING_ADVICE : FINDING_BROKEN, "doors",
        member ? "newgrp sconce"
               : doctor_text("sudo usermod -aG sconce %s", doctor_quote(user->pw_name)),
        member ? "you are in the group sconce, but joined after this session started: log in again"
               : "you have no permission to use %s: only members of the group sconce may use it. "
                 "Join the group and log in again, or set up services of your own: sconce setup",
        path);
}

void doctor_doors(struct doctor *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];

        any |= side->used;
        if (!side->used || !side->units)
            continue;
        check_groups(d, side);
        if (!check_target(d, side))
            continue;
        for (size_t k = 0; k < N_SERVICES; k++)
            check_socket(d, side, &service_rows[k]);
        for (size_t k = 0; k < N_BACKENDS; k++)
            check_inner_socket(d, side, service_backends[k]);
        for (size_t k = 0; k < SETUP_N_SOCKETS; k++)
            check_port(d, side, &setup_sockets[k]);
        check_group(d, side);
    }
    for (size_t i = 0; i < d->n_sides; i++)
        any |= d->sides[i].masked;
    for (size_t i = 0; i < d->n_sides && !any; i++)
        if (d->sides[i].places.socket_dir &&
            doors_listens(doctor_text("%s/gateway.sock", d->sides[i].places.socket_dir)))
            d->other_door = true;
    if (!any && !d->other_door)
        doctor_tell(
            d, FINDING_BROKEN, "doors",
            sd_booted() > 0
                ? (d->n_sides && d->sides[0].places.user ? "sconce setup" : "sconce setup --system")
                : "sconce serve",
            "no socket of sconce is open%s",
            sd_booted() > 0 ? "" : ", and systemd, which opens them, does not run");
}

static void check_key_file(struct doctor *d, const struct doctor_side *side)
{
    const char *path = doctor_quote(side->places.key_file);
    struct stat st;

    if (stat(side->places.key_file, &st) < 0)
        return;
    if (st.st_mode & 077)
        doctor_tell(d, FINDING_BROKEN, "keys",
                    doctor_text("%schmod 600 %s", doctor_sudo(side), path),
                    "other users can read the API keys in %s (mode %04o)", side->places.key_file,
                    (unsigned)st.st_mode & 07777);
    if (st.st_uid != (side->places.user ? geteuid() : 0))
        doctor_tell(d, FINDING_BROKEN, "keys",
                    doctor_text("sudo chown %s %s", side->places.user ? "\"$USER\"" : "root", path),
                    "%s belongs to user %u", side->places.key_file, (unsigned)st.st_uid);
}

/* Returns whether a socket of this side is open and requires a key. */
static bool asks_for_keys(const struct doctor_side *side)
{
    return (tcp_is_open(side) && side->config->gateway.tcp_access == CONFIG_TCP_KEY) ||
           (side->used && side->config->gateway.unix_access == CONFIG_UNIX_KEY);
}

void doctor_keys(struct doctor *d)
{
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        const bool needs_some =
            side->config && !side->config->gateway.api_keys.n && asks_for_keys(side);
        _cleanup_(key_list_done) struct key_list keys = {0};
        struct inf_err err;
        int r;

        check_key_file(d, side);
        r = api_keys_load(side->places.key_file, &keys, &err);
        if (r == -EACCES && needs_some)
            doctor_tell(d, FINDING_UNSEEN, "keys", "sudo sconce doctor --system",
                        "the API keys of the machine: only root may read %s",
                        side->places.key_file);
        else if (r < 0 && r != -EACCES)
            doctor_tell(d, FINDING_BROKEN, "keys",
                        r == -EINVAL ? doctor_text("%s${EDITOR:-vi} %s", doctor_sudo(side),
                                                   doctor_quote(side->places.key_file))
                                     : NULL,
                        "%s", err.text);
        else if (r == 0 && needs_some && keys.n == 0)
            doctor_tell(d, FINDING_BROKEN, "keys",
                        doctor_text("%ssconce setup key %s", doctor_sudo(side),
                                    places_option(&side->places)),
                        "%s gateway requires an API key, but there is no key", doctor_whose(side));
    }
}
