/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Weights on the device
 *
 * Weights that lie close together in the host's memory become one region, which is one buffer: the
 * host's own pages where the device takes them, else a copy. Regions know the host's addresses, so
 * that a device that was lost can be filled again.
 */

#include "backend/vulkan/upload.h"

struct vkb_region {
    const unsigned char *host;
    uint64_t size;
    struct vkb_buffer buffer; /* zeroed while there is no device */
    uint64_t offset;          /* of the region in the buffer */
};

struct vkb_weights {
    struct vkb_region *regions; /* by address, disjoint */
    uint32_t n, cap;
};

/* One more weight; before vkb_weights_join(). -ENOMEM. */
int vkb_weights_add(struct vkb_weights *w, const void *host, uint64_t size);
/* Makes regions of at most @max_size (but for larger weights) of what was added. */
void vkb_weights_join(struct vkb_weights *w, uint64_t max_size);
void vkb_weights_done(struct vkb_weights *w);

/* Brings all regions onto the device. -ENOMEM with the reason, -ENODEV. */
int vkb_weights_load(struct vkb_device *dev, struct vkb_weights *w, struct vkb_ring *ring,
                     struct inf_err *reterr);
void vkb_weights_unload(struct vkb_device *dev, struct vkb_weights *w);
/* The region that holds @host, which was added. */
const struct vkb_region *vkb_weights_find(const struct vkb_weights *w, const void *host);
