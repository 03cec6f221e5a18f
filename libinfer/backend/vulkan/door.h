/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the rest of the library knows of Vulkan
 *
 * No header of Vulkan comes with it, and its functions are there in builds without Vulkan, too.
 */

#include "backend/backend.h"
#include "backend/devices.h"

/* Appends the Vulkan devices to @list, best first. -EOPNOTSUPP with the reason when there are none
 * to look at: no loader, no driver, built without. */
int vkb_list(struct inf_device_list *list, struct inf_err *reterr);
struct vkb_held;
/*
 * Opens the device @name ("vulkan:N") and keeps drivers and device until vkb_release(): whoever
 * lists or opens devices meanwhile loads nothing. NULL: the drivers alone. @compiles: what models
 * in general need is compiled into the cache unless it is there. -EOPNOTSUPP, -EIO with the reason;
 * -ENOMEM.
 */
int vkb_hold(const char *name, const char *cache_dir, bool compiles, struct vkb_held **ret_held,
             struct inf_err *reterr);
struct vkb_held *vkb_release(struct vkb_held *held);
DEFINE_CLEANUP(struct vkb_held *, vkb_release);
/* params->device is "vulkan" or "vulkan:N". -EINVAL, -EOPNOTSUPP with the reason; -ENOMEM. */
int vkb_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr);
