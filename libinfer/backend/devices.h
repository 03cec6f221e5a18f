/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list of devices while it is filled
 *
 * Rows own their texts; `info` points at them, so a row stays where it is.
 */

#include <infer/device.h>

#include "core/macros.h"

#define DEVICES_MAX 17u /* the CPU, and as many Vulkan devices as are listed */

struct device_row {
    struct inf_device_info info;
    char name[20], description[256], driver[520], api[32];
};

struct inf_device_list {
    struct device_row rows[DEVICES_MAX];
    size_t n;
    char why[sizeof(((struct inf_err *)NULL)->text)]; /* there is no Vulkan device; "" */
};

/* An empty row behind the others, its texts connected; NULL: the list is full. */
struct device_row *devices_add(struct inf_device_list *list);
/* Cuts @text to size. Drivers say what they like, and it goes to terminals, into JSON and into
 * labels of metrics: what is not plain becomes '?'. */
void devices_set_text(char *out, size_t size, const char *text);
/* The CPU, which comes first; and the Vulkan devices, whose drivers are loaded for it. */
void devices_add_cpu(struct inf_device_list *list);
void devices_add_vulkan(struct inf_device_list *list);
/* The same for "auto", which loads no drivers where they would find no GPU. */
void devices_add_gpus(struct inf_device_list *list);
/* As inf_device_has_gpu(). */
bool devices_has_gpu(struct inf_err *reterr);
/* Whether it is "vulkan" or "vulkan:N". */
bool device_is_vulkan(const char *name);
/* As inf_device_list_find(). */
int devices_find(const struct inf_device_list *list, const char *name,
                 const struct inf_device_info **ret_info, struct inf_err *reterr);
