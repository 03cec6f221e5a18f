/* SPDX-License-Identifier: Apache-2.0 */
/* Confines nothing. Builds with sanitizers use this file, because sanitizers make system calls that
 * policies forbid. */
#include "common/confine/confine.h"
#include "common/service/log.h"

int confine_start(const char *policy, const struct config *config, struct inf_err *reterr)
{
    (void)config;
    (void)reterr;
    log_warn("built without confinement; the policy %s is not applied", policy);
    return 0;
}

int confine_seal(struct inf_err *reterr)
{
    (void)reterr;
    return 0;
}

bool confine_is_outdated(void)
{
    return false;
}

bool confine_explain_path(const char *path, char *text, size_t size)
{
    (void)path;
    (void)text;
    (void)size;
    return false;
}
