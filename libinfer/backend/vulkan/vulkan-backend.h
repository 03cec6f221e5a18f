/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the interface of the Vulkan backend for the rest of the library.
 *
 * This file includes no Vulkan header, and builds without Vulkan have these functions, too.
 */

#include "backend/backend.h"
#include "backend/devices.h"

/* Appends the Vulkan devices to @list, best first. Returns 0, or -EOPNOTSUPP with the reason if
 * there is no device, no driver or no loader, or if this build has no Vulkan. */
int vkb_list(struct inf_device_list *list, struct inf_err *reterr);
struct vkb_held;
/*
 * Opens the device @name ("vulkan:N") and keeps drivers and device until vkb_release(), so that
 * code that lists or opens devices meanwhile loads nothing. If @name is NULL, keeps only the
 * drivers. If @compiles is set, adds to the cache the compiled kernels that models usually need and
 * the cache does not have. Returns 0; -EOPNOTSUPP or -EIO, with the reason; or -ENOMEM.
 */
int vkb_hold(const char *name, const char *cache_dir, bool compiles, struct vkb_held **ret_held,
             struct inf_err *reterr);
/* Returns whether compiled kernels of the device are stored in a file, and the file still lacks
 * some that models usually need. */
bool vkb_held_lacks_kernels(const struct vkb_held *held);
struct vkb_held *vkb_release(struct vkb_held *held);
DEFINE_CLEANUP(struct vkb_held *, vkb_release);
/* Creates a backend for the device params->device, which is "vulkan" or "vulkan:N". Returns 0;
 * -EINVAL or -EOPNOTSUPP, with the reason; or -ENOMEM. */
int vkb_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr);
