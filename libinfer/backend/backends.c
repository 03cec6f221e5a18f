/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a backend by its name, and holds code that all backends share.
 *
 * The name "auto" means the best available device. If a listed GPU cannot be opened, "auto" falls
 * back to the CPU.
 */
#include "backend/backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec/device.h"
#include "backend/devices.h"
#include "backend/null/null.h"
#include "backend/vulkan/vulkan-backend.h"
#include "core/err.h"

static int null_open(const struct backend_params *params UNUSED, struct backend **ret_backend,
                     struct inf_err *reterr)
{
    const int r = null_new(ret_backend);

    return r < 0 ? err_set(reterr, -r, "out of memory") : 0;
}

static int gpu_open(const struct backend_params *params, struct backend **ret_backend)
{
    _cleanup_free_ struct inf_device_list *list = NEW(struct inf_device_list, 1);
    _cleanup_(vkb_releasep) struct vkb_held *drivers = NULL;
    struct backend_params gpu = *params;
    const struct inf_device_info *info;
    struct inf_err err;
    int r;

    if (!list)
        return -ENOMEM;
    /* Hold the drivers until a device is open. Otherwise the drivers would be unloaded after the
     * devices are listed, and loaded again to open a device. */
    if (devices_has_gpu(NULL))
        vkb_hold(NULL, NULL, false, &drivers, NULL);
    devices_add_cpu(list);
    devices_add_gpus(list);
    r = devices_find(list, "auto", &info, &err);
    assert(r == 0);
    if (info->kind == INF_DEVICE_CPU)
        return -EOPNOTSUPP;
    gpu.device = info->name;
    return vkb_backend_new(&gpu, ret_backend, &err);
}

static int open_named(const struct backend_params *params, const char *name,
                      struct backend **ret_backend, struct inf_err *reterr)
{
    if (strcmp(name, "null") == 0)
        return null_open(params, ret_backend, reterr);
    if (device_is_vulkan(name))
        return vkb_backend_new(params, ret_backend, reterr);
    if (strcmp(name, "auto") == 0 && gpu_open(params, ret_backend) == 0)
        return 0;
    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0)
        return cpu_backend_new(params, ret_backend, reterr);
    return err_set(reterr, EINVAL, "unknown device %.40s; there are auto, cpu, vulkan and vulkan:N",
                   name);
}

int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr)
{
    const char *name = params->device ? params->device : "auto";
    struct backend *b;
    int r;

    r = open_named(params, name, &b, reterr);
    if (r < 0)
        return r;
    /* A Vulkan backend has already set `device`, which contains the number of its device. */
    if (!b->device[0])
        snprintf(b->device, sizeof(b->device), "%s", b->ops->name);
    *ret_backend = b;
    return 0;
}

struct backend *backend_free(struct backend *b)
{
    if (b)
        b->ops->free(b);
    return NULL;
}

int backend_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to)
{
    if (!b->ops->kv_bytes)
        return b->ops->kv_export(b, store, block, to);
    memcpy(to, b->ops->kv_bytes(b, store, block), b->ops->kv_size(b, store, block));
    return 0;
}

int backend_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from)
{
    if (!b->ops->kv_bytes)
        return b->ops->kv_import(b, store, block, from);
    memcpy(b->ops->kv_bytes(b, store, block), from, b->ops->kv_size(b, store, block));
    return 0;
}
