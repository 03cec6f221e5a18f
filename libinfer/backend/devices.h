/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fills and searches the list of devices.
 *
 * A row of the list describes one device. The row owns its texts, and its `info` points to them, so
 * a row must not move in memory.
 */

#include <infer/device.h>

#include "core/macros.h"

#define DEVICES_MAX 17u /* the CPU and the listed Vulkan devices */

struct device_row {
    struct inf_device_info info;
    char name[20], description[256], driver[520], api[32];
};

struct inf_device_list {
    struct device_row rows[DEVICES_MAX];
    size_t n;
    char why[sizeof(((struct inf_err *)NULL)->text)]; /* why there is no Vulkan device; else "" */
};

/* Appends an empty row whose `info` points to its texts. Returns NULL if the list is full. */
struct device_row *devices_add(struct inf_device_list *list);
/* Copies @text to @out, truncated to @size bytes. Drivers may return anything, and the text goes to
 * terminals, JSON and metric labels. So quotes, backslashes and all characters that are not
 * printable ASCII become '?'. */
void devices_set_text(char *out, size_t size, const char *text);
/* devices_add_cpu() adds the CPU and must be called first. devices_add_vulkan() loads the Vulkan
 * drivers and adds their devices. */
void devices_add_cpu(struct inf_device_list *list);
void devices_add_vulkan(struct inf_device_list *list);
/* Adds the Vulkan devices from which "auto" chooses, without loading drivers on a machine without a
 * GPU. */
void devices_add_gpus(struct inf_device_list *list);
/* Implements inf_device_has_gpu(). */
bool devices_has_gpu(struct inf_err *reterr);
/* Returns whether @name is "vulkan" or "vulkan:N". */
bool device_is_vulkan(const char *name);
/* Implements inf_device_list_find(). */
int devices_find(const struct inf_device_list *list, const char *name,
                 const struct inf_device_info **ret_info, struct inf_err *reterr);
