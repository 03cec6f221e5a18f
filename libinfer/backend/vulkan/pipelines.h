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

struct vkb_kernel; /* kernels.h */

int vkb_pipelines_new(struct vkb_device *dev, const char *cache_dir,
                      struct vkb_pipelines **ret_pipelines, struct inf_err *reterr);
void vkb_pipelines_free(struct vkb_device *dev, struct vkb_pipelines *p);
/* Compiles the pipeline unless it exists. The device owns the result. */
int vkb_pipeline_get(struct vkb_device *dev, const struct vkb_kernel *kernel, const uint32_t *spec,
                     uint32_t n_spec, VkPipeline *ret_pipeline, struct inf_err *reterr);
/* Returns whether the cache file is marked as having the kernels that models usually need. */
bool vkb_pipelines_are_complete(const struct vkb_device *dev);
void vkb_pipelines_set_complete(struct vkb_device *dev);
/* Writes the cache if pipelines were compiled since the cache was read. A failure is not an
 * error. */
void vkb_pipelines_save(struct vkb_device *dev);
