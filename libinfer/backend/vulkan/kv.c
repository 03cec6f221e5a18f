/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of K and V, two buffers for each layer:
 *
 *   F32, F16, BF16   [block][kv_head][token][head_dim]
 *   Q8_0             [block][kv_head]: int8 [token][head_dim], then F16 scales
 *                    [token][head_dim / 32]
 */
#include "backend/vulkan/kv.h"

#include <errno.h>

#include "backend/vulkan/submit.h"
#include "core/err.h"

int vkb_store_realise(struct vkb_device *dev, struct kv_store *store, struct inf_err *reterr)
{
    const uint64_t size = store->block_bytes * store->n_blocks;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < store->layout.n_layers; i++) {
        r = vkb_buffer_new(dev, VKB_ON_DEVICE, size, &store->k[i], reterr);
        if (r == 0)
            r = vkb_buffer_new(dev, VKB_ON_DEVICE, size, &store->v[i], reterr);
    }
    if (r < 0)
        vkb_store_unrealise(dev, store);
    return r;
}

void vkb_store_unrealise(struct vkb_device *dev, struct kv_store *store)
{
    for (uint32_t i = 0; i < store->layout.n_layers; i++) {
        if (store->k[i].handle)
            vkb_buffer_done(dev, &store->k[i]);
        if (store->v[i].handle)
            vkb_buffer_done(dev, &store->v[i]);
    }
}

int vkb_kv_check(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr)
{
    (void)b;
    if (layout->k == layout->v && layout->k <= CODEC_Q8_0)
        return 0;
    return err_set(
        reterr, EOPNOTSUPP,
        "a KV cache of %s:%s is kept by the CPU alone; on Vulkan devices keys and values "
        "are both f32, f16, bf16 or q8_0",
        codec_info(layout->k)->name, codec_info(layout->v)->name);
}

uint64_t vkb_kv_max_blocks(struct backend *b, const struct kv_layout *layout)
{
    const struct vkb_caps *caps = &((struct vkb_backend *)b)->info->caps;
    const uint64_t all = kv_layout_block_bytes(layout);
    const uint64_t one = MAX(all / 2 / MAX(layout->n_layers, 1u), 1u);

    /* A layer's K is one binding; the store is not all that lies on a device. */
    return MIN(MIN(caps->max_range, caps->max_alloc) / one,
               caps->heap_size / 10 * 9 / MAX(all, 1u));
}

static void store_free(struct kv_store *store)
{
    free(store->k);
    free(store->v);
    free(store);
}

int vkb_kv_new(struct backend *b, const struct kv_layout *layout, uint32_t n_blocks,
               struct kv_store **ret_store)
{
    struct vkb_backend *vkb = (struct vkb_backend *)b;
    const uint64_t all = kv_layout_block_bytes(layout);
    struct kv_store *store;
    int r;

    if (all == UINT64_MAX)
        return -ENOMEM;
    store = NEW(struct kv_store, 1);
    if (!store)
        return -ENOMEM;
    store->vkb = vkb;
    store->layout = *layout;
    store->n_blocks = n_blocks;
    store->block_bytes = all / 2 / layout->n_layers;
    store->k = NEW(struct vkb_buffer, layout->n_layers);
    store->v = NEW(struct vkb_buffer, layout->n_layers);
    r = store->k && store->v ? vkb_store_realise(vkb->dev, store, NULL) : -ENOMEM;
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
    struct vkb_backend *vkb = (struct vkb_backend *)b;
    struct kv_store **at = &vkb->stores;

    while (*at != store)
        at = &(*at)->next;
    *at = store->next;
    if (vkb->dev)
        vkb_store_unrealise(vkb->dev, store);
    store_free(store);
}

/* A device that is lost meanwhile is noticed by the next step. */
void vkb_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    struct vkb_device *dev = ((struct vkb_backend *)b)->dev;
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
    for (uint32_t i = 0; i < store->layout.n_layers; i++) {
        dev->fn.CmdCopyBuffer(c, store->k[i].handle, store->k[i].handle, 1, &copy);
        dev->fn.CmdCopyBuffer(c, store->v[i].handle, store->v[i].handle, 1, &copy);
    }
    dev->fn.CmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
    if (vkb_once_end(dev, c) < 0)
        dev->lost = true;
}

/* A device's memory is not shared with others page by page. */
void vkb_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n)
{
    (void)b;
    assert(first <= store->n_blocks && n <= store->n_blocks - first);
}
