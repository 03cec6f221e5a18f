/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Giving work to the device, and waiting for it within limits
 *
 * Each submission raises the device's timeline by one. A wait that outlasts its limit means that
 * the device hangs: it counts as lost.
 */

#include "backend/vulkan/gpu.h"

/* One submission of @n command buffers. 0 or a negative errno; -ENODEV: the device is lost. */
int vkb_submit(struct vkb_device *dev, const VkCommandBuffer *commands, uint32_t n);
/* Until the timeline has reached @value. */
int vkb_wait(struct vkb_device *dev, uint64_t value);

/* A command buffer for something that is done once, begun; NULL: no memory or the device is lost.
 */
VkCommandBuffer vkb_once_begin(struct vkb_device *dev);
/* Ends, submits, waits, frees. */
int vkb_once_end(struct vkb_device *dev, VkCommandBuffer commands);
