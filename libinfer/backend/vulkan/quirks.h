/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Faults and habits of drivers
 *
 * Everything that is done differently for one driver alone stands here, with the place where the
 * fault is told.
 */

#include "backend/vulkan/instance.h"

/* For tests, where no GPU is at hand: a device in software that behaves like one. Read when devices
 * are listed and opened. */
struct vkb_pretend {
    bool discrete;        /* memory of its own: staging, copies, no imported pages */
    bool plain;           /* no texel buffers */
    bool dots;            /* products of packed bytes in hardware */
    uint64_t submit_usec; /* longest submission; 0: as usual */
};
extern struct vkb_pretend vkb_pretend;

/* Corrects what the driver says of itself. */
void vkb_quirks_apply(struct vkb_device_info *info);
