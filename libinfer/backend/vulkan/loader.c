/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens libvulkan and looks up its functions.
 */
#include "backend/vulkan/loader.h"

#include <dlfcn.h>
#include <errno.h>

#include "core/err.h"
#include "core/macros.h"

int vkb_loader_open(void **ret_lib, struct vkb_global_fns *ret_fn, struct inf_err *reterr)
{
    void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    struct vkb_global_fns fn = {0};

    if (!lib)
        return err_set(reterr, EOPNOTSUPP, "there is no Vulkan loader (libvulkan.so.1)");
    fn.GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)dlsym(lib, "vkGetInstanceProcAddr");
    if (!fn.GetInstanceProcAddr)
        goto broken;
#define X(name)                                                                                    \
    fn.name = (PFN_vk##name)fn.GetInstanceProcAddr(NULL, "vk" #name);                              \
    if (!fn.name)                                                                                  \
        goto broken;
    VKB_GLOBAL_FNS(X)
#undef X
    fn.EnumerateInstanceVersion =
        (PFN_vkEnumerateInstanceVersion)fn.GetInstanceProcAddr(NULL, "vkEnumerateInstanceVersion");
    *ret_lib = lib;
    *ret_fn = fn;
    return 0;

broken:
    dlclose(lib);
    return err_set(reterr, EOPNOTSUPP, "the Vulkan loader lacks functions");
}

void vkb_loader_close(void *lib)
{
    if (lib)
        dlclose(lib);
}

int vkb_loader_instance_fns(const struct vkb_global_fns *global, VkInstance instance,
                            struct vkb_instance_fns *ret_fn, struct inf_err *reterr)
{
#define X(name)                                                                                    \
    ret_fn->name = (PFN_vk##name)global->GetInstanceProcAddr(instance, "vk" #name);                \
    if (!ret_fn->name)                                                                             \
        return err_set(reterr, EOPNOTSUPP, "the Vulkan loader lacks vk" #name);
    VKB_INSTANCE_FNS(X)
#undef X
    ret_fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR =
        global->GetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return 0;
}

int vkb_loader_device_fns(const struct vkb_instance_fns *instance, VkDevice device,
                          struct vkb_device_fns *ret_fn, struct inf_err *reterr)
{
#define X(name)                                                                                    \
    ret_fn->name = (PFN_vk##name)instance->GetDeviceProcAddr(device, "vk" #name);                  \
    if (!ret_fn->name)                                                                             \
        return err_set(reterr, EOPNOTSUPP, "the Vulkan driver lacks vk" #name);
    VKB_DEVICE_FNS(X)
#undef X
#define X(name) ret_fn->name = (PFN_vk##name)instance->GetDeviceProcAddr(device, "vk" #name);
    VKB_DEVICE_EXT_FNS(X)
#undef X
    return 0;
}

const char *vkb_result_name(VkResult result)
{
    static const struct {
        VkResult result;
        const char *name;
    } names[] = {
        {VK_SUCCESS, "VK_SUCCESS"},
        {VK_TIMEOUT, "VK_TIMEOUT"},
        {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY"},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY"},
        {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED"},
        {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST"},
        {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED"},
        {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT"},
        {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT"},
        {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT"},
        {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER"},
        {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS"},
        {VK_ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL"},
        {VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY"},
        {VK_ERROR_INVALID_EXTERNAL_HANDLE, "VK_ERROR_INVALID_EXTERNAL_HANDLE"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (names[i].result == result)
            return names[i].name;
    return "an unknown Vulkan error";
}

int vkb_errno(VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return 0;
    case VK_ERROR_DEVICE_LOST:
        return -ENODEV;
    case VK_TIMEOUT:
        return -ETIMEDOUT;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return -ENOMEM;
    default:
        return -EIO;
    }
}
