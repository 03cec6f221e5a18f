/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits work to the queue, and waits for it.
 */
#include "backend/vulkan/submit.h"

#include <errno.h>

/* A wait that takes longer means that the device hangs. A submission takes some tens of
 * milliseconds, and the watchdogs of graphics drivers end a submission after 2 to 10 s. Software
 * devices have no watchdog. */
#define LIMIT_NSEC          20000000000u
#define LIMIT_SOFTWARE_NSEC 900000000000u

static int fail_device(struct vkb_device *dev, VkResult result)
{
    return vkb_fail(dev, result, "the queue", NULL);
}

/* Returns whether this submission fails on purpose, as if the device were lost, in a test. */
static bool fault_strikes(struct vkb_fault *f)
{
    if (!f || f->rate <= 0)
        return false;
    f->rng = f->rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(f->rng >> 11) * 0x1p-53 < f->rate;
}

int vkb_submit(struct vkb_device *dev, const VkCommandBuffer *commands, uint32_t n)
{
    const uint64_t value = dev->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .commandBufferCount = n,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &dev->timeline,
    };
    VkResult result;

    if (dev->lost || fault_strikes(dev->fault))
        return fail_device(dev, VK_ERROR_DEVICE_LOST);
    result = dev->fn.QueueSubmit(dev->queue, 1, &info, VK_NULL_HANDLE);
    if (result != VK_SUCCESS)
        return fail_device(dev, result);
    dev->submitted = value;
    return 0;
}

int vkb_wait(struct vkb_device *dev, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &dev->timeline,
        .pValues = &value,
    };
    VkResult result;

    if (dev->lost)
        return -ENODEV;
    result = dev->fn.WaitSemaphores(dev->handle, &info,
                                    dev->info->caps.kind == VKB_SOFTWARE ? LIMIT_SOFTWARE_NSEC
                                                                         : LIMIT_NSEC);
    return fail_device(dev, result == VK_TIMEOUT ? VK_ERROR_DEVICE_LOST : result);
}

VkCommandBuffer vkb_once_begin(struct vkb_device *dev)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = dev->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkCommandBuffer commands;

    if (dev->lost ||
        dev->fn.AllocateCommandBuffers(dev->handle, &allocate, &commands) != VK_SUCCESS)
        return NULL;
    if (dev->fn.BeginCommandBuffer(commands, &begin) != VK_SUCCESS) {
        dev->fn.FreeCommandBuffers(dev->handle, dev->commands, 1, &commands);
        return NULL;
    }
    return commands;
}

int vkb_once_end(struct vkb_device *dev, VkCommandBuffer commands)
{
    int r = fail_device(dev, dev->fn.EndCommandBuffer(commands));

    if (r == 0)
        r = vkb_submit(dev, &commands, 1);
    if (r == 0)
        r = vkb_wait(dev, dev->submitted);
    dev->fn.FreeCommandBuffers(dev->handle, dev->commands, 1, &commands);
    return r;
}
