/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists every physical device with its features, its limits and, if it is unusable, the reason.
 */
#include "backend/vulkan/instance.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/coopmat.h"
#include "backend/vulkan/quirks.h"
#include "core/err.h"

#define EXTENSIONS_MAX 512u

static struct {
    pthread_mutex_t lock;
    struct vkb_instance *in;
    unsigned n_users;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool vkb_has_extension(const struct vkb_instance *in, VkPhysicalDevice device, const char *name)
{
    VkExtensionProperties *list;
    uint32_t n = 0;
    bool found = false;

    if (in->fn.EnumerateDeviceExtensionProperties(device, NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    n = MIN(n, EXTENSIONS_MAX);
    list = NEW(VkExtensionProperties, n);
    if (!list)
        return false;
    if (in->fn.EnumerateDeviceExtensionProperties(device, NULL, &n, list) >= 0)
        for (uint32_t i = 0; i < n && !found; i++)
            found = strcmp(list[i].extensionName, name) == 0;
    free(list);
    return found;
}

static enum vkb_kind kind_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return VKB_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return VKB_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return VKB_SOFTWARE;
    default:
        return VKB_VIRTUAL;
    }
}

/* Finds a queue family that computes, preferably without graphics, so that computing does not delay
 * a display. */
static bool find_queue(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = ARRAY_SIZE(families), found = UINT32_MAX;

    in->fn.GetPhysicalDeviceQueueFamilyProperties(info->handle, &n, families);
    for (uint32_t i = 0; i < n; i++) {
        const VkQueueFlags flags = families[i].queueFlags;

        if (!(flags & VK_QUEUE_COMPUTE_BIT))
            continue;
        if (found == UINT32_MAX || !(flags & VK_QUEUE_GRAPHICS_BIT))
            found = i;
        if (!(flags & VK_QUEUE_GRAPHICS_BIT))
            break;
    }
    if (found == UINT32_MAX)
        return false;
    info->queue_family = found;
    return true;
}

/* Returns whether @p is the one matrix shape for which the kernels are written. */
static bool is_our_shape(const struct vkb_coopmat_properties *p)
{
    return p->m_size == 16 && p->n_size == 16 && p->k_size == 16 &&
           p->a_type == VKB_COMPONENT_F16 && p->b_type == VKB_COMPONENT_F16 &&
           p->c_type == VKB_COMPONENT_F32 && p->result_type == VKB_COMPONENT_F32 &&
           p->scope == VKB_SCOPE_SUBGROUP;
}

static bool has_our_shape(const struct vkb_instance *in, VkPhysicalDevice device)
{
    const vkb_coopmat_get get =
        (vkb_coopmat_get)in->fn.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    struct vkb_coopmat_properties list[VKB_COOPMATS_MAX];
    uint32_t n = ARRAY_SIZE(list);

    if (!get)
        return false;
    for (uint32_t i = 0; i < n; i++)
        list[i] = (struct vkb_coopmat_properties){.sType = VKB_COOPMAT_PROPERTIES};
    if (get(device, &n, list) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (is_our_shape(&list[i]))
            return true;
    return false;
}

static void read_coopmat(const struct vkb_instance *in, struct vkb_device_info *info)
{
    info->caps.coopmat &= vkb_has_extension(in, info->handle, VKB_COOPMAT_EXTENSION) &&
                          has_our_shape(in, info->handle);
    info->caps.coopmat_nv =
        info->caps.coopmat && vkb_has_extension(in, info->handle, "VK_NV_cooperative_matrix2");
}

static void read_memory(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    bool all_visible = true;

    in->fn.GetPhysicalDeviceMemoryProperties2(info->handle, &memory);
    for (uint32_t i = 0; i < memory.memoryProperties.memoryTypeCount; i++) {
        const VkMemoryType *type = &memory.memoryProperties.memoryTypes[i];

        if (!(type->propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
            continue;
        info->caps.heap_size =
            MAX(info->caps.heap_size, memory.memoryProperties.memoryHeaps[type->heapIndex].size);
        all_visible &= (type->propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0 ||
                       (type->propertyFlags & VK_MEMORY_PROPERTY_PROTECTED_BIT) != 0;
    }
    info->caps.unified =
        info->caps.kind == VKB_SOFTWARE || (info->caps.kind == VKB_INTEGRATED && all_visible);
    info->caps.memory_budget = vkb_has_extension(in, info->handle, "VK_EXT_memory_budget");
}

static void read_features(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &f11};
    struct vkb_caps *caps = &info->caps;

    in->fn.GetPhysicalDeviceFeatures2(info->handle, &f);
    caps->fp16 = f12.shaderFloat16;
    caps->int8 = f12.shaderInt8;
    caps->int16 = f.features.shaderInt16;
    caps->storage8 = f12.storageBuffer8BitAccess;
    caps->storage16 = f11.storageBuffer16BitAccess;
    /* The extension needs F16 and the Vulkan memory model. Kernels without matrices use device
     * scope, which needs a feature of its own where this memory model is enabled. */
    caps->coopmat = f12.shaderFloat16 && f12.vulkanMemoryModel && f12.vulkanMemoryModelDeviceScope;
    if (!f12.timelineSemaphore)
        info->unusable = "it has no timeline semaphores";
}

static void read_dot(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &dot};

    if (info->api_version < VK_API_VERSION_1_3 &&
        !vkb_has_extension(in, info->handle, "VK_KHR_shader_integer_dot_product"))
        return;
    in->fn.GetPhysicalDeviceProperties2(info->handle, &p);
    info->caps.int_dot = dot.integerDotProduct4x8BitPackedSignedAccelerated;
}

static void read_subgroups(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &control};
    VkPhysicalDeviceSubgroupProperties sub = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &sub};
    struct vkb_caps *caps = &info->caps;

    caps->subgroup_control = info->api_version >= VK_API_VERSION_1_3 ||
                             vkb_has_extension(in, info->handle, "VK_EXT_subgroup_size_control");
    if (caps->subgroup_control) {
        sub.pNext = &sizes;
        in->fn.GetPhysicalDeviceFeatures2(info->handle, &f);
        caps->subgroup_control = control.subgroupSizeControl && control.computeFullSubgroups;
    }
    in->fn.GetPhysicalDeviceProperties2(info->handle, &p);
    caps->subgroup_size = caps->subgroup_min = caps->subgroup_max = sub.subgroupSize;
    if (caps->subgroup_control && sizes.minSubgroupSize > 0) {
        caps->subgroup_min = sizes.minSubgroupSize;
        caps->subgroup_max = sizes.maxSubgroupSize;
        caps->subgroup_control &=
            (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    }
    if (sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        caps->subgroup_arithmetic = sub.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
        caps->subgroup_shuffle = sub.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    }
}

static void read_properties(const struct vkb_instance *in, struct vkb_device_info *info)
{
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceVulkan12Properties p12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties p11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &p12};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &p11};
    const VkPhysicalDeviceLimits *limits = &p.properties.limits;
    struct vkb_caps *caps = &info->caps;

    caps->host_import = vkb_has_extension(in, info->handle, "VK_EXT_external_memory_host");
    if (caps->host_import)
        p12.pNext = &import;
    in->fn.GetPhysicalDeviceProperties2(info->handle, &p);
    snprintf(info->driver, sizeof(info->driver), "%s %s", p12.driverName, p12.driverInfo);
    info->driver_id = p12.driverID;
    caps->import_align = import.minImportedHostPointerAlignment;
    caps->shared_size = limits->maxComputeSharedMemorySize;
    caps->max_invocations = limits->maxComputeWorkGroupInvocations;
    caps->max_range = limits->maxStorageBufferRange;
    caps->max_texels = limits->maxTexelBufferElements;
    caps->max_alloc = p11.maxMemoryAllocationSize;
    caps->offset_align = (uint32_t)MAX(limits->minStorageBufferOffsetAlignment,
                                       limits->minTexelBufferOffsetAlignment);
}

static void read_device(const struct vkb_instance *in, VkPhysicalDevice handle,
                        struct vkb_device_info *info)
{
    VkPhysicalDeviceProperties p;

    in->fn.GetPhysicalDeviceProperties(handle, &p);
    *info = (struct vkb_device_info){
        .handle = handle,
        .api_version = p.apiVersion,
        .driver_version = p.driverVersion,
        .vendor_id = p.vendorID,
        .device_id = p.deviceID,
        .caps = {.kind = kind_of(p.deviceType)},
    };
    snprintf(info->name, sizeof(info->name), "%s", p.deviceName);
    memcpy(info->pipeline_uuid, p.pipelineCacheUUID, sizeof(info->pipeline_uuid));
    if (p.apiVersion < VK_API_VERSION_1_2) {
        info->unusable = "its driver has no Vulkan 1.2";
        return;
    }
    read_features(in, info);
    read_properties(in, info);
    read_subgroups(in, info);
    read_dot(in, info);
    read_memory(in, info);
    read_coopmat(in, info);
    if (!find_queue(in, info))
        info->unusable = "it cannot compute";
    vkb_quirks_apply(info);
}

static void sort_devices(struct vkb_instance *in)
{
    for (uint32_t i = 1; i < in->n_devices; i++)
        for (uint32_t j = i; j > 0 && in->devices[j].caps.kind < in->devices[j - 1].caps.kind;
             j--) {
            const struct vkb_device_info worse = in->devices[j - 1];

            in->devices[j - 1] = in->devices[j];
            in->devices[j] = worse;
        }
}

static int list_devices(struct vkb_instance *in, struct inf_err *reterr)
{
    VkPhysicalDevice handles[VKB_DEVICES_MAX];
    uint32_t n = ARRAY_SIZE(handles);
    const VkResult result = in->fn.EnumeratePhysicalDevices(in->handle, &n, handles);

    if (result < 0)
        return err_set(reterr, EOPNOTSUPP, "the Vulkan drivers report no devices: %s",
                       vkb_result_name(result));
    if (n == 0)
        return err_set(reterr, EOPNOTSUPP, "there is no Vulkan device");
    for (uint32_t i = 0; i < n; i++)
        read_device(in, handles[i], &in->devices[in->n_devices++]);
    sort_devices(in);
    return 0;
}

static struct vkb_instance *close_instance(struct vkb_instance *in)
{
    if (!in)
        return NULL;
    if (in->handle && in->fn.DestroyInstance)
        in->fn.DestroyInstance(in->handle, NULL);
    vkb_loader_close(in->lib);
    free(in);
    return NULL;
}
DEFINE_CLEANUP(struct vkb_instance *, close_instance);

static int open_instance(struct vkb_instance **ret_instance, struct inf_err *reterr)
{
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "sconce",
        .apiVersion = VK_API_VERSION_1_3,
    };
    const VkInstanceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &app,
    };
    _cleanup_(close_instancep) struct vkb_instance *in = NEW(struct vkb_instance, 1);
    uint32_t version = VK_API_VERSION_1_0;
    VkResult result;
    int r;

    if (!in)
        return err_set(reterr, ENOMEM, "out of memory");
    r = vkb_loader_open(&in->lib, &in->global, reterr);
    if (r < 0)
        return r;
    if (in->global.EnumerateInstanceVersion)
        in->global.EnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2)
        return err_set(reterr, EOPNOTSUPP, "the Vulkan loader is older than Vulkan 1.2");
    result = in->global.CreateInstance(&create, NULL, &in->handle);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return err_set(reterr, EOPNOTSUPP, "no Vulkan driver is installed");
    if (result != VK_SUCCESS)
        return err_set(reterr, EOPNOTSUPP, "Vulkan cannot be initialized: %s",
                       vkb_result_name(result));
    r = vkb_loader_instance_fns(&in->global, in->handle, &in->fn, reterr);
    if (r == 0)
        r = list_devices(in, reterr);
    if (r < 0)
        return r;
    *ret_instance = STEAL(in);
    return 0;
}

int vkb_instance_new(struct vkb_instance **ret_instance, struct inf_err *reterr)
{
    int r = 0;

    pthread_mutex_lock(&shared.lock);
    if (shared.n_users == 0)
        r = open_instance(&shared.in, reterr);
    if (r == 0) {
        shared.n_users++;
        *ret_instance = shared.in;
    }
    pthread_mutex_unlock(&shared.lock);
    return r;
}

struct vkb_instance *vkb_instance_free(struct vkb_instance *in)
{
    if (!in)
        return NULL;
    pthread_mutex_lock(&shared.lock);
    assert(in == shared.in && shared.n_users > 0);
    if (--shared.n_users == 0)
        shared.in = close_instance(shared.in);
    pthread_mutex_unlock(&shared.lock);
    return NULL;
}

void vkb_memory(const struct vkb_instance *in, const struct vkb_device_info *info,
                uint64_t *ret_total, uint64_t *ret_free)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = info->caps.memory_budget ? &budget : NULL};

    in->fn.GetPhysicalDeviceMemoryProperties2(info->handle, &memory);
    *ret_total = *ret_free = 0;
    for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];
        const uint64_t used = budget.heapUsage[i], limit = budget.heapBudget[i];

        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size < *ret_total)
            continue;
        *ret_total = heap->size;
        *ret_free = heap->size;
        if (info->caps.memory_budget)
            *ret_free = limit > used ? limit - used : 0;
    }
}
