/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Devices whose every operation is checked: the Vulkan devices of this machine, and the CPU when it
 * is asked for by name
 *
 * Devices in software play parts: as "vulkan:0/gpu" they get the kernels of GPUs, and memory that
 * the host does not see; as "vulkan:0/dots" the products of those that multiply bytes.
 */

#include "backend/backend.h"
#include "checkkern/devices/bound.h"

enum { DEVICES_MOST = 48 };

enum device_part { DEVICE_ITSELF, DEVICE_AS_GPU, DEVICE_WITH_DOTS, DEVICE_PARTS };

struct device_name {
    char rung[28], name[20];
    enum device_part part;
};

/* The devices that can be used; 0 and why when there is none. */
unsigned devices_names(struct device_name names[DEVICES_MOST], char *why, size_t why_size);
int device_open(const struct device_name *device, unsigned n_threads, struct backend **ret_backend,
                struct inf_err *reterr);
struct backend *device_close(struct backend *b);
/* What the device rounds in steps of @n_rows; the rest of @rules is left alone. */
void device_rules(const struct backend *b, uint32_t n_rows, struct bound_rules *rules);
/* Whether a row must be the same bits whatever rows it is computed with. */
bool device_same_bits(const struct backend *b);
/* Whether it computes on the CPU, so that checks of speed take small shapes. */
bool device_is_slow(const struct backend *b);
/* Whether its loops end after so many rounds, so that very long contexts are refused. */
bool device_ends_loops(const struct backend *b);
