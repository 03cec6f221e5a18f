/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the programs of sconce (see program.h). */
#include "common/config/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *program_find(const char *name)
{
    char exe[PATH_MAX], path[PATH_MAX + 128];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash;

    if (n > 0) {
        exe[n] = 0;
        slash = strrchr(exe, '/');
        if (slash)
            *slash = 0;
        snprintf(path, sizeof(path), "%s/../%s/sconce-%s", exe, name, name);
        if (access(path, X_OK) == 0)
            return strdup(path);
        snprintf(path, sizeof(path), "%s/../libexec/sconce/sconce-%s", exe, name);
        if (access(path, X_OK) == 0)
            return strdup(path);
    }
    snprintf(path, sizeof(path), "%s/sconce-%s", SCONCE_LIBEXECDIR, name);
    return access(path, X_OK) == 0 ? strdup(path) : NULL;
}
