/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Buffers, placed by us in few large allocations
 *
 * A device allows some thousand allocations, and each is slow. A heap (one for each memory type in
 * use) takes memory in chunks and gives out spans of them: the first gap that fits, gaps beside
 * each other merge. Pages of the host can also be imported: then the device reads them in place.
 */

#include "backend/vulkan/gpu.h"

enum vkb_place {
    VKB_ON_DEVICE, /* fastest for kernels; mapped where the device shares the host's memory */
    VKB_UPLOAD,    /* mapped: the host writes in order, kernels read */
    VKB_READBACK,  /* mapped: kernels write, the host reads */
};

struct vkb_chunk;

struct vkb_buffer {
    VkBuffer handle;
    uint64_t size;
    void *map;               /* NULL: the host cannot reach it */
    struct vkb_chunk *chunk; /* NULL: imported or none */
    uint64_t offset;
    VkDeviceMemory imported;
};

/* Contents are undefined. -ENOMEM with the reason. */
int vkb_buffer_new(struct vkb_device *dev, enum vkb_place place, uint64_t size,
                   struct vkb_buffer *ret_buffer, struct inf_err *reterr);
/* The pages that hold @size bytes at @ptr, which are only read; *ret_offset is where @ptr lies in
 * the buffer. -EOPNOTSUPP: the device takes no such pages. */
int vkb_buffer_import(struct vkb_device *dev, const void *ptr, uint64_t size,
                      struct vkb_buffer *ret_buffer, uint64_t *ret_offset);
/* A zeroed buffer is none. */
void vkb_buffer_done(struct vkb_device *dev, struct vkb_buffer *buffer);
void vkb_heaps_free(struct vkb_device *dev);
