/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures copies within the memory of a Vulkan device: bench-copy [DEVICE]
 *
 * Prints the speed as a line of JSON. Each byte is read and written, and therefore counts twice.
 */

#include <stdio.h>
#include <string.h>

#include "backend/vulkan/memory.h"
#include "backend/vulkan/program.h"
#include "backend/vulkan/submit.h"
#include "core/clock.h"

#define SIZE (1ull << 30)

/* Returns the seconds of one submission with @n copies; negative if the device fails. */
static double copy(struct vkb_device *dev, const struct vkb_buffer b[2], uint32_t n)
{
    const VkBufferCopy all = {.size = b[0].size};
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    const uint64_t begin = clock_nsec();
    VkCommandBuffer c = vkb_once_begin(dev);

    if (!c)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        dev->fn.CmdCopyBuffer(c, b[i % 2].handle, b[1 - i % 2].handle, 1, &all);
        dev->fn.CmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                   NULL);
    }
    return vkb_once_end(dev, c) < 0 ? -1 : (double)(clock_nsec() - begin) * 1e-9;
}

int main(int argc, char **argv)
{
    const struct backend_params params = {.device = argc > 1 ? argv[1] : "vulkan", .n_threads = 1};
    struct vkb_buffer buffers[2] = {{0}};
    struct inf_err err = {0};
    struct backend *b = NULL;
    struct vkb_device *dev;
    double best = 0;
    uint64_t size;

    if (backend_new(&params, &b, &err) < 0 || strcmp(b->ops->name, "vulkan") != 0) {
        fprintf(stderr, "bench-copy: %s\n", b ? "not a Vulkan device" : err.text);
        return 1;
    }
    dev = ((struct vkb_backend *)b)->dev;
    size = MIN(SIZE, ALIGN_UP(dev->info->caps.heap_size / 16, 4096u));
    for (int i = 0; i < 2; i++)
        if (vkb_buffer_new(dev, VKB_ON_DEVICE, size, &buffers[i], &err) < 0) {
            fprintf(stderr, "bench-copy: %s\n", err.text);
            return 1;
        }
    for (int i = 0; i < 6; i++) {
        const uint32_t n = dev->info->caps.kind == VKB_SOFTWARE ? 1 : 16;
        const double seconds = copy(dev, buffers, n);

        if (seconds < 0)
            return 1;
        best = MAX(best, 2.0 * (double)size * n / seconds);
    }
    printf("{\"device\": \"%s\", \"copy_bytes_s\": %.6g}\n", dev->info->name, best);
    for (int i = 0; i < 2; i++)
        vkb_buffer_done(dev, &buffers[i]);
    backend_free(b);
    return 0;
}
