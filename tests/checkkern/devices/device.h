/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opens the devices for the checks of whole devices: the Vulkan devices of this machine, and the
 * CPU if it is requested by name.
 *
 * Software devices are also checked under other names. Under the name "vulkan:0/gpu" such a device
 * uses the kernels for GPUs, and memory that the host cannot access. Under the name "vulkan:0/dots"
 * it does the same, and its matrix products use the kernels that multiply packed bytes.
 */

#include "backend/backend.h"
#include "checkkern/devices/bound.h"

enum { DEVICES_MOST = 48 };

enum device_part { DEVICE_ITSELF, DEVICE_AS_GPU, DEVICE_WITH_DOTS, DEVICE_PARTS };

struct device_name {
    char rung[28], name[20];
    enum device_part part;
};

/* Finds the usable devices. Returns their number, or 0 and a reason. */
unsigned devices_names(struct device_name names[DEVICES_MOST], char *why, size_t why_size);
int device_open(const struct device_name *device, unsigned n_threads, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *device_close(struct backend *b);
/* Writes to @rules which numbers the device rounds when it computes steps of @n_rows rows. Leaves
 * the other members of @rules unchanged. */
void device_rules(const struct backend *b, uint32_t n_rows, struct bound_rules *rules);
/* Returns whether the bits of a row must not depend on the rows that are computed with it. */
bool device_same_bits(const struct backend *b);
/* Returns whether the device runs on the CPU, so that speed checks use small shapes. */
bool device_is_slow(const struct backend *b);
/* Returns whether the driver limits the number of iterations of a loop, so that very long contexts
 * are rejected. */
bool device_ends_loops(const struct backend *b);
