/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the devices, and finds the device with a given name.
 */
#include "backend/devices.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/vulkan-backend.h"
#include "core/cgroup.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/text.h"

#define VULKAN     "vulkan"
#define MAX_DIGITS 3

struct device_row *devices_add(struct inf_device_list *list)
{
    struct device_row *row = &list->rows[list->n];

    if (list->n == DEVICES_MAX)
        return NULL;
    list->n++;
    row->info.name = row->name;
    row->info.description = row->description;
    row->info.driver = row->driver;
    return row;
}

void devices_set_text(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; *text && n + 1 < size; text++)
        out[n++] = *text >= ' ' && *text <= '~' && *text != '"' && *text != '\\' ? *text : '?';
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = 0;
}

/* Reads VALUE from the first line "@key : VALUE" of a file in /proc; sets @value to "" if there is
 * no such line. */
static void read_value(const char *path, const char *key, char *value, size_t size)
{
    FILE *f = fopen(path, "re");
    char line[512];

    value[0] = 0;
    while (f && fgets(line, sizeof(line), f)) {
        const char *colon = strchr(line, ':');

        if (!colon || !text_starts_with(line, key))
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (f)
        fclose(f);
}

void devices_add_cpu(struct inf_device_list *list)
{
    struct device_row *row = devices_add(list);
    const unsigned flags = cpu_flags();
    char model[200], kib[64];

    assert(row);
    snprintf(row->name, sizeof(row->name), "cpu");
    read_value("/proc/cpuinfo", "model name", model, sizeof(model));
    devices_set_text(row->description, sizeof(row->description), model[0] ? model : "CPU");
    snprintf(row->driver, sizeof(row->driver), "%s", cpu_rung_name(flags));
    read_value("/proc/meminfo", "MemAvailable", kib, sizeof(kib));
    row->info.kind = INF_DEVICE_CPU;
    row->info.memory_total = memory_bytes();
    row->info.memory_free = MIN(strtoull(kib, NULL, 10) << 10, row->info.memory_total);
    row->info.fp16 = flags & CPU_AVX512_FP16;
    row->info.int8_dot = flags & (CPU_AVX_VNNI | CPU_AVX512_VNNI | CPU_DOTPROD);
    row->info.host_import = true;
}

void devices_add_vulkan(struct inf_device_list *list)
{
    struct inf_err err = {0};

    if (vkb_list(list, &err) < 0)
        snprintf(list->why, sizeof(list->why), "%s", err.text);
}

/* Finds a render node that this process may open. If it may open none of them, finds any render
 * node. Returns 0 if the node at @path can be opened, -ENOENT if there is no render node, or
 * another error that says why the node at @path cannot be opened. */
static int find_render_node(char *path, size_t size)
{
    DIR *d = opendir("/dev/dri");
    const struct dirent *e;
    int r = -ENOENT;

    while (d && r < 0 && (e = readdir(d))) {
        if (!text_starts_with(e->d_name, "renderD"))
            continue;
        snprintf(path, size, "/dev/dri/%.32s", e->d_name);
        r = access(path, R_OK | W_OK) < 0 ? -errno : 0;
    }
    if (d)
        closedir(d);
    return r;
}

bool devices_has_gpu(struct inf_err *reterr)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg"};
    char path[64];
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
        if (access(nodes[i], R_OK | W_OK) == 0)
            return true;
    r = find_render_node(path, sizeof(path));
    if (r == -ENOENT)
        err_set(reterr, ENODEV,
                "there is no GPU: neither /dev/dri/renderD* nor /dev/nvidiactl nor /dev/dxg");
    else if (r < 0)
        err_set(reterr, -r, "%s cannot be opened: %s", path, strerror(-r));
    return r == 0;
}

void devices_add_gpus(struct inf_device_list *list)
{
    struct inf_err err = {0};

    if (devices_has_gpu(&err))
        devices_add_vulkan(list);
    else
        snprintf(list->why, sizeof(list->why), "%s", err.text);
}

/* Writes the names of the usable devices to @text, for messages. */
static void put_names(const struct inf_device_list *list, char *text, size_t size)
{
    size_t len = 0;

    text[0] = 0;
    for (size_t i = 0; i < list->n && len < size; i++) {
        const struct inf_device_info *info = &list->rows[i].info;

        if (!info->unusable)
            len += (size_t)snprintf(text + len, size - len, i ? ", %s (%.40s)" : "%s", info->name,
                                    info->description);
    }
}

static int not_here(const struct inf_device_list *list, const char *name, struct inf_err *reterr)
{
    char names[160];

    put_names(list, names, sizeof(names));
    return err_set(reterr, EOPNOTSUPP, "device %s is not available: %s%sthere is %s", name,
                   list->why, list->why[0] ? "; " : "", names);
}

/* Returns the first usable Vulkan device, which is the best because the list is sorted, or the CPU
 * if there is no usable Vulkan device. Never returns a software device. */
static const struct inf_device_info *pick_device(const struct inf_device_list *list)
{
    for (size_t i = 1; i < list->n; i++)
        if (!list->rows[i].info.unusable && list->rows[i].info.kind != INF_DEVICE_SOFTWARE)
            return &list->rows[i].info;
    return &list->rows[0].info;
}

bool device_is_vulkan(const char *name)
{
    const size_t n = sizeof(VULKAN) - 1;

    if (strncmp(name, VULKAN, n) != 0)
        return false;
    return !name[n] || (name[n] == ':' && name[n + 1] && strlen(name) <= n + 1 + MAX_DIGITS &&
                        strspn(name + n + 1, "0123456789") == strlen(name + n + 1));
}

int devices_find(const struct inf_device_list *list, const char *name,
                 const struct inf_device_info **ret_info, struct inf_err *reterr)
{
    const struct inf_device_info *unusable = NULL;

    if (!name || strcmp(name, "auto") == 0) {
        *ret_info = pick_device(list);
        return 0;
    }
    if (strcmp(name, "cpu") != 0 && !device_is_vulkan(name))
        return err_set(reterr, EINVAL,
                       "unknown device %.40s; there are auto, cpu, vulkan and vulkan:N", name);
    for (size_t i = 0; i < list->n; i++) {
        const struct inf_device_info *info = &list->rows[i].info;

        if (strcmp(name, info->name) != 0 && (strcmp(name, VULKAN) != 0 || i == 0))
            continue;
        if (!info->unusable) {
            *ret_info = info;
            return 0;
        }
        unusable = unusable ? unusable : info;
    }
    if (unusable)
        return err_set(reterr, EOPNOTSUPP, "%s (%.60s) cannot be used: %s", unusable->name,
                       unusable->description, unusable->unusable);
    return not_here(list, name, reterr);
}
