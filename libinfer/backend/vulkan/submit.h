/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Submits work to the device, and waits for it with a time limit.
 *
 * Each submission increments the device's timeline by one. A wait that exceeds its limit means that
 * the device hangs. The device then counts as lost.
 */

#include "backend/vulkan/gpu.h"

/* Submits @n command buffers together. Returns 0, -ENODEV if the device is lost, or another
 * negative errno. */
int vkb_submit(struct vkb_device *dev, const VkCommandBuffer *commands, uint32_t n);
/* Waits until the timeline has reached @value. */
int vkb_wait(struct vkb_device *dev, uint64_t value);

/* Begins a command buffer that is used once. Returns NULL if memory is short or the device is
 * lost. */
VkCommandBuffer vkb_once_begin(struct vkb_device *dev);
/* Ends the command buffer, submits it, waits for it, and frees it. */
int vkb_once_end(struct vkb_device *dev, VkCommandBuffer commands);
