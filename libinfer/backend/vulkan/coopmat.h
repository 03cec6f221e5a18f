/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the parts of VK_KHR_cooperative_matrix, revision 2, that are used here, because the
 * Vulkan headers of distributions are often older than drivers.
 */

#include "backend/vulkan/loader.h"

#define VKB_COOPMAT_EXTENSION  "VK_KHR_cooperative_matrix"
#define VKB_COOPMAT_FEATURES   ((VkStructureType)1000506000)
#define VKB_COOPMAT_PROPERTIES ((VkStructureType)1000506001)

/* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
struct vkb_coopmat_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix;
    VkBool32 cooperativeMatrixRobustBufferAccess;
};

enum {
    VKB_COMPONENT_F16 = 0, /* VkComponentTypeKHR */
    VKB_COMPONENT_F32 = 1,
    VKB_SCOPE_SUBGROUP = 3, /* VkScopeKHR */
};

/* VkCooperativeMatrixPropertiesKHR */
struct vkb_coopmat_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t m_size, n_size, k_size;
    int32_t a_type, b_type, c_type, result_type;
    VkBool32 saturating;
    int32_t scope;
};

typedef VkResult(VKAPI_PTR *vkb_coopmat_get)(VkPhysicalDevice device, uint32_t *n,
                                             struct vkb_coopmat_properties *list);
