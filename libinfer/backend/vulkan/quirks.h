/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Corrects faults and peculiarities of drivers.
 *
 * All code that depends on a particular driver is here, with a reference to a report of the fault
 * or to the driver's source where there is one.
 */

#include "backend/vulkan/instance.h"

/* Settings with which a software device behaves like a GPU, for tests without a GPU. They are read
 * when devices are listed and opened. */
struct vkb_pretend {
    bool discrete;        /* has memory of its own: staging, copies, no imported pages */
    bool plain;           /* no texel buffers */
    bool dots;            /* reports fast products of packed bytes */
    uint64_t submit_usec; /* limit of a submission's time; 0: the default */
};
extern struct vkb_pretend vkb_pretend;

/* Corrects the properties that the driver reports. */
void vkb_quirks_apply(struct vkb_device_info *info);
