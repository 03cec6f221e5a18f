/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-bus.h>

struct units {
    sd_bus *bus;
};

int units_open(bool user, struct units **ret_units)
{
    _cleanup_(units_closep) struct units *u = NEW(struct units, 1);
    int r;

    if (!u)
        return -ENOMEM;
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

static bool text(struct units *u, const char *path, const char *interface, const char *property,
                 char *out, size_t size)
{
    _cleanup_free_ char *value = NULL;

    if (sd_bus_get_property_string(u->bus, "org.freedesktop.systemd1", path, interface, property,
                                   NULL, &value) < 0)
        return false;
    snprintf(out, size, "%s", value);
    return true;
}

bool units_state(struct units *u, const char *name, struct unit_state *ret_state)
{
    static const char unit[] = "org.freedesktop.systemd1.Unit";
    static const char service[] = "org.freedesktop.systemd1.Service";
    struct unit_state s = {0};
    _cleanup_free_ char *path = NULL;

    if (sd_bus_path_encode("/org/freedesktop/systemd1/unit", name, &path) < 0)
        return false;
    if (!text(u, path, unit, "LoadState", s.load, sizeof(s.load)) ||
        !text(u, path, unit, "ActiveState", s.active, sizeof(s.active)))
        return false;
    text(u, path, service, "StatusText", s.status, sizeof(s.status));
    if (sd_bus_get_property_trivial(u->bus, "org.freedesktop.systemd1", path, service, "MainPID",
                                    NULL, 'u', &s.pid) < 0)
        s.pid = 0;
    *ret_state = s;
    return true;
}
