/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce setup gpu: exactly the device nodes that are there, for the chat service alone
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/machine/gpu-nodes.h"
#include "cli/machine/manager.h"
#include "cli/setup/setup.h"
#include "core/err.h"

static const struct manager_job restart_chat[] = {{"TryRestartUnit", SETUP_CHAT}};

/* A user's service has the user's groups: those decide. */
static void tell_groups(const struct gpu_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *groups = NULL;

        if (gpu_node_is_open(&nodes[i]))
            continue;
        groups = gpu_nodes_groups(&nodes[i], 1);
        if (groups && groups[0])
            printf("You may not open %s yet: sudo usermod -aG %s \"$USER\", then log in anew and\n"
                   "restart your systemd (or the machine).\n",
                   nodes[i].path, groups);
        else
            printf("You may not open %s, and no group may: its mode is %04o.\n", nodes[i].path,
                   (unsigned)nodes[i].mode & 07777);
    }
}

/* What the service would find, as far as this process may look. */
static void tell_drivers(void)
{
    struct inf_device_list *list = NULL;
    const struct inf_device_info *info;
    struct inf_err err;

    if (!inf_device_has_gpu(&err) || inf_devices(&list, &err) < 0)
        return;
    if (inf_device_list_find(list, "auto", &info, &err) == 0 && info->kind != INF_DEVICE_CPU)
        printf("It computes on %s (%s, %s).\n", info->name, info->description, info->driver);
    else
        printf(
            "It goes on with the CPU until a Vulkan driver is installed: mesa-vulkan-drivers for "
            "AMD and Intel,\nnvidia-vulkan-icd for NVIDIA, as Debian calls them.%s%s%s\n",
            inf_device_list_why(list) ? " (" : "",
            inf_device_list_why(list) ? inf_device_list_why(list) : "",
            inf_device_list_why(list) ? ")" : "");
    inf_device_list_free(list);
}

int setup_gpu(struct setup *s, int argc, char **argv)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, SETUP_CHAT, "50-gpu.conf"), *body = NULL;
    struct gpu_node nodes[GPU_MAX_NODES];
    const size_t n = s->off ? 0 : gpu_nodes_find("", nodes);
    struct inf_err err;
    int r;

    if (argc > 1)
        return cli_usage("setup", "\"%s\" is too much", argv[1]);
    if (!s->off && n == 0)
        return cli_error("setup",
                         "there is no GPU here: neither /dev/dri/renderD* nor /dev/nvidia*");
    body = gpu_drop_in(s->places.user, nodes, n);
    if (!path || !body)
        return cli_error("setup", "out of memory");
    r = s->off ? edit_remove(&s->edits, path, &err) : edit_generate(&s->edits, path, body, &err);
    if (r >= 0 && s->edits.n_changes)
        r = manager_reload(s->manager, &err);
    if (r >= 0 && s->edits.n_changes && !s->no_start)
        r = manager_run(s->manager, restart_chat, ARRAY_SIZE(restart_chat), &err);
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    if (s->off)
        puts("The chat service sees no GPU.");
    for (size_t i = 0; i < n; i++)
        printf("Open to the chat service: %s\n", nodes[i].path);
    if (s->places.user)
        tell_groups(nodes, n);
    if (n > 0 && !s->places.root[0])
        tell_drivers();
    return CLI_OK;
}
