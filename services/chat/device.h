/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The device of the chat service
 *
 * Opening a device loads files, opens device nodes and starts threads, all of which must happen
 * before the service is sealed. The device is therefore chosen together with the configuration,
 * opened under the policy that it needs, and kept open for models that are loaded later.
 */

#include <infer/device.h>

#include "core/macros.h"

struct options;

struct chat_device {
    const char *policy; /* name of the policy that the service must use; static */
    char *cache_dir;    /* for compiled kernels; NULL: they are not stored */
    char *why; /* why "auto" chose the CPU; NULL: it did not, or "auto" is not configured */
    struct inf_device *device;
    char text[320]; /* "vulkan:0 (NAME)" */
};

/* Call it before confine_start(). If the device is not available, the configuration becomes wrong:
 * see options_set_wrong(). -ENOMEM. */
int chat_device_choose(struct chat_device *d, struct options *options);
/* Call it after confine_start() and before threads start. Errors as above. */
int chat_device_open(struct chat_device *d, struct options *options);
void chat_device_done(struct chat_device *d);

/* For engines; borrowed. */
const char *chat_device_name(const struct chat_device *d);
