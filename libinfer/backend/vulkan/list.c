/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the Vulkan devices to the list of devices.
 */
#include <errno.h>
#include <stdio.h>

#include "backend/vulkan/vulkan-backend.h"
#include "backend/vulkan/instance.h"
#include "core/err.h"

static enum inf_device_kind kind_of(enum vkb_kind kind)
{
    static const enum inf_device_kind kinds[] = {
        [VKB_DISCRETE] = INF_DEVICE_DISCRETE,
        [VKB_INTEGRATED] = INF_DEVICE_INTEGRATED,
        [VKB_VIRTUAL] = INF_DEVICE_VIRTUAL,
        [VKB_SOFTWARE] = INF_DEVICE_SOFTWARE,
    };

    return kinds[kind];
}

static void fill_row(const struct vkb_instance *in, uint32_t i, struct device_row *row)
{
    const struct vkb_device_info *device = &in->devices[i];
    const struct vkb_caps *caps = &device->caps;
    struct inf_device_info *info = &row->info;

    snprintf(row->name, sizeof(row->name), "vulkan:%u", i);
    devices_set_text(row->description, sizeof(row->description), device->name);
    devices_set_text(row->driver, sizeof(row->driver), device->driver);
    snprintf(row->api, sizeof(row->api), "Vulkan %u.%u.%u",
             VK_API_VERSION_MAJOR(device->api_version), VK_API_VERSION_MINOR(device->api_version),
             VK_API_VERSION_PATCH(device->api_version));
    info->api = row->api;
    info->kind = kind_of(caps->kind);
    info->unusable = device->unusable;
    info->subgroup = caps->subgroup_size;
    info->fp16 = caps->fp16;
    info->int8_dot = caps->int_dot;
    info->cooperative_matrix = caps->coopmat;
    info->host_import = caps->host_import && caps->unified;
    vkb_memory(in, device, &info->memory_total, &info->memory_free);
    info->memory_total = MAX(info->memory_total, caps->heap_size);
    /* Without VK_EXT_memory_budget the number of free bytes would be a guess. */
    if (!caps->memory_budget)
        info->memory_free = 0;
}

int vkb_list(struct inf_device_list *list, struct inf_err *reterr)
{
    _cleanup_(vkb_instance_freep) struct vkb_instance *in = NULL;
    const int r = vkb_instance_new(&in, reterr);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < in->n_devices; i++) {
        struct device_row *row = devices_add(list);

        if (!row)
            break;
        fill_row(in, i, row);
    }
    return 0;
}
