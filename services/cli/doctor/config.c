/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the configuration is valid and that the services can read it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "common/config/config.h"
#include "core/err.h"
#include "core/file.h"

const char *doctor_edit(const struct doctor_side *side, const char *text)
{
    const char *colon = strstr(text, ".yaml:");
    unsigned line = 0;

    if (!colon || sscanf(colon, ".yaml:%u:", &line) != 1)
        return NULL;
    return doctor_text("%s${EDITOR:-vi} +%u %s", doctor_sudo(side), line,
                       doctor_quote(doctor_text("%.*s", (int)(colon + 5 - text), text)));
}

static void check_mode(struct doctor *d, const struct doctor_side *side, const char *path,
                       mode_t wanted)
{
    struct stat st;

    if (stat(path, &st) < 0 || (st.st_mode & wanted) == wanted)
        return;
    doctor_tell(d, FINDING_BROKEN, "config",
                doctor_text("%schmod o+%s %s", doctor_sudo(side), wanted & 01 ? "rx" : "r",
                            doctor_quote(path)),
                "the machine's services have no permission to read %s (mode %04o)", path,
                (unsigned)st.st_mode & 07777);
}

/* Checks that all users may read the configuration of the system's services, which run as users of
 * their own. API keys are in a separate file. */
static void check_modes(struct doctor *d, const struct doctor_side *side)
{
    _cleanup_free_ char *main_file = path_join(side->places.config_dir, "sconce.yaml");
    _cleanup_free_ char *parts = path_join(side->places.config_dir, "sconce.d");
    const struct dirent *e;
    DIR *dir;

    if (!main_file || !parts)
        return;
    check_mode(d, side, side->places.config_dir, 05);
    check_mode(d, side, main_file, 04);
    check_mode(d, side, parts, 05);
    dir = opendir(parts);
    while (dir && (e = readdir(dir))) {
        const size_t n = strlen(e->d_name);
        _cleanup_free_ char *path = path_join(parts, e->d_name);

        if (path && n > 5 && strcmp(e->d_name + n - 5, ".yaml") == 0)
            check_mode(d, side, path, 04);
    }
    if (dir)
        closedir(dir);
}

void doctor_config(struct doctor *d)
{
    bool system_told = false;

    for (size_t i = d->n_sides; i-- > 0;) {
        struct doctor_side *side = &d->sides[i];
        struct inf_err err;
        int r;

        if (!side->places.user)
            check_modes(d, side);
        r = places_config(&side->places, &side->config, &err);
        if (r == 0 && side->places.user && config_add_other_programs(side->config) < 0)
            r = err_set(&err, ENOMEM, "out of memory");
        if (r == -EACCES && !side->places.user)
            doctor_tell(d, FINDING_UNSEEN, "config", "sudo sconce doctor --system", "%s", err.text);
        else if (r < 0 && !(side->places.user && system_told))
            doctor_tell(d, FINDING_BROKEN, "config", doctor_edit(side, err.text), "%s", err.text);
        /* A user's services also read the machine's files, whose errors were reported with the
         * machine's services. */
        system_told |= r < 0 && !side->places.user;
    }
}
