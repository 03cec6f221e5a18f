/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads weights onto the device.
 *
 * Weights that are close together in the host's memory become one region, which is one buffer. The
 * buffer consists of the imported host pages if the device can import them, and is a copy
 * otherwise. Regions store the host addresses, so that the weights can be loaded again after a
 * device loss.
 */

#include "backend/vulkan/upload.h"

struct vkb_region {
    const unsigned char *host;
    uint64_t size;
    struct vkb_buffer buffer; /* zeroed while there is no device */
    uint64_t offset;          /* offset of the region in the buffer */
};

struct vkb_weights {
    struct vkb_region *regions; /* by address, disjoint */
    uint32_t n, cap;
};

/* Adds a weight. This function must be called before vkb_weights_join(). Returns 0 or -ENOMEM. */
int vkb_weights_add(struct vkb_weights *w, const void *host, uint64_t size);
/* Joins the added weights into regions of at most @max_size bytes. A region is larger only if a
 * single weight, or weights that overlap, are larger. */
void vkb_weights_join(struct vkb_weights *w, uint64_t max_size);
void vkb_weights_done(struct vkb_weights *w);

/* Loads all regions onto the device. Returns 0, -ENOMEM with the reason, or -ENODEV. */
int vkb_weights_load(struct vkb_device *dev, struct vkb_weights *w, struct vkb_ring *ring,
                     struct inf_err *reterr);
void vkb_weights_unload(struct vkb_device *dev, struct vkb_weights *w);
/* Returns the region that holds the added weight @host. */
const struct vkb_region *vkb_weights_find(const struct vkb_weights *w, const void *host);
