/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies data to the device through a ring of staging buffers.
 */
#include "backend/vulkan/upload.h"

#include <errno.h>
#include <string.h>

#include "backend/vulkan/submit.h"
#include "core/err.h"

#define STAGING_SIZE (16ull << 20)

int vkb_ring_init(struct vkb_device *dev, struct vkb_ring *ring, struct inf_err *reterr)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = dev->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = VKB_RING_N,
    };
    VkResult result;
    int r;

    *ring = (struct vkb_ring){.next = 0};
    for (uint32_t i = 0; i < VKB_RING_N; i++) {
        r = vkb_buffer_new(dev, VKB_UPLOAD, STAGING_SIZE, &ring->staging[i], reterr);
        if (r < 0) {
            vkb_ring_done(dev, ring);
            return r;
        }
    }
    result = dev->fn.AllocateCommandBuffers(dev->handle, &allocate, ring->commands);
    if (result != VK_SUCCESS) {
        vkb_ring_done(dev, ring);
        return vkb_fail(dev, result, "command buffers cannot be created", reterr);
    }
    return 0;
}

void vkb_ring_done(struct vkb_device *dev, struct vkb_ring *ring)
{
    for (uint32_t i = 0; i < VKB_RING_N; i++) {
        if (ring->busy_until[i] > 0)
            vkb_wait(dev, ring->busy_until[i]);
        vkb_buffer_done(dev, &ring->staging[i]);
        if (ring->commands[i])
            dev->fn.FreeCommandBuffers(dev->handle, dev->commands, 1, &ring->commands[i]);
    }
    *ring = (struct vkb_ring){.next = 0};
}

/* Copies @size bytes of staging buffer @i to @offset of the buffer @to. */
static int send_staging(struct vkb_device *dev, struct vkb_ring *ring, uint32_t i, VkBuffer to,
                        uint64_t offset, uint64_t size)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    const VkBufferCopy copy = {.dstOffset = offset, .size = size};
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT,
    };
    VkCommandBuffer c = ring->commands[i];
    VkResult result;
    int r;

    result = dev->fn.BeginCommandBuffer(c, &begin);
    if (result != VK_SUCCESS)
        return vkb_fail(dev, result, "upload", NULL);
    dev->fn.CmdCopyBuffer(c, ring->staging[i].handle, to, 1, &copy);
    dev->fn.CmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
    result = dev->fn.EndCommandBuffer(c);
    if (result != VK_SUCCESS)
        return vkb_fail(dev, result, "upload", NULL);
    r = vkb_submit(dev, &c, 1);
    ring->busy_until[i] = r == 0 ? dev->submitted : 0;
    return r;
}

int vkb_upload(struct vkb_device *dev, struct vkb_ring *ring, const struct vkb_buffer *buffer,
               uint64_t offset, const void *src, uint64_t size)
{
    if (buffer->map) {
        memcpy((char *)buffer->map + offset, src, size);
        return 0;
    }
    for (uint64_t done = 0; done < size;) {
        const uint32_t i = ring->next;
        const uint64_t n = MIN(size - done, STAGING_SIZE);
        int r = 0;

        ring->next = (i + 1) % VKB_RING_N;
        if (ring->busy_until[i] > 0)
            r = vkb_wait(dev, ring->busy_until[i]);
        if (r < 0)
            return r;
        memcpy(ring->staging[i].map, (const char *)src + done, n);
        r = send_staging(dev, ring, i, buffer->handle, offset + done, n);
        if (r < 0)
            return r;
        done += n;
    }
    return 0;
}
