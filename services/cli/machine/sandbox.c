/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of the machine that the chat service can see (see sandbox.h).
 */
#include "cli/machine/sandbox.h"

#include <stdio.h>
#include <string.h>

#include <systemd/sd-bus.h>

#include "cli/machine/places.h"
#include "cli/machine/units.h"
#include "core/file.h"

/* The directories that all units hide with TemporaryFileSystem= and PrivateTmp= */
static const char *const hidden[] = {"/var", "/opt", "/mnt", "/media", "/srv", "/tmp"};
static const char *const homes[] = {"/home", "/root", "/run/user"};

void sandbox_add(struct sandbox *s, const char *prefix, bool hides)
{
    char *copy = s->n_rules < SANDBOX_MAX_RULES ? strdup(prefix) : NULL;

    if (copy)
        s->rules[s->n_rules++] = (struct sandbox_rule){copy, hides};
}

void sandbox_default(const struct places *places, struct sandbox *ret)
{
    struct sandbox s = {0};
    const char *home = getenv("HOME");

    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
        sandbox_add(&s, hidden[i], true);
    for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
        sandbox_add(&s, homes[i], true);
    sandbox_add(&s, "/var/lib/sconce/models", false);
    if (places->user && home) {
        _cleanup_free_ char *own = path_join(home, ".local/share/sconce/models");

        if (own)
            sandbox_add(&s, own, false);
        sandbox_add(&s, places->config_dir, false);
    }
    *ret = s;
}

/* Adds a rule for each path in an array whose elements, strings or structs, have the type @type. */
static void add_paths(struct sandbox *s, sd_bus_message *m, const char *type, bool hides)
{
    const char *source, *target, *text;
    uint64_t flags;
    int ignore;

    if (sd_bus_message_enter_container(m, 'a', type) < 0)
        return;
    if (strcmp(type, "s") == 0)
        while (sd_bus_message_read(m, "s", &text) > 0)
            sandbox_add(s, text[0] == '-' ? text + 1 : text, hides);
    else if (strcmp(type, "(ss)") == 0)
        while (sd_bus_message_read(m, "(ss)", &target, &text) > 0)
            sandbox_add(s, target, hides);
    else
        while (sd_bus_message_read(m, "(ssbt)", &source, &target, &ignore, &flags) > 0)
            /* The services use the configured paths, so a bind mount counts only if its source and
             * its target are the same path. */
            if (strcmp(source, target) == 0)
                sandbox_add(s, target, hides);
}

bool sandbox_of_unit(struct units *units, const char *unit, struct sandbox *ret)
{
    static const struct {
        const char *property, *type, *inner;
        bool hides;
    } rows[] = {
        {"TemporaryFileSystem", "a(ss)", "(ss)", true},
        {"InaccessiblePaths", "as", "s", true},
        {"BindReadOnlyPaths", "a(ssbt)", "(ssbt)", false},
        {"BindPaths", "a(ssbt)", "(ssbt)", false},
    };
    _cleanup_free_ char *path = NULL, *home = NULL;
    struct sandbox s = {0};

    if (sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, &path) < 0 ||
        sd_bus_get_property_string(units_bus(units), "org.freedesktop.systemd1", path,
                                   "org.freedesktop.systemd1.Service", "ProtectHome", NULL,
                                   &home) < 0)
        return false;
    sandbox_add(&s, "/tmp", true);
    for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
        if (strcmp(home, "no") != 0 && strcmp(home, "read-only") != 0)
            sandbox_add(&s, homes[i], true);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        sd_bus_message *m = NULL;

        if (sd_bus_get_property(units_bus(units), "org.freedesktop.systemd1", path,
                                "org.freedesktop.systemd1.Service", rows[i].property, NULL, &m,
                                rows[i].type) >= 0)
            add_paths(&s, m, rows[i].inner, rows[i].hides);
        sd_bus_message_unref(m);
    }
    *ret = s;
    return true;
}

void sandbox_done(struct sandbox *s)
{
    for (size_t i = 0; i < s->n_rules; i++)
        free(s->rules[i].prefix);
    *s = (struct sandbox){0};
}

bool sandbox_hides(const struct sandbox *s, const char *path)
{
    size_t longest = 0;
    bool hides = false;

    for (size_t i = 0; i < s->n_rules; i++) {
        const size_t n = strlen(s->rules[i].prefix);

        if (n < longest || !path_is_below(path, s->rules[i].prefix))
            continue;
        /* If a path is both hidden and bound, the bind mount counts. */
        if (n == longest && !hides && longest > 0)
            continue;
        longest = n;
        hides = s->rules[i].hides;
    }
    return hides;
}
