/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores blocks of K and V in two buffers for each layer:
 *
 *   F32, F16, BF16   [block][kv_head][token][head_dim]
 *   Q8_0             [block][kv_head]: int8 [token][head_dim], then F16 scales
 *                    [token][head_dim / 32]
 */
#include "backend/vulkan/kv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/submit.h"
#include "core/err.h"

int vkb_store_create(struct vkb_device *dev, struct kv_store *store, struct inf_err *reterr)
{
    const uint64_t size = store->block_bytes * store->n_blocks;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < store->layout.groups[0].n_layers; i++) {
        r = vkb_buffer_new(dev, VKB_ON_DEVICE, size, &store->k[i], reterr);
        if (r == 0)
            r = vkb_buffer_new(dev, VKB_ON_DEVICE, size, &store->v[i], reterr);
    }
    if (r < 0)
        vkb_store_destroy(dev, store);
    return r;
}

void vkb_store_destroy(struct vkb_device *dev, struct kv_store *store)
{
    for (uint32_t i = 0; i < store->layout.groups[0].n_layers; i++) {
        if (store->k[i].handle)
            vkb_buffer_done(dev, &store->k[i]);
        if (store->v[i].handle)
            vkb_buffer_done(dev, &store->v[i]);
    }
    if (store->staging.handle)
        vkb_buffer_done(dev, &store->staging);
}

int vkb_kv_check(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr)
{
    (void)b;
    if (layout->n_groups > 1 || layout->groups[0].rule == STATE_RECURRENT)
        return err_set(reterr, EOPNOTSUPP, "only the CPU runs models with this kind of layers");
    if (layout->k == layout->v && layout->k <= CODEC_Q8_0)
        return 0;
    return err_set(
        reterr, EOPNOTSUPP,
        "only the CPU supports a KV cache of %s:%s; on Vulkan devices keys and values are "
        "both f32, f16, bf16 or q8_0",
        codec_info(layout->k)->name, codec_info(layout->v)->name);
}

uint64_t vkb_kv_max_blocks(struct backend *b, const struct kv_layout *layout, uint32_t i_group)
{
    const struct vkb_caps *caps = &CONTAINER_OF(b, struct vkb_backend, base)->info->caps;
    const uint64_t all = kv_layout_block_bytes(layout, i_group);
    const uint64_t one = MAX(all / 2 / MAX(layout->groups[i_group].n_layers, 1u), 1u);

    /* K of a layer must fit into one binding. A tenth of the memory is left for other data. */
    return MIN(MIN(caps->max_range, caps->max_alloc) / one,
               caps->heap_size / 10 * 9 / MAX(all, 1u));
}

static void store_free(struct kv_store *store)
{
    free(store->k);
    free(store->v);
    free(store);
}

int vkb_kv_new(struct backend *b, const struct kv_layout *layout, struct kv_store **ret_store)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    const uint32_t n_layers = layout->groups[0].n_layers;
    const uint64_t all = kv_layout_block_bytes(layout, 0);
    struct kv_store *store;
    int r;

    if (all == UINT64_MAX)
        return -ENOMEM;
    store = NEW(struct kv_store, 1);
    if (!store)
        return -ENOMEM;
    store->vkb = vkb;
    store->layout = *layout;
    store->n_blocks = layout->n_blocks[0];
    store->block_bytes = all / 2 / n_layers;
    store->k = NEW(struct vkb_buffer, n_layers);
    store->v = NEW(struct vkb_buffer, n_layers);
    r = store->k && store->v ? vkb_store_create(vkb->dev, store, NULL) : -ENOMEM;
    if (r < 0) {
        store_free(store);
        return r;
    }
    store->next = vkb->stores;
    vkb->stores = store;
    *ret_store = store;
    return 0;
}

void vkb_kv_free(struct backend *b, struct kv_store *store)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    struct kv_store **at = &vkb->stores;

    while (*at != store)
        at = &(*at)->next;
    *at = store->next;
    if (vkb->dev)
        vkb_store_destroy(vkb->dev, store);
    store_free(store);
}

/* If the device is lost meanwhile, the next step notices the loss. */
void vkb_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    struct vkb_device *dev = CONTAINER_OF(b, struct vkb_backend, base)->dev;
    const VkBufferCopy copy = {
        .srcOffset = src * store->block_bytes,
        .dstOffset = dst * store->block_bytes,
        .size = store->block_bytes,
    };
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    VkCommandBuffer c;

    assert(dst < store->n_blocks && src < store->n_blocks && dst != src);
    if (!dev || dev->lost)
        return;
    c = vkb_once_begin(dev);
    if (!c) {
        dev->lost = true;
        return;
    }
    for (uint32_t i = 0; i < store->layout.groups[0].n_layers; i++) {
        dev->fn.CmdCopyBuffer(c, store->k[i].handle, store->k[i].handle, 1, &copy);
        dev->fn.CmdCopyBuffer(c, store->v[i].handle, store->v[i].handle, 1, &copy);
    }
    dev->fn.CmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
    if (vkb_once_end(dev, c) < 0)
        dev->lost = true;
}

/* Does nothing, because device memory cannot be returned page by page. */
void vkb_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n)
{
    (void)b;
    assert(first <= store->n_blocks && n <= store->n_blocks - first);
}

uint64_t vkb_kv_size(const struct backend *b UNUSED, const struct kv_store *store,
                     uint32_t block UNUSED)
{
    return store->block_bytes * 2 * store->layout.groups[0].n_layers;
}

/* Creates the staging buffer, unless it exists. One buffer serves both directions, because its host
 * memory is fast to read and to write. */
static int make_staging(struct vkb_device *dev, struct kv_store *store)
{
    if (!dev || dev->lost)
        return -ENODEV;
    if (store->staging.handle)
        return 0;
    return vkb_buffer_new(dev, VKB_READBACK, vkb_kv_size(NULL, store, 0), &store->staging, NULL);
}

static void kv_barrier(struct vkb_device *dev, VkCommandBuffer c, VkPipelineStageFlags from,
                       VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags read)
{
    const VkMemoryBarrier b = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = read,
    };

    dev->fn.CmdPipelineBarrier(c, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

/* Copies K and V of all layers of @block to the staging buffer, or from it. */
static void copy_staging(struct vkb_device *dev, VkCommandBuffer c, struct kv_store *store,
                         uint32_t block, bool out)
{
    const uint64_t size = store->block_bytes, at = block * size;

    for (uint32_t i = 0; i < 2 * store->layout.groups[0].n_layers; i++) {
        const VkBuffer layer = (i % 2 ? store->v : store->k)[i / 2].handle;
        const VkBufferCopy copy = {
            .srcOffset = out ? at : i * size,
            .dstOffset = out ? i * size : at,
            .size = size,
        };

        dev->fn.CmdCopyBuffer(c, out ? layer : store->staging.handle,
                              out ? store->staging.handle : layer, 1, &copy);
    }
}

/* If a copy fails, the device counts as lost, and the next step notices the loss. */
static int move_block(struct vkb_device *dev, struct kv_store *store, uint32_t block, bool out)
{
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                               transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkCommandBuffer c;

    assert(block < store->n_blocks);
    c = vkb_once_begin(dev);
    if (!c) {
        dev->lost = true;
        return -ENODEV;
    }
    kv_barrier(dev, c, compute, VK_ACCESS_SHADER_WRITE_BIT, transfer,
               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    copy_staging(dev, c, store, block, out);
    kv_barrier(
        dev, c, transfer, VK_ACCESS_TRANSFER_WRITE_BIT, out ? VK_PIPELINE_STAGE_HOST_BIT : compute,
        out ? VK_ACCESS_HOST_READ_BIT : VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    if (vkb_once_end(dev, c) == 0)
        return 0;
    dev->lost = true;
    return -ENODEV;
}

int vkb_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to)
{
    struct vkb_device *dev = CONTAINER_OF(b, struct vkb_backend, base)->dev;
    int r = make_staging(dev, store);

    if (r == 0)
        r = move_block(dev, store, block, true);
    if (r == 0)
        memcpy(to, store->staging.map, vkb_kv_size(b, store, block));
    return r;
}

int vkb_kv_import(struct backend *b, struct kv_store *store, uint32_t block, const void *from)
{
    struct vkb_device *dev = CONTAINER_OF(b, struct vkb_backend, base)->dev;
    int r = make_staging(dev, store);

    if (r < 0)
        return r;
    memcpy(store->staging.map, from, vkb_kv_size(b, store, block));
    return move_block(dev, store, block, false);
}

const char *vkb_kv_format(const struct backend *b)
{
    return ((const struct vkb_backend *)b)->kv_format;
}

void vkb_kv_describe(struct vkb_backend *vkb)
{
    const struct vkb_device_info *info = vkb->info;
    char driver[2 * sizeof(info->pipeline_uuid) + 1];

    for (size_t i = 0; i < sizeof(info->pipeline_uuid); i++)
        snprintf(driver + 2 * i, 3, "%02x", info->pipeline_uuid[i]);
    snprintf(vkb->kv_format, sizeof(vkb->kv_format),
             "vulkan, K and V of each layer, 1, by sconce " SCONCE_VERSION ", on %s, driver %s",
             info->name, driver);
}
