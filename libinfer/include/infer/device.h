/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_DEVICE_H
#define INFER_DEVICE_H

/*
 * Compute devices
 *
 * Users select a device by name: "cpu", or "vulkan:0", "vulkan:1"…, where "vulkan:0" is the best
 * GPU. "vulkan" means "vulkan:0". "auto" means the best usable GPU, or the CPU if there is none.
 * "auto" never selects a Vulkan driver that computes on the CPU (lavapipe), which exists for tests
 * and must be selected by its number.
 *
 * Listing Vulkan devices loads the graphics drivers of the machine. A process that drops privileges
 * must therefore first open its device: after inf_device_open(), an engine that names this device
 * loads no further drivers.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum inf_device_kind {
    INF_DEVICE_CPU,
    INF_DEVICE_DISCRETE,   /* a GPU with its own memory */
    INF_DEVICE_INTEGRATED, /* a GPU that shares the machine's memory */
    INF_DEVICE_VIRTUAL,    /* a GPU in a virtual machine */
    INF_DEVICE_SOFTWARE,   /* a driver that computes on the CPU */
};

/* Strings live as long as the object that returned the info. Only `api` and `unusable` can be
 * NULL. */
struct inf_device_info {
    enum inf_device_kind kind;
    const char *name;        /* "cpu", "vulkan:0" */
    const char *description; /* product name of the processor or the card */
    const char *driver;      /* name of the driver; for the CPU the instruction set in use */
    const char *api;         /* "Vulkan 1.3.230"; NULL for the CPU */
    const char *unusable;    /* why the device cannot be used on this machine; NULL: it can */
    uint32_t subgroup;       /* invocations of one subgroup; 0 for the CPU */
    uint64_t memory_total;   /* bytes */
    uint64_t memory_free;    /* bytes that this process can still allocate; 0: unknown */
    bool fp16;               /* kernels can use arithmetic on 16-bit floats */
    bool int8_dot;           /* kernels can use int8 dot products */
    bool cooperative_matrix; /* kernels can use matrix products of a subgroup */
    bool host_import;        /* kernels can read the model's file in place, without a copy */
};

struct inf_device_list;

/* Lists all devices, the CPU first. The caller frees *ret_list. It is not an error if Vulkan is
 * missing. -ENOMEM. */
INF_PUBLIC int inf_devices(struct inf_device_list **ret_list, struct inf_err *reterr);
/* NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_device_list *inf_device_list_free(struct inf_device_list *list);
/* Returns the @i-th device, or NULL past the last one. */
INF_PUBLIC const struct inf_device_info *inf_device_list_at(const struct inf_device_list *list,
                                                            size_t i);
/* Finds the device that @name means; a NULL @name means "auto". -EINVAL: not a device name;
 * -EOPNOTSUPP: the device does not exist or cannot be used; *reterr lists the devices that can be
 * used. */
INF_PUBLIC int inf_device_list_find(const struct inf_device_list *list, const char *name,
                                    const struct inf_device_info **ret_info,
                                    struct inf_err *reterr);
/* Returns why there are no Vulkan devices; NULL if there are some. */
INF_PUBLIC const char *inf_device_list_why(const struct inf_device_list *list);

/* Returns whether this process may open the device node of a GPU; if it may not, *reterr says why.
 * Loads no drivers. */
INF_PUBLIC bool inf_device_has_gpu(struct inf_err *reterr);

struct inf_device_params {
    const char *name;      /* NULL: "auto" */
    const char *cache_dir; /* directory for compiled kernels, created if it is missing; NULL:
                              kernels are not stored */
    bool fill_cache; /* when the device is opened, compile those kernels that models usually need
                        and that cache_dir does not have; for processes that cannot write to
                        cache_dir later
                      */
};

struct inf_device;

/*
 * Opens a device and keeps it open until inf_device_close(), so that engines that name this device
 * load no drivers. "auto" does not fail when there is no GPU: it opens the CPU, and
 * inf_device_why() says why. Errors are those of inf_device_list_find(), and -ENOMEM.
 */
INF_PUBLIC int inf_device_open(const struct inf_device_params *params,
                               struct inf_device **ret_device, struct inf_err *reterr);
/* Closes a device. All engines that use it must be gone. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_device *inf_device_close(struct inf_device *device);
INF_PUBLIC const struct inf_device_info *inf_device_info(const struct inf_device *device);
/* Returns whether the device stores compiled kernels in cache_dir, and cache_dir does not yet have
 * all kernels that models usually need. */
INF_PUBLIC bool inf_device_lacks_kernels(const struct inf_device *device);
/* Returns why "auto" selected the CPU; NULL if "auto" selected a GPU or was not requested. */
INF_PUBLIC const char *inf_device_why(const struct inf_device *device);

#ifdef __cplusplus
}
#endif
#endif
