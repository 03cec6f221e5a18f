/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies from the host's memory into buffers that the host cannot access.
 *
 * The data pass through a ring of mapped buffers. While the device copies from some of these
 * buffers, the host fills the next one. One ring serves the loading of all weights of a plan and is
 * freed afterwards.
 */

#include "backend/vulkan/memory.h"

#define VKB_RING_N 4u

struct vkb_ring {
    struct vkb_buffer staging[VKB_RING_N];
    VkCommandBuffer commands[VKB_RING_N];
    uint64_t busy_until[VKB_RING_N]; /* value of the timeline when the copy has ended */
    uint32_t next;
};

/* Creates a ring. Returns 0 or -ENOMEM. A zeroed ring is valid and empty. */
int vkb_ring_init(struct vkb_device *dev, struct vkb_ring *ring, struct inf_err *reterr);
/* Waits for the copies in progress and frees the ring. */
void vkb_ring_done(struct vkb_device *dev, struct vkb_ring *ring);
/* Copies @size bytes from @src to @offset of @buffer, directly if the buffer is mapped. When this
 * function returns, @src may be reused. Kernels that are submitted later see the data. */
int vkb_upload(struct vkb_device *dev, struct vkb_ring *ring, const struct vkb_buffer *buffer,
               uint64_t offset, const void *src, uint64_t size);
