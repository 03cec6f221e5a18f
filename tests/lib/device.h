/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the device on which tests of whole models run.
 *
 * $SCONCE_DEVICE names the device. If the variable is not set, the tests run on the CPU, once for
 * each supported instruction set level.
 */

#include <infer/device.h>

#include "core/cpu.h"
#include "lib/test.h"

struct test_target {
    const char *device, *isa; /* as in inf_engine_params */
    const char *name;         /* for messages */
    bool gpu; /* a GPU: sums depend on the number of rows, and inputs of products may be rounded */
};

/* Sets the @i-th target: a device with an instruction set. Returns false after the last target, or,
 * with a message, if the device is missing. */
static inline bool test_target_at(size_t i, struct test_target *ret_target)
{
    const char *device = getenv("SCONCE_DEVICE"), *isa = device ? NULL : cpu_rung_at(i);
    const struct inf_device_info *info;
    struct inf_device_list *list;
    struct inf_err err;
    int r;

    *ret_target = (struct test_target){device ? device : "cpu", isa, device ? device : isa, false};
    if (!device)
        return isa;
    if (i > 0)
        return false;
    ASSERT_OK_ERR(inf_devices(&list, &err), err);
    r = inf_device_list_find(list, device, &info, &err);
    if (r == 0)
        ret_target->gpu = info->kind != INF_DEVICE_CPU && info->kind != INF_DEVICE_SOFTWARE;
    inf_device_list_free(list);
    if (r < 0)
        print_message("skipped: %s\n", err.text);
    return r == 0;
}
