/* SPDX-License-Identifier: Apache-2.0 */

/* Replaces the checks of devices in builds without backends (arm64.sh). */

#include "harness.h"

unsigned devices_run(const struct selection *sel, struct check *current, unsigned *n_failed)
{
    (void)sel;
    (void)current;
    (void)n_failed;
    return 0;
}

void devices_list(void)
{
}
