/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of sconce's units (see units.h).
 */
#include "cli/machine/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-bus.h>

#include "core/text.h"
#include "core/utf8.h"

struct units {
    sd_bus *bus;
};

/* Connects to systemd's private socket, which works without a bus daemon, for example in a small
 * container. */
static int open_private(bool user, sd_bus **ret_bus)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    _cleanup_free_ char *address = NULL;
    sd_bus *bus = NULL;
    int r;

    if (user ? !run || run[0] != '/' || strchr(run, ',') || strchr(run, ';') : geteuid() != 0)
        return -ENOENT;
    if (asprintf(&address, "unix:path=%s/systemd/private", user ? run : "/run") < 0) {
        address = NULL;
        return -ENOMEM;
    }
    r = sd_bus_new(&bus);
    if (r >= 0)
        r = sd_bus_set_address(bus, address);
    if (r >= 0)
        r = sd_bus_start(bus);
    if (r < 0) {
        sd_bus_close_unref(bus);
        return r;
    }
    *ret_bus = bus;
    return 0;
}

int units_open(bool user, struct units **ret_units)
{
    _cleanup_(units_closep) struct units *u = NEW(struct units, 1);
    int r;

    if (!u)
        return -ENOMEM;
    r = open_private(user, &u->bus);
    if (r < 0)
        r = user ? sd_bus_open_user(&u->bus) : sd_bus_open_system(&u->bus);
    if (r < 0)
        return r;
    sd_bus_set_method_call_timeout(u->bus, 3000000);
    *ret_units = STEAL(u);
    return 0;
}

struct units *units_close(struct units *u)
{
    if (!u)
        return NULL;
    sd_bus_flush_close_unref(u->bus);
    free(u);
    return NULL;
}

struct sd_bus *units_bus(struct units *u)
{
    return u->bus;
}

static bool units_text(struct units *u, const char *path, const char *interface,
                       const char *property, char *out, size_t size)
{
    _cleanup_free_ char *value = NULL;

    if (sd_bus_get_property_string(u->bus, "org.freedesktop.systemd1", path, interface, property,
                                   NULL, &value) < 0)
        return false;
    snprintf(out, size, "%s", value);
    /* snprintf() may have cut the text within a character. */
    out[utf8_valid_prefix(out, strlen(out))] = 0;
    return true;
}

bool units_manager_text(struct units *u, const char *property, char *out, size_t size)
{
    return units_text(u, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", property,
                      out, size);
}

static bool units_flag(struct units *u, const char *path, const char *interface,
                       const char *property)
{
    int value = 0;

    return sd_bus_get_property_trivial(u->bus, "org.freedesktop.systemd1", path, interface,
                                       property, NULL, 'b', &value) >= 0 &&
           value;
}

static void take_listen(struct units *u, const char *path, struct unit_state *s)
{
    const char *kind, *address;
    sd_bus_message *m = NULL;

    if (sd_bus_get_property(u->bus, "org.freedesktop.systemd1", path,
                            "org.freedesktop.systemd1.Socket", "Listen", NULL, &m, "a(ss)") >= 0 &&
        sd_bus_message_enter_container(m, 'a', "(ss)") >= 0)
        while (s->n_listen < UNITS_MAX_LISTEN &&
               sd_bus_message_read(m, "(ss)", &kind, &address) > 0)
            snprintf(s->listen[s->n_listen++], sizeof(s->listen[0]), "%s", address);
    sd_bus_message_unref(m);
}

bool units_state(struct units *u, const char *name, struct unit_state *ret_state)
{
    static const char unit[] = "org.freedesktop.systemd1.Unit";
    static const char service[] = "org.freedesktop.systemd1.Service";
    static const char socket[] = "org.freedesktop.systemd1.Socket";
    struct unit_state s = {0};
    _cleanup_free_ char *path = NULL;

    if (sd_bus_path_encode("/org/freedesktop/systemd1/unit", name, &path) < 0)
        return false;
    if (!units_text(u, path, unit, "LoadState", s.load, sizeof(s.load)) ||
        !units_text(u, path, unit, "ActiveState", s.active, sizeof(s.active)))
        return false;
    s.needs_reload = units_flag(u, path, unit, "NeedDaemonReload");
    if (text_ends_with(name, ".service")) {
        units_text(u, path, service, "StatusText", s.status, sizeof(s.status));
        units_text(u, path, service, "Result", s.result, sizeof(s.result));
        s.denies_code = units_flag(u, path, service, "MemoryDenyWriteExecute");
        if (sd_bus_get_property_trivial(u->bus, "org.freedesktop.systemd1", path, service,
                                        "MainPID", NULL, 'u', &s.pid) < 0)
            s.pid = 0;
    } else if (text_ends_with(name, ".socket")) {
        units_text(u, path, socket, "Result", s.result, sizeof(s.result));
        take_listen(u, path, &s);
    }
    *ret_state = s;
    return true;
}
