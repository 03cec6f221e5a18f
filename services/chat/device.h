/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What computes
 *
 * Drivers are files that are loaded, nodes that are opened and threads that are made: all of it
 * before the service is sealed. So the device is chosen with the configuration, opened under the
 * policy that it needs, and kept; models that come later find it open.
 */

#include <infer/device.h>

#include "core/macros.h"

struct options;

struct chat_device {
    const char *policy; /* the name of the one to follow; static */
    char *cache_dir;    /* of compiled kernels; NULL: they are not kept */
    char *why;          /* why "auto" is the CPU; NULL: it is not, or was not asked for */
    struct inf_device *device;
    char text[320]; /* "vulkan:0 (NAME)" */
};

/* Before confine_start(). A device that cannot be had makes the configuration wrong: @options says
 * so then. -ENOMEM. */
int chat_device_choose(struct chat_device *d, struct options *options);
/* After it, and before threads start. Errors as above. */
int chat_device_open(struct chat_device *d, struct options *options);
void chat_device_done(struct chat_device *d);

/* For engines; borrowed. */
const char *chat_device_name(const struct chat_device *d);
