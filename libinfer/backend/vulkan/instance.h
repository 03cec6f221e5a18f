/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the Vulkan devices of this machine and their capabilities.
 *
 * Devices are listed best first: discrete, integrated, virtual, then software such as lavapipe.
 * Devices of one kind are in the order of the drivers. "vulkan:N" is device N of this list, counted
 * from 0.
 */

#include "backend/vulkan/loader.h"
#include "core/macros.h"

#define VKB_DEVICES_MAX  16u
#define VKB_COOPMATS_MAX 32u

enum vkb_kind {
    VKB_DISCRETE,
    VKB_INTEGRATED,
    VKB_VIRTUAL,
    VKB_SOFTWARE, /* computes on the CPU */
};

/* The properties by which kernels and memory are selected, as quirks.c corrects them. Sizes are in
 * bytes. */
struct vkb_caps {
    enum vkb_kind kind;
    uint32_t subgroup_size, subgroup_min, subgroup_max;
    bool subgroup_arithmetic, subgroup_shuffle;
    bool subgroup_control; /* a pipeline may request a subgroup size between min and max */
    bool fp16;             /* arithmetic on 16-bit floats */
    bool int8;             /* arithmetic on 8-bit integers */
    bool int16;            /* arithmetic on 16-bit integers */
    bool storage8, storage16;
    bool int_dot; /* dot product of 4 packed int8, in hardware */
    bool coopmat; /* VK_KHR_cooperative_matrix: F16 × F16 + F32 of 16 × 16 × 16 in a subgroup */
    bool coopmat_nv;    /* VK_NV_cooperative_matrix2 */
    bool texel;         /* texel buffers are read faster than storage buffers */
    bool checks_bounds; /* the device is opened with bounds checks, because kernels may fail without
                           them */
    bool host_import;
    uint64_t import_align;
    bool unified; /* the device uses the host's memory */
    bool memory_budget;
    uint32_t shared_size; /* shared memory per workgroup */
    uint32_t max_invocations;
    uint32_t max_loops; /* limit of the rounds of all loops of an invocation together; 0: none */
    uint64_t max_range; /* limit of a storage buffer binding */
    uint64_t max_texels;
    uint64_t max_alloc;
    uint32_t offset_align; /* alignment of the offsets of bindings */
    uint64_t heap_size;    /* size of the largest heap on the device */
};

struct vkb_device_info {
    VkPhysicalDevice handle;
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE + 1];
    VkDriverId driver_id;
    uint32_t api_version, driver_version, vendor_id, device_id;
    uint8_t pipeline_uuid[VK_UUID_SIZE]; /* UUID of the driver's pipeline cache */
    uint32_t queue_family;
    const char *unusable; /* why the device is unusable; NULL: it is usable. Static. */
    struct vkb_caps caps;
};

struct vkb_instance {
    void *lib;
    VkInstance handle;
    struct vkb_global_fns global;
    struct vkb_instance_fns fn;
    uint32_t n_devices;
    struct vkb_device_info devices[VKB_DEVICES_MAX];
};

/* Returns the instance of this process, which all users share by reference count. Any thread may
 * call this function. Returns -EOPNOTSUPP with the reason if there is no loader, no driver or no
 * device. */
int vkb_instance_new(struct vkb_instance **ret_instance, struct inf_err *reterr);
struct vkb_instance *vkb_instance_free(struct vkb_instance *in);
DEFINE_CLEANUP(struct vkb_instance *, vkb_instance_free);

/* Sets *ret_total to the size of the device's largest memory heap, and *ret_free to the bytes that
 * this process can still allocate in this heap. If the driver does not report the free bytes
 * (VK_EXT_memory_budget), sets both to the size. */
void vkb_memory(const struct vkb_instance *in, const struct vkb_device_info *info,
                uint64_t *ret_total, uint64_t *ret_free);
/* Returns whether the device has the extension, and false if the query fails. */
bool vkb_has_extension(const struct vkb_instance *in, VkPhysicalDevice device, const char *name);
