/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compiles pipelines, and caches them across runs.
 *
 * A pipeline is a kernel with values for its specialization constants. When a device is opened, the
 * driver's cache is read from a file that is named after a hash of device, driver and shaders. The
 * file is written again when new pipelines were compiled. A damaged, foreign or missing file only
 * costs time.
 */

#include "backend/vulkan/gpu.h"

#define VKB_SPEC_MAX 12u

struct vkb_choice; /* kernels.h */

int vkb_pipelines_new(struct vkb_device *dev, const char *cache_dir,
                      struct vkb_pipelines **ret_pipelines, struct inf_err *reterr);
void vkb_pipelines_free(struct vkb_device *dev, struct vkb_pipelines *p);
/* Adds a pipeline to those that vkb_pipelines_compile() compiles, unless it exists. Returns 0 or
 * -ENOMEM. */
int vkb_pipeline_add(struct vkb_device *dev, const struct vkb_choice *choice,
                     struct inf_err *reterr);
/* Compiles all pipelines that were added, on several threads if the device is not software. If some
 * fail, reports one of the errors. The failed pipelines are removed, and can be added again. */
int vkb_pipelines_compile(struct vkb_device *dev, struct inf_err *reterr);
/* Returns a compiled pipeline, which the device owns; NULL: it was not compiled. */
VkPipeline vkb_pipeline_find(const struct vkb_device *dev, const struct vkb_choice *choice);
/* Returns whether compiled pipelines are stored in a file. */
bool vkb_pipelines_are_stored(const struct vkb_device *dev);
/* Returns whether the cache file is marked as having the kernels that models usually need. */
bool vkb_pipelines_are_complete(const struct vkb_device *dev);
void vkb_pipelines_set_complete(struct vkb_device *dev);
/* Writes the cache if pipelines were compiled since the cache was read. A failure is not an
 * error. */
void vkb_pipelines_save(struct vkb_device *dev);
