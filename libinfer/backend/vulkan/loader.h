/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opens the Vulkan loader at run time.
 *
 * libvulkan is not linked, so a machine without it can use the CPU. Function pointers are in tables
 * per instance and device, so that several devices can be open at once.
 */

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include <infer/types.h>

#define VKB_GLOBAL_FNS(X)                                                                          \
    X(CreateInstance)                                                                              \
    X(EnumerateInstanceExtensionProperties)

#define VKB_INSTANCE_FNS(X)                                                                        \
    X(DestroyInstance)                                                                             \
    X(EnumeratePhysicalDevices)                                                                    \
    X(GetPhysicalDeviceProperties)                                                                 \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceMemoryProperties2)                                                          \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(GetDeviceProcAddr)                                                                           \
    X(CreateDevice)

#define VKB_DEVICE_FNS(X)                                                                          \
    X(DestroyDevice)                                                                               \
    X(GetDeviceQueue)                                                                              \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(MapMemory)                                                                                   \
    X(UnmapMemory)                                                                                 \
    X(CreateBuffer)                                                                                \
    X(DestroyBuffer)                                                                               \
    X(GetBufferMemoryRequirements)                                                                 \
    X(BindBufferMemory)                                                                            \
    X(CreateBufferView)                                                                            \
    X(DestroyBufferView)                                                                           \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreatePipelineCache)                                                                         \
    X(DestroyPipelineCache)                                                                        \
    X(GetPipelineCacheData)                                                                        \
    X(CreatePipelineLayout)                                                                        \
    X(DestroyPipelineLayout)                                                                       \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)                                                                             \
    X(CreateDescriptorSetLayout)                                                                   \
    X(DestroyDescriptorSetLayout)                                                                  \
    X(CreateDescriptorPool)                                                                        \
    X(DestroyDescriptorPool)                                                                       \
    X(AllocateDescriptorSets)                                                                      \
    X(UpdateDescriptorSets)                                                                        \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(AllocateCommandBuffers)                                                                      \
    X(FreeCommandBuffers)                                                                          \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(CmdBindPipeline)                                                                             \
    X(CmdBindDescriptorSets)                                                                       \
    X(CmdPushConstants)                                                                            \
    X(CmdDispatchIndirect)                                                                         \
    X(CmdDispatch)                                                                                 \
    X(CmdPipelineBarrier)                                                                          \
    X(CmdCopyBuffer)                                                                               \
    X(CreateSemaphore)                                                                             \
    X(DestroySemaphore)                                                                            \
    X(GetSemaphoreCounterValue)                                                                    \
    X(WaitSemaphores)                                                                              \
    X(QueueSubmit)                                                                                 \
    X(DeviceWaitIdle)

/* Functions of extensions; NULL if the device does not have them. */
#define VKB_DEVICE_EXT_FNS(X) X(GetMemoryHostPointerPropertiesEXT)

#define VKB_INSTANCE_EXT_FNS(X) X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)

#define X(name) PFN_vk##name name;
struct vkb_global_fns {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion; /* NULL: Vulkan 1.0 */
    VKB_GLOBAL_FNS(X)
};

struct vkb_device_fns {
    VKB_DEVICE_FNS(X)
    VKB_DEVICE_EXT_FNS(X)
};
#undef X

struct vkb_instance_fns {
#define X(name) PFN_vk##name name;
    VKB_INSTANCE_FNS(X)
#undef X
    PFN_vkVoidFunction GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
};

/* Opens the loader. The caller closes *ret_lib with vkb_loader_close(). Returns 0, or -EOPNOTSUPP
 * if there is no loader. */
int vkb_loader_open(void **ret_lib, struct vkb_global_fns *ret_fn, struct inf_err *reterr);
void vkb_loader_close(void *lib);
/* These functions look up the functions of Vulkan. They return 0, or -EOPNOTSUPP if a function of
 * Vulkan 1.2 is missing. */
int vkb_loader_instance_fns(const struct vkb_global_fns *global, VkInstance instance,
                            struct vkb_instance_fns *ret_fn, struct inf_err *reterr);
int vkb_loader_device_fns(const struct vkb_instance_fns *instance, VkDevice device,
                          struct vkb_device_fns *ret_fn, struct inf_err *reterr);

/* Returns the name of a result, such as "VK_ERROR_DEVICE_LOST". */
const char *vkb_result_name(VkResult result);
/* Returns the negative errno for a result: -ENODEV for a lost device, -ENOMEM, -ETIMEDOUT, or -EIO.
 * Returns 0 for success. */
int vkb_errno(VkResult result);
