/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_DEVICE_H
#define INFER_DEVICE_H

/*
 * Devices that compute
 *
 * A device has a name, which is what people type: "cpu"; "vulkan:0", "vulkan:1"… in the order of
 * the list, best first; "vulkan" is the first of these. "auto" is the best GPU that can be used,
 * else the CPU: a Vulkan driver that computes on the CPU itself (lavapipe) is there for tests and
 * is taken only by name.
 *
 * Looking for Vulkan devices loads the drivers of this machine. A process that gives up rights does
 * that before: inf_device_open() leaves nothing to be loaded for engines that name the same device.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum inf_device_kind {
    INF_DEVICE_CPU,
    INF_DEVICE_DISCRETE,   /* a GPU with memory of its own */
    INF_DEVICE_INTEGRATED, /* a GPU that shares the memory of the machine */
    INF_DEVICE_VIRTUAL,    /* a GPU of a virtual machine */
    INF_DEVICE_SOFTWARE,   /* a driver that computes on the CPU */
};

/* Strings live as long as what they were got from; none but `api` and `unusable` is NULL. */
struct inf_device_info {
    enum inf_device_kind kind;
    const char *name;        /* "cpu", "vulkan:0" */
    const char *description; /* what the processor or the card is called */
    const char *driver;      /* of the CPU the instruction set in use */
    const char *api;         /* "Vulkan 1.3.230"; NULL for the CPU */
    const char *unusable;    /* why it cannot compute here; NULL: it can */
    uint32_t subgroup;       /* invocations that run in step; 0 for the CPU */
    uint64_t memory_total;   /* bytes */
    uint64_t memory_free;    /* bytes that this process may still take; 0: it is not told */
    bool fp16;               /* what its kernels use: arithmetic on 16-bit floats, */
    bool int8_dot;           /* dot products of int8, */
    bool cooperative_matrix; /* matrix products of a subgroup, */
    bool host_import;        /* and the model's file in place, without a copy */
};

struct inf_device_list;

/* All devices, the CPU first. -ENOMEM; that there is no Vulkan is no failure. The caller frees
 * *ret_list. */
INF_PUBLIC int inf_devices(struct inf_device_list **ret_list, struct inf_err *reterr);
/* NULL is fine; returns NULL. */
INF_PUBLIC struct inf_device_list *inf_device_list_free(struct inf_device_list *list);
/* The @i-th device; NULL past the last one. */
INF_PUBLIC const struct inf_device_info *inf_device_list_at(const struct inf_device_list *list,
                                                            size_t i);
/* The device that @name means; NULL is "auto". -EINVAL: no such name; -EOPNOTSUPP: it is not here
 * or cannot be used, with what is here. */
INF_PUBLIC int inf_device_list_find(const struct inf_device_list *list, const char *name,
                                    const struct inf_device_info **ret_info,
                                    struct inf_err *reterr);
/* Why there are no Vulkan devices; NULL: there are. */
INF_PUBLIC const char *inf_device_list_why(const struct inf_device_list *list);

/* Whether there is a node of a GPU that this process may open; loads nothing. *reterr says what
 * keeps it from one otherwise. */
INF_PUBLIC bool inf_device_has_gpu(struct inf_err *reterr);

struct inf_device_params {
    const char *name;      /* NULL: "auto" */
    const char *cache_dir; /* where compiled kernels are kept between runs; it is made when it is
                              missing. NULL: nowhere */
    bool fill_cache;       /* compile now what models in general need, unless it is there: for a
                              process that cannot write the cache later */
};

struct inf_device;

/*
 * Opens a device and keeps it ready for engines that name it by inf_device_info(), until it is
 * closed. "auto" does not fail for want of a GPU: it is the CPU then, and inf_device_why() says
 * why. Errors as of inf_device_list_find(); -ENOMEM.
 */
INF_PUBLIC int inf_device_open(const struct inf_device_params *params,
                               struct inf_device **ret_device, struct inf_err *reterr);
/* After the engines that use it. NULL is fine; returns NULL. */
INF_PUBLIC struct inf_device *inf_device_close(struct inf_device *device);
INF_PUBLIC const struct inf_device_info *inf_device_info(const struct inf_device *device);
/* Why "auto" is the CPU; NULL: it is not, or was not asked for. */
INF_PUBLIC const char *inf_device_why(const struct inf_device *device);

#ifdef __cplusplus
}
#endif
#endif
