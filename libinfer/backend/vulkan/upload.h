/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies from the host's memory into buffers that the host cannot access.
 *
 * The data pass through a ring of mapped buffers: while the device copies from some of them, the
 * host fills the next. One ring serves the loading of all weights of a plan and is freed
 * afterwards.
 */

#include "backend/vulkan/memory.h"

#define VKB_RING_N 4u

struct vkb_ring {
    struct vkb_buffer staging[VKB_RING_N];
    VkCommandBuffer commands[VKB_RING_N];
    uint64_t busy_until[VKB_RING_N]; /* value that the timeline then has */
    uint32_t next;
};

/* -ENOMEM. A zeroed ring is valid and empty. */
int vkb_ring_init(struct vkb_device *dev, struct vkb_ring *ring, struct inf_err *reterr);
/* Waits for the copies in progress and frees the ring. */
void vkb_ring_done(struct vkb_device *dev, struct vkb_ring *ring);
/* Copies @size bytes to @offset of @buffer; directly if the buffer is mapped. @src may be reused
 * when this returns; kernels submitted later see the data. */
int vkb_upload(struct vkb_device *dev, struct vkb_ring *ring, const struct vkb_buffer *buffer,
               uint64_t offset, const void *src, uint64_t size);
