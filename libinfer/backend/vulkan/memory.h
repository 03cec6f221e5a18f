/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Places buffers in a few large allocations.
 *
 * A device allows only some thousand allocations, and each allocation is slow. A heap (one per
 * memory type in use) allocates chunks and gives each buffer the first free span that is large
 * enough. Neighboring free spans are merged. Host pages can also be imported; the device then reads
 * them in place.
 */

#include "backend/vulkan/gpu.h"

enum vkb_place {
    VKB_ON_DEVICE, /* fastest for kernels; mapped if the device shares the host's memory */
    VKB_UPLOAD,    /* mapped: the host writes sequentially, kernels read */
    VKB_READBACK,  /* mapped: kernels write, the host reads */
};

struct vkb_chunk;

struct vkb_buffer {
    VkBuffer handle;
    uint64_t size;
    void *map;               /* NULL: the host cannot access the buffer */
    struct vkb_chunk *chunk; /* NULL: imported or none */
    uint64_t offset;
    VkDeviceMemory imported;
};

/* Creates a buffer, whose content is undefined. Returns 0, or -ENOMEM with the reason. */
int vkb_buffer_new(struct vkb_device *dev, enum vkb_place place, uint64_t size,
                   struct vkb_buffer *ret_buffer, struct inf_err *reterr);
/* Imports the pages that hold @size bytes at @ptr, read-only. *ret_offset is the offset of @ptr in
 * the buffer. Returns 0, or -EOPNOTSUPP if the device cannot import these pages. */
int vkb_buffer_import(struct vkb_device *dev, const void *ptr, uint64_t size,
                      struct vkb_buffer *ret_buffer, uint64_t *ret_offset);
/* Frees a buffer. Does nothing with a zeroed buffer. */
void vkb_buffer_done(struct vkb_device *dev, struct vkb_buffer *buffer);
void vkb_heaps_free(struct vkb_device *dev);
