/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements inf_devices() and inf_device_open().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/handle.h"
#include "backend/devices.h"
#include "backend/vulkan/vulkan-backend.h"
#include "core/err.h"

struct inf_device {
    struct inf_device_list *list; /* contains `info` */
    const struct inf_device_info *info;
    struct vkb_held *held; /* NULL: the CPU */
    char why[sizeof(((struct inf_err *)NULL)->text)];
};

DEFINE_CLEANUP(struct inf_device *, inf_device_close);

int inf_devices(struct inf_device_list **ret_list, struct inf_err *reterr)
{
    struct inf_device_list *list = NEW(struct inf_device_list, 1);

    if (!list)
        return err_set(reterr, ENOMEM, "out of memory");
    devices_add_cpu(list);
    devices_add_vulkan(list);
    *ret_list = list;
    return 0;
}

struct inf_device_list *inf_device_list_free(struct inf_device_list *list)
{
    free(list);
    return NULL;
}

const struct inf_device_info *inf_device_list_at(const struct inf_device_list *list, size_t i)
{
    return i < list->n ? &list->rows[i].info : NULL;
}

int inf_device_list_find(const struct inf_device_list *list, const char *name,
                         const struct inf_device_info **ret_info, struct inf_err *reterr)
{
    return devices_find(list, name, ret_info, reterr);
}

const char *inf_device_list_why(const struct inf_device_list *list)
{
    return list->why[0] ? list->why : NULL;
}

static void explain_cpu(struct inf_device *device)
{
    const struct inf_device_list *list = device->list;

    if (list->why[0])
        snprintf(device->why, sizeof(device->why), "%s", list->why);
    else if (list->rows[1].info.unusable)
        snprintf(device->why, sizeof(device->why), "%s (%.60s) cannot be used: %s",
                 list->rows[1].info.name, list->rows[1].info.description,
                 list->rows[1].info.unusable);
    else
        snprintf(device->why, sizeof(device->why),
                 "%s (%.60s) is a software device that computes on the CPU",
                 list->rows[1].info.name, list->rows[1].info.description);
}

/* Opens the selected device and keeps it open. If a device for "auto" does not open, the CPU
 * replaces it; that is not an error. */
static int hold_device(struct inf_device *device, const struct inf_device_params *params,
                       bool is_auto, struct inf_err *reterr)
{
    struct inf_err err;
    int r;

    if (device->info->kind == INF_DEVICE_CPU)
        return 0;
    r = vkb_hold(device->info->name, params->cache_dir, params->fill_cache, &device->held, &err);
    if (r >= 0 || !is_auto)
        return r < 0 ? err_set(reterr, -r, "%s", err.text) : 0;
    snprintf(device->why, sizeof(device->why), "%s", err.text);
    device->info = &device->list->rows[0].info;
    return 0;
}

int inf_device_open(const struct inf_device_params *params, struct inf_device **ret_device,
                    struct inf_err *reterr)
{
    _cleanup_(inf_device_closep) struct inf_device *device = NEW(struct inf_device, 1);
    _cleanup_(vkb_releasep) struct vkb_held *drivers = NULL;
    const bool is_auto = !params->name || strcmp(params->name, "auto") == 0;
    int r;

    if (device)
        device->list = NEW(struct inf_device_list, 1);
    if (!device || !device->list)
        return err_set(reterr, ENOMEM, "out of memory");
    devices_add_cpu(device->list);
    if (is_auto || device_is_vulkan(params->name)) {
        /* Loads the drivers once, for both the list and the device. A failure is ignored here,
         * because the list reports it. */
        if (!is_auto || devices_has_gpu(NULL))
            vkb_hold(NULL, NULL, false, &drivers, NULL);
        (is_auto ? devices_add_gpus : devices_add_vulkan)(device->list);
    }
    r = devices_find(device->list, params->name, &device->info, reterr);
    if (r < 0)
        return r;
    if (is_auto && device->info->kind == INF_DEVICE_CPU)
        explain_cpu(device);
    r = hold_device(device, params, is_auto, reterr);
    if (r < 0)
        return r;
    *ret_device = STEAL(device);
    return 0;
}

struct inf_device *inf_device_close(struct inf_device *device)
{
    if (!device)
        return NULL;
    vkb_release(device->held);
    inf_device_list_free(device->list);
    free(device);
    return NULL;
}

bool inf_device_has_gpu(struct inf_err *reterr)
{
    return devices_has_gpu(reterr);
}

const struct inf_device_info *inf_device_info(const struct inf_device *device)
{
    return device->info;
}

bool inf_device_lacks_kernels(const struct inf_device *device)
{
    return device->held && vkb_held_lacks_kernels(device->held);
}

const char *inf_device_why(const struct inf_device *device)
{
    return device->why[0] ? device->why : NULL;
}
