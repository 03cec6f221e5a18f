/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores blocks of the groups of state (graph/state.h). A layer of a FULL or WINDOW group has two
 * buffers, one for K and one for V:
 *
 *   F32, F16, BF16   [block][kv_head][token][head_dim]
 *   Q8_0, codes      [block][kv_head]: int8 [token][head_dim], or codes [token][bytes]
 *                    (quant/code.h), then F16 scales [token][groups]
 *
 * A layer of a RECURRENT group has one buffer of floats: [block], each with the newest inputs of
 * the convolution, then the matrices of the heads. In all buffers of a group, blocks count from 0.
 */
#include "backend/vulkan/kv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/kernels.h"
#include "backend/vulkan/push.h"
#include "backend/vulkan/submit.h"
#include "core/err.h"

int vkb_store_create(struct vkb_device *dev, struct kv_store *store, struct inf_err *reterr)
{
    int r = 0;

    for (uint32_t i = 0; i < store->layout.n_groups; i++) {
        struct vkb_group *g = &store->groups[i];

        for (uint32_t j = 0; r == 0 && j < g->n_buffers; j++)
            r = vkb_buffer_new(dev, VKB_ON_DEVICE, g->bytes[j] * g->n_blocks, &g->buffers[j],
                               reterr);
    }
    if (r < 0)
        vkb_store_destroy(dev, store);
    return r;
}

void vkb_store_destroy(struct vkb_device *dev, struct kv_store *store)
{
    for (uint32_t i = 0; i < store->layout.n_groups; i++)
        for (uint32_t j = 0; j < store->groups[i].n_buffers; j++)
            if (store->groups[i].buffers[j].handle)
                vkb_buffer_done(dev, &store->groups[i].buffers[j]);
    if (store->staging.handle)
        vkb_buffer_done(dev, &store->staging);
}

/* Returns whether kernels can read keys and values of a layer in these formats. */
static bool can_pair(enum codec k, enum codec v)
{
    const bool ints = codec_info(k)->kind != CODEC_FLOATS;

    return vkb_store_can(k) && vkb_store_can(v) &&
           (k == v || (ints && codec_info(v)->kind != CODEC_FLOATS));
}

int vkb_kv_check(struct backend *b UNUSED, const struct kv_layout *layout, struct inf_err *reterr)
{
    if (layout->recent)
        return err_set(reterr, EOPNOTSUPP, "only the CPU supports a KV cache with +recent");
    for (uint32_t g = 0; g < layout->n_groups; g++)
        for (uint32_t i = 0; i < layout->groups[g].n_layers; i++) {
            const struct state_place place = {g, i};
            const enum codec k = kv_layout_codec(layout, place, true);
            const enum codec v = kv_layout_codec(layout, place, false);
            const enum codec turned = codec_info(k)->turn != CODEC_PLAIN ? k : v;

            if (layout->groups[g].rule == STATE_RECURRENT)
                break;
            if (layout->groups[g].head_dim > HEADS_TURN_MAX &&
                codec_info(turned)->turn != CODEC_PLAIN)
                return err_set(reterr, EOPNOTSUPP,
                               "on Vulkan devices a KV cache of %s needs heads of at most %u "
                               "elements",
                               codec_info(turned)->name, HEADS_TURN_MAX);
            if (!can_pair(k, v))
                return err_set(reterr, EOPNOTSUPP,
                               "only the CPU supports a KV cache of %s:%s; on Vulkan devices keys "
                               "and values are both f32, f16 or bf16, or are q8_0, q6_0, q5_0, "
                               "q4_0, q3_0, q2_0, turbo4, turbo3 or turbo2",
                               codec_info(k)->name, codec_info(v)->name);
        }
    return 0;
}

/* Returns the number of buffers of a layer. */
static uint32_t layer_buffers(const struct state_group *group)
{
    return group->rule == STATE_RECURRENT ? 1 : 2;
}

/* Returns the bytes of a block in buffer @i_buffer of a group, or UINT64_MAX if the number
 * overflows. */
static uint64_t buffer_block_bytes(const struct kv_layout *layout, uint32_t i_group,
                                   uint32_t i_buffer)
{
    const struct state_group *group = &layout->groups[i_group];
    const struct state_place place = {i_group, i_buffer / layer_buffers(group)};
    const uint64_t all = kv_layout_block_bytes(layout, i_group);

    if (group->rule == STATE_RECURRENT || all == UINT64_MAX)
        return all == UINT64_MAX ? all : all / MAX(group->n_layers, 1u);
    return codec_head_bytes(kv_layout_codec(layout, place, i_buffer % 2 == 0), group->head_dim) *
           group->n_kv_heads * layout->block_tokens;
}

/* Returns the bytes of a block in the largest buffer of a group. */
static uint64_t largest_block(const struct kv_layout *layout, uint32_t i_group)
{
    const struct state_group *group = &layout->groups[i_group];
    uint64_t most = 1;

    for (uint32_t i = 0; i < group->n_layers * layer_buffers(group); i++)
        most = MAX(most, buffer_block_bytes(layout, i_group, i));
    return most;
}

uint64_t vkb_kv_max_blocks(struct backend *b, const struct kv_layout *layout, uint32_t i_group)
{
    const struct vkb_caps *caps = &CONTAINER_OF(b, struct vkb_backend, base)->info->caps;
    const uint64_t all = kv_layout_block_bytes(layout, i_group);
    const uint64_t one = largest_block(layout, i_group);
    uint64_t left = caps->heap_size / 10 * 9; /* a tenth is left for other data */

    for (uint32_t i = 0; i < layout->n_groups; i++) {
        uint64_t bytes;

        if (i == i_group)
            continue;
        if (!size_mul(kv_layout_block_bytes(layout, i), layout->n_blocks[i], &bytes))
            bytes = UINT64_MAX;
        left -= MIN(left, bytes);
    }
    /* K of a layer must fit into one binding. */
    return MIN(MIN(caps->max_range, caps->max_alloc) / one, left / MAX(all, 1u));
}

static void store_free(struct kv_store *store)
{
    for (uint32_t i = 0; i < STATE_GROUPS_MAX; i++) {
        free(store->groups[i].buffers);
        free(store->groups[i].bytes);
    }
    free(store);
}

static int init_group(struct kv_store *store, uint32_t i_group)
{
    const struct kv_layout *layout = &store->layout;
    const struct state_group *group = &layout->groups[i_group];
    struct vkb_group *g = &store->groups[i_group];
    uint64_t bytes;

    if (!size_mul(kv_layout_block_bytes(layout, i_group), layout->n_blocks[i_group], &bytes))
        return -ENOMEM;
    g->first = kv_layout_first(layout, i_group);
    g->n_blocks = layout->n_blocks[i_group];
    g->n_buffers = group->n_layers * layer_buffers(group);
    g->buffers = NEW(struct vkb_buffer, g->n_buffers);
    g->bytes = NEW(uint64_t, g->n_buffers);
    if (g->n_buffers > 0 && (!g->buffers || !g->bytes))
        return -ENOMEM;
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        g->bytes[i] = buffer_block_bytes(layout, i_group, i);
        g->block_bytes += g->bytes[i];
    }
    return 0;
}

int vkb_kv_new(struct backend *b, const struct kv_layout *layout, struct kv_store **ret_store)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    struct kv_store *store = NEW(struct kv_store, 1);
    int r = 0;

    if (!store)
        return -ENOMEM;
    store->vkb = vkb;
    store->layout = *layout;
    for (uint32_t i = 0; r == 0 && i < layout->n_groups; i++)
        r = init_group(store, i);
    if (r == 0)
        r = vkb_store_create(vkb->dev, store, NULL);
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

static struct vkb_group *group_of(struct kv_store *store, uint32_t block)
{
    assert(block < kv_layout_first(&store->layout, store->layout.n_groups));
    return &store->groups[kv_layout_group(&store->layout, block)];
}

/* If the device is lost meanwhile, the next step notices the loss. */
void vkb_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    struct vkb_device *dev = CONTAINER_OF(b, struct vkb_backend, base)->dev;
    const struct vkb_group *g = group_of(store, src);
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    VkCommandBuffer c;

    assert(group_of(store, dst) == g && dst != src);
    if (!dev || dev->lost || g->n_buffers == 0 || g->block_bytes == 0)
        return;
    c = vkb_once_begin(dev);
    if (!c) {
        dev->lost = true;
        return;
    }
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        const VkBufferCopy copy = {
            .srcOffset = (src - g->first) * g->bytes[i],
            .dstOffset = (dst - g->first) * g->bytes[i],
            .size = g->bytes[i],
        };

        dev->fn.CmdCopyBuffer(c, g->buffers[i].handle, g->buffers[i].handle, 1, &copy);
    }
    dev->fn.CmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
    if (vkb_once_end(dev, c) < 0)
        dev->lost = true;
}

/* Does nothing, because device memory cannot be returned page by page. */
void vkb_kv_drop(struct backend *b UNUSED, struct kv_store *store UNUSED, uint32_t first UNUSED,
                 uint32_t n UNUSED)
{
}

uint64_t vkb_kv_size(const struct backend *b UNUSED, const struct kv_store *store, uint32_t block)
{
    const struct vkb_group *g = &store->groups[kv_layout_group(&store->layout, block)];

    return g->block_bytes;
}

/* Creates the staging buffer, unless it exists. One buffer serves both directions, because its host
 * memory is fast to read and to write. */
static int make_staging(struct vkb_device *dev, struct kv_store *store)
{
    uint64_t size = 0;

    if (!dev || dev->lost)
        return -ENODEV;
    if (store->staging.handle)
        return 0;
    for (uint32_t i = 0; i < store->layout.n_groups; i++)
        size = MAX(size, store->groups[i].block_bytes);
    return vkb_buffer_new(dev, VKB_READBACK, size, &store->staging, NULL);
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

/* Copies the data of all layers of @block to the staging buffer, or from it. */
static void copy_staging(struct vkb_device *dev, VkCommandBuffer c, struct kv_store *store,
                         uint32_t block, bool out)
{
    const struct vkb_group *g = group_of(store, block);
    uint64_t staged = 0;

    for (uint32_t i = 0; i < g->n_buffers; i++) {
        const uint64_t size = g->bytes[i], at = (block - g->first) * size;
        const VkBuffer layer = g->buffers[i].handle;
        const VkBufferCopy copy = {
            .srcOffset = out ? at : staged,
            .dstOffset = out ? staged : at,
            .size = size,
        };

        staged += size;

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

    if (vkb_kv_size(NULL, store, block) == 0)
        return 0;
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
             "vulkan, state of each layer, 3, by sconce " SCONCE_VERSION ", on %s, driver %s",
             info->name, driver);
}
