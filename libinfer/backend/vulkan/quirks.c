/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corrects properties that a driver reports wrongly or not at all.
 */
#include "backend/vulkan/quirks.h"

#include "core/pages.h"

#define GIB (1ull << 30)

struct vkb_pretend vkb_pretend;

/* lavapipe reads storage buffers lane by lane, with a bounds check for each lane, and texel
 * buffers 16 bytes at a time. Mesa 22.3 reports a heap and a largest allocation of 2 GiB
 * (lvp_device.c) but allows more. All loops of an invocation end after 65535 rounds in total
 * (LP_MAX_TGSI_LOOP_ITERATIONS); the driver does not report this limit. */
static void quirk_lavapipe(struct vkb_device_info *info)
{
    info->caps.texel = true;
    info->caps.int_dot = false;
    info->caps.max_loops = 65535;
    info->caps.heap_size = MAX(info->caps.heap_size, pages_memory());
    info->caps.max_alloc = MAX(info->caps.max_alloc, info->caps.heap_size);
}

/* Buffers beyond 2 GiB fail: https://github.com/GPUOpen-Drivers/AMDVLK/issues/413 */
static void quirk_amdvlk(struct vkb_device_info *info)
{
    info->caps.max_alloc = MIN(info->caps.max_alloc, 2 * GIB);
    info->caps.max_range = MIN(info->caps.max_range, 2 * GIB - 4);
}

/* Invocations that a branch has disabled still execute their reads, and the address can be invalid.
 * With bounds checks enabled the driver checks addresses first. */
static void quirk_swiftshader(struct vkb_device_info *info)
{
    info->caps.checks_bounds = true;
}

void vkb_quirks_apply(struct vkb_device_info *info)
{
    switch (info->driver_id) {
    case VK_DRIVER_ID_MESA_LLVMPIPE:
        quirk_lavapipe(info);
        break;
    case VK_DRIVER_ID_AMD_OPEN_SOURCE:
    case VK_DRIVER_ID_AMD_PROPRIETARY:
        quirk_amdvlk(info);
        break;
    case VK_DRIVER_ID_GOOGLE_SWIFTSHADER:
        quirk_swiftshader(info);
        break;
    default:
        break;
    }
    if (vkb_pretend.discrete)
        info->caps.unified = info->caps.host_import = false;
    if (vkb_pretend.plain)
        info->caps.texel = false;
    if (vkb_pretend.dots)
        info->caps.int_dot = true;
}
