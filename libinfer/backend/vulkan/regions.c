/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts weights by address, and joins weights that are close together into regions.
 */
#include "backend/vulkan/regions.h"

#include <errno.h>
#include <stdlib.h>

#include "core/array.h"
#include "core/err.h"
#include "core/pages.h"

int vkb_weights_add(struct vkb_weights *w, const void *host, uint64_t size)
{
    if (ARRAY_GROW(w->regions, w->cap, w->n + 1u) < 0)
        return -ENOMEM;
    w->regions[w->n++] = (struct vkb_region){.host = host, .size = size};
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct vkb_region *x = a, *y = b;

    return (x->host > y->host) - (x->host < y->host);
}

/* A region may contain the bytes between two weights only if they are in the same pages as the
 * weights; whole pages between weights are possibly not mapped. */
void vkb_weights_join(struct vkb_weights *w, uint64_t max_size)
{
    const uintptr_t page = pages_size();
    uint32_t n = 0;

    qsort(w->regions, w->n, sizeof(*w->regions), by_address);
    for (uint32_t i = 0; i < w->n; i++) {
        struct vkb_region *last = n > 0 ? &w->regions[n - 1] : NULL;
        const unsigned char *end = w->regions[i].host + w->regions[i].size;
        const unsigned char *last_end = last ? last->host + last->size : NULL;
        const uint64_t size = last ? (uint64_t)(end - last->host) : 0;
        const bool overlaps = last && w->regions[i].host < last_end;
        const bool near =
            last && (uintptr_t)w->regions[i].host / page <= DIV_UP((uintptr_t)last_end, page);

        if (overlaps || (near && size <= max_size))
            last->size = MAX(last->size, size);
        else
            w->regions[n++] = w->regions[i];
    }
    w->n = n;
}

void vkb_weights_done(struct vkb_weights *w)
{
    free(w->regions);
    *w = (struct vkb_weights){0};
}

static int load_region(struct vkb_device *dev, struct vkb_region *region, struct vkb_ring *ring,
                       struct inf_err *reterr)
{
    int r = vkb_buffer_import(dev, region->host, region->size, &region->buffer, &region->offset);

    if (r == 0)
        return 0;
    /* Rows have the same alignment on the device as on the host. */
    region->offset = (uintptr_t)region->host % 16;
    r = vkb_buffer_new(dev, VKB_ON_DEVICE, region->offset + region->size, &region->buffer, reterr);
    if (r == 0)
        r = vkb_upload(dev, ring, &region->buffer, region->offset, region->host, region->size);
    return r;
}

int vkb_weights_load(struct vkb_device *dev, struct vkb_weights *w, struct vkb_ring *ring,
                     struct inf_err *reterr)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const int r = load_region(dev, &w->regions[i], ring, reterr);

        if (r < 0) {
            vkb_weights_unload(dev, w);
            return r == -ENODEV ? err_set(reterr, ENODEV, "the device was lost while loading") : r;
        }
    }
    return 0;
}

void vkb_weights_unload(struct vkb_device *dev, struct vkb_weights *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->regions[i].buffer.handle)
            vkb_buffer_done(dev, &w->regions[i].buffer);
}

const struct vkb_region *vkb_weights_find(const struct vkb_weights *w, const void *host)
{
    uint32_t lo = 0, hi = w->n;

    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;

        if (w->regions[mid].host <= (const unsigned char *)host)
            lo = mid;
        else
            hi = mid;
    }
    assert(w->n > 0 && w->regions[lo].host <= (const unsigned char *)host &&
           (const unsigned char *)host < w->regions[lo].host + w->regions[lo].size);
    return &w->regions[lo];
}
