/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides large allocations. Each memory type has chunks, and each chunk has a list of spans in
 * order of offset.
 */
#include "backend/vulkan/memory.h"

#include <errno.h>

#include "core/err.h"
#include "core/pages.h"

#define CHUNK_SIZE (64ull << 20) /* larger requests get their own chunk */

struct vkb_span {
    struct vkb_span *next;
    uint64_t offset, size;
    bool used;
};

struct vkb_chunk {
    struct vkb_chunk *next;
    struct vkb_heap *heap;
    VkDeviceMemory memory;
    void *map;
    struct vkb_span *spans; /* the spans cover the chunk; two neighbors are never both free */
    uint32_t n_used;
};

struct vkb_heap {
    uint32_t type;
    struct vkb_chunk *chunks;
};

/* Combinations of flags in order of preference. The first combination that a memory type has is
 * used. */
static const VkMemoryPropertyFlags wishes[][3] = {
    [VKB_ON_DEVICE] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0},
    [VKB_UPLOAD] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
    [VKB_READBACK] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                          VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
};

#define MAPPABLE (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

static uint32_t find_type(const struct vkb_device *dev, uint32_t allowed, enum vkb_place place)
{
    for (size_t w = 0; w < ARRAY_SIZE(wishes[0]); w++) {
        VkMemoryPropertyFlags flags = wishes[place][w];

        /* If the device uses the host's memory, the host may access everything. */
        if (place == VKB_ON_DEVICE && w == 0 && dev->info->caps.unified)
            flags |= MAPPABLE;
        for (uint32_t i = 0; i < dev->memory.memoryTypeCount; i++)
            if ((allowed >> i & 1) && (dev->memory.memoryTypes[i].propertyFlags & flags) == flags &&
                !(dev->memory.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_PROTECTED_BIT))
                return i;
    }
    return UINT32_MAX;
}

static void chunk_free(struct vkb_device *dev, struct vkb_chunk *chunk)
{
    struct vkb_span *s, *next;

    for (s = chunk->spans; s; s = next) {
        next = s->next;
        free(s);
    }
    dev->fn.FreeMemory(dev->handle, chunk->memory, NULL);
    free(chunk);
}

static VkResult chunk_new(struct vkb_device *dev, struct vkb_heap *heap, uint64_t size,
                          struct vkb_chunk **ret_chunk)
{
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = size,
        .memoryTypeIndex = heap->type,
    };
    const VkMemoryPropertyFlags flags = dev->memory.memoryTypes[heap->type].propertyFlags;
    struct vkb_chunk *chunk = NEW(struct vkb_chunk, 1);
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;

    if (!chunk)
        return result;
    chunk->heap = heap;
    chunk->spans = NEW(struct vkb_span, 1);
    if (chunk->spans) {
        chunk->spans->size = size;
        result = dev->fn.AllocateMemory(dev->handle, &info, NULL, &chunk->memory);
    }
    if (result == VK_SUCCESS && (flags & MAPPABLE) == MAPPABLE)
        result = dev->fn.MapMemory(dev->handle, chunk->memory, 0, VK_WHOLE_SIZE, 0, &chunk->map);
    if (result != VK_SUCCESS) {
        chunk_free(dev, chunk);
        return result;
    }
    chunk->next = heap->chunks;
    heap->chunks = chunk;
    *ret_chunk = chunk;
    return VK_SUCCESS;
}

/* Splits the span if only a part of it is needed. Returns false if memory is short. */
static bool span_cut(struct vkb_span *s, uint64_t size)
{
    struct vkb_span *rest;

    if (s->size == size)
        return true;
    rest = NEW(struct vkb_span, 1);
    if (!rest)
        return false;
    *rest = (struct vkb_span){.next = s->next, .offset = s->offset + size, .size = s->size - size};
    s->next = rest;
    s->size = size;
    return true;
}

static bool chunk_take(struct vkb_chunk *chunk, uint64_t size, uint64_t align, uint64_t *ret_offset)
{
    for (struct vkb_span *s = chunk->spans; s; s = s->next) {
        const uint64_t gap = ALIGN_UP(s->offset, align) - s->offset;

        if (s->used || s->size < gap || s->size - gap < size)
            continue;
        if (gap > 0) {
            if (!span_cut(s, gap))
                return false;
            s = s->next;
        }
        if (!span_cut(s, size))
            return false;
        s->used = true;
        chunk->n_used++;
        *ret_offset = s->offset;
        return true;
    }
    return false;
}

/* If @s is free, merges the free spans that follow @s into @s. */
static void span_merge(struct vkb_span *s)
{
    while (s && !s->used && s->next && !s->next->used) {
        struct vkb_span *gone = s->next;

        s->size += gone->size;
        s->next = gone->next;
        free(gone);
    }
}

static void chunk_give(struct vkb_device *dev, struct vkb_chunk *chunk, uint64_t offset)
{
    struct vkb_span *s, *before = NULL;
    struct vkb_chunk **at;

    for (s = chunk->spans; s->offset != offset || !s->used; s = s->next)
        before = s;
    s->used = false;
    span_merge(s);
    span_merge(before);
    if (--chunk->n_used > 0)
        return;
    for (at = &chunk->heap->chunks; *at != chunk; at = &(*at)->next)
        ;
    *at = chunk->next;
    chunk_free(dev, chunk);
}

static VkResult heap_take(struct vkb_device *dev, uint32_t type, enum vkb_place place,
                          const VkMemoryRequirements *need, struct vkb_buffer *buffer)
{
    struct vkb_chunk *chunk;
    VkResult result;

    if (!dev->heaps[type]) {
        dev->heaps[type] = NEW(struct vkb_heap, 1);
        if (!dev->heaps[type])
            return VK_ERROR_OUT_OF_HOST_MEMORY;
        dev->heaps[type]->type = type;
    }
    for (chunk = dev->heaps[type]->chunks; chunk; chunk = chunk->next)
        if (chunk_take(chunk, need->size, need->alignment, &buffer->offset))
            break;
    if (!chunk) {
        result = chunk_new(dev, dev->heaps[type], MAX(need->size, CHUNK_SIZE), &chunk);
        /* A nearly full device may still have room for a smaller chunk. */
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY && need->size < CHUNK_SIZE)
            result = chunk_new(dev, dev->heaps[type], need->size, &chunk);
        if (result != VK_SUCCESS)
            return result;
        if (!chunk_take(chunk, need->size, need->alignment, &buffer->offset))
            return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    buffer->chunk = chunk;
    /* The mapping of a GPU's own memory is fast to write but very slow to read, so the host does
     * not use it. */
    if (chunk->map && (place != VKB_ON_DEVICE || dev->info->caps.unified))
        buffer->map = (char *)chunk->map + buffer->offset;
    return dev->fn.BindBufferMemory(dev->handle, buffer->handle, chunk->memory, buffer->offset);
}

static const VkBufferUsageFlags usage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
    VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
    VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;

int vkb_buffer_new(struct vkb_device *dev, enum vkb_place place, uint64_t size,
                   struct vkb_buffer *ret_buffer, struct inf_err *reterr)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = MAX(ALIGN_UP(size, 16u), 16u), /* texels have 16 bytes */
        .usage = usage,
    };
    struct vkb_buffer b = {.size = info.size};
    VkMemoryRequirements need;
    VkResult result;
    uint32_t type;

    result = dev->fn.CreateBuffer(dev->handle, &info, NULL, &b.handle);
    if (result == VK_SUCCESS) {
        dev->fn.GetBufferMemoryRequirements(dev->handle, b.handle, &need);
        type = find_type(dev, need.memoryTypeBits, place);
        result = type == UINT32_MAX ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                                    : heap_take(dev, type, place, &need, &b);
    }
    if (result != VK_SUCCESS) {
        vkb_buffer_done(dev, &b);
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
            return err_set(reterr, ENOMEM, "%s has no room for %llu MiB more", dev->info->name,
                           (unsigned long long)(size >> 20));
        return vkb_fail(dev, result, "a buffer cannot be created", reterr);
    }
    *ret_buffer = b;
    return 0;
}

int vkb_buffer_import(struct vkb_device *dev, const void *ptr, uint64_t size,
                      struct vkb_buffer *ret_buffer, uint64_t *ret_offset)
{
    const uint64_t align = MAX(dev->info->caps.import_align, (uint64_t)pages_size());
    const uintptr_t begin = (uintptr_t)ptr / align * align,
                    end = ALIGN_UP((uintptr_t)ptr + size, align);
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
    };
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = &external,
        .size = end - begin,
        .usage = usage,
    };
    VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
        .pHostPointer = (void *)begin, /* NOLINT: an address is imported */
    };
    VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &import,
        .allocationSize = end - begin,
    };
    VkMemoryHostPointerPropertiesEXT properties = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    struct vkb_buffer b = {.size = end - begin};
    VkMemoryRequirements need;

    /* Host pages are as fast as the device's memory only if the device uses the host's memory. */
    if (!dev->info->caps.host_import || !dev->info->caps.unified ||
        !dev->fn.GetMemoryHostPointerPropertiesEXT)
        return -EOPNOTSUPP;
    if (dev->fn.GetMemoryHostPointerPropertiesEXT(dev->handle, import.handleType,
                                                  import.pHostPointer, &properties) != VK_SUCCESS)
        return -EOPNOTSUPP;
    if (dev->fn.CreateBuffer(dev->handle, &info, NULL, &b.handle) != VK_SUCCESS)
        return -EOPNOTSUPP;
    dev->fn.GetBufferMemoryRequirements(dev->handle, b.handle, &need);
    allocate.memoryTypeIndex =
        find_type(dev, need.memoryTypeBits & properties.memoryTypeBits, VKB_ON_DEVICE);
    if (allocate.memoryTypeIndex == UINT32_MAX || need.size > allocate.allocationSize ||
        dev->fn.AllocateMemory(dev->handle, &allocate, NULL, &b.imported) != VK_SUCCESS ||
        dev->fn.BindBufferMemory(dev->handle, b.handle, b.imported, 0) != VK_SUCCESS) {
        vkb_buffer_done(dev, &b);
        return -EOPNOTSUPP;
    }
    *ret_offset = (uintptr_t)ptr - begin;
    *ret_buffer = b;
    return 0;
}

void vkb_buffer_done(struct vkb_device *dev, struct vkb_buffer *buffer)
{
    dev->fn.DestroyBuffer(dev->handle, buffer->handle, NULL);
    if (buffer->chunk)
        chunk_give(dev, buffer->chunk, buffer->offset);
    dev->fn.FreeMemory(dev->handle, buffer->imported, NULL);
    *buffer = (struct vkb_buffer){0};
}

void vkb_heaps_free(struct vkb_device *dev)
{
    for (uint32_t i = 0; i < VK_MAX_MEMORY_TYPES; i++) {
        struct vkb_heap *heap = dev->heaps[i];

        while (heap && heap->chunks) {
            struct vkb_chunk *chunk = heap->chunks;

            heap->chunks = chunk->next;
            chunk_free(dev, chunk);
        }
        free(heap);
        dev->heaps[i] = NULL;
    }
}
