/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares an open device: its queue, its only pipeline layout, its memory and its pipelines.
 *
 * struct vkb_device refers to everything that belongs to a VkDevice, so that a lost device can be
 * discarded and opened again. All calls come from one thread, except that another thread may add
 * and compile pipelines while weights are loaded.
 *
 * All kernels share one pipeline layout. Descriptor set 0 has VKB_SLOTS storage buffers (bindings 0
 * …), and as many uniform texel buffers (bindings VKB_SLOTS …), which are views of the same slots.
 * Push constants have VKB_PUSH_MAX bytes.
 */

#include <stdatomic.h>

#include "backend/vulkan/instance.h"

#define VKB_SLOTS    10u
#define VKB_PUSH_MAX 128u

struct vkb_heap;      /* memory.h */
struct vkb_pipelines; /* pipelines.h */

/* Makes submissions fail on purpose, for tests of recovery. */
struct vkb_fault {
    uint64_t rng;
    double rate; /* share of submissions that lose the device */
};

struct vkb_device {
    struct vkb_instance *in;            /* borrowed */
    const struct vkb_device_info *info; /* inside in */
    VkDevice handle;
    struct vkb_device_fns fn;
    VkQueue queue;
    VkPhysicalDeviceMemoryProperties memory;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkCommandPool commands;
    VkSemaphore timeline;
    uint64_t submitted;   /* value that the timeline reaches after the last submission */
    atomic_bool lost;     /* set by any thread that uses the device */
    bool cache_read_only; /* do not write compiled pipelines to the cache */
    struct vkb_heap *heaps[VK_MAX_MEMORY_TYPES];
    struct vkb_pipelines *pipelines;
    struct vkb_fault *fault; /* borrowed; NULL: none */
};

/* Opens a device. @cache_dir: directory for compiled pipelines; NULL: none. Returns 0, -EOPNOTSUPP,
 * -ENOMEM or -EIO. */
int vkb_device_new(struct vkb_instance *in, const struct vkb_device_info *info,
                   const char *cache_dir, struct vkb_device **ret_device, struct inf_err *reterr);
/* Closes a device. Before the call, everything that was created from the device must be destroyed,
 * or the device must be lost. */
struct vkb_device *vkb_device_free(struct vkb_device *dev);
DEFINE_CLEANUP(struct vkb_device *, vkb_device_free);

/* Converts a result to a negative errno, and writes a sentence to *reterr. If the result says that
 * the device is lost, marks it as lost. */
int vkb_fail(struct vkb_device *dev, VkResult result, const char *what, struct inf_err *reterr);
