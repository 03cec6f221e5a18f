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
#include "quant/codec.h"

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

struct kv_layout kv_layout_full(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                                uint32_t block_tokens, enum codec codec, uint32_t n_blocks)
{
    return (struct kv_layout){
        .n_groups = 1,
        .groups = {{.n_layers = n_layers, .n_kv_heads = n_kv_heads, .head_dim = head_dim}},
        .n_blocks = {n_blocks},
        .block_tokens = block_tokens,
        .k = codec,
        .v = codec,
    };
}

uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t i_group)
{
    const struct state_group *g = &layout->groups[i_group];
    uint64_t n =
        codec_head_bytes(layout->k, g->head_dim) + codec_head_bytes(layout->v, g->head_dim);

    /* A layout comes from a model's hyperparameters, which may be hostile. If its size overflows,
     * the result is too large for any device. */
    if (g->rule == STATE_RECURRENT)
        return size_mul(((uint64_t)g->conv_floats + g->matrix_floats) * sizeof(float), g->n_layers,
                        &n)
                   ? n
                   : UINT64_MAX;
    if (!size_mul(n, g->n_layers, &n) || !size_mul(n, g->n_kv_heads, &n) ||
        !size_mul(n, layout->block_tokens, &n))
        return UINT64_MAX;
    return n;
}

uint32_t kv_layout_first(const struct kv_layout *layout, uint32_t i_group)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < i_group; i++)
        n += layout->n_blocks[i];
    return n;
}

uint32_t kv_layout_group(const struct kv_layout *layout, uint32_t block)
{
    uint32_t i = 0;

    while (i + 1 < layout->n_groups && block >= kv_layout_first(layout, i + 1))
        i++;
    return i;
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
