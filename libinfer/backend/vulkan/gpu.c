/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a device with only the features that the kernels use.
 */
#include "backend/vulkan/gpu.h"

#include <errno.h>

#include "backend/vulkan/coopmat.h"
#include "backend/vulkan/memory.h"
#include "backend/vulkan/pipelines.h"
#include "core/err.h"

#define EXTENSIONS_MAX 8u

struct extensions {
    const char *names[EXTENSIONS_MAX];
    uint32_t n;
};

static void want_extension(struct extensions *e, const struct vkb_device *dev, const char *name)
{
    if (e->n < EXTENSIONS_MAX && vkb_has_extension(dev->in, dev->info->handle, name))
        e->names[e->n++] = name;
}

int vkb_fail(struct vkb_device *dev, VkResult result, const char *what, struct inf_err *reterr)
{
    const int r = vkb_errno(result);

    if (result == VK_ERROR_DEVICE_LOST)
        dev->lost = true;
    return r < 0 ? err_set(reterr, -r, "%s: %s: %s", dev->info->name, what, vkb_result_name(result))
                 : 0;
}

static int create_device(struct vkb_device *dev, struct inf_err *reterr)
{
    const struct vkb_caps *caps = &dev->info->caps;
    const float priority = 0.5f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = dev->info->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = caps->subgroup_control,
        .computeFullSubgroups = caps->subgroup_control,
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .timelineSemaphore = VK_TRUE,
        .shaderFloat16 = caps->fp16,
        .shaderInt8 = caps->int8,
        .storageBuffer8BitAccess = caps->storage8,
    };
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12,
        .storageBuffer16BitAccess = caps->storage16,
    };
    struct vkb_coopmat_features coopmat = {
        .sType = VKB_COOPMAT_FEATURES,
        .cooperativeMatrix = VK_TRUE,
    };
    VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &f11,
        .features = {.shaderInt16 = caps->int16, .robustBufferAccess = caps->checks_bounds},
    };
    struct extensions extensions = {.n = 0};
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .ppEnabledExtensionNames = extensions.names,
    };
    void **tail = &f12.pNext;
    VkResult result;

    if (caps->subgroup_control) {
        *tail = &sizes;
        tail = &sizes.pNext;
    }
    if (caps->int_dot) {
        *tail = &dot;
        tail = &dot.pNext;
    }
    if (caps->coopmat) {
        f12.vulkanMemoryModel = f12.vulkanMemoryModelDeviceScope = VK_TRUE;
        *tail = &coopmat;
        want_extension(&extensions, dev, VKB_COOPMAT_EXTENSION);
    }
    if (dev->info->api_version < VK_API_VERSION_1_3) {
        want_extension(&extensions, dev, "VK_EXT_subgroup_size_control");
        want_extension(&extensions, dev, "VK_KHR_shader_integer_dot_product");
    }
    if (caps->host_import)
        want_extension(&extensions, dev, "VK_EXT_external_memory_host");
    if (caps->memory_budget)
        want_extension(&extensions, dev, "VK_EXT_memory_budget");
    info.enabledExtensionCount = extensions.n;
    result = dev->in->fn.CreateDevice(dev->info->handle, &info, NULL, &dev->handle);
    if (result != VK_SUCCESS)
        return vkb_fail(dev, result, "the device cannot be opened", reterr);
    return vkb_loader_device_fns(&dev->in->fn, dev->handle, &dev->fn, reterr);
}

static VkResult make_layout(struct vkb_device *dev)
{
    VkDescriptorSetLayoutBinding bindings[2 * VKB_SLOTS];
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = ARRAY_SIZE(bindings),
        .pBindings = bindings,
    };
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, VKB_PUSH_MAX};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &dev->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push,
    };
    VkResult result;

    for (uint32_t i = 0; i < ARRAY_SIZE(bindings); i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = i < VKB_SLOTS ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                            : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    result = dev->fn.CreateDescriptorSetLayout(dev->handle, &set, NULL, &dev->set_layout);
    if (result != VK_SUCCESS)
        return result;
    return dev->fn.CreatePipelineLayout(dev->handle, &layout, NULL, &dev->layout);
}

static VkResult make_queue(struct vkb_device *dev)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = dev->info->queue_family,
    };
    VkResult result;

    dev->fn.GetDeviceQueue(dev->handle, dev->info->queue_family, 0, &dev->queue);
    result = dev->fn.CreateSemaphore(dev->handle, &timeline, NULL, &dev->timeline);
    if (result != VK_SUCCESS)
        return result;
    return dev->fn.CreateCommandPool(dev->handle, &pool, NULL, &dev->commands);
}

int vkb_device_new(struct vkb_instance *in, const struct vkb_device_info *info,
                   const char *cache_dir, struct vkb_device **ret_device, struct inf_err *reterr)
{
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    _cleanup_(vkb_device_freep) struct vkb_device *dev = NEW(struct vkb_device, 1);
    VkResult result;
    int r;

    if (!dev)
        return err_set(reterr, ENOMEM, "out of memory");
    if (info->unusable)
        return err_set(reterr, EOPNOTSUPP, "%s cannot be used: %s", info->name, info->unusable);
    dev->in = in;
    dev->info = info;
    in->fn.GetPhysicalDeviceMemoryProperties2(info->handle, &memory);
    dev->memory = memory.memoryProperties;
    r = create_device(dev, reterr);
    if (r < 0)
        return r;
    result = make_layout(dev);
    if (result == VK_SUCCESS)
        result = make_queue(dev);
    if (result != VK_SUCCESS)
        return vkb_fail(dev, result, "the device cannot be opened", reterr);
    r = vkb_pipelines_new(dev, cache_dir, &dev->pipelines, reterr);
    if (r < 0)
        return r;
    *ret_device = STEAL(dev);
    return 0;
}

struct vkb_device *vkb_device_free(struct vkb_device *dev)
{
    if (!dev)
        return NULL;
    if (dev->handle && dev->fn.DestroyDevice) {
        dev->fn.DeviceWaitIdle(dev->handle);
        vkb_pipelines_free(dev, dev->pipelines);
        vkb_heaps_free(dev);
        dev->fn.DestroyCommandPool(dev->handle, dev->commands, NULL);
        dev->fn.DestroySemaphore(dev->handle, dev->timeline, NULL);
        dev->fn.DestroyPipelineLayout(dev->handle, dev->layout, NULL);
        dev->fn.DestroyDescriptorSetLayout(dev->handle, dev->set_layout, NULL);
        dev->fn.DestroyDevice(dev->handle, NULL);
    }
    free(dev);
    return NULL;
}
