/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the device of --device, and prints the list of `sconce info --devices`.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "common/config/config.h"
#include "core/str.h"

static const char *const kinds[] = {
    [INF_DEVICE_DISCRETE] = "GPU",
    [INF_DEVICE_INTEGRATED] = "GPU that shares main memory",
    [INF_DEVICE_VIRTUAL] = "GPU of a virtual machine",
    [INF_DEVICE_SOFTWARE] = "software, for tests",
};

static const char *const kind_words[] = {
    [INF_DEVICE_CPU] = "cpu",
    [INF_DEVICE_DISCRETE] = "discrete",
    [INF_DEVICE_INTEGRATED] = "integrated",
    [INF_DEVICE_VIRTUAL] = "virtual",
    [INF_DEVICE_SOFTWARE] = "software",
};

int cli_open_device(const char *verb, const char *name, struct cli_device *ret_device)
{
    struct cli_device device = {.cache_dir = config_cache_dir()};
    const struct inf_device_params params = {.name = name, .cache_dir = device.cache_dir};
    struct inf_err err;
    int r;

    r = inf_device_open(&params, &device.device, &err);
    if (r < 0) {
        free(device.cache_dir);
        return r == -EINVAL ? cli_usage(verb, "--device: %s", err.text)
                            : cli_error(verb, "%s", err.text);
    }
    device.name = inf_device_info(device.device)->name;
    *ret_device = device;
    return CLI_OK;
}

void cli_device_done(struct cli_device *device)
{
    device->device = inf_device_close(device->device);
    free(device->cache_dir);
    device->cache_dir = NULL;
}

const char *cli_device_text(const struct cli_device *device)
{
    static char text[512];
    const struct inf_device_info *info = inf_device_info(device->device);

    if (info->kind == INF_DEVICE_CPU)
        return info->name;
    snprintf(text, sizeof(text), "%s (%s, %s)", info->name, info->description, info->driver);
    return text;
}

/* Appends the features that the kernels use, such as "fp16, int8 dot products". */
static void put_features(const struct inf_device_info *info, struct str *out)
{
    const struct {
        bool has;
        const char *text;
    } rows[] = {
        {info->fp16, "fp16"},
        {info->int8_dot, "int8 dot products"},
        {info->cooperative_matrix, "cooperative matrices"},
        {info->host_import && info->kind != INF_DEVICE_CPU, "weights in place"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].has)
            str_printf(out, ", %s", rows[i].text);
}

static void print_device(const struct inf_device_info *info)
{
    _cleanup_str_ struct str line = {0};

    if (info->kind == INF_DEVICE_CPU)
        printf("%-10s %s\n", info->name, info->description);
    else
        printf("%-10s %s: %s\n", info->name, info->description, kinds[info->kind]);
    str_puts(&line, info->driver);
    if (info->api)
        str_printf(&line, ", %s, subgroups of %u", info->api, info->subgroup);
    put_features(info, &line);
    if (info->memory_free)
        str_printf(&line, ", %s of %s free", cli_size(info->memory_free),
                   cli_size(info->memory_total));
    else
        str_printf(&line, ", %s", cli_size(info->memory_total));
    printf("%-10s %s\n", "", line.data ? line.data : "");
    if (info->unusable)
        printf("%-10s cannot be used: %s\n", "", info->unusable);
}

static json_t *device_json(const struct inf_device_info *info)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:I, s:I, s:b, s:b, s:b, s:b, s:s?}", "name",
                     info->name, "kind", kind_words[info->kind], "description", info->description,
                     "driver", info->driver, "api", info->api, "subgroup", (int)info->subgroup,
                     "memory_total", (json_int_t)info->memory_total, "memory_free",
                     (json_int_t)info->memory_free, "fp16", info->fp16, "int8_dot", info->int8_dot,
                     "cooperative_matrix", info->cooperative_matrix, "host_import",
                     info->host_import, "unusable", info->unusable);
}

static int print_json(const struct inf_device_list *list, const struct inf_device_info *best)
{
    const struct inf_device_info *info;
    json_t *devices = json_array(), *j;
    int bad;

    for (size_t i = 0; (info = inf_device_list_at(list, i)); i++)
        json_array_append_new(devices, device_json(info));
    j = json_pack("{s:o, s:s, s:s?}", "devices", devices, "auto", best->name, "no_vulkan",
                  inf_device_list_why(list));
    bad = j ? json_dumpf(j, stdout, JSON_INDENT(2)) : -1;
    json_decref(j);
    putchar('\n');
    return bad ? CLI_FAILED : CLI_OK;
}

int cli_print_devices(const char *verb, bool json)
{
    struct inf_device_list *list = NULL;
    const struct inf_device_info *info, *best;
    struct inf_err err;
    int status = CLI_OK;

    if (inf_devices(&list, &err) < 0 || inf_device_list_find(list, "auto", &best, &err) < 0) {
        inf_device_list_free(list);
        return cli_error(verb, "%s", err.text);
    }
    if (json) {
        status = print_json(list, best);
    } else {
        for (size_t i = 0; (info = inf_device_list_at(list, i)); i++)
            print_device(info);
        if (inf_device_list_why(list))
            printf("No Vulkan: %s.\n", inf_device_list_why(list));
        printf("auto is %s.\n", best->name);
    }
    inf_device_list_free(list);
    return status;
}
