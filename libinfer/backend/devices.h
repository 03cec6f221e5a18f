/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list of devices while it is filled
 *
 * Rows own their texts, and `info` points to them, so a row must not move.
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
    char why[sizeof(((struct inf_err *)NULL)->text)]; /* why there is no Vulkan device; "" */
};

/* Appends an empty row whose info points to its texts. NULL: the list is full. */
struct device_row *devices_add(struct inf_device_list *list);
/* Copies @text, truncated to @size. Drivers may return anything, and the text goes to terminals,
 * JSON and metric labels, so characters that are not plain become '?'. */
void devices_set_text(char *out, size_t size, const char *text);
/* devices_add_cpu() adds the CPU, which comes first; devices_add_vulkan() adds the Vulkan devices,
 * for which it loads their drivers. */
void devices_add_cpu(struct inf_device_list *list);
void devices_add_vulkan(struct inf_device_list *list);
/* Adds the Vulkan devices for "auto", without loading drivers that would find no GPU. */
void devices_add_gpus(struct inf_device_list *list);
/* As inf_device_has_gpu(). */
bool devices_has_gpu(struct inf_err *reterr);
/* Whether @name is "vulkan" or "vulkan:N". */
bool device_is_vulkan(const char *name);
/* As inf_device_list_find(). */
int devices_find(const struct inf_device_list *list, const char *name,
                 const struct inf_device_info **ret_info, struct inf_err *reterr);
