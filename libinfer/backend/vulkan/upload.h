/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the host's memory into buffers that it cannot reach
 *
 * A ring of mapped buffers: while the device copies out of some, the next is filled. The ring
 * lives as long as there is something to load, and serves all of it.
 */

#include "backend/vulkan/memory.h"

#define VKB_RING_N 4u

struct vkb_ring {
    struct vkb_buffer staging[VKB_RING_N];
    VkCommandBuffer commands[VKB_RING_N];
    uint64_t busy_until[VKB_RING_N]; /* value of the timeline */
    uint32_t next;
};

/* -ENOMEM. A zeroed ring is none. */
int vkb_ring_init(struct vkb_device *dev, struct vkb_ring *ring, struct inf_err *reterr);
/* Waits for what is under way. */
void vkb_ring_done(struct vkb_device *dev, struct vkb_ring *ring);
/* Copies @size bytes to @offset of @buffer: at once where it is mapped. @src may be used again
 * when this returns; kernels submitted later see the data. */
int vkb_upload(struct vkb_device *dev, struct vkb_ring *ring, const struct vkb_buffer *buffer,
               uint64_t offset, const void *src, uint64_t size);
