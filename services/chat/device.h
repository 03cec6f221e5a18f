/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses and opens the device on which the chat service computes.
 *
 * Opening a device loads files, opens device nodes and starts threads. The service gives up the
 * rights for these actions before it serves. Therefore it chooses the device as soon as it has read
 * its configuration. The device determines the policy: the system calls and paths that the service
 * may use. The service then opens the device, and keeps it open for models that are loaded later.
 */

#include <infer/device.h>

#include "chat/filler.h"
#include "core/macros.h"

struct options;

struct chat_device {
    const char *policy; /* name of the policy that the service must use; static */
    char *cache_dir;    /* directory for compiled kernels; NULL: the kernels are not stored */
    char *why; /* why "auto" chose the CPU; NULL: "auto" chose a GPU, or is not configured */
    struct filler filler; /* compiles kernels for the next start */
    struct inf_device *device;
    char text[320]; /* for example "vulkan:0 (NAME)" */
};

/* Call it before confine_start(). If the device is not available, marks the configuration as wrong
 * with options_set_wrong() and returns 0. Returns -ENOMEM if memory is short. */
int chat_device_choose(struct chat_device *d, struct options *options);
/* Call it after confine_start() and before threads start. Reports errors like
 * chat_device_choose(). */
int chat_device_open(struct chat_device *d, struct options *options);
void chat_device_done(struct chat_device *d);

/* Returns the name of the open device, for inf_engine_params; the device owns the text. */
const char *chat_device_name(const struct chat_device *d);
