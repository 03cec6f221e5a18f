/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the functions of vulkan-backend.h in a build without Vulkan.
 */
#include "backend/vulkan/vulkan-backend.h"

#include <errno.h>

#include "core/err.h"

#define REASON "this build has no Vulkan"

int vkb_list(struct inf_device_list *list UNUSED, struct inf_err *reterr)
{
    return err_set(reterr, EOPNOTSUPP, REASON);
}

int vkb_hold(const char *name UNUSED, const char *cache_dir UNUSED, bool compiles UNUSED,
             struct vkb_held **ret_held UNUSED, struct inf_err *reterr)
{
    return err_set(reterr, EOPNOTSUPP, REASON);
}

bool vkb_held_lacks_kernels(const struct vkb_held *held UNUSED)
{
    return false;
}

struct vkb_held *vkb_release(struct vkb_held *held UNUSED)
{
    return NULL;
}

int vkb_backend_new(const struct backend_params *params UNUSED, struct backend **ret_backend UNUSED,
                    struct inf_err *reterr)
{
    return err_set(reterr, EOPNOTSUPP, REASON);
}
